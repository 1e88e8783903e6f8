"""From the text of a query to its tree. Whatever is not understood is an error that shows the place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NoReturn

from halocline.errors import InputError
from halocline.formats.index.query.tree import (
    AllOf,
    Everything,
    Fuzzy,
    Leaf,
    NoneOf,
    OneOf,
    Pattern,
    Present,
    RangeOf,
    SomeOf,
    Tree,
    Word,
)

_DEEPEST: Final = 100
_LONGEST: Final = 100_000
_BLANK: Final = " \t\r\n"
_VALUE_ENDS: Final = _BLANK + '()[]{}"'
_ENDS: Final = _VALUE_ENDS + ":"
_COMPARISON: Final = re.compile(r"(>=|<=|>|<)")
_FURTHEST: Final = 2


def parse(text: str) -> Tree:
    """The tree of a query.

    Raises:
        InputError: It is not understood (`QUERY_INVALID`); the message shows where.

    Example:
        >>> parse("level:tim*")
        Pattern(pieces=(('tim', False), ('*', True)), column='level')
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        if len(text) > _LONGEST:
            self._fail(f"it is longer than {_LONGEST} characters")

    def whole(self) -> Tree:
        found = self._alternatives(0)
        if self._at < len(self._text):
            self._fail("there is a bracket too many")
        return found

    # ------------------------------------------------------------------ operators

    def _alternatives(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            self._fail("it is nested too deeply")
        parts = [self._conjunction(depth)]
        while self._operator("OR"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else SomeOf(tuple(parts))

    def _conjunction(self, depth: int) -> Tree:
        runs = [self._run(depth)]
        while self._operator("AND"):
            runs.append(self._run(depth))
        if len(runs) > 1 and any(len(run) > 1 for run in runs):
            self._fail("AND stands next to words with nothing between them: say AND or OR, or use brackets")
        if len(runs) == 1:
            return _joined(runs[0])
        return AllOf(tuple(_joined(run) for run in runs))

    def _run(self, depth: int) -> list[tuple[str, Tree]]:
        """Clauses with nothing between them, each with the sign before it."""
        found: list[tuple[str, Tree]] = []
        while not self._ends_run():
            sign = self._sign()
            self._blanks()
            if self._ends_run():
                self._fail("nothing follows the sign")
            found.append((sign, self._clause(depth)))
        if not found:
            self._fail("something to look for is missing")
        return found

    def _ends_run(self) -> bool:
        self._blanks()
        return self._at >= len(self._text) or self._text[self._at] == ")" or self._peeks("AND") or self._peeks("OR")

    def _sign(self) -> str:
        if self._operator("NOT"):
            return "-"
        if self._text[self._at] in "+-" and self._next_char(1) not in ("", *_BLANK):
            self._at += 1
            return self._text[self._at - 1]
        return ""

    # ------------------------------------------------------------------ clauses

    def _clause(self, depth: int, column: str | None = None) -> Tree:
        if self._text[self._at] == "(":
            self._at += 1
            inner = self._alternatives(depth + 1)
            self._blanks()
            if self._next_char() != ")":
                self._fail("a bracket is not closed")
            self._at += 1
            return inner if column is None else _within(inner, column)
        if self._text[self._at] in "[{":
            if column is None:
                self._fail("a range needs a column before it")
            return self._range(column)
        if self._text[self._at] == '"':
            return self._phrase(column)
        if self._text[self._at] in ")]}:":
            self._fail(f"{self._text[self._at]!r} stands where something to look for should")
        if column is not None:
            if found := _COMPARISON.match(self._text, self._at):
                self._at = found.end()
                return self._comparison(column, found[0])
            if self._peeks("IN"):
                return self._set(column)
        return self._bare(column, depth)

    def _bare(self, column: str | None, depth: int) -> Tree:
        # After a column only a value can stand, and colons are part of times and URLs.
        pieces = self._pieces(_ENDS if column is None else _VALUE_ENDS)
        plain = "".join(text for text, special in pieces if not special)
        special = any(each for _, each in pieces)
        if self._next_char() == ":":
            if special:
                self._fail("a colon follows what is no column; put quotes around what has one")
            self._at += 1
            self._blanks()
            if self._at >= len(self._text):
                self._fail("nothing follows the colon")
            return self._clause(depth, plain)
        fuzzy = self._tilde()
        if not special:
            return Word(plain, column) if fuzzy is None else Fuzzy(plain, self._distance(fuzzy), column)
        if fuzzy is not None:
            self._fail("a pattern cannot be fuzzy as well")
        if [text for text, _ in pieces] == ["*"]:
            return Everything() if column is None else Present(column)
        return Pattern(tuple(_merged(pieces)), column)

    def _phrase(self, column: str | None) -> Word:
        text = self._quoted()
        if self._next_char() == "*":
            self._at += 1
            return Word(text, column, quoted=True, goes_on=True)
        fuzzy = self._tilde()
        return Word(text, column, quoted=True, slop=int(fuzzy or 0))

    def _range(self, column: str) -> RangeOf:
        includes_low = self._text[self._at] == "["
        self._at += 1
        low = self._bound()
        if not self._operator("TO"):
            self._fail("a range is [low TO high]")
        high = self._bound()
        self._blanks()
        if (end := self._next_char()) not in ("]", "}"):
            self._fail("a range is not closed")
        self._at += 1
        if low is None and high is None:
            self._fail("a range has no end; for rows that have a value say column:*")
        return RangeOf(low, high, includes_low, end == "]", column)

    def _comparison(self, column: str, operator: str) -> RangeOf:
        value = self._bound()
        if value is None:
            self._fail("a comparison needs a value")
        includes = operator.endswith("=")
        if operator[0] == ">":
            return RangeOf(value, None, includes, True, column)
        return RangeOf(None, value, True, includes, column)

    def _set(self, column: str) -> OneOf:
        self._operator("IN")
        self._blanks()
        if self._next_char() != "[":
            self._fail("after IN stands [a b c]")
        self._at += 1
        values: list[str] = []
        while True:
            self._blanks()
            if self._next_char() == "]":
                break
            if self._at >= len(self._text):
                self._fail("a set is not closed")
            value = self._bound()
            if value is None:
                self._fail("a set has values, and no *")
            values.append(value)
        self._at += 1
        if not values:
            self._fail("a set has no values")
        return OneOf(tuple(values), column)

    def _bound(self) -> str | None:
        """A value in a range, a comparison or a set; None for `*`."""
        self._blanks()
        if self._next_char() == '"':
            return self._quoted()
        start = self._at
        pieces = self._pieces(_VALUE_ENDS)
        if self._at == start:
            self._fail("a value is missing")
        if pieces == [("*", True)]:
            return None
        if any(special for _, special in pieces):
            self._fail("a value has a wildcard in it; put quotes around what has one")
        return "".join(text for text, _ in pieces)

    # ------------------------------------------------------------------ characters

    def _pieces(self, ends: str) -> list[tuple[str, bool]]:
        """Characters up to the end of a word; true marks a wildcard."""
        found: list[tuple[str, bool]] = []
        while self._at < len(self._text) and (char := self._text[self._at]) not in ends and char != "~":
            if char == "\\":
                self._at += 1
                if self._at >= len(self._text):
                    self._fail("nothing follows the backslash")
                found.append((self._text[self._at], False))
            elif char == "^":
                self._fail("weights are not part of the language")
            else:
                found.append((char, char in "*?"))
            self._at += 1
        return found

    def _quoted(self) -> str:
        self._at += 1
        found: list[str] = []
        while (char := self._next_char()) != '"':
            if char == "\\":
                self._at += 1
                char = self._next_char()
            if not char:
                self._fail("a quote is not closed")
            found.append(char)
            self._at += 1
        self._at += 1
        return "".join(found)

    def _tilde(self) -> str | None:
        """The digits after a tilde; None if there is no tilde."""
        if self._next_char() != "~":
            return None
        found = re.compile(r"~(\d{0,4})").match(self._text, self._at)
        self._at = found.end() if found else self._at
        if self._next_char() not in ("", *_ENDS):
            self._fail("after a tilde stands a number")
        return found[1] if found else ""

    def _distance(self, digits: str) -> int:
        distance = int(digits or _FURTHEST)
        if distance > _FURTHEST:
            self._fail(f"words may differ in up to {_FURTHEST} letters")
        return distance

    def _operator(self, word: str) -> bool:
        self._blanks()
        found = self._peeks(word)
        self._at += len(word) if found else 0
        return found

    def _peeks(self, word: str) -> bool:
        after = self._text[self._at + len(word) : self._at + len(word) + 1]
        return self._text.startswith(word, self._at) and (not after or after in _BLANK + '()["')

    def _next_char(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _blanks(self) -> None:
        while self._next_char() and self._next_char() in _BLANK:
            self._at += 1

    def _fail(self, problem: str) -> NoReturn:
        start = max(0, self._at - 40)
        raise InputError(
            f"the query is not understood: {problem}",
            condition="QUERY_INVALID",
            sides={
                "read so far": self._text[start : self._at] or "nothing",
                "then": self._text[self._at :][:40] or "end",
            },
            next_step='Put quotes around text with signs in it: "10:30", or a backslash before a sign.',
        )


def _joined(run: list[tuple[str, Tree]]) -> Tree:
    """Clauses with nothing between them: those with a plus must hold, those with a minus must not, else one will do."""
    must = [each for sign, each in run if sign == "+"]
    should = [each for sign, each in run if not sign]
    wanted = must or ([should[0] if len(should) == 1 else SomeOf(tuple(should))] if should else [])
    parts: list[Tree] = [*wanted, *(NoneOf(each) for sign, each in run if sign == "-")]
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _within(tree: Tree, column: str) -> Tree:
    """The same with a column for every leaf that has none."""
    match tree:
        case AllOf(parts):
            return AllOf(tuple(_within(each, column) for each in parts))
        case SomeOf(parts):
            return SomeOf(tuple(_within(each, column) for each in parts))
        case NoneOf(part):
            return NoneOf(_within(part, column))
        case Everything():
            return Present(column)
        case leaf:
            return leaf if leaf.column is not None else _with_column(leaf, column)


def _with_column(leaf: Leaf, column: str) -> Leaf:
    return leaf if isinstance(leaf, Everything) else replace(leaf, column=column)


def _merged(pieces: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Literal characters in a row as one piece."""
    found: list[tuple[str, bool]] = []
    for text, special in pieces:
        if found and not special and not found[-1][1]:
            found[-1] = (found[-1][0] + text, False)
        else:
            found.append((text, special))
    return found
