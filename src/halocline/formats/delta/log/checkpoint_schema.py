"""What a checkpoint looks like in Parquet: one row per action, one struct column per kind of action.

Types are those that engines expect to find: whole numbers have the widths of Delta's own schema, since some readers
refuse wider ones. Everything may be null, and a row sets exactly one column. The lists of a protocol are null unless
its numbers call for lists: an empty list in their place breaks readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from halocline.formats.delta.actions.action import (
    KEYS,
    Action,
    Add,
    CheckpointMetadata,
    DeletionVector,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Sidecar,
    Txn,
    content_of,
)
from halocline.formats.delta.actions.metadata import KnownMetadata
from halocline.formats.delta.log.action_types import struct_type

VECTOR: Final = struct_type(DeletionVector)
ADD: Final = struct_type(Add, without=["stats"])
"""A live file, without its statistics: which of those there are depends on the table."""
REMOVE: Final = struct_type(Remove, without=["stats", "tags"])
_OTHERS: Final[Mapping[str, pa.DataType]] = {
    "metaData": struct_type(KnownMetadata),
    **{KEYS[kind]: struct_type(kind) for kind in (Txn, ProtocolAction, DomainMetadata, CheckpointMetadata, Sidecar)},
}
SIDECAR: Final = ("add", "remove")
CLASSIC: Final = ("txn", *SIDECAR, "metaData", "protocol", "domainMetadata")
TOP: Final = (*CLASSIC, "checkpointMetadata", "sidecar")
"""The columns of a sidecar, of a checkpoint in one file, and of the top file of a V2 checkpoint."""

_OF_ONE_FILE: Final = frozenset(
    {"path", "stats", "minValues", "maxValues", "modificationTime", "baseRowId", "pathOrInlineDv"}
)
"""What differs from file to file. A dictionary of it takes longer to make than the values, and more room."""


def add_type(*more: tuple[str, pa.DataType]) -> Any:
    """The type of the column `add`, with the statistics that the table wants."""
    return pa.struct([*ADD, *(pa.field(name, type) for name, type in more)])


def schema_of(names: Sequence[str], add: Any) -> Any:
    """The schema of a file with these columns, for files of a type."""
    types = {**_OTHERS, "add": add, "remove": REMOVE}
    return pa.schema([(name, types[name]) for name in names])


def repeating_columns(schema: Any) -> list[str]:
    """The columns of a file in which values occur again and again, so that a dictionary of them pays."""
    return [leaf for field in schema for leaf in _repeating(field.name, field.type)]


def _repeating(name: str, type: Any) -> Iterator[str]:
    if pa.types.is_map(type):
        yield from (f"{name}.key_value.key", f"{name}.key_value.value")
    elif pa.types.is_list(type):
        yield f"{name}.list.element"
    elif pa.types.is_struct(type):
        for field in type:
            if field.name not in _OF_ONE_FILE:
                yield from _repeating(f"{name}.{field.name}", field.type)
    else:
        yield name


def rows_of(column: str, structs: pa.Array, schema: Any) -> Any:
    """A batch in which every row sets the same column."""
    arrays = [structs if field.name == column else pa.nulls(len(structs), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def other_rows(actions: Iterable[Action], schema: Any) -> Any:
    """A batch of the actions that are not about files."""
    rows = [{KEYS[type(each)]: row_of(each)} for each in actions]
    return pa.RecordBatch.from_pylist([{**dict.fromkeys(schema.names), **row} for row in rows], schema=schema)


def row_of(action: Action) -> dict[str, Any]:
    """One action as Parquet rows spell it: maps as pairs, absent lists as null."""
    if isinstance(action, Metadata):
        row = action.to_json()
        row["format"] = {**row["format"], "options": list(row["format"].get("options", {}).items())}
        return {**row, "configuration": list(row["configuration"].items())}
    row = msgspec.to_builtins(action)
    tags = row.get("tags")
    return row if tags is None else {**row, "tags": list(tags.items())}


def json_of(action: Action) -> dict[str, Any]:
    """One action as the pointer to a V2 checkpoint spells it."""
    return {KEYS[type(action)]: msgspec.to_builtins(content_of(action))}
