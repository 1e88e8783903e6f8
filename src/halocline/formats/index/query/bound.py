"""A query whose leaves know their fields: what is sent to wherever splits are searched.

Values have the types that the index has: whole numbers for integers, booleans, dates, timestamps and decimals, doubles,
text. A field with the number -1 is a partition column; it is not in the split, and its value decides the leaf for all
rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
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
        typed: Inside JSON: the boolean that the text may also mean.
    """

    field: IndexField
    words: tuple[str, ...]
    slop: int = 0
    goes_on: bool = False
    path: tuple[str, ...] = ()
    typed: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A place inside JSON has a number, which is another value in each type that may stand there.

    Attributes:
        field: The field.
        path: Where inside JSON.
        whole: What it is among whole numbers; None if no whole number is looked for.
        single: Among 32-bit floating-point numbers.
        double: Among doubles.
        decimal: Among decimals.
    """

    field: IndexField
    path: tuple[str, ...]
    whole: int | None = None
    single: float | None = None
    double: float | None = None
    decimal: Decimal | None = None

    @property
    def terms(self) -> tuple[int | float, ...] | None:
        """What an index has of the number, in any of its types; None if an index has nothing of it."""
        near = None if self.decimal is None else float(self.decimal)
        found = [each for each in (self.whole, self.single, self.double, near) if each is not None]
        return None if any(isinstance(each, float) and not isfinite(each) for each in found) else tuple(found)

    @property
    def is_told_by_index(self) -> bool:
        """Whether the rows that have its terms are those that have the number."""
        kinds = (self.whole, self.single, self.double, self.decimal)
        return self.decimal is None and sum(each is not None for each in kinds) == 1 and self.terms is not None


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


BoundLeaf: TypeAlias = Among | Between | InRow | JsonNumber | Like | Near | HasValue
BoundQuery: TypeAlias = BoundLeaf | EveryRow | Both | Either | Without
