"""Arrow columns that somebody brings, in the types that tables have.

Arrow has several types where a table has one: text and bytes with longer offsets or as views, values in a dictionary,
times in other units, unsigned numbers. Such a type *becomes* the table's own where every value of it survives; a time
with digits after the microsecond does not, and is refused when it comes. A column of nulls that has no type, as Arrow
makes it of Python's None, has the type of the table's column. What has no counterpart is refused by
`halocline.schema.arrow.struct_of_arrow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import SchemaError
from halocline.schema.arrow import arrow_type, struct_of_arrow
from halocline.schema.arrow_arrays import ArrowArrays
from halocline.schema.types import Array, DataType, Map, Primitive, Struct

_SAME: Final = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
}


def table_schema(schema: pa.Schema, table: Struct | None = None) -> pa.Schema:
    """The columns in the types that tables have, or a certain one where they have none of their own.

    Example:
        >>> given = pa.schema({"a": pa.large_string(), "b": pa.dictionary(pa.int8(), pa.string())})
        >>> [str(field.type) for field in table_schema(given)]
        ['string', 'string']
    """
    return pa.schema([_field(each, _inside(table, each.name)) for each in schema])


def table_batches(reader: pa.RecordBatchReader, table: Struct | None = None) -> Iterator[pa.RecordBatch]:
    """The rows in the types that tables have; see `table_schema`.

    Raises:
        SchemaError: A value does not survive, or is none: other programs hand over whatever bytes they have.
    """
    wanted = table_schema(reader.schema, table)
    for batch in reader:
        try:
            batch.validate(full=True)
        except pa.ArrowException as error:
            raise SchemaError(
                "the rows are not in order, so nothing was written",
                sides={"rows": str(error)[:200], "expected": "text in UTF-8, and what else Arrow asks of its columns"},
                next_step="Look at what made the rows; their validate(full=True) tells more.",
            ) from None
        try:
            yield batch if batch.schema.equals(wanted) else _cast(batch, wanted)
        except pa.ArrowException as error:
            raise SchemaError(
                "a value has no place in the type that its column gets in a table",
                sides={"rows": str(error)[:200], "tables have": "times in microseconds"},
                next_step="Cast the column first.",
            ) from None


def with_short_offsets(rows: pa.Table) -> pa.Table:
    """The rows that Spark hands over, text and bytes with the offsets of a table: a session may be set to longer ones.

    Example:
        >>> with_short_offsets(pa.table({"a": pa.array([["x"]], pa.list_(pa.large_string()))})).schema.field("a").type
        ListType(list<item: string>)
    """
    wanted = pa.schema([_shortened(field) for field in rows.schema], rows.schema.metadata)
    return rows if rows.schema.equals(wanted) else rows.cast(wanted)


def _shortened(field: pa.Field) -> pa.Field:
    type = field.type
    if pa.types.is_large_string(type) or pa.types.is_large_binary(type):
        return field.with_type(_SAME[type])
    if pa.types.is_struct(type):
        return field.with_type(pa.struct([_shortened(each) for each in type]))
    if pa.types.is_map(type):
        return field.with_type(pa.map_(_shortened(type.key_field), _shortened(type.item_field)))
    if pa.types.is_list(type):
        return field.with_type(pa.list_(_shortened(type.value_field)))
    return field


def _cast(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    columns = zip(struct_of_arrow(wanted).fields, batch.columns, strict=True)
    return pa.RecordBatch.from_arrays([_PLAIN.visit(field.type, column) for field, column in columns], wanted.names)


class _Plain(ArrowArrays):
    """Values one after the other, whatever a column keeps them in.

    Arrow's own cast of a whole column knows neither runs nor dictionaries of views, and reads behind the end of views
    of lists, so that elements come and go by chance.
    """

    def visit(self, type: DataType, context: pa.Array) -> pa.Array:
        if pa.types.is_run_end_encoded(context.type):
            context = pc.run_end_decode(context)
        if pa.types.is_dictionary(context.type):
            return self.visit(type, context.dictionary).take(context.indices)
        return super().visit(type, context)


_PLAIN: Final = _Plain()


def _inside(known: DataType | None, name: str) -> DataType | None:
    """The type of a field of the table; one that it lacks is refused by its name, and may have any type until then."""
    if not isinstance(known, Struct):
        return None
    field = known.get(name)
    return Primitive("string") if field is None else field.type


def _field(field: pa.Field, known: DataType | None = None) -> pa.Field:
    return pa.field(field.name, _type(field.type, known), field.nullable)


def _type(type: pa.DataType, known: DataType | None = None) -> pa.DataType:
    if pa.types.is_null(type) and known is not None:
        return arrow_type(known)
    if isinstance(type, pa.BaseExtensionType):
        return _type(type.storage_type, known)
    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return _type(type.value_type, known)
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", "UTC" if type.tz else None)
    if pa.types.is_decimal(type) and type.precision <= 38:
        return pa.decimal128(type.precision, type.scale)
    if pa.types.is_struct(type):
        return pa.struct([_field(each, _inside(known, each.name)) for each in type])
    if pa.types.is_map(type):
        key, value = (known.key, known.value) if isinstance(known, Map) else (None, None)
        return pa.map_(_type(type.key_type, key), _field(type.item_field, value))
    if pa.types.is_nested(type) and hasattr(type, "value_field"):
        return pa.list_(_field(type.value_field, known.element if isinstance(known, Array) else None))
    return _SAME.get(type, type)
