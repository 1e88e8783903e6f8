"""The Avro schema of a table, from the Arrow types of its columns, as Spark's writers of Hudi make it."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from halocline.errors import UnsupportedError
from halocline.formats.hudi.avro.avro_names import avro_name, check_column_names

_PLAIN: Final = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_integer, "int"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
)
_NOT_INTEGERS: Final = frozenset({"uint32", "uint64"})
_UNITS: Final = {"ms": "millis", "us": "micros"}


def avro_schema(schema: pa.Schema, table: str) -> str:
    """The schema of a table's columns, as Avro's JSON.

    Args:
        schema: The columns.
        table: The table's name, of which the record's is made.

    Raises:
        SchemaError: The name of a column or nested field is none that Avro allows.
        UnsupportedError: A column has a type that Avro, or Hudi, does not have.

    Example:
        >>> json.loads(avro_schema(pa.schema([("a", pa.int64())]), "t"))["fields"][0]["type"]
        ['null', 'long']
    """
    check_column_names(schema)
    name = avro_name(table)
    space = f"hoodie.{name}"
    fields = [_field(each, f"{space}.{name}_record") for each in schema]
    record = {"type": "record", "name": f"{name}_record", "namespace": space, "fields": fields}
    return json.dumps(record, separators=(",", ":"))


def _field(field: pa.Field, space: str) -> dict[str, Any]:
    type = _type(field.type, field.name, space)
    if not field.nullable:
        return {"name": field.name, "type": type}
    return {"name": field.name, "type": ["null", type], "default": None}


def _type(type: pa.DataType, name: str, space: str) -> Any:
    if pa.types.is_decimal(type):
        logical = {"logicalType": "decimal", "precision": type.precision, "scale": type.scale}
        return {"type": "fixed", "name": "fixed", "namespace": f"{space}.{name}", "size": _width(type), **logical}
    if pa.types.is_date32(type):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(type) and type.unit in _UNITS:
        local = "" if type.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[type.unit]}"}
    if pa.types.is_struct(type):
        inner = [_field(each, f"{space}.{name}") for each in type]
        return {"type": "record", "name": name, "namespace": space, "fields": inner}
    if pa.types.is_map(type):
        return {"type": "map", "values": _inside(type.item_field, name, space)}
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return {"type": "array", "items": _inside(type.value_field, name, space)}
    if str(type) not in _NOT_INTEGERS:
        for matches, found in _PLAIN:
            if matches(type):
                return found
    raise UnsupportedError(
        f"column {name} has type {type}, which a Hudi table cannot hold",
        sides={"column": f"{name}: {type}", "table": "numbers, text, binary, dates, times, structs, arrays and maps"},
        next_step="Cast the column, for instance to text.",
    )


def _inside(field: pa.Field, name: str, space: str) -> Any:
    type = _type(field.type, name, space)
    return ["null", type] if field.nullable else type


def _width(type: pa.DataType) -> int:
    """How many bytes a decimal of that many digits takes at least."""
    largest: int = 10**type.precision - 1
    return (largest.bit_length() + 8) // 8
