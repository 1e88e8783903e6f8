"""Removed files that the log still remembers, as Arrow columns.

A tombstone keeps a removed file from being vacuumed too early and from coming back. It lives until its retention has
passed; whoever writes a checkpoint or vacuums decides by `deletionTimestamp`, where null counts as 0.

Columns carry their names on disk, since a tombstone only ever travels from one part of the log to another. `path` is
decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from halocline.formats.delta.actions.action import Remove
from halocline.formats.delta.log.live_files import TEXT_MAP, typed, vector_children

_VECTOR: Final = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int64(),
        "sizeInBytes": pa.int64(),
        "cardinality": pa.int64(),
    }
)
TOMBSTONES: Final = pa.schema(
    {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": TEXT_MAP,
        "size": pa.int64(),
        "deletionVector": _VECTOR,
        "baseRowId": pa.int64(),
        "defaultRowCommitVersion": pa.int64(),
    }
)
"""The columns of a list of tombstones."""


def from_removes(removes: Sequence[tuple[str, Remove]]) -> pa.RecordBatch:
    """Tombstones out of actions and their decoded paths.

    Example:
        >>> from_removes([("a b", Remove("a%20b", 7))]).to_pylist()[0]["deletionTimestamp"]
        7
    """
    rows = [msgspec.to_builtins(remove) | {"path": path} for path, remove in removes]
    return pa.RecordBatch.from_pylist(
        [row | {"partitionValues": _pairs(row.get("partitionValues"))} for row in rows], schema=TOMBSTONES
    )


def _pairs(values: Mapping[str, str | None] | None) -> list[tuple[str, str | None]] | None:
    return None if values is None else list(values.items())


def from_checkpoint(found: Mapping[str, pa.Array], name: str) -> pa.RecordBatch:
    """Tombstones out of a checkpoint's columns, with their types made right."""
    length = len(found["path"])
    arrays = []
    for field in TOMBSTONES:
        array = found.get(field.name)
        if array is None:
            arrays.append(pa.nulls(length, field.type))
        elif field.name == "deletionVector":
            arrays.append(_vectors(array, name))
        else:
            arrays.append(typed(array, field.type, f"remove.{field.name}", name))
    return pa.RecordBatch.from_arrays(arrays, schema=TOMBSTONES)


def _vectors(array: pa.Array, name: str) -> pa.Array:
    children = vector_children(array, list(_VECTOR), "remove.deletionVector", name)
    return pa.StructArray.from_arrays(children, fields=list(_VECTOR), mask=children[0].is_null())
