"""Text of limited length: char and varchar.

A table stores such text as plain text; the type that a column was declared with stands in its metadata, under Spark's
key and in Spark's spelling. Where limited text stands inside a struct, an array or a map, the column at the top carries
the whole declared type. Values of `char(n)` count as padded with blanks to n characters, whether the file has the
blanks or not.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

from halocline.errors import SchemaError
from halocline.schema.types import Array, DataType, Field, Map, Path, Primitive, Struct
from halocline.schema.visitor import map_types, types

DECLARED: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key under which Spark keeps the declared type."""

_TEXT: Final = Primitive("string")
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)*`|\w+\s*\([^)]*\)|[^\s<>,:`]+|[<>,:])")


def is_limited(type: DataType) -> bool:
    """Whether a type is a char or a varchar with its length."""
    match type:
        case Primitive(parameters=(int(),)):
            return type.name.lower() in ("char", "varchar")
    return False


def length_of(type: DataType) -> int:
    """The number of characters that a char or a varchar has at most."""
    assert isinstance(type, Primitive)
    return int(type.parameters[0])


def is_padded(type: DataType) -> bool:
    """Whether values of a limited type are padded with blanks."""
    return is_limited(type) and type.name.lower() == "char"


def declared_type(field: Field) -> DataType | None:
    """The type of a column with char and varchar where its text was declared so; None if none of it was."""
    told = _parsed(str(field.metadata[DECLARED])) if DECLARED in field.metadata else None
    if told is None:
        return None
    limits = {_folded(path): type for path, type in types(told) if is_limited(type)}

    def limited(path: Path, type: DataType) -> DataType:
        return limits.get(_folded(path), type) if type.name == "string" else type

    found = map_types(field.type, limited)
    return None if found is field.type else found


def declared_at(schema: Struct, path: Path) -> DataType | None:
    """The char or varchar that the text at a path was declared as; None if there is no such text."""
    top = schema.get(path[0])
    whole = None if top is None else declared_type(top)
    found = None if whole is None else dict(types(whole)).get(path[1:])
    return found if found is not None and is_limited(found) else None


def can_lengthen(old: DataType, new: DataType) -> bool:
    """Whether every text of one type is one of the other, as it is: blanks that char has are kept, and none come in.

    Example:
        >>> can_lengthen(Primitive("char(5)"), Primitive("varchar(5)"))
        True
        >>> can_lengthen(Primitive("char(5)"), Primitive("char(9)"))
        False
    """
    if old == new or new == _TEXT:
        return True
    return is_limited(old) and not is_padded(new) and length_of(new) >= length_of(old)


def without_lengths(type: DataType) -> DataType:
    """The type with plain text instead of char and varchar."""
    return map_types(type, lambda _, each: _TEXT if is_limited(each) else each)


def lengthened(field: Field, at: Path, type: DataType) -> DataType:
    """The type that a column was declared with, after what stands at a path in it may hold the text of another type.

    Only text becomes other text; everything else stays.

    Raises:
        SchemaError: Text that is there does not fit the new type, or not as it is.
    """
    asked = {(*at, *path): each for path, each in types(type) if _is_text(each)}

    def longer(path: Path, old: DataType) -> DataType:
        new = asked.get(path) if _is_text(old) else None
        if new is not None and not can_lengthen(old, new):
            raise SchemaError(
                f"column {'.'.join((field.name, *path))} cannot change its type that way without rewriting data",
                sides={"from": str(old), "to": str(new)},
                next_step="Text that is varchar or char can become a varchar that is no shorter, or string.",
            )
        return new or old

    return map_types(declared_type(field) or field.type, longer)


def stored_field(field: Field, spelt: str) -> Field:
    """The field as a table stores it: text instead of char and varchar, the declared type in the metadata."""
    plain = without_lengths(field.type)
    return field if plain is field.type else replace(field, type=plain).annotated(DECLARED, spelt)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> DataType | None:
    """The type that a text in Spark's spelling stands for; None if it is none."""
    tokens = [found[1] for found in _TOKEN.finditer(text)]
    try:
        type, rest = _type(tokens)
    except (IndexError, ValueError):
        return None
    return None if rest else type


def _type(tokens: list[str]) -> tuple[DataType, list[str]]:
    kind, rest = tokens[0].lower(), tokens[1:]
    if rest[:1] != ["<"] or kind not in ("array", "map", "struct"):
        return Primitive(tokens[0]), rest
    inner: list[tuple[str, DataType]] = []
    while rest[0] != ">":
        rest, name = rest[1:], ""
        if rest[0] == ">":
            break
        if kind == "struct":
            name, rest = _name(rest[0]), rest[2:] if rest[1] == ":" else rest[1:]
        type, rest = _type(rest)
        while rest[0] not in (",", ">"):  # NOT NULL and comments
            rest = rest[1:]
        inner.append((name, type))
    found = [type for _, type in inner]
    if kind == "struct":
        return Struct([Field(name, type) for name, type in inner]), rest[1:]
    if len(found) != (1 if kind == "array" else 2):
        raise ValueError(kind)
    return (Array(found[0]) if kind == "array" else Map(found[0], found[1])), rest[1:]


def _is_text(type: DataType) -> bool:
    return type == _TEXT or is_limited(type)


def _folded(path: Path) -> Path:
    return tuple(step.lower() for step in path)


def _name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else token
