"""Names that Avro allows: of columns and nested fields, and of the records that a table's schema consists of.

A Hudi table's schema is Avro's. Apache Hudi makes a valid name of the table's for the record and its namespace, and
refuses columns and nested fields whose names Avro does not allow; so does this. Java's Avro takes letters and digits of
every script, while the specification, and hudi-rs, know those of ASCII alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from halocline.errors import SchemaError

_FIRST: Final = re.compile(r"^[^A-Za-z_]")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_]")
_MASK: Final = "__"
_STRICT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_name(name: str) -> str:
    """Return the valid name that Apache Hudi makes of one.

    Example:
        >>> avro_name("my-table"), avro_name("2024"), avro_name("täble")
        ('my__table', '__024', 't__ble')
    """
    return _OTHERS.sub(_MASK, _FIRST.sub(_MASK, name))


def is_strict_name(name: str) -> bool:
    """Return whether the specification of Avro allows a name, and so every client."""
    return _STRICT.fullmatch(name) is not None


def is_java_name(name: str) -> bool:
    """Return whether Java's Avro allows a name, and so Apache Hudi.

    Example:
        >>> is_java_name("tär"), is_java_name("fare-x"), is_java_name("1st")
        (True, False, False)
    """
    return bool(name) and _is_letter(name[0]) and all(_is_letter(each) or _is_digit(each) for each in name)


def check_column_names(schema: pa.Schema) -> None:
    """Refuse columns and nested fields that Apache Hudi could not read.

    Raises:
        SchemaError: Avro does not allow a name; the nearest that it allows is named.
    """
    for path, taken in _paths(schema):
        if is_java_name(path[-1]):
            continue
        nearest = avro_name(path[-1]) or "_"
        while nearest in taken:
            nearest += "_"
        where = f"column {path[0]}" if len(path) == 1 else f"field {'.'.join(path)}"
        raise SchemaError(
            f"{where} has a name that no Hudi table can hold, since its schema is Avro's",
            sides={"given": path[-1], "allowed": "letters, digits and _, and no digit first", "nearest": nearest},
            next_step=f"Rename it, for instance to {nearest}.",
        )


def names_in(schema: Any) -> Iterator[str]:
    """Give the names of all columns and nested fields of a schema that is Avro's JSON, already parsed."""
    if isinstance(schema, list):
        for each in schema:
            yield from names_in(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "record":
            yield from (str(each.get("name")) for each in schema["fields"])
            yield from names_in([each.get("type") for each in schema["fields"]])
        else:
            yield from names_in([schema.get(key) for key in ("type", "items", "values")])


def record_names_in(schema: Any) -> Iterator[str]:
    """Give each part of the name of the record that such a schema is; those of nested records are made of columns'."""
    return iter(_parts(schema) if isinstance(schema, dict) else ())


def with_avro_names(schema: Any) -> Any:
    """Return such a schema with valid names for its records; columns and nested fields keep theirs.

    Records of nested fields are named after them. Apache Hudi leaves letters of every script in those, so they stay.

    Example:
        >>> with_avro_names({"type": "record", "name": "a-b_record", "namespace": "hoodie.a-b", "fields": []})
        {'type': 'record', 'name': 'a__b_record', 'namespace': 'hoodie.a__b', 'fields': []}
    """
    if not isinstance(schema, dict):
        return schema
    of_table = set(_parts(schema))
    return _renamed(schema, lambda part: avro_name(part) if part in of_table or not is_java_name(part) else part)


def _renamed(schema: Any, name: Callable[[str], str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(each, name) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for key in ("name", "namespace"):
        if made.get(key):
            made[key] = ".".join(map(name, str(made[key]).split(".")))
    if "fields" in made:
        made["fields"] = [each | {"type": _renamed(each.get("type"), name)} for each in made["fields"]]
    for key in ("type", "items", "values"):
        if isinstance(made.get(key), (dict, list)):
            made[key] = _renamed(made[key], name)
    return made


def _parts(schema: Mapping[str, Any]) -> list[str]:
    return [part for key in ("namespace", "name") if schema.get(key) for part in str(schema[key]).split(".")]


def _paths(fields: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Each column and nested field, as the names that lead to it, with the names beside it."""
    beside = {each.name for each in fields}
    for each in fields:
        path = (*above, each.name)
        yield path, beside
        yield from _inside(each.type, path)


def _inside(type: pa.DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    if pa.types.is_struct(type):
        yield from _paths(list(type), path)
    elif pa.types.is_map(type):
        yield from _inside(type.item_type, path)
    elif pa.types.is_list(type) or pa.types.is_large_list(type):
        yield from _inside(type.value_type, path)


def _is_letter(char: str) -> bool:
    # Java looks at UTF-16 units, of which those beyond the basic plane are no letters.
    return char == "_" or (ord(char) < 0x10000 and unicodedata.category(char).startswith("L"))


def _is_digit(char: str) -> bool:
    return ord(char) < 0x10000 and unicodedata.category(char) == "Nd"
