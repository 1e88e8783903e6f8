"""Statements as text and tokens, and a reader that leaves no token behind.

Pieces of a statement are always slices of its text, never put together anew, so an expression means to Spark what it
meant to its author.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Final, NoReturn

from halocline.errors import InputError, UnsupportedError, nearest

_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_WORD: Final = re.compile(r"\S+")
_NUMBER: Final = re.compile(r"\d+(\.\d*)?")
_TEXTS: Final = ("STRING", "RAW_STRING")
BEGIN_A_QUERY: Final = frozenset({"SELECT", "WITH", "FROM", "TABLE", "VALUES"})
_QUOTED: Final = frozenset({"STRING", "RAW_STRING", "IDENTIFIER", "BYTE_STRING", "HEX_STRING", "NATIONAL_STRING"})


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A token.

    Attributes:
        word: What it says: in capitals, but for quoted texts and names.
        start: Where it begins in the text.
        end: Where it ends, not included.
        kind: Its kind, as sqlglot calls it.
    """

    word: str
    start: int
    end: int
    kind: str

    @property
    def is_quoted(self) -> bool:
        """Whether it stands in quotes or backticks."""
        return self.kind in _QUOTED


@cache
def _tokenize() -> Callable[[str], Sequence[Any]]:
    from sqlglot.dialects.databricks import Databricks

    class Tokenizer(Databricks.Tokenizer):
        """Cuts every statement into tokens, also those whose rest sqlglot would keep as one text."""

        COMMANDS: ClassVar[set[Any]] = set()

    return lambda text: Tokenizer(dialect="databricks").tokenize(text)


def tokens_of(text: str) -> list[SqlToken]:
    """The tokens of a text, comments left out.

    Raises:
        InputError: A quote or a comment has no end.
    """
    from sqlglot.errors import TokenError

    try:
        found = _tokenize()(text)
    except TokenError as error:
        raise InputError(f"the statement cannot be cut into words: {error}", sides={"given": text[:200]}) from None
    return [token for each in found for token in _words_of(text, each)]


def _words_of(text: str, token: Any) -> Iterator[SqlToken]:
    """One token for each word: what sqlglot takes for one, such as PARTITIONED BY, is two words here."""
    kind, start, end = token.token_type.name, token.start, token.end + 1
    if kind in _QUOTED:
        yield SqlToken(token.text, start, end, kind)
        return
    for word in _WORD.finditer(text, start, end):
        yield SqlToken(word[0].upper(), word.start(), word.end(), kind)


def statements_of(text: str) -> list[str]:
    """The statements of a text that semicolons separate.

    Example:
        >>> statements_of("SELECT ';'; /* one; */ SELECT 2;")
        ["SELECT ';'", 'SELECT 2']
    """
    found, start = list[str](), None
    end = 0
    for token in tokens_of(text):
        if token.kind == "SEMICOLON":
            if start is not None:
                found.append(text[start:end])
            start = None
            continue
        start, end = token.start if start is None else start, token.end
    return found if start is None else [*found, text[start:end]]


def bound(text: str, args: Mapping[str, Any] | Sequence[Any] | None) -> str:
    """The text with values in place of its parameters, `:name` or `?`.

    Raises:
        InputError: A parameter has no value, a value no parameter, or no literal stands for it.
    """
    if args is None:
        return text
    named = dict(args) if isinstance(args, Mapping) else None
    rest, used, pieces, at = list(args) if named is None else [], set[str](), list[str](), 0
    tokens = tokens_of(text)
    for number, token in enumerate(tokens):
        if named is None and token.kind == "PLACEHOLDER":
            if not rest:
                raise InputError("a parameter has no value", sides={"statement": text[:200], "values": str(len(args))})
            pieces += [text[at : token.start], _apart(literal(rest.pop(0)))]
            at = token.end
        elif named is not None and _is_parameter(tokens, number):
            name = text[tokens[number + 1].start : tokens[number + 1].end]
            if name not in named:
                raise InputError(f"parameter {name} has no value", sides={"given": ", ".join(named) or "none"})
            pieces += [text[at : token.start], _apart(literal(named[name]))]
            used.add(name)
            at = tokens[number + 1].end
    if rest or (named is not None and used != set(named)):
        left = ", ".join(sorted(set(named or ()) - used)) or f"{len(rest)} values"
        raise InputError("the statement has no parameter for a value", sides={"left over": left})
    return "".join([*pieces, text[at:]])


def with_parameters_apart(text: str) -> str:
    """The text with a space between a minus and a parameter: Spark puts values in their place as text as well.

    Example:
        >>> with_parameters_apart("SELECT 10-:n, 10-?, '-?', a:b")
        "SELECT 10- :n, 10- ?, '-?', a:b"
    """
    tokens = tokens_of(text)
    pieces, at = list[str](), 0
    for number, token in enumerate(tokens):
        if text[: token.start].endswith("-") and (token.kind == "PLACEHOLDER" or _is_parameter(tokens, number)):
            pieces += [text[at : token.start], " "]
            at = token.start
    return "".join([*pieces, text[at:]])


def _apart(value: str) -> str:
    """A value that goes behind any text: two minus signs in a row would begin a comment."""
    return f" {value}" if value.startswith("-") else value


def _is_parameter(tokens: Sequence[SqlToken], number: int) -> bool:
    """Whether `:name` stands where a value can begin; `a:b` asks for a field."""
    if tokens[number].kind != "COLON" or number + 1 >= len(tokens) or tokens[number + 1].is_quoted:
        return False
    if tokens[number].end != tokens[number + 1].start:
        return False
    before = tokens[number - 1] if number else None
    if before is None or before.end != tokens[number].start:
        return True
    return not (before.is_quoted or _is_word(before) or before.word in (")", "]"))


def literal(value: Any) -> str:
    """A value as Spark's SQL writes it.

    Example:
        >>> literal("it"), literal(None), literal(3)
        ("'it'", 'NULL', '3')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return f"{value}L" if abs(value) > 2**31 - 1 else str(value)
        case float():
            return f"double('{value}')"
        case Decimal():
            return f"{value}BD"
        case str():
            told = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
            return told.replace("${", "$' '{")  # texts in a row are one, and Spark finds no variable in it
        case datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
    raise InputError(
        f"no literal stands for {value!r:.80}",
        sides={"given": type(value).__name__, "possible": "text, numbers, booleans, dates, times and None"},
    )


class Reader:
    """Reads one statement from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.at = 0
        self._looked_for: dict[int, list[tuple[str, ...]]] = {}

    # ------------------------------------------------------------------ looking

    def word(self, ahead: int = 0) -> str:
        """The word that comes next, in capitals; empty for what is quoted, and at the end."""
        token = self._token(ahead)
        return "" if token is None or token.is_quoted else token.word

    def starts(self, *words: str) -> bool:
        """Whether these words come next."""
        self._looked_for.setdefault(self.at, []).append(words)
        return all(self.word(ahead) == each for ahead, each in enumerate(words))

    @property
    def is_done(self) -> bool:
        """Whether every token has been taken."""
        return self.at >= len(self.tokens)

    @property
    def is_text(self) -> bool:
        """Whether a text in quotes comes next."""
        token = self._token()
        return token is not None and token.kind in _TEXTS

    def rest(self) -> str:
        """What has not been taken yet."""
        return "" if self.is_done else self.text[self.tokens[self.at].start : self.tokens[-1].end]

    # ------------------------------------------------------------------ taking

    def accept(self, *words: str) -> bool:
        """Takes these words if they come next."""
        if not self.starts(*words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Takes these words, or refuses the statement."""
        if not self.accept(*words):
            self.refuse(f"{' '.join(words)} was expected")

    def name(self) -> tuple[str, ...]:
        """Takes a name of one or more parts."""
        parts = [self.identifier()]
        while self.word() == ".":
            self.at += 1
            parts.append(self.identifier())
        return tuple(parts)

    def identifier(self) -> str:
        """Takes one part of a name."""
        token = self._token()
        if token is None or not (token.kind == "IDENTIFIER" or _is_word(token)):
            self.refuse("a name was expected")
        self.at += 1
        return token.word if token.kind == "IDENTIFIER" else self.text[token.start : token.end]

    def string(self) -> str:
        """Takes a text in quotes; as in Spark, a doubled quote is a quote, and texts behind each other are one."""
        token = self._token()
        if token is None or token.kind not in _TEXTS:
            self.refuse("a text in quotes was expected")
        found = token.word
        self.at += 1
        while (after := self._token()) is not None and after.kind in _TEXTS:
            found += (self.text[after.start] if after.start == token.end else "") + after.word
            token = after
            self.at += 1
        return found

    def whole_number(self) -> int:
        """Takes a whole number, possibly negative, possibly in quotes."""
        sign = -1 if self.accept("-") else 1
        token = self._token()
        if token is None or token.kind not in ("NUMBER", "STRING") or not token.word.isdigit():
            self.refuse("a whole number was expected")
        self.at += 1
        return sign * int(token.word)

    def number(self) -> float:
        """Takes a number, possibly with a fraction."""
        token = self._token()
        if token is None or token.kind != "NUMBER" or not _NUMBER.fullmatch(token.word):
            return self.whole_number()
        self.at += 1
        return float(token.word) if "." in token.word else int(token.word)

    def until(self, *stops: str) -> str:
        """Takes an expression or a query: everything up to one of these words, where brackets and CASE hide words."""
        start, depth, cases = self.at, list[str](), 0
        while (token := self._token()) is not None:
            word = "" if token.is_quoted else token.word
            if not depth and not cases and word in stops and self.at >= start:
                break
            if depth and word == depth[-1]:
                depth.pop()
            elif word in _OPEN:
                depth.append(_OPEN[word])
            elif word in _OPEN.values():
                break
            elif word == "CASE":
                cases += 1
            elif word == "END" and cases:
                cases -= 1
            self.at += 1
        if self.at == start:
            self.refuse("something is missing here")
        return self.slice(start)

    def slice(self, start: int) -> str:
        """The text from a token up to the one that comes next."""
        return "" if start == self.at else self.text[self.tokens[start].start : self.tokens[self.at - 1].end]

    def parenthesised(self, item: Callable[[], Any]) -> list[Any]:
        """Takes items in parentheses, separated by commas."""
        self.expect("(")
        found = [item()]
        while self.accept(","):
            found.append(item())
        self.expect(")")
        return found

    def listed(self, item: Callable[[], Any]) -> list[Any]:
        """Takes items separated by commas."""
        found = [item()]
        while self.accept(","):
            found.append(item())
        return found

    def properties(self) -> dict[str, str]:
        """Takes `('key' = 'value', …)`."""
        return self.once(self.parenthesised(self._property))

    def once(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        """Pairs as a dict; a name that stands there twice is refused."""
        names = [name.lower() for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            self.refuse(f"{twice} is given twice")
        return dict(pairs)

    def property_key(self) -> str:
        """Takes the key of a property: a text, or names joined by dots."""
        return self.string() if self.is_text else ".".join(self.name())

    def _property(self) -> tuple[str, str]:
        key = self.property_key()
        self.accept("=")
        token = self._token()
        if token is None:
            self.refuse("the value of a property was expected")
        if token.is_quoted:
            return key, self.string()
        sign = "-" if self.accept("-") else ""
        value = self._token()
        if value is None or not (value.kind == "NUMBER" or value.word in ("TRUE", "FALSE")):
            self.refuse("the value of a property was expected")
        self.at += 1
        return key, sign + (value.word if value.kind == "NUMBER" else value.word.lower())

    # ------------------------------------------------------------------ refusing

    def end(self) -> None:
        """Refuses the statement if something of it has not been taken."""
        if not self.is_done:
            self.refuse("this is not understood")

    def refuse(self, why: str) -> NoReturn:
        """Refuses the statement: nothing of it is done."""
        meant = self._meant()
        raise UnsupportedError(
            f"the statement is not done, for {why}",
            sides={"statement": self.text[:300], "at": self.rest()[:80] or "its end"},
            next_step=(f"Did you mean {meant}? " if meant else "") + "See docs/sql.md for what is understood.",
        )

    def _meant(self) -> str:
        """The word that was looked for here and is most like the one that stands here, or that a name has swallowed."""
        here = self._looked_for.get(self.at, [])
        if any(all(self.word(ahead) == each for ahead, each in enumerate(words)) for words in here):
            return ""  # it is what it says, and is refused all the same
        for back in (0, -1):
            for words in here:
                given = [self.word(back + ahead) for ahead in range(len(words))]
                differ = next((pair for pair in zip(given, words, strict=True) if pair[0] != pair[1]), ("", ""))
                if differ[0] and nearest(differ[0], differ[1:]):
                    return differ[1]
        return ""

    def _token(self, ahead: int = 0) -> SqlToken | None:
        return self.tokens[self.at + ahead] if 0 <= self.at + ahead < len(self.tokens) else None


def _is_word(token: SqlToken) -> bool:
    return not token.is_quoted and (token.word[:1].isalpha() or token.word[:1] == "_")


def words_in(text: str) -> Iterator[str]:
    """The words of a text that are not quoted, in capitals."""
    return (each.word for each in tokens_of(text) if not each.is_quoted)


def holds_query(text: str) -> bool:
    """Whether a query stands in an expression, also one that begins with another word than SELECT.

    Example:
        >>> holds_query("id IN (TABLE v)"), holds_query("extract(YEAR FROM day) = 2026")
        (True, False)
    """
    words = ["" if each.is_quoted else each.word for each in tokens_of(text)]
    return "SELECT" in words or any(one == "(" and other in BEGIN_A_QUERY for one, other in pairwise(words))
