"""Changing a table's schema as the log stores it: JSON objects in, new JSON objects out.

A *field* is one column of a struct, at any depth, with `name`, `type`, `nullable` and `metadata`. A *path* names a
field by its steps from the top; inside arrays and maps the steps are `element`, `key` and `value`. Names compare
without regard to case, as every engine on such tables does. Nothing here changes its argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from halocline.errors import InputError
from halocline.formats.delta.actions.action import malformed
from halocline.schema import types

Node: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str, ...]

JsonType: TypeAlias = str | Mapping[str, Any]
FIELD_ID: Final = "delta.columnMapping.id"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"

_INNER: Final = (("elementType", "element"), ("keyType", "key"), ("valueType", "value"))
_DEEPEST: Final = 200


def parse(schema_string: str) -> dict[str, Any]:
    """The schema in a `metaData` action; empty text is a table without columns.

    Raises:
        MalformedError: It is not the JSON of a struct.

    Example:
        >>> parse('{"type":"struct","fields":[]}')
        {'type': 'struct', 'fields': []}
    """
    if not schema_string:
        return {"type": "struct", "fields": []}
    try:
        schema = json.loads(schema_string)
    except (ValueError, RecursionError) as error:
        raise malformed("metaData", f"holds a schema that is not JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "struct" or not isinstance(schema.get("fields"), list):
        raise malformed("metaData", "holds a schema that is not a struct")
    return schema


def dump(schema: Node) -> str:
    """The text to store, without blanks, as Delta writes it."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def field(name: str, type: Any, nullable: bool = True, metadata: Node | None = None) -> dict[str, Any]:
    """A field as the log writes it.

    Example:
        >>> field("id", "long", nullable=False)
        {'name': 'id', 'type': 'long', 'nullable': False, 'metadata': {}}
    """
    return {"name": name, "type": type, "nullable": nullable, "metadata": dict(metadata or {})}


def children(type: Any) -> Iterator[tuple[str, Any]]:
    """The types directly inside an array or a map, with the step that leads there."""
    if isinstance(type, Mapping):
        for key, step in _INNER:
            if key in type:
                yield step, type[key]


def is_struct(type: Any) -> bool:
    """Whether the type has named fields."""
    return isinstance(type, Mapping) and type.get("type") == "struct"


def fields(type: Any, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every field below the type with its path, outer ones first."""
    if len(path) > _DEEPEST:
        raise malformed("metaData", f"holds a schema nested more than {_DEEPEST} levels deep")
    if is_struct(type):
        for each in type.get("fields") or ():
            yield (*path, each["name"]), each
            yield from fields(each.get("type"), (*path, each["name"]))
    for step, child in children(type):
        yield from fields(child, (*path, step))


def map_fields(type: Any, change: Callable[[Path, Node], Node | None], path: Path = ()) -> Any:
    """The type with every field replaced by what `change` makes of it; None drops the field.

    Inner fields are changed first, so `change` sees the new inner types. The path holds the old names.

    Example:
        >>> schema = parse('{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}')
        >>> map_fields(schema, lambda path, field: {**field, "name": "b"})["fields"][0]["name"]
        'b'
    """
    if is_struct(type):
        changed = []
        for each in type["fields"]:
            here = (*path, each["name"])
            new = change(here, {**each, "type": map_fields(each["type"], change, here)})
            if new is not None:
                changed.append(dict(new))
        return {**type, "fields": changed}
    if isinstance(type, Mapping):
        steps = {key: step for key, step in _INNER if key in type}
        return {
            key: map_fields(value, change, (*path, steps[key])) if key in steps else value
            for key, value in type.items()
        }
    return type


def same_path(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether two paths name the same field.

    Example:
        >>> same_path(("Address", "city"), ("address", "CITY"))
        True
    """
    return len(left) == len(right) and all(one.lower() == other.lower() for one, other in zip(left, right, strict=True))


def find(schema: Node, path: Sequence[str]) -> tuple[Path, Node]:
    """The field at a path, and the path as the schema spells it.

    Raises:
        InputError: There is no such field (`COLUMN_NOT_FOUND`).
    """
    for here, each in fields(schema):
        if same_path(here, path):
            return here, each
    raise InputError(
        f"there is no column {'.'.join(path)!r}",
        condition="COLUMN_NOT_FOUND",
        sides={"asked for": ".".join(path), "table has": ", ".join(each["name"] for each in schema["fields"])},
        next_step="Use one of the table's columns.",
    )


def with_annotation(field: Node, key: str, value: Any) -> dict[str, Any]:
    """The field with one entry of its metadata set, or taken out if the value is None."""
    metadata = {name: each for name, each in (field.get("metadata") or {}).items() if name != key}
    if value is not None:
        metadata[key] = value
    return {**field, "metadata": metadata}


def decimal_of(type: JsonType) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other."""
    return types.decimal_of(types.Primitive(type)) if isinstance(type, str) else None
