"""The columns of Parquet files, in the spelling of a table's log.

Files that Spark wrote carry their schema in Spark's own words, which is taken as it is. For others the types are what
Spark would read: whole numbers without a sign take the next longer type, timestamps are with or without a zone as the
file says, and the old twelve-byte timestamps are with one. Files that belong together are merged by name, without
regard to case; a column must have the same type in all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from halocline.errors import SchemaError, UnsupportedError
from halocline.formats.delta.configuration import schema_edit
from halocline.spark.scan.footers import plain
from halocline.spark.types import input_schema
from halocline.spark.types.columns import sql_type

_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.null(): "void",
}


def columns_in(footer: Any, file: str) -> dict[str, Any]:
    """The columns of one file.

    Args:
        footer: Its footer.
        file: Its name, for messages.

    Raises:
        UnsupportedError: A column has a type that no table can hold.
    """
    written = (footer.metadata or {}).get(_SPARK_SCHEMA)
    if written is not None:
        return input_schema.nullable(input_schema.declared(json.loads(written)))
    leaves = iter(range(footer.num_columns))
    fields = [
        schema_edit.field(field.name, _type(field.type, leaves, footer, f"{file}: {field.name}"))
        for field in footer.schema.to_arrow_schema()
    ]
    return {"type": "struct", "fields": fields}


def merged(schemas: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """One schema for many files.

    Args:
        schemas: The name of each file and its columns.

    Raises:
        SchemaError: Two files disagree about the type of a column.

    Example:
        >>> one = {"type": "struct", "fields": [schema_edit.field("a", "long")]}
        >>> two = {"type": "struct", "fields": [schema_edit.field("A", "long"), schema_edit.field("b", "date")]}
        >>> [field["name"] for field in merged([("x", one), ("y", two)])["fields"]]
        ['a', 'b']
    """
    whole: dict[str, Any] = {"type": "struct", "fields": []}
    origin: dict[tuple[str, ...], str] = {}
    seen: set[str] = set()
    for file, schema in schemas:
        text = schema_edit.dump(schema)
        if text not in seen:  # most files of a folder are alike
            seen.add(text)
            whole = _joined(whole, schema, (), file, origin)
    return whole


def _joined(left: Any, right: Any, path: schema_edit.Path, file: str, origin: dict[tuple[str, ...], str]) -> Any:
    if schema_edit.is_struct(left) and schema_edit.is_struct(right):
        theirs = {field["name"].lower(): field for field in right["fields"]}
        fields = []
        for field in left["fields"]:
            other = theirs.pop(field["name"].lower(), None)
            here = (*path, field["name"])
            type = field["type"] if other is None else _joined(field["type"], other["type"], here, file, origin)
            fields.append({**field, "type": type})
        for field in theirs.values():
            origin[(*path, field["name"])] = file
        return {**left, "fields": [*fields, *theirs.values()]}
    inner = dict(schema_edit.children(right))
    if isinstance(left, Mapping) and isinstance(right, Mapping) and left["type"] == right["type"]:
        keys = {"elementType": "element", "keyType": "key", "valueType": "value"}
        return {
            key: _joined(value, inner[keys[key]], (*path, keys[key]), file, origin) if key in keys else value
            for key, value in left.items()
        }
    if left != right:
        first = next((origin[path[:end]] for end in range(len(path), 0, -1) if path[:end] in origin), "another file")
        raise SchemaError(
            f"files disagree about the type of column {'.'.join(path)}",
            sides={first: sql_type(left), file: sql_type(right)},
            next_step="Rewrite one of the files, or move it out of the folder.",
        )
    return left


def _type(type: pa.DataType, leaves: Iterator[int], footer: Any, name: str) -> Any:
    """A type in the log's words; leaves are counted along, since only the file itself knows twelve-byte timestamps."""
    type = plain(type)
    if pa.types.is_struct(type):
        fields = [
            schema_edit.field(each.name, _type(each.type, leaves, footer, f"{name}.{each.name}")) for each in type
        ]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(type):
        key = _type(type.key_type, leaves, footer, f"{name}.key")
        value = _type(type.item_type, leaves, footer, f"{name}.value")
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_nested(type):
        element = _type(type.value_type, leaves, footer, f"{name}.element")
        return {"type": "array", "elementType": element, "containsNull": True}
    stored = footer.schema.column(next(leaves)).physical_type
    found = _plain_type(type, stored)
    if found is None:
        raise UnsupportedError(
            f"{name} has type {type}, which a table cannot hold",
            sides={"found": f"{type} as {stored}", "possible": "the types that Spark reads from Parquet"},
            next_step="Rewrite the file with another type.",
        )
    return found


def _plain_type(type: pa.DataType, stored: str) -> str | None:
    if pa.types.is_timestamp(type):
        if stored == "INT96":
            return "timestamp"
        return None if type.unit == "ns" else "timestamp_ntz" if type.tz is None else "timestamp"
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_fixed_size_binary(type):
        return "binary"
    return _TYPES.get(type)
