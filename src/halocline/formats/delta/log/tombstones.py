"""Removed files that the log still remembers, as Arrow columns.

A tombstone keeps a removed file from being vacuumed too early and from coming back. It lives until its retention has
passed; whoever writes a checkpoint or vacuums decides by the time of deletion, where null counts as 0.

`path` is decoded, and a vector is one as in a file list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from msgspec import structs

from halocline.formats.delta.actions.action import Remove
from halocline.formats.delta.log import live_files
from halocline.formats.delta.log.live_files import VECTOR

ON_DISK: Final = {"path": pa.string(), "deletionTimestamp": pa.int64(), "deletionVector": VECTOR}
TOMBSTONES: Final = pa.schema(
    {"path": pa.string(), "deletion_timestamp": pa.int64(), "deletion_vector": VECTOR},
)
"""The columns of a list of tombstones."""


def from_removes(removes: Sequence[tuple[str, Remove]]) -> pa.RecordBatch:
    """Tombstones out of actions and their decoded paths."""
    vectors = (remove.deletion_vector for _, remove in removes)
    columns = [
        [path for path, _ in removes],
        [remove.deletion_timestamp for _, remove in removes],
        [vector and structs.asdict(vector) for vector in vectors],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, TOMBSTONES, strict=True)], schema=TOMBSTONES
    )


def from_checkpoint(found: Mapping[str, pa.Array], name: str) -> pa.RecordBatch:
    """Tombstones out of a checkpoint's columns, with their types made right."""
    fields = [pa.field(label, type) for label, type in ON_DISK.items()]
    return pa.RecordBatch.from_arrays(live_files.from_checkpoint(found, fields, "remove", name), schema=TOMBSTONES)
