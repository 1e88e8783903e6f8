"""Rows of one schema as rows of another: what older files hold, read as the table is now.

Columns are found by name, at every depth. A column that a file does not have is null, or has the default that the
schema gives it. A type may have grown: whole numbers into longer ones and into floating point ones, decimals into wider
ones, anything simple into text. What does not fit without loss is an error, never a changed value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import SchemaError


def fit(
    columns: Mapping[str, pa.Array | pa.ChunkedArray],
    rows: int,
    schema: pa.Schema,
    place: str,
    defaults: Mapping[str, Any] | None = None,
) -> pa.Table:
    """The rows, with the columns and types of a schema.

    Args:
        columns: The columns that there are.
        rows: How many rows there are.
        schema: The schema to read them as.
        place: What to call them in errors.
        defaults: Values for columns that are missing; null for those that are not named.

    Raises:
        SchemaError: A value does not fit its column.

    Example:
        >>> schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
        >>> fit({"a": pa.array([1], pa.int32())}, 1, schema, "f.parquet").to_pylist()
        [{'a': 1, 'b': None}]
    """
    fitted = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            value = (defaults or {}).get(field.name)
            fitted.append(
                pa.nulls(rows, field.type) if value is None else pa.repeat(pa.scalar(value, field.type), rows)
            )
            continue
        try:
            fitted.append(_fitted(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(
                f"column {field.name} of {place} does not fit the table's schema",
                sides={"file": str(column.type), "table": str(field.type), "problem": str(error)},
                next_step="Read the table as of an instant before the column changed, or rewrite the file.",
            ) from error
    return pa.Table.from_arrays(fitted, schema=pa.schema([each.with_nullable(True) for each in schema]))


def fit_table(
    table: pa.Table | pa.RecordBatch, schema: pa.Schema, place: str, defaults: Mapping[str, Any] | None = None
) -> pa.Table:
    """The same for a table or a batch."""
    columns = dict(zip(table.schema.names, table.columns, strict=True))
    return fit(columns, table.num_rows, schema, place, defaults)


def avro_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that a record schema gives its fields, without those that are null.

    Example:
        >>> avro_defaults({"fields": [{"name": "a", "type": "int", "default": 5}, {"name": "b", "type": "int"}]})
        {'a': 5}
    """
    return {each["name"]: each["default"] for each in schema["fields"] if each.get("default") is not None}


def _fitted(column: pa.Array | pa.ChunkedArray, type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if column.type == type:
        return column
    if not pa.types.is_nested(type):
        return _cast(column, type)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    fitted = [_nested(chunk, type) for chunk in chunks]
    return pa.chunked_array(fitted, type) if isinstance(column, pa.ChunkedArray) else fitted[0]


def _cast(column: pa.Array | pa.ChunkedArray, type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    # Files of other writers hold times without a zone, or in another unit; a number in between is never rounded.
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(type) and column.type.tz != type.tz:
        column = column.cast(pa.timestamp(column.type.unit, type.tz))
    return pc.cast(column, type)


def _nested(array: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_struct(type) and pa.types.is_struct(array.type):
        inner = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        values = [
            _fitted(inner[field.name], field.type) if field.name in inner else pa.nulls(len(array), field.type)
            for field in type
        ]
        return pa.StructArray.from_arrays(values, fields=[*type], mask=array.is_null())
    if pa.types.is_map(type) and pa.types.is_map(array.type):
        offsets, (keys, items) = _offsets(array), _entries(array, [array.keys, array.items])
        return _masked_map(offsets, _fitted(keys, type.key_type), _fitted(items, type.item_type), type, array)
    if pa.types.is_list(type) and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        offsets, (values,) = _offsets(array), _entries(array, [array.values])
        return pa.ListArray.from_arrays(offsets, _fitted(values, type.value_type), type=type, mask=_mask(array))
    return array.cast(type)


def _offsets(array: pa.Array) -> pa.Array:
    offsets = np.asarray(array.offsets)
    return pa.array(offsets - offsets[0] if len(offsets) else offsets, pa.int32())


def _entries(array: pa.Array, values: Iterable[pa.Array]) -> list[pa.Array]:
    offsets = np.asarray(array.offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    return [each.slice(first, last - first) for each in values]


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _masked_map(offsets: pa.Array, keys: pa.Array, items: pa.Array, type: pa.DataType, array: pa.Array) -> pa.Array:
    if not array.null_count:
        return pa.MapArray.from_arrays(offsets, keys, items, type=type)
    # A map cannot be built with a mask: an offset that is null makes its entry null.
    nulls = np.append(np.asarray(array.is_null()), False)
    return pa.MapArray.from_arrays(pa.array(np.asarray(offsets), pa.int32(), mask=nulls), keys, items, type=type)
