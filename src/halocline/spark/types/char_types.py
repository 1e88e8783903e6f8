"""Text of limited length in Spark: padded where it is read and written, and judged.

Values of `char(n)` are padded with blanks to n characters, at any depth. A character too many, be it a blank at the
end, breaks the rule that `halocline.spark.write.rules` makes of the declared type, as in Delta.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from halocline.schema import char_types
from halocline.schema.char_types import DECLARED, declared_type, is_limited, is_padded, length_of, stored_field
from halocline.schema.types import DataType, Field, Path, Primitive, Struct
from halocline.spark.types.columns import Everywhere, Rebuilt, quoted, sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stored(schema: Struct) -> Struct:
    """The schema as a table stores it: text instead of char and varchar, the declared type in the metadata."""
    return schema.with_fields(stored_field(field, sql_type(field.type)) for field in schema.fields)


def lengthened(schema: Struct, path: Path, type: DataType) -> Struct:
    """The schema of a table in which the column at a path holds the text of another type; what is no text stays."""
    here, _ = schema.find(path)

    def redeclared(field: Field) -> Field:
        declared = char_types.lengthened(field, here[1:], type)
        return stored_field(replace(field, type=declared).without([DECLARED]), sql_type(declared))

    return schema.with_fields(redeclared(each) if each.name == here[0] else each for each in schema.fields)


def fitted(sql: str, field: Field) -> str:
    """SQL for a value as its column keeps it, with text of fixed length padded.

    Example:
        >>> fitted("`n`", Field("n", Primitive("string")))
        '`n`'
    """
    declared = declared_type(field)
    return sql if declared is None else _Fitted().visit(declared, (sql, True))


def padded(sql: str, field: Field) -> str:
    """SQL for a value of a column at the top as readers see it, whether its blanks are stored or not."""
    declared = declared_type(field)
    return fitted(sql, field) if isinstance(declared, Primitive) else sql


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
    return "" if declared is None else _Short().visit(declared, (sql, 0))


class _Fitted(Rebuilt):
    """A value with text of fixed length padded."""

    def visit(self, type: DataType, context: tuple[str, bool]) -> str:
        return super().visit(type, (context[0], True))  # what must not be null is judged later

    def primitive(self, type: Primitive, context: tuple[str, bool]) -> str:
        sql = context[0]
        # Longer text stays as it is, for the rule on its length to find.
        return f"rpad({sql}, greatest({length_of(type)}, length({sql})), ' ')" if is_padded(type) else sql


class _Short(Everywhere):
    """That no text is too long."""

    def primitive(self, type: Primitive, context: tuple[str, int]) -> str:
        sql = context[0]
        return f"({sql} IS NULL OR length({sql}) <= {length_of(type)})" if is_limited(type) else ""
