"""Nulls in Arrow: types that say where there are none, and values held against them."""

from __future__ import annotations

import pyarrow as pa

from halocline.schema.arrow import ArrowTypes
from halocline.schema.arrow_arrays import ArrowArrays, unnested
from halocline.schema.types import Array, DataType, Field, Map, Primitive, Struct
from halocline.schema.visitor import Visitor


def is_complete(field: Field, array: pa.Array, *, in_null_structs: bool = False) -> bool:
    """Whether nothing in a column is null that must not be.

    Args:
        field: The column.
        array: Its values.
        in_null_structs: Whether a field of a struct that is null counts as null itself. It does for rows that are
            written, and not for those that others wrote.

    Example:
        >>> inner = Struct([Field("x", Primitive("long"), nullable=False)])
        >>> rows = pa.array([None, {"x": 1}], pa.struct({"x": pa.int64()}))
        >>> is_complete(Field("s", inner), rows), is_complete(Field("s", inner), rows, in_null_structs=True)
        (True, False)
    """
    return _Complete(in_null_structs).part(array, field.type, field.nullable)


class _NotNull(ArrowTypes):
    """Arrow types that say at every depth whether a null may be there, as Spark says it."""

    def field(self, field: Field) -> pa.Field:
        return super().field(field).with_nullable(field.nullable)

    def array(self, type: Array, context: None) -> pa.DataType:
        return pa.list_(super().array(type, None).value_field.with_nullable(type.contains_null))

    def map(self, type: Map, context: None) -> pa.DataType:
        item = super().map(type, None).item_field.with_nullable(type.value_contains_null)
        return pa.map_(self.visit(type.key, None), item)


class NotNullArrays(ArrowArrays):
    """The same values in types that say where there are no nulls."""

    types = _NotNull()

    def visit(self, type: DataType, context: pa.Array) -> pa.Array:
        return context if context.type == self.types.visit(type, None) else super().visit(type, context)


class _Complete(Visitor[pa.Array, bool]):
    def __init__(self, in_null_structs: bool) -> None:
        self._in_null_structs = in_null_structs

    def part(self, array: pa.Array, type: DataType, nullable: bool) -> bool:
        if not nullable and array.null_count:
            return False
        return pa.types.is_null(array.type) or self.visit(type, array)

    def primitive(self, type: Primitive, context: pa.Array) -> bool:
        return True

    def struct(self, type: Struct, context: pa.Array) -> bool:
        present = context if self._in_null_structs else context.drop_null()
        children = {child.name.lower(): part for child, part in zip(context.type, present.flatten(), strict=True)}
        fields = [(each, children.get(each.name.lower())) for each in type.fields]
        return all(part is None or self.part(part, each.type, each.nullable) for each, part in fields)

    def array(self, type: Array, context: pa.Array) -> bool:
        return self.part(unnested(context.drop_null())[1], type.element, type.contains_null)

    def map(self, type: Map, context: pa.Array) -> bool:
        keys, items = unnested(context.drop_null())[1].flatten()
        return self.part(keys, type.key, False) and self.part(items, type.value, type.value_contains_null)
