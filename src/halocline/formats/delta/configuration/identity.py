"""Identity columns: numbers that the table gives out, and how far it has come.

An *identity column* carries `delta.identity.start`, `.step` and `.allowExplicitInsert` in its field metadata, and
after the first generated value a *high-water mark*, the value furthest from the start so far. Every commit that
generates values moves the mark, which is a change of the table's metadata. A mark never moves back: a gap in the
numbers is allowed, the same number twice is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.configuration import schema_edit
from halocline.formats.delta.configuration.schema_edit import Node, Path

START: Final = "delta.identity.start"
STEP: Final = "delta.identity.step"
MARK: Final = "delta.identity.highWaterMark"
EXPLICIT: Final = "delta.identity.allowExplicitInsert"
ONLY_MARKS_TAG: Final = "delta.identity.schemaUpdate"
"""The tag in a commit's provenance that says its metadata only moved high-water marks."""


@dataclass(frozen=True, slots=True)
class IdentityColumn:
    """One identity column.

    Attributes:
        name: Its name; identity columns stand at the top of the schema.
        start: The first value.
        step: The distance between values, never 0.
        mark: The value furthest from the start so far; None before the first.
        allows_explicit: Whether a writer may bring values of its own.
    """

    name: str
    start: int
    step: int
    mark: int | None
    allows_explicit: bool

    @property
    def next_value(self) -> int:
        """The first value that is free.

        Example:
            >>> IdentityColumn("id", 1, 2, 7, False).next_value
            9
        """
        return self.start if self.mark is None else self.mark + self.step

    def furthest(self, *values: int | None) -> int | None:
        """The value furthest from the start, the present mark included."""
        known = [value for value in (self.mark, *values) if value is not None]
        return (max(known) if self.step > 0 else min(known)) if known else None


def identity_columns(schema: Node) -> tuple[IdentityColumn, ...]:
    """The identity columns of a schema, in its order."""
    found = []
    for each in schema["fields"]:
        metadata = each.get("metadata") or {}
        if START in metadata and STEP in metadata:
            mark = metadata.get(MARK)
            found.append(
                IdentityColumn(
                    each["name"],
                    int(metadata[START]),
                    int(metadata[STEP]),
                    None if mark is None else int(mark),
                    _is_true(metadata.get(EXPLICIT)),
                )
            )
    return tuple(found)


def with_marks(metadata: Metadata, marks: Mapping[str, int]) -> Metadata:
    """The metadata with high-water marks moved out to these values; a value behind the mark changes nothing.

    Raises:
        InputError: A name is no identity column, or a value is not one that the column could have generated.
    """
    schema = schema_edit.parse(metadata.schema_string)
    columns = {column.name.lower(): column for column in identity_columns(schema)}
    targets: dict[str, int | None] = {}
    for name, value in marks.items():
        column = columns.get(name.lower())
        if column is None or (value - column.start) % column.step:
            raise InputError(
                f"{value} cannot be the high-water mark of column {name}",
                condition="COMMIT_INVALID",
                sides={
                    "given": f"{name}={value}",
                    "table": "no identity column" if column is None else f"from {column.start} by {column.step}",
                },
            )
        targets[column.name.lower()] = column.furthest(value)
    return _with_schema(metadata, schema, targets)


def with_furthest_marks(metadata: Metadata, other: Metadata) -> Metadata:
    """The metadata with each mark as far as the same column's in the other one. For going back to an old version."""
    schema = schema_edit.parse(metadata.schema_string)
    others = {column.name.lower(): column for column in identity_columns(schema_edit.parse(other.schema_string))}
    targets = {
        column.name.lower(): column.furthest(others[column.name.lower()].mark)
        for column in identity_columns(schema)
        if column.name.lower() in others
    }
    return _with_schema(metadata, schema, targets)


def only_marks_moved(before: Metadata, after: Metadata) -> bool:
    """Whether two metadata differ in nothing but high-water marks."""
    if replace(before, schema_string="") != replace(after, schema_string=""):
        return False
    return bool(_without_marks(before) == _without_marks(after))


def _without_marks(metadata: Metadata) -> Any:
    schema = schema_edit.parse(metadata.schema_string)
    return schema_edit.map_fields(schema, lambda _, each: schema_edit.with_annotation(each, MARK, None))


def _with_schema(metadata: Metadata, schema: Node, marks: Mapping[str, int | None]) -> Metadata:
    def moved(path: Path, each: Node) -> Node:
        mark = marks.get(path[0].lower()) if len(path) == 1 else None
        return each if mark is None else schema_edit.with_annotation(each, MARK, mark)

    return replace(metadata, schema_string=schema_edit.dump(schema_edit.map_fields(schema, moved)))


def _is_true(value: object) -> bool:
    return value is True or str(value).lower() == "true"
