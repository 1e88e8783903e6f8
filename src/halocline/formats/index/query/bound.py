"""A query whose leaves know their fields: what is sent to wherever splits are searched.

Values have the types that the index has: whole numbers for integers, booleans, dates, timestamps and decimals, doubles,
text. A field with the number -1 is a partition column; it is not in the split, and its value decides the leaf for all
rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from halocline.formats.index.split.fields import IndexField

Value: TypeAlias = int | float | str
PARTITION: int = -1
"""The number of a field that is a partition column."""


@dataclass(frozen=True, slots=True)
class Among:
    """The column has one of these values."""

    field: IndexField
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """The column has a value between two others; None leaves an end open."""

    field: IndexField
    low: Value | None = None
    high: Value | None = None
    includes_low: bool = True
    includes_high: bool = True


@dataclass(frozen=True, slots=True)
class InRow:
    """The column has these words in a row.

    Attributes:
        field: The field.
        words: The words, as the analyzer makes them.
        slop: How many others may stand in between.
        goes_on: Whether the last word may go on.
        path: Where inside JSON.
        typed: Inside JSON: numbers and booleans that the text may also mean.
    """

    field: IndexField
    words: tuple[str, ...]
    slop: int = 0
    goes_on: bool = False
    path: tuple[str, ...] = ()
    typed: tuple[int | float | bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Like:
    """The column has a term that fits a regular expression."""

    field: IndexField
    expression: str


@dataclass(frozen=True, slots=True)
class Near:
    """The column has a term that differs in few letters."""

    field: IndexField
    word: str
    distance: int
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HasValue:
    """The column has a value."""

    field: IndexField


@dataclass(frozen=True, slots=True)
class EveryRow:
    """Every row."""


@dataclass(frozen=True, slots=True)
class Both:
    """Rows that all parts find."""

    parts: tuple[BoundQuery, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Rows that some part finds; none if there is no part."""

    parts: tuple[BoundQuery, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Rows that the part does not find."""

    part: BoundQuery


BoundLeaf: TypeAlias = Among | Between | InRow | Like | Near | HasValue
BoundQuery: TypeAlias = BoundLeaf | EveryRow | Both | Either | Without
