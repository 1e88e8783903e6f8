"""Schemas as JSON, the form in which Delta's log and Spark spell them.

What is read comes out again as it was: keys in their order, keys that this release does not know, types by their
spelling. The text itself may differ in blanks only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

from halocline.errors import MalformedError
from halocline.schema.frozen import DEEPEST, EMPTY, FrozenMapping
from halocline.schema.types import Array, DataType, Field, Map, Opaque, Path, Primitive, Struct
from halocline.schema.visitor import map_types

_FIELD: Final = Field("", Primitive("void")).order
_STRUCT: Final = Struct().order
_ARRAY: Final = Array(Primitive("void")).order
_MAP: Final = Map(Primitive("void"), Primitive("void")).order
_ENOUGH: Final = 80
_NO_COLUMNS: Final = Struct()


@lru_cache(maxsize=16)
def parse(text: str) -> Struct:
    """The schema in a text; empty text is a table without columns. The same text gives the same object."""
    if not text:
        return _NO_COLUMNS
    try:
        content = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise malformed(f"the schema is not JSON: {str(error)[:_ENOUGH]}", text) from None
    if not isinstance(content, dict) or content.get("type") != "struct":
        raise malformed("the schema is not a struct", text)
    return struct_from_json(content)


def dump(type: DataType) -> str:
    """The text to store, without blanks, as Delta writes it."""
    return json.dumps(to_json(type), separators=(",", ":"), ensure_ascii=False)


def struct_from_json(content: Mapping[str, Any]) -> Struct:
    """The struct that a JSON object stands for."""
    return _struct(content, 1)


def field_from_json(content: Mapping[str, Any]) -> Field:
    """The field that a JSON object stands for."""
    return struct_from_json({"fields": [content]}).fields[0]


def type_from_json(content: Any) -> DataType:
    """The type that a JSON value stands for."""
    return _type(content, "", 1)


def to_json(type: DataType) -> Any:
    """The JSON value that stands for a type."""
    match type:
        case Primitive():
            return type.text
        case Struct():
            return _ordered(type, {"type": "struct", "fields": [_field_to_json(each) for each in type.fields]})
        case Array():
            said = {"type": "array", "elementType": to_json(type.element), "containsNull": type.contains_null}
            return _ordered(type, said)
        case Map():
            said = {"type": "map", "keyType": to_json(type.key), "valueType": to_json(type.value)}
            return _ordered(type, said | {"valueContainsNull": type.value_contains_null})
        case Opaque():
            return thawed(type.content)


def in_delta_order(schema: Struct) -> Struct:
    """The schema as if Delta had written its JSON: keys in Delta's order, and none that Delta does not know.

    Example:
        >>> content = {"fields": [{"type": "long", "name": "id"}], "type": "struct"}
        >>> dump(in_delta_order(struct_from_json(content)))
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    """

    def ordered(_: Path, type: DataType) -> DataType:
        match type:
            case Struct():
                return Struct([Field(each.name, each.type, each.nullable, each.metadata) for each in type.fields])
            case Array():
                return Array(type.element, type.contains_null)
            case Map():
                return Map(type.key, type.value, type.value_contains_null)
        return type

    return cast(Struct, map_types(schema, ordered))


def malformed(message: str, found: object) -> MalformedError:
    """The error for a schema that cannot be read."""
    return MalformedError(
        message,
        condition="MALFORMED_METADATA",
        sides={"expected": '{"type": "struct", "fields": [...]}', "found": str(found)[:_ENOUGH]},
        next_step="Restore the metadata by reading an earlier version of the table.",
    )


def _type(content: Any, name: str, depth: int) -> DataType:
    if isinstance(content, str):
        return Primitive(content)
    if depth > DEEPEST or not isinstance(content, Mapping) or not isinstance(content.get("type"), str):
        raise malformed(f"the type of column {name} is not a type, or is nested too deeply", content)
    match content["type"]:
        case "struct":
            return _struct(content, depth, name)
        case "array" if "elementType" in content:
            element = _type(content["elementType"], name, depth + 1)
            return Array(element, _flag(content, "containsNull", name), *_rest(content, _ARRAY))
        case "map" if "keyType" in content and "valueType" in content:
            key, value = (_type(content[part], name, depth + 1) for part in ("keyType", "valueType"))
            return Map(key, value, _flag(content, "valueContainsNull", name), *_rest(content, _MAP))
        case "array" | "map":
            raise malformed(f"the type of column {name} is not a type", content)
    return Opaque(content)


def _struct(content: Mapping[str, Any], depth: int, parent: str = "") -> Struct:
    listed = content.get("fields")
    if not isinstance(listed, list | tuple):
        raise malformed("a struct in the schema has no list of fields", content)
    fields = []
    for each in listed:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str) or "type" not in each:
            raise malformed("a field in the schema has no name or no type", each)
        name, metadata = each["name"], each.get("metadata") or EMPTY
        here = f"{parent}.{name}" if parent else name
        if not isinstance(metadata, Mapping):
            raise malformed(f"the metadata of column {name!r} is not an object", metadata)
        type = _type(each["type"], here, depth + 1)
        fields.append(Field(name, type, _flag(each, "nullable", here), metadata, *_rest(each, _FIELD)))
    return Struct(fields, *_rest(content, _STRUCT))


def _flag(content: Mapping[str, Any], key: str, name: str) -> bool:
    value = content.get(key)
    if value is not None and not isinstance(value, bool):
        raise malformed(f"{key} of column {name} is neither true nor false", value)
    return value is not False


def _rest(content: Mapping[str, Any], known: tuple[str, ...]) -> tuple[FrozenMapping, tuple[str, ...]]:
    """What an object says besides the known keys, and the order of its keys; a null says as little as no key."""
    order = tuple(content)
    if order == known and None not in content.values():
        return EMPTY, known
    extra = {key: value for key, value in content.items() if key not in known}
    return FrozenMapping(extra), tuple(key for key in order if key in extra or content[key] is not None)


def _field_to_json(field: Field) -> dict[str, Any]:
    said = {"name": field.name, "type": to_json(field.type), "nullable": field.nullable}
    return _ordered(field, said | {"metadata": thawed(field.metadata)})


def _ordered(owner: Field | Struct | Array | Map, said: dict[str, Any]) -> dict[str, Any]:
    if not owner.extra and owner.order == tuple(said):
        return said
    everything = said | thawed(owner.extra)
    # A key that the JSON left out says what is the default, and is left out again while that holds.
    late = [key for key in everything if key not in owner.order and everything[key] not in (True, {})]
    return {key: everything[key] for key in (*owner.order, *late) if key in everything}


def thawed(value: Any) -> Any:
    """A value of metadata as JSON has it, free to be changed."""
    if isinstance(value, Mapping):
        return {key: thawed(each) for key, each in value.items()}
    return [thawed(each) for each in value] if isinstance(value, tuple) else value
