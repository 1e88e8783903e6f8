"""What notebooks and terminals show of results that are lists of facts: tables, with everything in them escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, TypeVar

from halocline.place_names import place_name

E = TypeVar("E")

_LONGEST: Final = 60
COLOURS: Final = {"ok": "#2e7d32", "refused": "#c62828", "wrong": "#6a1b9a", "unknown": "#f9a825"}
"""The colours of the four answers."""


def html_table(rows: Iterable[Mapping[str, object]], title: str = "") -> str:
    """Rows as a table of HTML; the columns are those of the first row.

    Example:
        >>> html_table([{"n": "<1>"}])
        '<table><thead><tr><th>n</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    listed = [{key: _text(value) for key, value in row.items()} for row in rows]
    names = list(listed[0]) if listed else []
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(row.get(name, str()))}</td>' for name in names)}</tr>" for row in listed
    )
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_answer(answer: str) -> str:
    """One of the four answers, in its colour."""
    return f'<b style="color:{COLOURS.get(answer, "inherit")}">{escape(answer)}</b>'


class Shown:
    """A value of which a terminal shows a few facts in one line, and a notebook the same as a table.

    Example:
        >>> class Version(Shown):
        ...     def _facts(self):
        ...         return {"version": 7, "operation": None}
        >>> Version()
        Version(version=7)
    """

    __slots__ = ()

    def _facts(self) -> Mapping[str, object]:
        """What is shown; what is None is left out."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_table([{name: value for name, value in self._facts().items() if value is not None}])

    def __repr__(self) -> str:
        told = (f"{name}={value!r}" for name, value in self._facts().items() if value is not None)
        return f"{type(self).__name__}({', '.join(told)})"


class ShownEntry(Shown):
    """One entry of a history, of which a few facts are shown; `to_dict` has all of them."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """All facts, for programs."""
        raise NotImplementedError

    def _facts(self) -> Mapping[str, object]:
        told = self.to_dict()
        return {name: told.get(name) for name in ("version", "timestamp", "action", "operation", "engineInfo")}


class ShownVersion(Shown):
    """A table at one version, of which the place, the version and the protocol are shown."""

    def _facts(self) -> Mapping[str, object]:
        told: Any = self  # each format says in its own way where these come from
        return {"table": place_name(told.store.root), "version": told.version, "protocol": str(told.protocol)}


class Entries(list[E]):
    """A list whose items a notebook shows as a table, and a terminal as columns of text.

    Example:
        >>> class Entry:
        ...     def to_dict(self):
        ...         return {"version": 7, "operation": "WRITE"}
        >>> Entries([Entry()])
        version  operation
        7        WRITE
    """

    def _rows(self) -> list[dict[str, str]]:
        told: list[dict[str, Any]] = [each.to_dict() for each in self]  # type: ignore[attr-defined]
        names = list(dict.fromkeys(name for row in told for name, value in row.items() if _is_short(value)))
        return [{name: _text(row.get(name)) for name in names} for row in told]

    def _repr_html_(self) -> str:
        return html_table(self._rows())

    def __repr__(self) -> str:
        return text_table(self._rows()) if self else "[]"


def text_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows as columns of text."""
    names = list(rows[0])
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _is_short(value: object) -> bool:
    return value is not None and not isinstance(value, dict | list | tuple)


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
