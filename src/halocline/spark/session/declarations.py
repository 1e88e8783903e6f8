"""What a user can give by name, declared where its value is kept.

A *declaration* is a field of a dataclass that knows the name under which users give it, what values look like and what
it means. Names are told apart without regard to case, which Spark does not keep. One place then parses what was given,
refuses names that are not declared with the nearest one that is, and writes the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from halocline.errors import InputError

_SWITCH: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Declaration:
    """Something that a user can give by name.

    Attributes:
        name: The name.
        expected: What values look like.
        meaning: What it does.
        parse: Reads a value; raises `ValueError` or `KeyError` for one that does not fit.
        doors: Where it can be given, if that differs.
    """

    name: str
    expected: str
    meaning: str
    parse: Callable[[str], Any]
    doors: frozenset[str] = frozenset()


def declared(
    name: str, expected: str, meaning: str, parse: Callable[[str], Any], doors: Iterable[str] = (), default: Any = None
) -> Any:
    """A field that is declared."""
    told = Declaration(name, expected, meaning, parse, frozenset(doors))
    return field(default=default, metadata={"declaration": told})


def switch(name: str, meaning: str, doors: Iterable[str] = (), *, default: bool = False) -> Any:
    """Something that is on or off."""
    return declared(name, "true or false", meaning, lambda text: _SWITCH[text.lower()], doors, default)


def text(name: str, expected: str, meaning: str, doors: Iterable[str] = ()) -> Any:
    """A text; none if it is empty."""
    return declared(name, expected, meaning, lambda given: given or None, doors)


def number(
    name: str,
    meaning: str,
    doors: Iterable[str] = (),
    *,
    least: int = 0,
    default: int | None = None,
    expected: str = "a number",
) -> Any:
    """A whole number that is not below the least."""

    def parse(given: str) -> int:
        if int(given) < least:
            raise ValueError(given)
        return int(given)

    return declared(name, expected, meaning, parse, doors, default)


def time(name: str, meaning: str, doors: Iterable[str] = ()) -> Any:
    """A time, kept as text since its zone may be given elsewhere."""

    def parse(given: str) -> str:
        datetime.fromisoformat(given)
        return given

    return declared(name, "a time such as 2026-11-01 12:00:00", meaning, parse, doors)


def choice(name: str, choices: type[StrEnum], meaning: str, doors: Iterable[str] = ()) -> Any:
    """One of a few values, of which the first is the default."""
    return declared(name, ", ".join(choices), meaning, lambda given: choices(given.lower()), doors, next(iter(choices)))


def declarations(kind: type[Any]) -> dict[str, tuple[Declaration, Field[Any]]]:
    """What a dataclass declares, by name in lower case."""
    told = ((each.metadata.get("declaration"), each) for each in fields(kind))
    return {found.name.lower(): (found, each) for found, each in told if found is not None}


def parsed(kind: type[Any], given: Mapping[str, str], what: str = "") -> dict[str, Any]:
    """The values of a dataclass's fields, of what was given by name in lower case; other names are left alone."""
    values = {}
    for name, (told, each) in declarations(kind).items():
        if name in given:
            value = str(given[name]).strip()
            try:
                values[each.name] = told.parse(value)
            except (ValueError, KeyError):
                raise InputError(
                    f"{what}{told.name} cannot be {value!r}", sides={"expected": told.expected, "found": value}
                ) from None
    return values


def documented(told: Iterable[tuple[Declaration, Any]], heading: str) -> str:
    """Declarations in a table for the documentation."""
    rows = [f"| {heading} | values | default | meaning |", "|---|---|---|---|"]
    for each, default in told:
        shown = "" if default is None or default == () else f"`{str(default).lower()}`"
        rows.append(f"| `{each.name}` | {each.expected} | {shown} | {each.meaning} |")
    return "\n".join(rows)
