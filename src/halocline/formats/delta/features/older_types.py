"""Which data files hold a column in an older type than the table has.

Under type widening a file keeps the type it was written with, and readers cast. Before the feature can go, such files
are written again. What a file holds stands in its footer; a column that is missing from the file is no older type,
since readers fill it with nulls whatever its type.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from halocline.formats.delta.actions.locations import locate
from halocline.formats.delta.configuration.column_mapping import physical_name
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.log.parquet_object import ParquetObject
from halocline.schema.arrow import PRIMITIVES
from halocline.schema.types import Array, Map, Primitive, Struct, decimal_of
from halocline.schema.visitor import Visitor
from halocline.storage.base import Store

_WIDENED: Final = frozenset({"byte", "short", "integer", "long", "float", "double"})


def holds_older_types(store: Store, schema: Schema, path: str) -> bool:
    """Whether a data file holds a column in another type than the schema gives it."""
    home, name = locate(store, path)
    found = pa.struct(list(ParquetObject(home, name).schema))
    return _Differs(schema.mode).visit(schema.struct, found)


class _Differs(Visitor[pa.DataType, bool]):
    """Whether a type in a file is an older one of the type that the table has now."""

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def primitive(self, type: Primitive, context: pa.DataType) -> bool:
        if type.name in _WIDENED:
            return bool(context != PRIMITIVES[type.name])
        if type.name == "timestamp_ntz":
            return bool(pa.types.is_date(context))
        decimal = decimal_of(type)
        if decimal is None:
            return False
        return not pa.types.is_decimal(context) or (context.precision, context.scale) != decimal

    def struct(self, type: Struct, context: pa.DataType) -> bool:
        present = {field.name.lower(): field.type for field in context} if pa.types.is_struct(context) else {}
        for field in type.fields:
            found = present.get(physical_name(field, self._mode).lower())
            if found is not None and self.visit(field.type, found):
                return True
        return False

    def array(self, type: Array, context: pa.DataType) -> bool:
        is_list = pa.types.is_list(context) or pa.types.is_large_list(context)
        return is_list and self.visit(type.element, context.value_type)

    def map(self, type: Map, context: pa.DataType) -> bool:
        if not pa.types.is_map(context):
            return False
        return self.visit(type.key, context.key_type) or self.visit(type.value, context.item_type)
