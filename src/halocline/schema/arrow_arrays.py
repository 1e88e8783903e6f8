"""Arrow arrays, taken apart and put together again by a schema's types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.schema.arrow import PLAIN, ArrowTypes
from halocline.schema.types import Array, DataType, Map, Primitive, Struct
from halocline.schema.visitor import Visitor


class ArrowArrays(Visitor[pa.Array, pa.Array]):
    """Makes values of a type out of values of a like shape.

    Nulls without a type become nulls of the type. A subclass may say where the fields of a struct come from.

    Attributes:
        types: The Arrow types of what is made.

    Example:
        >>> short = pa.array([[1, None], None], pa.list_(pa.int16()))
        >>> str(ArrowArrays().visit(Array(Primitive("long")), short).type)
        'list<element: int64>'
    """

    types: ArrowTypes = PLAIN

    def visit(self, type: DataType, context: pa.Array) -> pa.Array:
        context = context.storage if isinstance(context, pa.ExtensionArray) else context
        if pa.types.is_null(context.type):
            return pa.nulls(len(context), self.types.visit(type, None))
        return super().visit(type, context)

    def primitive(self, type: Primitive, context: pa.Array) -> pa.Array:
        wanted = self.types.visit(type, None)
        return context if context.type == wanted else context.cast(wanted)

    def children(self, type: Struct, context: pa.Array) -> Sequence[pa.Array]:
        """The values for each field of a struct; by default they are in the same order."""
        found: Sequence[pa.Array] = context.flatten()
        return found

    def struct(self, type: Struct, context: pa.Array) -> pa.Array:
        children = zip(type.fields, self.children(type, context), strict=True)
        parts = [self.visit(field.type, child) for field, child in children]
        return pa.StructArray.from_arrays(parts, fields=list(self.types.visit(type, None)), mask=pc.is_null(context))

    def array(self, type: Array, context: pa.Array) -> pa.Array:
        offsets, inner = unnested(context)
        return pa.ListArray.from_arrays(offsets, self.visit(type.element, inner), type=self.types.visit(type, None))

    def map(self, type: Map, context: pa.Array) -> pa.Array:
        offsets, inner = unnested(context)
        keys, items = inner.flatten()
        parts = self.visit(type.key, keys), self.visit(type.value, items)
        return pa.MapArray.from_arrays(offsets, *parts, type=self.types.visit(type, None))


def unnested(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets, null where the list is, and the elements of a list or map, whatever slice of a buffer it is."""
    if pa.types.is_map(array.type):
        entries = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        array = array.cast(pa.list_(pa.field("entries", entries, nullable=False)))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    absent = np.append(pc.is_null(array).to_numpy(zero_copy_only=False), False)
    return pa.array(offsets, pa.int32(), mask=absent), array.flatten()
