"""The word DEFAULT in place of a value: what a column gets where a row brings nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from halocline.errors import SchemaError
from halocline.formats.delta.configuration.generated import generation_of
from halocline.formats.delta.configuration.identity import identity_of
from halocline.schema import Field, Struct
from halocline.schema.defaults import default_of
from halocline.statements.text import Reader, words_in

_DEFAULT: Final = "DEFAULT"


def values_for(query: str, columns: Sequence[Field]) -> str:
    """`VALUES (…), (…)` for some columns with their defaults in place of the word; any other query as it is.

    Example:
        >>> from halocline.schema import Primitive
        >>> columns = [Field("id", Primitive("long")), Field("n", Primitive("long"), metadata={"CURRENT_DEFAULT": "7"})]
        >>> values_for("VALUES (1, default), (DEFAULT, f(2, 'DEFAULT'))", columns)
        "VALUES (1, (7)), ((NULL), f(2, 'DEFAULT'))"
    """
    reader = Reader(query)
    if _DEFAULT not in words_in(query) or not reader.accept("VALUES") or reader.word() != "(":
        return query
    rows = reader.listed(lambda: reader.parenthesised(lambda: reader.until(",")))
    if not reader.is_done or any(len(row) != len(columns) for row in rows):
        return query
    texts = [", ".join(map(value_for, row, columns)) for row in rows]
    return f"VALUES {', '.join(f'({text})' for text in texts)}"


def assigned(values: dict[str, str], schema: Struct) -> dict[str, str]:
    """Values for columns, with their defaults in place of the word."""
    return {
        name: value_for(text, schema.find(Reader(name).name())[1]) if text.upper() == _DEFAULT else text
        for name, text in values.items()
    }


def value_for(text: str, column: Field) -> str:
    """A value for a column: its default, if it is the word alone."""
    if text.upper() != _DEFAULT:
        return text
    if generation_of(column) is not None or identity_of(column) is not None:
        raise SchemaError(
            f"column {column.name} has no default: the table fills it by itself",
            sides={"column": column.name, "given": _DEFAULT},
            next_step="Leave the column out of the list of columns.",
        )
    return f"({default_of(column) or 'NULL'})"
