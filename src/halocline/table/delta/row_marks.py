"""Rows marked as deleted: the same files, with vectors that name more rows.

A vector only ever grows: the rows that a file has lost already stay lost. A file that has lost its last row is not
marked but removed. Whoever reads a vector relies on the number of rows in the file, so a file whose statistics lack it
gets it from its footer; its bounds hold still, but may be of rows that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.locations import Locations, locate
from halocline.formats.delta.log.file_actions import adds_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.footers import at_once, footers
from halocline.spark.scan.frames import deleted_rows
from halocline.table.delta.row_files import RowFiles

_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


LEVEL: Final = 4
"""The level of Delta's ladder that brings deletion vectors."""


def marks_rows(snapshot: Snapshot) -> bool:
    """Whether rows of a table are deleted by marking them; below the level that brings it, files are rewritten."""
    return (
        snapshot.protocol.supports("deletionVectors") and snapshot.properties.deletion_vectors and snapshot.gate(LEVEL)
    )


def positions_by_file(files: pa.ChunkedArray, rows: pa.ChunkedArray) -> dict[int, BitMap64]:
    """The positions of rows, by the number of their file.

    Example:
        >>> found = positions_by_file(pa.chunked_array([[1, 0, 1]]), pa.chunked_array([[7, 3, 2]]))
        >>> {number: list(bitmap) for number, bitmap in found.items()}
        {0: [3], 1: [2, 7]}
    """
    numbers, positions = files.to_numpy(), rows.to_numpy()
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    parts = np.split(positions[order], starts[1:])
    return {int(number): BitMap64(part.tolist()) for number, part in zip(found, parts, strict=True) if len(part)}


def marked(snapshot: Snapshot, files: pa.Table, rows: Mapping[int, BitMap64], row_files: RowFiles) -> list[Add]:
    """The files with vectors that also name these rows; those without a row left are not among them.

    Args:
        snapshot: The version that the files belong to.
        files: Files of its list, all of which are to be removed in the same commit.
        rows: The positions of rows to mark, by the number of the file in the list.
        row_files: Where vectors are written.
    """
    before = deleted_rows(snapshot, files)
    counted = _with_counts(snapshot, list(adds_from(files, data_change=True)))
    adds, bitmaps = [], []
    for number, (add, count) in enumerate(counted):
        bitmap = rows.get(number, BitMap64()) | before.get(number, BitMap64())
        if len(bitmap) < count:
            adds.append(add)
            bitmaps.append(bitmap)
    vectors = row_files.write_vectors(bitmaps)
    return [
        msgspec.structs.replace(add, deletion_vector=vector, stats=loose(add.stats))
        for add, vector in zip(adds, vectors, strict=True)
    ]


def loose(stats: str | None) -> str:
    """Statistics of a file that has lost rows.

    Example:
        >>> loose('{"numRecords":3}')
        '{"numRecords":3,"tightBounds":false}'
    """
    found: dict[str, Any] = _decode(stats) if stats else {}
    return _encode({**found, "tightBounds": False}).decode()


def _with_counts(snapshot: Snapshot, adds: list[Add]) -> list[tuple[Add, int]]:
    """The files, each with the number of rows in it, which also stands in its statistics."""
    told = [_decode(add.stats).get("numRecords") if add.stats else None for add in adds]
    locations = Locations(snapshot.store.root)

    def counted(each: tuple[Add, Any]) -> tuple[Add, int]:
        add, count = each
        if count is not None:
            return add, int(count)
        store, path = locate(snapshot.store, locations.decode(add.path))
        rows = int(footers(store, [(path, add.size)])[0].num_rows)
        stats = {**(_decode(add.stats) if add.stats else {}), "numRecords": rows}
        return msgspec.structs.replace(add, stats=_encode(stats).decode()), rows

    return at_once(counted, list(zip(adds, told, strict=True)))
