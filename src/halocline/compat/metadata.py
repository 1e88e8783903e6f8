"""What a table's metadata says, as far as features depend on it.

A feature is *supported* when the protocol names or implies it and *enabled* when the metadata also switches it on: a
property is set, a column carries an annotation, or a column has a certain type. `TableMetadata` answers those three
kinds of question. It holds the schema as the parsed JSON of the log and never interprets a value; statistics,
defaults and everything else that metadata can hold is left to the formats.

Properties are compared by their exact stored key. Field annotations are found at every nesting level, also inside
the elements of arrays and the keys and values of maps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from halocline.errors import MalformedError

_DEEPEST = 200


@dataclass(frozen=True)
class TableMetadata:
    """The properties, the schema and the partition columns of one table.

    Args:
        configuration: Stored properties, key to text.
        schema: The parsed schema, a JSON object of type `struct`; None for a format or a table without one.
        partition_columns: Names of the partition columns, in order.

    Example:
        >>> metadata = TableMetadata({"delta.appendOnly": "true"})
        >>> metadata.configuration["delta.appendOnly"], metadata.column_types
        ('true', frozenset())
    """

    configuration: Mapping[str, str] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    partition_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "configuration", MappingProxyType(dict(self.configuration)))
        object.__setattr__(self, "partition_columns", tuple(self.partition_columns))
        for key, value in self.configuration.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise MalformedError(
                    f"property {key!r} is {value!r}, and both must be text",
                    condition="MALFORMED_METADATA",
                    sides={"expected": "text", "found": type(value).__name__},
                )

    def __reduce__(self) -> tuple[object, ...]:
        return TableMetadata, (dict(self.configuration), self.schema, self.partition_columns)

    @staticmethod
    def from_action(action: Mapping[str, Any]) -> TableMetadata:
        """Reads the body of a `metaData` action.

        Example:
            >>> TableMetadata.from_action({"schemaString": '{"type": "struct", "fields": []}'}).schema
            {'type': 'struct', 'fields': []}
        """
        text = action.get("schemaString")
        return TableMetadata(
            action.get("configuration") or {},
            None if text is None else _parsed_schema(text),
            tuple(action.get("partitionColumns") or ()),
        )

    def with_configuration(self, configuration: Mapping[str, str]) -> TableMetadata:
        """The same schema under other properties."""
        return TableMetadata(configuration, self.schema, self.partition_columns)

    def without_annotations(self, keys: frozenset[str]) -> TableMetadata:
        """The same metadata, with these keys taken out of every field's metadata.

        Example:
            >>> field = {"name": "a", "type": "long", "metadata": {"x": 1, "y": 2}}
            >>> metadata = TableMetadata({}, {"type": "struct", "fields": [field]})
            >>> metadata.without_annotations(frozenset({"x"})).field_annotations
            frozenset({'y'})
        """
        if not keys & self.field_annotations:
            return self
        return TableMetadata(self.configuration, _without_annotations(self.schema, keys), self.partition_columns)

    def fields(self) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
        """Every field with its path, at every nesting level, outer ones first.

        Inside arrays and maps the path has the steps `element`, `key` and `value`.
        """
        if self.schema is not None:
            yield from _fields(self.schema, (), 0)

    @cached_property
    def column_types(self) -> frozenset[str]:
        """The names of all primitive types in the schema, without parameters: `decimal(10,2)` gives `decimal`."""
        return frozenset() if self.schema is None else frozenset(_type_names(self.schema, 0))

    @cached_property
    def field_annotations(self) -> frozenset[str]:
        """The keys of all field metadata in the schema."""
        return frozenset(key for _, each in self.fields() for key in each.get("metadata") or ())


def _parsed_schema(text: Any) -> Mapping[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise _malformed_schema(f"the schema is not JSON: {error}", str(text)[:80]) from None
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        raise _malformed_schema("the schema is not a struct", str(text)[:80])
    return schema


def _malformed_schema(message: str, found: str) -> MalformedError:
    return MalformedError(
        message,
        condition="MALFORMED_METADATA",
        sides={"expected": '{"type": "struct", "fields": [...]}', "found": found},
    )


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    """The types one level below an array or a map."""
    if isinstance(node, Mapping):
        for key, step in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
            if key in node:
                yield step, node[key]


def _struct_fields(node: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    fields = node.get("fields")
    if depth > _DEEPEST:
        raise _malformed_schema(f"the schema is nested more than {_DEEPEST} levels deep", str(node)[:80])
    if not isinstance(fields, list) or not all(isinstance(each, Mapping) and "name" in each for each in fields):
        raise _malformed_schema("a struct in the schema has no list of named fields", str(node)[:80])
    return fields


def _fields(node: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if isinstance(node, Mapping) and node.get("type") == "struct":
        for each in _struct_fields(node, depth):
            here = (*path, each["name"])
            yield here, each
            yield from _fields(each.get("type"), here, depth + 1)
    for step, child in _children(node):
        yield from _fields(child, (*path, step), depth + 1)


def _without_annotations(node: Any, keys: frozenset[str]) -> Any:
    if isinstance(node, list):
        return [_without_annotations(each, keys) for each in node]
    if not isinstance(node, Mapping):
        return node
    return {
        key: {name: each for name, each in value.items() if name not in keys}
        if key == "metadata" and isinstance(value, Mapping)
        else _without_annotations(value, keys)
        for key, value in node.items()
    }


def _type_names(node: Any, depth: int) -> Iterator[str]:
    if isinstance(node, str):
        yield node.partition("(")[0].strip()
    elif isinstance(node, Mapping) and node.get("type") == "struct":
        for each in _struct_fields(node, depth):
            yield from _type_names(each.get("type"), depth + 1)
    for _, child in _children(node):
        yield from _type_names(child, depth + 1)
