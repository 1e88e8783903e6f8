"""Schemas as Arrow types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from halocline.errors import UnsupportedError
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
    return _PLAIN.visit(type, None)


def arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema of some columns."""
    return _PLAIN.schema(fields)


class ArrowTypes(Visitor[None, pa.DataType]):
    """Makes Arrow types; a subclass may name or annotate fields otherwise."""

    def schema(self, fields: Iterable[Field]) -> pa.Schema:
        """The Arrow schema of some columns."""
        return pa.schema([self.field(each) for each in fields])

    def field(self, field: Field) -> pa.Field:
        """The Arrow field of a field."""
        return pa.field(field.name, self.visit(field.type, None))

    def primitive(self, type: Primitive, context: None) -> pa.DataType:
        """See `Visitor.primitive`."""
        digits = decimal_of(type)
        found = PRIMITIVES.get(type.name) if digits is None else pa.decimal128(*digits)
        if found is None:
            raise UnsupportedError(
                f"Arrow has no type for {type}",
                sides={"type": str(type), "known": ", ".join(PRIMITIVES)},
                next_step="Leave the column out.",
            )
        return found

    def struct(self, type: Struct, context: None) -> pa.DataType:
        """See `Visitor.struct`."""
        return pa.struct([self.field(each) for each in type.fields])

    def array(self, type: Array, context: None) -> pa.DataType:
        """See `Visitor.array`."""
        return pa.list_(pa.field("element", self.visit(type.element, None)))

    def map(self, type: Map, context: None) -> pa.DataType:
        """See `Visitor.map`."""
        return pa.map_(self.visit(type.key, None), self.visit(type.value, None))


_PLAIN: Final = ArrowTypes()
