"""Leaving out files that cannot hold a row that is asked for.

For every test of a predicate and every file the question is: may some row pass? The answer is no only where bounds
prove it. Unknown bounds, columns without statistics and tests that are not understood all mean yes. So pruning never
changes the rows of a query, only how many files it opens.

Not-a-number is greater than everything in Spark and absent from most statistics, so a floating-point maximum proves
nothing about "greater than".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.configuration.schema import Column, Schema
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.checkpoint_parts import TYPED_VALUES, FileColumns
from halocline.formats.delta.log.checkpoint_read import Checkpoint
from halocline.formats.delta.stats.bounds import (
    Bounds,
    Family,
    arrow_type_of,
    family_of,
    from_partition,
    from_struct,
    from_typed_partition,
)
from halocline.formats.delta.stats.json_reader import StatsReader
from halocline.formats.delta.stats.literal_ranges import Range, range_for
from halocline.formats.delta.stats.predicate import (
    All,
    Always,
    AnyOf,
    Anything,
    Comparison,
    Never,
    NullTest,
    Operator,
    Predicate,
    StartsWith,
    Test,
)
from halocline.schema.types import Path
from halocline.schema.zones import zone_named

Keep: TypeAlias = pa.Array | bool
"""Which files may hold a row: one answer for all, or one each."""

_CUT: Final = 32
_SECTIONS: Final = ("minValues", "maxValues", "nullCount")
_AS_TYPED: Final = (Family.WHOLE, Family.DATE, Family.TEXT, Family.BOOLEAN)
"""Partition values whose text means the same to everybody; times depend on a zone, and fractions on who rounds."""
_COMPARE: Final = {Operator.LT: pc.less, Operator.GT: pc.greater}


class StatsPruner:
    """Prunes by partition values and statistics.

    Texts may have been cut off after the prefix's length. Empty text in a partition column is null by default.
    """

    def __init__(
        self,
        where: str,
        schema: Schema,
        partition_columns: Sequence[str],
        *,
        prefix_length: int | None = None,
        timezone: str | None = None,
        empty_is_null: bool = True,
    ) -> None:
        self._made_of = (where, schema, tuple(partition_columns), prefix_length, timezone, empty_is_null)
        self._empty_is_null = empty_is_null
        predicate = Predicate.parse(where, schema)
        self._test = predicate.test
        self._zone = zone_named(timezone)
        self._partitioned = {column.path for column in schema.partition_columns(partition_columns)}
        self._data = [column for column in predicate.columns() if column.path not in self._partitioned]
        self._values = [column for column in predicate.columns() if column.path in self._partitioned]
        self._reader = StatsReader(self._data)
        self._cut = min(_CUT, prefix_length or _CUT)

    def __reduce__(self) -> Any:
        # What decodes statistics cannot be sent to another process; what it is made of can.
        return _pruner, self._made_of

    @staticmethod
    def of(where: str, configuration: TableConfiguration, *, timezone: str | None = None) -> StatsPruner:
        """What prunes the files of a Delta table."""
        return StatsPruner(
            where,
            configuration.columns,
            configuration.partition_columns,
            prefix_length=configuration.properties.string_prefix_length,
            timezone=timezone,
        )

    @property
    def facts(self) -> Sequence[str]:
        return [*(["partition_values"] if self._values else []), *(["stats"] if self._data else [])]

    def columns(self, checkpoint: Checkpoint) -> Sequence[str]:
        names = ["partitionValues"] if self._values else []
        if all(family_of(each) in _AS_TYPED and checkpoint.has(TYPED_VALUES, *each.physical) for each in self._values):
            names = [f"{TYPED_VALUES}.{each.physical[0]}" for each in self._values]
        if not self._data:
            return names
        if not checkpoint.has("stats_parsed"):
            return [*names, "stats"]
        paths = [(section, *column.physical) for section in _SECTIONS for column in self._data]
        return [*names, "stats_parsed.numRecords", *(f"stats_parsed.{'.'.join(path)}" for path in paths)]

    def keep(self, facts: FileColumns) -> pa.Array | None:
        length = len(next(iter(facts.values()), ()))
        if not length:
            return None
        kept = self._may_pass(self._test, self._bounds(facts))
        if isinstance(kept, bool):
            return None if kept else pa.array([False] * length, pa.bool_())
        return kept

    def _bounds(self, facts: FileColumns) -> Callable[[Column], Bounds | None]:
        """Gives the bounds of columns in one batch of files, worked out when first asked for; None if unknown."""

        @cache
        def from_texts() -> dict[Path, Bounds | None]:
            texts = facts.get("stats")
            found = [None] * len(self._data) if texts is None else self._reader.read(texts.to_pylist())
            return {column.path: bounds for column, bounds in zip(self._data, found, strict=True)}

        @cache
        def bounds(column: Column) -> Bounds | None:
            if column.path in self._partitioned:
                if TYPED_VALUES in facts:
                    return from_typed_partition(column, _child(facts[TYPED_VALUES], column.physical))
                return _partition_bounds(column, facts.get("partitionValues"), self._empty_is_null)
            if "stats_parsed" in facts:
                return _struct_bounds(column, facts["stats_parsed"])
            return from_texts()[column.path]

        return bounds

    def _may_pass(self, test: Test, bounds: Callable[[Column], Bounds | None]) -> Keep:
        if isinstance(test, Anything | Always | Never):
            return not isinstance(test, Never)
        if isinstance(test, All | AnyOf):
            parts = [self._may_pass(part, bounds) for part in test.parts]
            return _every(parts, neutral=isinstance(test, All))
        found = bounds(test.column)
        if found is None:
            return True
        has_values = pc.invert(pc.fill_null(found.all_null, False))
        if isinstance(test, NullTest):
            return pc.invert(pc.fill_null(found.no_null, False)) if test.is_null else has_values
        holds = self._starts_with(test, found) if isinstance(test, StartsWith) else self._compares(test, found)
        return _every([has_values, holds])

    def _compares(self, test: Comparison, found: Bounds) -> Keep:
        operator, family = test.operator, family_of(test.column)
        if family is None:
            return True
        meant = range_for(test.literal, operator, test.column, family, self._zone)
        if isinstance(meant, bool):
            return meant
        type = arrow_type_of(test.column, family)
        try:
            least, greatest = pa.scalar(meant.low, type), pa.scalar(meant.high, type)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return True
        if operator is Operator.NE:
            return self._differs(meant, least, found, family)
        below: Keep = pc.fill_null(_COMPARE.get(operator, pc.less_equal)(found.low, greatest), True)
        if operator in (Operator.LT, Operator.LE):
            return below
        above = self._reaches(found, least, meant, family, operator)
        return above if operator in (Operator.GT, Operator.GE) else _every([below, above])

    def _reaches(self, found: Bounds, least: pa.Scalar, meant: Range, family: Family, operator: Operator) -> Keep:
        """Whether the greatest value may be as great as the literal, or greater."""
        if family is Family.FLOATING and not found.exact and operator is not Operator.EQ:
            return True
        reaches = pc.fill_null(_COMPARE.get(operator, pc.greater_equal)(found.high, least), True)
        if family is Family.TEXT and not found.exact and len(meant.low) >= self._cut:
            # The maximum may have been cut off: the value behind it begins with it and may be greater.
            cuts = pa.array([meant.low[:length] for length in range(self._cut, len(meant.low) + 1)], pa.string())
            reaches = pc.or_(reaches, pc.is_in(found.high, value_set=cuts))
        return reaches

    def _differs(self, meant: Range, value: pa.Scalar, found: Bounds, family: Family) -> Keep:
        """Not equal is impossible only where every value is the literal."""
        cut_off = family is Family.TEXT and len(meant.low) >= self._cut
        if not meant.is_exact or (not found.exact and (family is Family.FLOATING or cut_off)):
            return True
        same = pc.and_kleene(pc.equal(found.low, value), pc.equal(found.high, value))
        return pc.invert(pc.fill_null(same, False))

    def _starts_with(self, test: StartsWith, found: Bounds) -> Keep:
        if family_of(test.column) is not Family.TEXT:
            return True
        # Blanks at the end of text of fixed length may be stored or not.
        prefix = test.prefix if test.column.declared is None else test.prefix.rstrip(" ")
        least = pa.scalar(prefix, pa.string())
        above = self._reaches(found, least, Range(prefix, prefix), Family.TEXT, Operator.GE)
        beginning = pc.utf8_slice_codeunits(found.low, 0, len(prefix))
        return _every([above, pc.fill_null(pc.less_equal(beginning, least), True)])


def _pruner(
    where: str,
    schema: Schema,
    partition_columns: Sequence[str],
    prefix_length: int | None,
    timezone: str | None,
    empty_is_null: bool,
) -> StatsPruner:
    return StatsPruner(
        where,
        schema,
        partition_columns,
        prefix_length=prefix_length,
        timezone=timezone,
        empty_is_null=empty_is_null,
    )


def _partition_bounds(column: Column, maps: pa.Array | None, empty_is_null: bool) -> Bounds | None:
    if maps is None or not pa.types.is_map(maps.type):
        return None
    # A key that is there with a null is a fact; a key that is missing is not.
    lists = pc.map_lookup(maps, query_key=column.physical[0], occurrence="all")
    values = pc.map_lookup(maps, query_key=column.physical[0], occurrence="first")
    values = values.cast(pa.string())
    if empty_is_null or column.type.name not in ("string", "binary"):
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    return from_partition(column, values, pc.is_valid(lists))


def _struct_bounds(column: Column, stats: pa.Array) -> Bounds:
    low, high, nulls = (_child(stats, (section, *column.physical)) for section in _SECTIONS)
    return from_struct(column, low, high, _whole(nulls), _whole(_child(stats, ("numRecords",))))


def _child(struct: pa.Array, path: Path) -> pa.Array:
    """A nested child; all null if there is none."""
    array = struct
    for step in path:
        index = array.type.get_field_index(step) if pa.types.is_struct(array.type) else -1
        if index < 0:
            return pa.nulls(len(struct))
        array = array.flatten()[index]
    return array


def _whole(counts: pa.Array) -> pa.Array:
    return counts if pa.types.is_integer(counts.type) else pa.nulls(len(counts), pa.int64())


def _every(parts: Sequence[Keep], neutral: bool = True) -> Keep:
    """Where all parts hold; with False as the neutral element, where some part does."""
    kept: Keep = neutral
    for part in parts:
        if isinstance(part, bool):
            if part is not neutral:
                return part
        else:
            kept = part if isinstance(kept, bool) else (pc.and_ if neutral else pc.or_)(kept, part)
    return kept
