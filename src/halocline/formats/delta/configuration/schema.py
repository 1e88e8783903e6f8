"""The schema of a Delta table, for those who read it.

A *column* is one field of a struct, at any depth. It has a *logical* path, the names people use, and a *physical* one,
the names in data files, statistics and partition values. The two differ under column mapping only, and only fields of
structs are renamed. Inside arrays and maps the steps are `element`, `key` and `value`, the same in both.

Names are found without regard to case, as engines do. A schema that parses is one that can be read: types are known,
names are unique, mapped columns have their physical names, and every recorded change of type is one that readers
must understand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from halocline.errors import InputError, MalformedError, UnsupportedError
from halocline.formats.delta.configuration.type_changes import check_type_changes

JsonType: TypeAlias = str | Mapping[str, Any]
"""A type as the log spells it: a name, or an object for struct, array and map."""

PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
FIELD_ID: Final = "delta.columnMapping.id"
MAPPING_MODE: Final = "delta.columnMapping.mode"

_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_PRIMITIVES: Final = frozenset({*_NUMBERS, *_TIMES, "string", "binary", "boolean", "variant", "void", "null"})
_DECIMAL: Final = re.compile(r"decimal(?:\(\s*(\d+)\s*,\s*(-?\d+)\s*\))?", re.ASCII)
_CONTAINERS: Final = {"array": ("elementType",), "map": ("keyType", "valueType")}
_STEPS: Final = {"elementType": "element", "keyType": "key", "valueType": "value"}
_DEEPEST: Final = 200
_ENOUGH: Final = 80


@dataclass(frozen=True, slots=True)
class Column:
    """One field of the schema.

    Attributes:
        path: The logical names from the top.
        physical: The names in files and statistics.
        type: The type as the log spells it.
        nullable: Whether nulls are allowed.
        metadata: Annotations of the field.
    """

    path: tuple[str, ...]
    physical: tuple[str, ...]
    type: JsonType
    nullable: bool
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The logical path as one text, for messages."""
        return ".".join(self.path)

    @property
    def field_id(self) -> int | None:
        """The id that data files carry under column mapping."""
        value = self.metadata.get(FIELD_ID)
        return value if isinstance(value, int) else None

    @property
    def children(self) -> Iterator[tuple[str, JsonType]]:
        """The types inside an array or a map, with their step."""
        return _inner(self.type)


class Schema:
    """A schema that can be read. Made by `Schema.parse`.

    Example:
        >>> schema = Schema.parse('{"type": "struct", "fields": [{"name": "Id", "type": "long"}]}')
        >>> schema.find("id").type
        'long'
    """

    def __init__(self, content: Mapping[str, Any], mode: str) -> None:
        self.json: Final[Mapping[str, Any]] = content
        self.mode: Final = mode
        self.columns: Final[tuple[Column, ...]] = tuple(_columns(content, (), (), mode, 0))

    @staticmethod
    def parse(text: str, configuration: Mapping[str, str] | None = None) -> Schema:
        """Reads the schema of a `metaData` action; empty text is a table without columns.

        Args:
            text: The JSON text.
            configuration: The table's properties, which say how columns are mapped.

        Raises:
            MalformedError: It is not a schema, or contradicts itself.
            UnsupportedError: A column has a type, or had a change of type, that this release does not know.
        """
        if not text:
            return Schema({"type": "struct", "fields": []}, "none")
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _malformed(f"the schema is not JSON: {str(error)[:_ENOUGH]}", text) from None
        if not isinstance(content, dict) or content.get("type") != "struct":
            raise _malformed("the schema is not a struct", text)
        mode = (configuration or {}).get(MAPPING_MODE, "none").strip().lower()
        if mode not in ("none", "name", "id"):
            raise _malformed(f"{MAPPING_MODE} is {mode!r}, expected none, name or id", mode)
        schema = Schema(content, mode)
        for column in schema.walk():
            check_type_changes(column.name, column.metadata)
        return schema

    @cached_property
    def _by_path(self) -> dict[tuple[str, ...], Column]:
        return {tuple(step.lower() for step in column.path): column for column in self.walk()}

    def walk(self) -> Iterator[Column]:
        """Every field at every depth, outer ones first."""
        pending = list(reversed(self.columns))
        while pending:
            column = pending.pop()
            yield column
            pending += reversed(list(_below(column, self.mode)))

    def find(self, *path: str) -> Column:
        """The column of that logical path, whatever the case of its letters.

        Raises:
            InputError: There is no such column (`COLUMN_NOT_FOUND`); the message names those there are.
        """
        found = self._by_path.get(tuple(step.lower() for step in path))
        if found is not None:
            return found
        names = [column.name for column in self.columns]
        raise InputError(
            f"there is no column {'.'.join(path)!r}",
            condition="COLUMN_NOT_FOUND",
            sides={"asked for": ".".join(path), "table has": _listed(names)},
            next_step="Use one of the table's columns.",
        )

    def partition_columns(self, names: Sequence[str]) -> tuple[Column, ...]:
        """The columns by which the table is partitioned, in order.

        Raises:
            MalformedError: The schema has no such column.
        """
        found = []
        for name in names:
            column = self._by_path.get((name.lower(),))
            if column is None:
                raise _malformed(
                    f"partition column {name!r} is not in the schema", _listed([c.name for c in self.columns])
                )
            found.append(column)
        return tuple(found)


def decimal_of(type: JsonType) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other.

    Example:
        >>> decimal_of("decimal(10,2)"), decimal_of("long")
        ((10, 2), None)
    """
    found = _DECIMAL.fullmatch(type) if isinstance(type, str) else None
    if found is None:
        return None
    return (int(found[1]), int(found[2])) if found[1] else (10, 0)


def _columns(
    struct: Mapping[str, Any], path: tuple[str, ...], physical: tuple[str, ...], mode: str, depth: int
) -> Iterator[Column]:
    fields = struct.get("fields")
    if not isinstance(fields, list):
        raise _malformed("a struct in the schema has no list of fields", str(struct))
    seen: set[str] = set()
    for field in fields:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise _malformed("a field in the schema has no name or no type", str(field))
        name, metadata = field["name"], field.get("metadata") or {}
        if name.lower() in seen:
            raise _malformed(f"the schema has two columns {name!r}", ".".join((*path, name)))
        seen.add(name.lower())
        if not isinstance(metadata, dict):
            raise _malformed(f"the metadata of column {name!r} is not an object", str(metadata))
        _check_type(field["type"], ".".join((*path, name)), depth)
        yield Column(
            path=(*path, name),
            physical=(*physical, _physical_name(name, metadata, mode)),
            type=field["type"],
            nullable=field.get("nullable") is not False,
            metadata=metadata,
        )


def _below(column: Column, mode: str) -> Iterator[Column]:
    pending: list[tuple[JsonType, tuple[str, ...], tuple[str, ...]]] = [(column.type, column.path, column.physical)]
    while pending:
        type, path, physical = pending.pop()
        if isinstance(type, Mapping) and type.get("type") == "struct":
            yield from _columns(type, path, physical, mode, len(path))
        pending += [(inner, (*path, step), (*physical, step)) for step, inner in _inner(type)]


def _physical_name(name: str, metadata: Mapping[str, Any], mode: str) -> str:
    if mode == "none":
        return name
    physical = metadata.get(PHYSICAL_NAME)
    if not isinstance(physical, str) or not isinstance(metadata.get(FIELD_ID), int):
        raise _malformed(f"columns are mapped, but {name!r} has no physical name or no id", str(metadata))
    return physical


def _inner(type: JsonType) -> Iterator[tuple[str, JsonType]]:
    if isinstance(type, Mapping):
        for key in _CONTAINERS.get(type.get("type", ""), ()):
            yield _STEPS[key], type[key]


def _check_type(type: Any, name: str, depth: int) -> None:
    """Goes through arrays and maps down to the next struct, whose fields are checked when they are walked."""
    for _ in range(_DEEPEST - depth):
        if isinstance(type, str):
            if type not in _PRIMITIVES and decimal_of(type) is None:
                raise UnsupportedError(
                    f"column {name} has type {type!r}, which this release does not read",
                    sides={"column": f"{name} {type}", "known": "Delta's primitive types, struct, array and map"},
                    next_step="Upgrade Halocline, or leave the column out of the table.",
                )
            return
        if not isinstance(type, dict) or not isinstance(type.get("type"), str):
            break
        if type["type"] == "struct":
            return
        keys = _CONTAINERS.get(type["type"])
        if keys is None or any(key not in type for key in keys):
            break
        if "keyType" in type:
            _check_type(type["keyType"], f"{name}.key", depth + 1)
        type = type[keys[-1]]
        depth += 1
    raise _malformed(f"the type of column {name} is not a type, or is nested too deeply", str(type))


def _listed(names: Sequence[str]) -> str:
    return (
        ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") if names else "no columns"
    )


def _malformed(message: str, found: str) -> MalformedError:
    return MalformedError(
        message,
        condition="MALFORMED_METADATA",
        sides={"expected": '{"type": "struct", "fields": [...]}', "found": found[:_ENOUGH]},
        next_step="Restore the metadata by reading an earlier version of the table.",
    )
