"""Values and messages that have the same fields, one made from the other by the names of the fields.

A message of the wire and the value that it carries differ in nothing but their classes wherever nothing needs checking:
answers, which a client takes from a coordinator it trusts, and requests on their way out. What arrives at a coordinator
from outside is checked field by field in `halocline.fleet.wire.messages` instead. Features are a list of names and
levels on the wire, and a mapping or, where all have the same level, a set of names in values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message

_M = TypeVar("_M", bound=Message)
_V = TypeVar("_V")


def to_message(value: object, kind: type[_M]) -> _M:
    """The message with the fields of the value that it has; `until_ms` is found as `until` as well."""
    return kind(**_fields(value, kind.DESCRIPTOR))


def _fields(value: object, descriptor: Any) -> dict[str, Any]:
    return {field.name: _encoded(_part(value, field.name), field) for field in descriptor.fields}


def _part(value: object, name: str) -> Any:
    return getattr(value, name, getattr(value, name.removesuffix("_ms"), None))


def _encoded(part: Any, field: Any) -> Any:
    nested = field.message_type
    if part is None or nested is None:
        return sorted(part) if isinstance(part, frozenset) else part
    if nested.GetOptions().map_entry:
        inner = nested.fields_by_name["value"]
        return {key: _encoded(each, inner) for key, each in part.items()}
    if isinstance(part, Mapping):
        return [{"name": name, "level": level} for name, level in sorted(part.items())]
    if isinstance(part, Iterable):
        listed = sorted(part) if isinstance(part, frozenset) else part
        return [{"name": each, "level": 1} if isinstance(each, str) else _fields(each, nested) for each in listed]
    return _fields(part, nested)


def from_message(message: Message, kind: type[_V]) -> _V:
    """The value that a message carries."""
    return msgspec.convert(_decoded(message), kind)


def _decoded(message: Message) -> dict[str, Any]:
    return {field.name: _part_of(message, field) for field in message.DESCRIPTOR.fields}


def _part_of(message: Message, field: Any) -> Any:
    part, nested = getattr(message, field.name), field.message_type
    if nested is None:
        return list(part) if isinstance(part, MutableSequence) else part
    if nested.GetOptions().map_entry:
        deep = nested.fields_by_name["value"].message_type is not None
        return {key: _decoded(each) if deep else each for key, each in part.items()}
    if isinstance(part, MutableSequence):
        return [_decoded(each) for each in part]
    return _decoded(part) if message.HasField(field.name) else None
