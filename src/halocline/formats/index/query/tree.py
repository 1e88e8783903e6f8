"""What a query says, before anybody has asked which columns there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or the text of a phrase.

    Attributes:
        text: What is looked for.
        column: Where; None for every column that is searched.
        quoted: Whether it stood in quotes.
        slop: How many other words may stand in between.
        goes_on: Whether the last word may go on.
    """

    text: str
    column: str | None = None
    quoted: bool = False
    slop: int = 0
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word with wildcards: pieces in their order, each with whether it is a wildcard, `*` or `?`."""

    pieces: tuple[tuple[str, bool], ...]
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """A word that may differ in some letters."""

    text: str
    distance: int
    column: str | None = None


@dataclass(frozen=True, slots=True)
class RangeOf:
    """Values between two others; None leaves an end open."""

    low: str | None
    high: str | None
    includes_low: bool
    includes_high: bool
    column: str | None = None


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several values."""

    values: tuple[str, ...]
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Present:
    """A column has a value."""

    column: str


@dataclass(frozen=True, slots=True)
class Everything:
    """Every row."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """Rows that all parts find."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class SomeOf:
    """Rows that some part finds."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """Rows that the part does not find."""

    part: Tree


Leaf: TypeAlias = Word | Pattern | Fuzzy | RangeOf | OneOf | Present | Everything
Tree: TypeAlias = Leaf | AllOf | SomeOf | NoneOf
