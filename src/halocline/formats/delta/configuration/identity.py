"""Identity columns: numbers that the table gives out, and how far it has come.

An *identity column* carries `delta.identity.start`, `.step` and `.allowExplicitInsert` in its field metadata, and
after the first generated value a *high-water mark*, the value furthest from the start so far. Every commit that
generates values moves the mark, which is a change of the table's metadata. A mark never moves back: a gap in the
numbers is allowed, the same number twice is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Metadata
from halocline.schema.types import Field, Path, Struct
from halocline.schema.visitor import map_fields

_START: Final = "delta.identity.start"
_STEP: Final = "delta.identity.step"
_MARK: Final = "delta.identity.highWaterMark"
_EXPLICIT: Final = "delta.identity.allowExplicitInsert"
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
        """The first value that is free."""
        return self.start if self.mark is None else self.mark + self.step

    def mark_for(self, value: int) -> dict[str, int]:
        """The mark that is not behind a value, by the column's name; none if the value is before the start.

        Example:
            >>> [IdentityColumn("id", 1, 10, None, True).mark_for(value) for value in (12, 0)]
            [{'id': 21}, {}]
        """
        if (value - self.start) * self.step < 0:
            return {}
        return {self.name: self.start - ((self.start - value) // self.step) * self.step}

    def furthest(self, *values: int | None) -> int | None:
        """The value furthest from the start, the present mark included."""
        known = [value for value in (self.mark, *values) if value is not None]
        return (max(known) if self.step > 0 else min(known)) if known else None


def identity_columns(schema: Struct) -> tuple[IdentityColumn, ...]:
    """The identity columns of a schema, in its order."""
    return tuple(found for each in schema.fields if (found := identity_of(each)) is not None)


def identity_of(field: Field) -> IdentityColumn | None:
    """The identity column that a field is; None if it is none."""
    notes = field.metadata
    if _START not in notes or _STEP not in notes:
        return None
    mark = notes.get(_MARK)
    return IdentityColumn(
        field.name,
        int(notes[_START]),
        int(notes[_STEP]),
        None if mark is None else int(mark),
        str(notes.get(_EXPLICIT)).lower() == "true",
    )


def unmarked(field: Field) -> Field:
    """The field as one that has given out nothing yet."""
    return field.without([_MARK])


def with_identity(field: Field, start: int, step: int, *, allows_explicit: bool) -> Field:
    """The field as an identity column that has given out nothing yet.

    Example:
        >>> from halocline.schema.types import Primitive
        >>> identity_of(with_identity(Field("id", Primitive("long")), 1, 2, allows_explicit=False)).next_value
        1
    """
    notes = {_START: start, _STEP: step, _EXPLICIT: allows_explicit}
    return replace(field, metadata={**field.metadata, **notes})


def with_marks(metadata: Metadata, marks: Mapping[str, int]) -> Metadata:
    """The metadata with high-water marks moved out to these values; a value behind the mark changes nothing."""
    columns = {column.name.lower(): column for column in identity_columns(metadata.schema)}
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
    return _with_marks(metadata, targets)


def with_furthest_marks(metadata: Metadata, other: Metadata) -> Metadata:
    """The metadata with each mark as far as the same column's in the other one. For going back to an old version."""
    others = {column.name.lower(): column for column in identity_columns(other.schema)}
    targets = {
        column.name.lower(): column.furthest(others[column.name.lower()].mark)
        for column in identity_columns(metadata.schema)
        if column.name.lower() in others
    }
    return _with_marks(metadata, targets)


def only_marks_moved(before: Metadata, after: Metadata) -> bool:
    """Whether two metadata differ in nothing but high-water marks."""
    if replace(before, schema_string="") != replace(after, schema_string=""):
        return False
    return _without_marks(before.schema) == _without_marks(after.schema)


def _without_marks(schema: Struct) -> Struct:
    return map_fields(schema, lambda _, field: unmarked(field))


def _with_marks(metadata: Metadata, marks: Mapping[str, int | None]) -> Metadata:
    def moved(path: Path, field: Field) -> Field:
        mark = marks.get(path[0].lower()) if len(path) == 1 else None
        return field if mark is None else field.annotated(_MARK, mark)

    return metadata.with_schema(map_fields(metadata.schema, moved))
