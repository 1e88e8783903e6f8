"""Text of limited length: char and varchar.

A table stores such a column as plain text; its declared type stands in the field's metadata, under Spark's key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from halocline.schema.types import DataType, Field, Primitive

DECLARED: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key under which Spark keeps the declared type."""


def is_limited(type: DataType) -> bool:
    """Whether a type is a char or a varchar with its length."""
    match type:
        case Primitive(parameters=(int(),)):
            return type.name.lower() in ("char", "varchar")
    return False


def declared_type(field: Field) -> Primitive | None:
    """The char or varchar that a text column is declared as; None if it may have any length."""
    declared = Primitive(str(field.metadata.get(DECLARED, "")))
    return declared if is_limited(declared) else None


def stored_field(field: Field) -> Field:
    """The field as a table stores it: text instead of char and varchar, the declared type in the metadata."""
    if not is_limited(field.type):
        return field
    return replace(field, type=Primitive("string")).annotated(DECLARED, str(field.type))
