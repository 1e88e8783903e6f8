"""Schemas as Arrow types, and columns of Arrow as a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import pyarrow as pa

from halocline.errors import UnsupportedError
from halocline.schema.char_types import is_limited
from halocline.schema.types import Array, DataType, Field, Map, Primitive, Struct, decimal_of
from halocline.schema.visitor import Visitor

PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types that have one Arrow type whatever the table."""


def arrow_type(type: DataType) -> pa.DataType:
    """The Arrow type of a type."""
    return PLAIN.visit(type, None)


def arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema of some columns."""
    return PLAIN.schema(fields)


class ArrowTypes(Visitor[None, pa.DataType]):
    """Makes Arrow types; a subclass may name or annotate fields otherwise."""

    def schema(self, fields: Iterable[Field]) -> pa.Schema:
        """The Arrow schema of some columns."""
        return pa.schema([self.field(each) for each in fields])

    def field(self, field: Field) -> pa.Field:
        """The Arrow field of a field."""
        return pa.field(field.name, self.visit(field.type, None))

    def primitive(self, type: Primitive, context: None) -> pa.DataType:
        digits = decimal_of(type)
        found = PRIMITIVES.get(type.name) if digits is None else pa.decimal128(*digits)
        found = pa.string() if is_limited(type) else found
        if found is None:
            raise UnsupportedError(
                f"Arrow has no type for {type}",
                sides={"type": str(type), "known": ", ".join(PRIMITIVES)},
                next_step="Leave the column out.",
            )
        return found

    def struct(self, type: Struct, context: None) -> pa.DataType:
        return pa.struct([self.field(each) for each in type.fields])

    def array(self, type: Array, context: None) -> pa.DataType:
        return pa.list_(pa.field("element", self.visit(type.element, None)))

    def map(self, type: Map, context: None) -> pa.DataType:
        return pa.map_(self.visit(type.key, None), self.visit(type.value, None))


PLAIN: Final = ArrowTypes()
"""Arrow types with the names of the schema, nulls allowed everywhere."""


def struct_of_arrow(schema: Iterable[pa.Field], leaf: Callable[[pa.DataType], str | None] = lambda _: None) -> Struct:
    """The schema of some Arrow columns, nulls allowed everywhere, as every client of a table may leave them.

    What a leaf is may be told otherwise; leaves are asked for depth first.

    Example:
        >>> print(struct_of_arrow(pa.schema([("a", pa.list_(pa.int64()))])))
        struct<a: array<long>>
    """
    return Struct([Field(each.name, _from_arrow(each.type, each.name, leaf)) for each in schema])


def _from_arrow(type: pa.DataType, name: str, leaf: Callable[[pa.DataType], str | None]) -> DataType:
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if pa.types.is_struct(type):
        return Struct([Field(each.name, _from_arrow(each.type, f"{name}.{each.name}", leaf)) for each in type])
    if pa.types.is_map(type):
        key = _from_arrow(type.key_type, f"{name}.key", leaf)
        return Map(key, _from_arrow(type.item_type, f"{name}.value", leaf))
    if pa.types.is_nested(type) and not pa.types.is_union(type):
        return Array(_from_arrow(type.value_type, f"{name}.element", leaf))
    found = leaf(type) or _PRIMITIVE_OF.get(type)
    if found is None and pa.types.is_timestamp(type) and type.unit in ("ms", "us"):
        found = "timestamp" if type.tz else "timestamp_ntz"
    elif pa.types.is_decimal128(type):
        found = f"decimal({type.precision},{type.scale})"
    elif pa.types.is_fixed_size_binary(type):
        found = "binary"
    if found is None:
        raise UnsupportedError(
            f"column {name} has type {type}, which tables do not have",
            sides={"column": f"{name}: {type}", "known": ", ".join(PRIMITIVES)},
            next_step="Cast the column to one of them, or leave it out.",
        )
    return Primitive(found)


_PRIMITIVE_OF: Final = {type: name for name, type in PRIMITIVES.items()} | {
    pa.large_string(): "string",
    pa.large_binary(): "binary",
}
