"""Avro types, and the Arrow types of their columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType, expand_schema

from halocline.errors import MalformedError, UnsupportedError

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_WIDEST_128: Final = 38
_WIDEST_256: Final = 76


class Nullable(NamedTuple):
    """A type, and where null stands in the union around it.

    Attributes:
        type: The type as JSON.
        null: Which branch of the union is null; None if the value is never null.
        plain: True if there is no union.
    """

    type: Any
    null: int | None
    plain: bool


def parse_schema(text: str, place: str) -> dict[str, Any]:
    """A record schema with every named type spelt out where it is used.

    Raises:
        MalformedError: The text is no Avro schema of a record.

    Example:
        >>> parse_schema('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}', "here")["type"]
        'record'
    """
    try:
        schema = expand_schema(json.loads(text))
    except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError, RecursionError) as error:
        raise _no_schema(place, f"{type(error).__name__}: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _no_schema(place, f"{text:.80}")
    return schema


def nullable(type: Any) -> Nullable:
    """A type without the union that makes it nullable.

    Raises:
        UnsupportedError: The union has several types.

    Example:
        >>> nullable(["null", "int"])
        Nullable(type='int', null=0, plain=False)
    """
    if not isinstance(type, list):
        return Nullable(type, None, True)
    others = [each for each in type if each != "null"]
    if len(others) == 1 and len(type) <= 2:
        return Nullable(others[0], type.index("null") if len(type) == 2 else None, False)
    if not others and len(type) == 1:
        return Nullable("null", None, False)
    names = ", ".join(_name(each) for each in type)
    raise UnsupportedError(
        f"a union of several types has no column type: {names}",
        sides={"schema": f"union of {names}", "halocline reads": "unions of null and one other type"},
        next_step="Rewrite the column with one type.",
    )


def arrow_type(type: Any) -> pa.DataType:
    """The Arrow type of a column of an Avro type, whether it may be null or not.

    Example:
        >>> arrow_type(["null", {"type": "long", "logicalType": "timestamp-micros"}])
        TimestampType(timestamp[us, tz=UTC])
    """
    type = nullable(type).type
    name, body = _name(type), type if isinstance(type, dict) else {}
    logical = body.get("logicalType", "")
    match name:
        case "record":
            return pa.struct([arrow_field(each) for each in body["fields"]])
        case "array":
            return pa.list_(pa.field("element", arrow_type(body["items"]), _is_nullable(body["items"])))
        case "map":
            return pa.map_(pa.string(), pa.field("value", arrow_type(body["values"]), _is_nullable(body["values"])))
        case "bytes" | "fixed" if logical == "decimal":
            return _decimal(body)
        case "fixed":
            return pa.binary(body["size"])
    found = _LOGICAL.get((name, logical)) or _PLAIN.get(name)
    if found is None:
        raise UnsupportedError(
            f"the Avro type {name} has no column type",
            sides={"schema": name, "halocline reads": ", ".join([*_PLAIN, "fixed", "record", "array", "map"])},
        )
    return found


def arrow_field(field: Mapping[str, Any]) -> pa.Field:
    """The Arrow field of a field of a record.

    Example:
        >>> arrow_field({"name": "a", "type": ["null", "int"]})
        pyarrow.Field<a: int32>
    """
    return pa.field(field["name"], arrow_type(field["type"]), _is_nullable(field["type"]))


@lru_cache(maxsize=256)
def arrow_schema(text: str, place: str = "a schema") -> pa.Schema:
    """The Arrow schema of a record schema.

    Example:
        >>> arrow_schema('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}').names
        ['a']
    """
    return pa.schema([arrow_field(each) for each in parse_schema(text, place)["fields"]])


def _is_nullable(type: Any) -> bool:
    return nullable(type).null is not None or type == "null"


def _name(type: Any) -> str:
    return str(type["type"] if isinstance(type, dict) else "union" if isinstance(type, list) else type)


def _decimal(body: Mapping[str, Any]) -> pa.DataType:
    precision, scale = body.get("precision"), body.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        raise MalformedError(
            "a decimal needs a number of digits, and no more of them behind the point",
            condition="MALFORMED_METADATA",
            sides={"expected": "precision and scale", "found": f"precision {precision!r}, scale {scale!r}"},
            next_step="Restore the file from a copy.",
        )
    if precision > _WIDEST_256:
        raise UnsupportedError(
            f"a decimal of {precision} digits has no column type",
            sides={"schema": f"decimal({precision},{scale})", "halocline reads": f"at most {_WIDEST_256} digits"},
        )
    return pa.decimal128(precision, scale) if precision <= _WIDEST_128 else pa.decimal256(precision, scale)


def _no_schema(place: str, found: str) -> MalformedError:
    return MalformedError(
        f"the schema in {place} cannot be read",
        condition="MALFORMED_METADATA",
        sides={"expected": "an Avro schema of a record, as JSON", "found": found},
        next_step="Restore the file from a copy.",
    )
