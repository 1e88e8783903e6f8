"""Snippets: the part of a text that shows best why it was found, and where in it the words are.

A word of the text is marked if a part of the query that is not behind NOT finds it: the word itself or as its column's
analyzer makes it, by a pattern, or as a misspelt one. Words of a phrase are marked wherever they stand. Whole strings
are marked where the query names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from halocline.formats.index.query.bound import Among, Both, BoundQuery, Either, InRow, Like, Near
from halocline.formats.index.search import Search
from halocline.formats.index.split.analyzers import words
from halocline.formats.index.split.fields import FieldKind

_RUNS: Final = re.compile(r"[^\W_]+")
_BETWEEN_BLANKS: Final = re.compile(r"\S+")
_AROUND: Final = 0.25


@dataclass(frozen=True)
class Snippet:
    """A part of a text.

    Attributes:
        text: The part.
        marks: The words in it that were looked for: where each begins and ends.
        cut_before: Whether the text begins before it.
        cut_after: Whether the text goes on after it.

    Example:
        >>> Snippet("connection timeout", ((11, 18),), cut_after=True).marked("<b>", "</b>")
        'connection <b>timeout</b>…'
    """

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    cut_before: bool = False
    cut_after: bool = False

    def marked(self, before: str = "**", after: str = "**") -> str:
        """The part with something around each mark, and dots where it was cut."""
        pieces, at = ["…" if self.cut_before else ""], 0
        for start, end in self.marks:
            pieces += (self.text[at:start], before, self.text[start:end], after)
            at = end
        return "".join((*pieces, self.text[at:], "…" if self.cut_after else ""))


@dataclass(frozen=True)
class Highlighter:
    """Finds what a search looked for in texts of one column.

    Attributes:
        search: The search.
        column: The column.
    """

    search: Search
    column: str

    def marks(self, text: str) -> list[tuple[int, int]]:
        """Where words that were looked for begin and end in a text.

        Example:
            >>> from halocline.formats.index.query.bind import SearchedColumns, bind
            >>> from halocline.formats.index.query.parse import parse
            >>> from halocline.schema import Field, Primitive, Struct
            >>> columns = Struct([Field("m", Primitive("string"))])
            >>> known = SearchedColumns.of(columns, {"halocline.index.fields": '{"m": {"type": "text"}}'})
            >>> Highlighter(Search("", bind(parse("time* OR peer"), known)), "m").marks("Timeout, reset by peer")
            [(0, 7), (18, 22)]
        """
        found = []
        for leaf in self._leaves:
            if leaf.field.kind is not FieldKind.TEXT:
                if _is_whole(leaf, text):
                    return [(0, len(text))]
                continue
            runs = _BETWEEN_BLANKS if leaf.field.analyzer == "whitespace" else _RUNS
            found += [run.span() for run in runs.finditer(text) if _finds(leaf, run.group(), leaf.field.analyzer)]
        return sorted(set(found))

    def snippet(self, text: str, most: int = 160) -> Snippet:
        """The part of a text with the most different words that were looked for; its beginning if it has none.

        Args:
            text: The text.
            most: How many characters at most.
        """
        marks = self.marks(text)
        if len(text) <= most:
            return Snippet(text, tuple(marks))
        start = self._start(text, marks, most)
        inside = [(begin - start, end - start) for begin, end in marks if start <= begin and end <= start + most]
        return Snippet(text[start : start + most], tuple(inside), start > 0, start + most < len(text))

    def _start(self, text: str, marks: Sequence[tuple[int, int]], most: int) -> int:
        """Where the best part begins: before the first of its words, and not inside of one."""
        best, chosen = 0, 0
        for begin, _ in marks:
            there = {text[a:b].lower() for a, b in marks if begin <= a and b <= begin + most}
            if len(there) > best:
                best, chosen = len(there), begin
        last = max((end for begin, end in marks if chosen <= begin and end <= chosen + most), default=0)
        start = max(0, min(chosen - int(most * _AROUND), len(text) - most))
        start = max(start, last - most, 0)
        blank = text.find(" ", start, chosen)
        return start if start == 0 or blank < 0 else blank + 1

    @cached_property
    def _leaves(self) -> list[InRow | Like | Near | Among]:
        return [each for each in _positive(self.search.query) if each.field.column == self.column]


def _positive(query: BoundQuery) -> Iterator[InRow | Like | Near | Among]:
    match query:
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _positive(part)
        case InRow() | Like() | Near() | Among():
            yield query


def _finds(leaf: InRow | Like | Near | Among, run: str, analyzer: str) -> bool:
    for word in words(analyzer, run):
        match leaf:
            case InRow(words=wanted, goes_on=goes_on):
                if word in wanted or (goes_on and word.startswith(wanted[-1])):
                    return True
            case Like(expression=expression):
                if re.fullmatch(expression, word, re.DOTALL):
                    return True
            case Near(word=wanted, distance=distance):
                if _distance(word, wanted, distance) <= distance:
                    return True
    return False


def _is_whole(leaf: InRow | Like | Near | Among, text: str) -> bool:
    match leaf:
        case Among(values=values):
            return text in values
        case Like(expression=expression):
            return re.fullmatch(expression, text, re.DOTALL) is not None
        case Near(word=wanted, distance=distance):
            return _distance(text, wanted, distance) <= distance
    return False


def _distance(one: str, other: str, most: int) -> int:
    """In how many letters two words differ; a swap of neighbours is one. More than the most is not told apart."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        older, before, row = before, row, [at]
        for place, wanted in enumerate(other, 1):
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != wanted))
            if older and place > 1 and letter == other[place - 2] and one[at - 2] == wanted:
                cost = min(cost, older[place - 2] + 1)
            row.append(cost)
    return row[-1]
