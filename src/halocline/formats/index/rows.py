"""Rows of a split as the table has them: partition values filled in, deleted rows left out.

A split has no partition columns, and none of the columns that are younger than it. What is given has the columns that
were asked for, in their order and types, whoever wrote the split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from halocline.errors import NotFoundError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.partitions import NULL
from halocline.formats.index.split.bundle import Bundle
from halocline.formats.index.split.masks import deleted_rows, without_deleted
from halocline.formats.index.split.reader import OpenedSplit
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field, Struct
from halocline.storage.base import Store


def column_of(name: str, known: Mapping[str, Field]) -> Field:
    """The column of a name.

    Raises:
        NotFoundError: The table has none.
    """
    if name not in known:
        raise NotFoundError.unknown(f"there is no column {name!r}", name, known, condition="COLUMN_NOT_FOUND")
    return known[name]


def partition_value(split: SplitAdd, column: pa.Field) -> pa.Scalar:
    """What all rows of a split have in a column that is not in it."""
    text = split.partition_values.get(column.name)
    return pa.scalar(None if text == NULL else text, pa.string()).cast(column.type)


def split_rows(store: Store, split: SplitAdd, columns: Sequence[Field], numbers: np.ndarray) -> pa.Table:
    """Rows of one of our own splits by their numbers, whether or not they are deleted.

    Args:
        store: Where the table lies.
        split: The split.
        columns: The columns to give.
        numbers: Row numbers, in ascending order.

    Raises:
        MalformedError: The rows are damaged.
    """
    with OpenedSplit.of(store, split) as opened:
        inside = [each.name for each in columns if each.name in opened.parquet.schema.names]
        table = opened.rows(numbers, inside) if inside else None
    return _as_table_has_it(split, columns, table, len(numbers))


def live_rows(store: Store, split: SplitAdd, columns: Sequence[Field]) -> Iterator[pa.RecordBatch]:
    """Every row of a split that is not deleted, a batch at a time.

    Args:
        store: Where the table lies.
        split: The split, one of our own or a bundle.
        columns: The columns to give.

    Raises:
        MalformedError: The rows, or the deletion mask, are damaged.
        UnsupportedError: The split is a bundle that holds a column in a form that is not its own, or no rows.
    """
    for _, batch in numbered_rows(store, split, columns):
        yield batch


def numbered_rows(
    store: Store, split: SplitAdd, columns: Sequence[Field]
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """What `live_rows` gives, each batch with the numbers of its rows."""
    deleted = deleted_rows(store, split)
    start = 0
    for count, table in _pieces(store, split, columns):
        numbers = without_deleted(np.arange(start, start + count, dtype=np.int64), deleted)
        whole = _as_table_has_it(split, columns, table, count)
        if len(numbers) < count:
            whole = whole.take(pa.array(numbers - start))
        start += count
        done = 0
        for batch in whole.to_batches():
            yield numbers[done : done + len(batch)], batch
            done += len(batch)


def _pieces(store: Store, split: SplitAdd, columns: Sequence[Field]) -> Iterator[tuple[int, pa.Table | None]]:
    if not split.is_own:
        inside = [each for each in columns if each.name not in split.partition_values]
        with Bundle(store, split, Struct(inside)) as bundle:
            table = bundle.rows()
            yield bundle.count if not inside else len(table), table
        return
    with OpenedSplit.of(store, split) as opened:
        names = [each.name for each in columns if each.name in opened.parquet.schema.names]
        if not names:
            yield opened.parquet.rows, None
            return
        for batch in opened.batches(names):
            yield len(batch), pa.Table.from_batches([batch])


def _as_table_has_it(split: SplitAdd, columns: Sequence[Field], table: pa.Table | None, count: int) -> pa.Table:
    schema = arrow_schema(columns)
    arrays = []
    for each in schema:
        if table is not None and each.name in table.column_names:
            arrays.append(table.column(each.name).cast(each.type))
            continue
        arrays.append(pa.chunked_array([pa.repeat(partition_value(split, each), count)], each.type))
    return pa.Table.from_arrays(arrays, schema=schema)
