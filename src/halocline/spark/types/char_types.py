"""Text of limited length in Spark: padded where it is read and written, and judged.

Values of `char(n)` are padded with blanks to n characters, at any depth. A character too many, be it a blank at the
end, breaks the rule that `halocline.spark.write.rules` makes of the declared type, as in Delta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from halocline.schema.char_types import DECLARED, declared_type, is_limited, is_padded, length_of, stored_field
from halocline.schema.types import Array, DataType, Field, Map, Primitive, Struct
from halocline.schema.visitor import Visitor
from halocline.spark.types.columns import quoted, sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stored(schema: Struct) -> Struct:
    """The schema as a table stores it: text instead of char and varchar, the declared type in the metadata."""
    return schema.with_fields(stored_field(field, sql_type(field.type)) for field in schema.fields)


def fitted(sql: str, field: Field) -> str:
    """SQL for a value as its column keeps it, with text of fixed length padded.

    Example:
        >>> fitted("`n`", Field("n", Primitive("string")))
        '`n`'
    """
    declared = declared_type(field)
    return sql if declared is None else _FITTED.visit(declared, (sql, field.type, 0))


def padded(sql: str, field: Field) -> str:
    """SQL for a value of a column at the top as readers see it, whether its blanks are stored or not."""
    declared = declared_type(field)
    return _FITTED.visit(declared, (sql, field.type, 0)) if isinstance(declared, Primitive) else sql


def known_to_spark(df: DataFrame, schema: Struct) -> DataFrame:
    """The rows with columns of fixed length marked as such, so that Spark pads what it compares them with."""
    marks = {
        field.name: {DECLARED: field.metadata[DECLARED]} for field in schema.fields if declared_type(field) is not None
    }
    if not marks.keys() & set(df.columns):
        return df
    columns = ((name, df[quoted(name)]) for name in df.columns)
    return df.select(*(c.alias(name, metadata=marks[name]) if name in marks else c for name, c in columns))


def lengths_hold(sql: str, field: Field) -> str:
    """A condition that is true if no text in a value is too long; empty if it may have any length."""
    declared = declared_type(field)
    return "" if declared is None else _SHORT.visit(declared, (sql, field.type, 0))


class _Fitted(Visitor[tuple[str, DataType, int], str]):
    """SQL for a value with its text fitted, given SQL for the value, its stored type, and how deep it stands."""

    def primitive(self, type: Primitive, context: tuple[str, DataType, int]) -> str:
        sql = context[0]
        # Longer text stays as it is, for the rule on its length to find.
        return f"rpad({sql}, greatest({length_of(type)}, length({sql})), ' ')" if is_padded(type) else sql

    def struct(self, type: Struct, context: tuple[str, DataType, int]) -> str:
        sql, stored, depth = context
        if not isinstance(stored, Struct):
            return sql
        parts, same = [], True
        for field in stored.fields:
            inner, known = f"{sql}.{quoted(field.name)}", type.get(field.name)
            after = inner if known is None else self.visit(known.type, (inner, field.type, depth))
            parts.append(f"{after} AS {quoted(field.name)}")
            same = same and after == inner
        return sql if same else f"CASE WHEN {sql} IS NOT NULL THEN struct({', '.join(parts)}) END"

    def array(self, type: Array, context: tuple[str, DataType, int]) -> str:
        sql, stored, depth = context
        if not isinstance(stored, Array):
            return sql
        element = f"halocline_text_{depth}"
        inner = self.visit(type.element, (element, stored.element, depth + 1))
        return sql if inner == element else f"transform({sql}, {element} -> {inner})"

    def map(self, type: Map, context: tuple[str, DataType, int]) -> str:
        sql, stored, depth = context
        if not isinstance(stored, Map):
            return sql
        key, value = f"halocline_key_{depth}", f"halocline_text_{depth}"
        both = (("values", value, type.value, stored.value), ("keys", key, type.key, stored.key))
        for function, variable, declared, kept in both:
            inner = self.visit(declared, (variable, kept, depth + 1))
            if inner != variable:
                sql = f"transform_{function}({sql}, ({key}, {value}) -> {inner})"
        return sql


class _Short(Visitor[tuple[str, DataType, int], str]):
    """A condition on the lengths of the text in a value, empty if there is none; the context is as above."""

    def primitive(self, type: Primitive, context: tuple[str, DataType, int]) -> str:
        sql = context[0]
        return f"({sql} IS NULL OR length({sql}) <= {length_of(type)})" if is_limited(type) else ""

    def struct(self, type: Struct, context: tuple[str, DataType, int]) -> str:
        sql, stored, depth = context
        pairs = [(field, type.get(field.name)) for field in stored.fields] if isinstance(stored, Struct) else []
        found = [
            self.visit(known.type, (f"{sql}.{quoted(field.name)}", field.type, depth))
            for field, known in pairs
            if known is not None
        ]
        return " AND ".join(filter(None, found))

    def array(self, type: Array, context: tuple[str, DataType, int]) -> str:
        sql, stored, depth = context
        return self._each(type.element, stored.element, sql, sql, depth) if isinstance(stored, Array) else ""

    def map(self, type: Map, context: tuple[str, DataType, int]) -> str:
        sql, stored, depth = context
        if not isinstance(stored, Map):
            return ""
        values = self._each(type.value, stored.value, f"map_values({sql})", sql, depth)
        keys = self._each(type.key, stored.key, f"map_keys({sql})", sql, depth)
        return " AND ".join(filter(None, (values, keys)))

    def _each(self, type: DataType, stored: DataType, values: str, sql: str, depth: int) -> str:
        element = f"halocline_text_{depth}"
        inner = self.visit(type, (element, stored, depth + 1))
        return f"({sql} IS NULL OR forall({values}, {element} -> {inner}))" if inner else ""


_FITTED: Final = _Fitted()
_SHORT: Final = _Short()
