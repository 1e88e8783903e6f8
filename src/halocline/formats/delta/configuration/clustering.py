"""Clustering columns: by what the rows of a table are brought together, kept as a domain of the table.

Each column is stored as a path of physical names, so that it keeps its meaning when it is renamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from halocline.errors import SchemaError
from halocline.formats.delta.actions.action import DomainMetadata
from halocline.formats.delta.configuration.column_mapping import stored_name
from halocline.formats.delta.configuration.schema import Schema
from halocline.schema.types import Field, Path, Struct

FEATURE: Final = "clustering"
"""The feature's name in a protocol."""

DOMAIN: Final = "delta.clustering"
"""The domain that holds the columns."""

_COLUMNS: Final = "clusteringColumns"


def clustered_by(schema: Struct, paths: Sequence[Path]) -> DomainMetadata:
    """The domain of a table that is clustered by these columns, or fields of structs."""
    stored = [[_physical(schema.find(path[:depth])[1]) for depth in range(1, len(path) + 1)] for path in paths]
    content = {_COLUMNS: stored, "domainName": DOMAIN}
    return DomainMetadata(DOMAIN, msgspec.json.encode(content).decode())


def clustering_columns(domain: DomainMetadata | None, schema: Schema) -> list[str]:
    """The columns by which a table is clustered, by their logical names; none if it is not."""
    return [".".join(path) for path in clustering_paths(domain, schema)]


def clustering_paths(domain: DomainMetadata | None, schema: Schema) -> list[Path]:
    """The columns by which a table is clustered, as paths of their logical names; none if it is not."""
    logical = {column.physical: column.path for column in schema.walk()}
    return [logical.get(path, path) for path in physical_paths(domain)]


def check_clustering_kept(schema: Struct, domain: DomainMetadata | None, table: str) -> None:
    """Makes sure that a table still has the columns by which it is clustered."""
    kept = set(_all_physical(schema, ()))
    for path in physical_paths(domain):
        if path not in kept:
            raise SchemaError(
                f"{table} is clustered by a column that it would lose",
                sides={"clustered by": ".".join(path), "left": ", ".join(schema.names)},
                next_step="Keep the column, or cluster by others first.",
            )


def physical_paths(domain: DomainMetadata | None) -> list[Path]:
    """The physical paths in a domain; one that cannot be read says nothing."""
    try:
        content = {} if domain is None else msgspec.json.decode(domain.configuration, type=dict[str, Any])
    except msgspec.MsgspecError:
        return []
    found = content.get(_COLUMNS)
    # Some writers store plain names.
    paths = found if isinstance(found, list) else []
    return [tuple(map(str, each)) if isinstance(each, list) else (str(each),) for each in paths if each]


def _all_physical(struct: Struct, above: Path) -> Iterator[Path]:
    """The physical paths of all fields of a struct, and of structs in it."""
    for field in struct.fields:
        here = (*above, _physical(field))
        yield here
        if field.struct is not None:
            yield from _all_physical(field.struct, here)


def _physical(field: Field) -> str:
    return stored_name(field) or field.name
