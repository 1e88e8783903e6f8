"""What notebooks and terminals show of results that are lists of facts: tables, with everything in them escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, TypeVar

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
