"""The query for one split: what its partition decides, in the split's own fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from halocline.errors import InputError
from halocline.formats.index.query.bound import PARTITION, Both, BoundQuery, Either, EveryRow, Without
from halocline.formats.index.query.partitions import holds
from halocline.formats.index.split.fields import FieldKind, IndexField

NO_ROW: Final = Either(())
"""Finds nothing."""


def decided(
    query: BoundQuery, partition_values: Mapping[str, str | None], fields: Mapping[str, IndexField]
) -> BoundQuery:
    """The query for one split, in its own fields.

    Leaves about partition columns become every row or none; a column that is younger than the split has no values.

    Args:
        query: The query.
        partition_values: The split's values, as the log holds them.
        fields: What the split's index has of each column.

    Raises:
        InputError: The split was indexed with other options.
    """
    match query:
        case Both(parts):
            return _simplified(Both(tuple(decided(each, partition_values, fields) for each in parts)))
        case Either(parts):
            return _simplified(Either(tuple(decided(each, partition_values, fields) for each in parts)))
        case Without(part):
            return _simplified(Without(decided(part, partition_values, fields)))
        case EveryRow():
            return query
        case leaf if leaf.field.number == PARTITION:
            return EveryRow() if holds(leaf, partition_values.get(leaf.field.column)) else NO_ROW
    own = fields.get(query.field.column)
    if own is None:
        return NO_ROW
    same = msgspec.structs.replace(own, number=query.field.number) == query.field
    if not same and not own.kind is query.field.kind is FieldKind.STRING:
        raise InputError(
            f"a split was indexed with other options for column {own.column!r}",
            condition="QUERY_INVALID",
            sides={"split": f"{own.kind} {own.analyzer}", "table": f"{query.field.kind} {query.field.analyzer}"},
            next_step="Index the table anew, so that all splits have the same options.",
        )
    return replace(query, field=own)


def _simplified(query: Both | Either | Without) -> BoundQuery:
    match query:
        case Without(part):
            return NO_ROW if isinstance(part, EveryRow) else EveryRow() if part == NO_ROW else query
        case Both(parts):
            left: list[BoundQuery] = [each for each in parts if not isinstance(each, EveryRow)]
            if NO_ROW in left:
                return NO_ROW
            return EveryRow() if not left else left[0] if len(left) == 1 else Both(tuple(left))
        case Either(parts):
            if any(isinstance(each, EveryRow) for each in parts):
                return EveryRow()
            some = [each for each in parts if each != NO_ROW]
            return some[0] if len(some) == 1 else Either(tuple(some))
