"""Things put together until they are large enough: files for a task, batches for a buffer, rows for a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import pyarrow as pa

T = TypeVar("T")

_FEW_ROWS: Final = 64 * 1024
_FEW_BYTES: Final = 1024 * 1024
_MANY_BYTES: Final = 16 * 1024 * 1024
_PIECES: Final = 1024


def packed(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in their order, as many together as fit; one that is too large is alone.

    Example:
        >>> list(packed([3, 4, 9, 1], lambda item: item, 8))
        [[3, 4], [9], [1]]
    """
    pack: list[T] = []
    left = most
    for item in items:
        if pack and size(item) > left:
            yield pack
            pack, left = [], most
        pack.append(item)
        left -= size(item)
    if pack:
        yield pack


def handy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in their order, small batches put together and large ones cut.

    A stream may come a row at a time, and a batch costs more than a row does; or as one batch, larger than a file. At
    most a thousand batches are held at once.

    Example:
        >>> rows = pa.table({"id": range(5)})
        >>> [batch.num_rows for batch in handy(rows.to_batches(max_chunksize=1))]
        [5]
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows >= _FEW_ROWS or batch.nbytes >= _FEW_BYTES:
            yield from _together(held)
            held, rows, size = [], 0, 0
            most = max(1, batch.num_rows * _MANY_BYTES // max(batch.nbytes, _MANY_BYTES))
            yield from (batch.slice(start, most) for start in range(0, batch.num_rows, most))
        elif batch.num_rows:
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _FEW_ROWS or size >= _FEW_BYTES or len(held) == _PIECES:
                yield from _together(held)
                held, rows, size = [], 0, 0
    yield from _together(held)


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else batches
