"""SQL predicates, as far as they can say something about whole files.

A predicate is SQL text in Spark's dialect. It becomes a small tree of tests on columns of the table, combined by "all"
and "any"; negation is pushed down to the tests. What is not understood becomes `Anything`, which every file may
satisfy: a predicate is never refused for being too clever, only for naming a column that does not exist or for not
being a predicate.

SQL knows three truth values, and a row is wanted only if the predicate is true. A test that comes out null counts as
not true, also below a negation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from halocline.errors import InputError
from halocline.formats.delta.configuration.schema import Column, Schema
from halocline.formats.delta.stats.literal import NULL, Literal, LiteralKind, is_plain, literal_of
from halocline.schema.types import Array, Map

if TYPE_CHECKING:
    from sqlglot import exp


class Operator(StrEnum):
    """How a column is compared with a literal."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


_NEGATED: Final = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}
_FLIPPED: Final = {
    Operator.LT: Operator.GT,
    Operator.GT: Operator.LT,
    Operator.LE: Operator.GE,
    Operator.GE: Operator.LE,
}


_NAMES_A_CLASS: Final = re.compile(r"Required keyword: '\w+' missing for <class [^>]*>")
"""How the parser says that an operator, or a word such as BETWEEN, lacks what comes before or behind it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a literal.

    Text of fixed length and what it is compared with get blanks until both are as long; `is_padded` is False where
    Spark does not see to that: in BETWEEN, in LIKE, and in IN beside a null.
    """

    column: Column
    operator: Operator
    literal: Literal
    is_padded: bool = True


@dataclass(frozen=True, slots=True)
class NullTest:
    """Whether a column is null, or is not."""

    column: Column
    is_null: bool


@dataclass(frozen=True, slots=True)
class StartsWith:
    """Whether a text column begins with some text."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class All:
    """True if every part is."""

    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if one part is."""

    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Never:
    """True for no row: false or null."""


@dataclass(frozen=True, slots=True)
class Always:
    """True for every row."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Not understood: true for any rows, or for none."""


Test: TypeAlias = Comparison | NullTest | StartsWith | All | AnyOf | Never | Always | Anything
_PREFIX_PATTERN: Final = re.compile(r"([^%_\\]*)%")
_PLAIN_PATTERN: Final = re.compile(r"[^%_\\]*")
_AS_TEXT: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), re.compile(r"0|-?[1-9]\d*", re.ASCII)),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII),
}
"""How values of a type are spelt as text."""
_LONGEST: Final = 1_000_000
_FILE_METADATA: Final = "_metadata"


@dataclass(frozen=True)
class Predicate:
    """A parsed predicate. Made by `Predicate.parse`.

    Attributes:
        text: The SQL text.
        test: What it asks of a row, as far as it is understood.
    """

    text: str
    test: Test

    @staticmethod
    def parse(text: str, schema: Schema) -> Predicate:
        """Reads a predicate over a table's columns."""
        import sqlglot
        from sqlglot import errors, exp

        try:
            if len(text) > _LONGEST:
                raise _invalid(text, f"it is longer than {_LONGEST} characters")
            trees = sqlglot.parse(text, dialect="spark")
            tree = trees[0] if len(trees) == 1 else None
            if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Query):
                raise _invalid(text, "it is not one condition")
            translator = _Translator(schema)
            translator.check_columns(tree)
            return Predicate(text, translator.test(tree, False))
        except (errors.SqlglotError, RecursionError) as error:
            raise _invalid(
                text, _NAMES_A_CLASS.sub("an operand is missing", str(error).splitlines()[0])[:200]
            ) from error

    def columns(self) -> tuple[Column, ...]:
        """The columns that the understood part looks at, each once."""
        return tuple({column.path: column for column in _columns_of(self.test)}.values())


def _columns_of(test: Test) -> Iterator[Column]:
    if isinstance(test, Comparison | NullTest | StartsWith):
        yield test.column
    elif isinstance(test, All | AnyOf):
        for part in test.parts:
            yield from _columns_of(part)


class _Translator:
    def __init__(self, schema: Schema) -> None:
        from sqlglot import exp

        self._schema = schema
        self._operators: dict[type, Operator] = {
            exp.EQ: Operator.EQ,
            exp.NEQ: Operator.NE,
            exp.LT: Operator.LT,
            exp.LTE: Operator.LE,
            exp.GT: Operator.GT,
            exp.GTE: Operator.GE,
        }

    def check_columns(self, tree: exp.Expr) -> None:
        """Makes sure that every column named anywhere exists."""
        from sqlglot import exp

        variables = {each.name.lower() for node in tree.find_all(exp.Lambda) for each in node.expressions}
        for node in tree.find_all(exp.Column):
            path = [part.name for part in node.parts]
            if path[0].lower() not in {_FILE_METADATA, *variables} and not node.find_ancestor(exp.Query):
                self._resolve(path)

    def _resolve(self, path: list[str]) -> Column | None:
        """The column; None if the path leads into an array or a map."""
        column = self._schema.find(path[0])
        for length in range(2, len(path) + 1):
            if isinstance(column.type, Array | Map):
                return None
            column = self._schema.find(*path[:length])
        return column

    def _column(self, node: exp.Expr) -> Column | None:
        from sqlglot import exp

        steps: list[str] = []
        while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            steps.insert(0, node.expression.name)
            node = node.this
        if not isinstance(node, exp.Column):
            return None
        path = [part.name for part in node.parts] + steps
        return None if path[0].lower() == _FILE_METADATA else self._resolve(path)

    def test(self, node: exp.Expr, negated: bool) -> Test:
        from sqlglot import exp

        if not is_plain(node):
            return Anything()
        # Some negations stand in the node itself rather than around it.
        negated = negated != bool(node.args.get("negate"))
        if isinstance(node, exp.Paren):
            return self.test(node.this, negated)
        if isinstance(node, exp.Not):
            return self.test(node.this, not negated)
        if isinstance(node, exp.And | exp.Or):
            parts = [self.test(part, negated) for part in node.flatten(unnest=False)]
            return _all(parts) if isinstance(node, exp.And) != negated else _any(parts)
        if type(node) in self._operators:
            return self._comparison(node.this, self._operators[type(node)], node.expression, negated)
        if isinstance(node, exp.NullSafeEQ):
            return self._null_safe(node, negated)
        if isinstance(node, exp.Between):
            return self._between(node, negated)
        if isinstance(node, exp.In):
            return self._in(node, negated)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            column = self._column(node.this)
            return Anything() if column is None else NullTest(column, not negated)
        if isinstance(node, exp.Like) and not negated:
            return self._like(node)
        if isinstance(node, exp.Boolean):
            return Always() if bool(node.this) != negated else Never()
        if isinstance(node, exp.Null):
            return Never()
        column = self._column(node)
        if column is not None and column.type.name == "boolean":
            return Comparison(column, Operator.EQ, Literal(LiteralKind.BOOLEAN, not negated))
        return Anything()

    def _comparison(self, left: exp.Expr, operator: Operator, right: exp.Expr, negated: bool) -> Test:
        column, literal = self._column(left), literal_of(right)
        if column is None or literal is None:
            column, literal = self._column(right), literal_of(left)
            operator = _FLIPPED.get(operator, operator)
        if column is None or isinstance(column.type, Map):
            return Anything()
        if literal is NULL:
            return Never()
        if not isinstance(literal, Literal):
            return Anything()
        return Comparison(column, _NEGATED[operator] if negated else operator, literal)

    def _null_safe(self, node: exp.NullSafeEQ, negated: bool) -> Test:
        for column, literal in (
            (self._column(node.this), literal_of(node.expression)),
            (self._column(node.expression), literal_of(node.this)),
        ):
            if column is None or literal is None or isinstance(column.type, Map):
                continue
            if not isinstance(literal, Literal):
                return NullTest(column, not negated)
            if not negated:
                return Comparison(column, Operator.EQ, literal)
            return AnyOf((Comparison(column, Operator.NE, literal), NullTest(column, True)))
        return Anything()

    def _between(self, node: exp.Between, negated: bool) -> Test:
        low = self._comparison(node.this, Operator.GE, node.args["low"], negated)
        high = self._comparison(node.this, Operator.LE, node.args["high"], negated)
        parts = _unpadded([low, high])
        return _any(parts) if negated else _all(parts)

    def _in(self, node: exp.In, negated: bool) -> Test:
        column, literals = self._column(node.this), [literal_of(each) for each in node.expressions]
        if (
            column is None
            or not literals
            or not _are_alike(literals)
            or not all(_is_itself(column, x) for x in literals)
        ):
            return Anything()
        parts = [self._comparison(node.this, Operator.EQ, each, negated) for each in node.expressions]
        parts = _unpadded(parts) if Never() in parts else parts
        return _all(parts) if negated else _any(parts)

    def _like(self, node: exp.Like) -> Test:
        column, literal = self._column(node.this), literal_of(node.expression)
        if column is None or column.type.name != "string" or not isinstance(literal, Literal):
            return Anything()
        pattern = str(literal.value)
        if found := _PREFIX_PATTERN.fullmatch(pattern):
            return StartsWith(column, found[1]) if found[1] else NullTest(column, False)
        if _PLAIN_PATTERN.fullmatch(pattern):
            return Comparison(column, Operator.EQ, literal, is_padded=False)
        return Anything()


def _are_alike(literals: list[Literal | object | None]) -> bool:
    """Whether literals of one list leave each other as they are: Spark brings all of them to one type."""
    kinds = {
        (each.kind, isinstance(each.value, float)) if isinstance(each, Literal) else None
        for each in literals
        if each is not NULL
    }
    return len(kinds) <= 1


def _is_itself(column: Column, literal: Literal | object | None) -> bool:
    """Whether a literal of a list says the same where a session compares numbers and dates with texts as texts."""
    if not isinstance(literal, Literal) or literal.kind is not LiteralKind.TEXT or column.type.name == "string":
        return True
    pattern = _AS_TEXT.get(column.type.name)
    return pattern is not None and pattern.fullmatch(str(literal.value)) is not None


def _unpadded(parts: list[Test]) -> list[Test]:
    return [replace(part, is_padded=False) if isinstance(part, Comparison) else part for part in parts]


def _all(parts: list[Test]) -> Test:
    if any(isinstance(part, Never) for part in parts):
        return Never()
    kept = tuple(part for part in parts if not isinstance(part, Always))
    return Always() if not kept else kept[0] if len(kept) == 1 else All(kept)


def _any(parts: list[Test]) -> Test:
    for certain in (Always(), Anything()):
        if certain in parts:
            return certain
    kept = tuple(part for part in parts if not isinstance(part, Never))
    return Never() if not kept else kept[0] if len(kept) == 1 else AnyOf(kept)


def _invalid(text: str, problem: str) -> InputError:
    return InputError(
        f"the predicate cannot be read: {problem}",
        condition="PREDICATE_INVALID",
        sides={"given": text[:200], "expected": "an SQL condition such as date >= '2024-01-01' AND id IN (1, 2)"},
        next_step="Correct the predicate.",
    )
