"""Which files a merge has to look into: what its condition and the rows of the source rule out.

A condition is a conjunction of parts. A part that speaks of the table alone prunes files as it is. A part that sets a
column of the table equal to a column of the source, a *key*, prunes by the values that the source has: all of them if
they are few, else the lowest and the highest. Whole numbers are held against the bounds of each file as well; see
`halocline.table.delta.merge.keys`. Parts that are not understood prune nothing. Only text can be taken apart; a
condition given as a Spark column prunes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from halocline.schema.types import DataType, Primitive, Struct, decimal_of
from halocline.spark.session.analysis import text_of
from halocline.spark.session.functions import F
from halocline.spark.session.pinning import computed_with_figures
from halocline.spark.types.columns import quoted
from halocline.table.delta.merge.keys import MOST_KEYS, SourceKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlglot import exp

MOST_VALUES: Final = 200
"""So many values of a key are named one by one."""

_ROUGHLY: Final = 0.3
"""How far off the number of values may be that decides whether they are looked at: to know it better takes longer."""

_NO_NAMES: Final = ("STRING", "NUMBER", "R_PAREN", "R_BRACKET")
_WHOLE: Final = ("byte", "short", "integer", "long")


@dataclass(frozen=True, slots=True)
class Parts:
    """What is understood of a merge's condition.

    Attributes:
        keys: A column of the table and one of the source that must be equal, for each key.
        tests: Conditions on the table alone, as SQL without aliases.
        all_keys: Whether there is nothing in the condition but keys.
    """

    keys: tuple[tuple[str, str], ...] = ()
    tests: tuple[str, ...] = ()
    all_keys: bool = False


def qualifiers(expressions: Iterable[Any]) -> set[str]:
    """The names, in lower case, that expressions put before others: aliases, and columns with fields inside.

    Example:
        >>> sorted(qualifiers(["t.id = S.id AND exists(t.tags, x -> x.k = 's.k')", None]))
        ['s', 't']
    """
    import sqlglot
    from sqlglot import errors

    found: set[str] = set()
    for expression in expressions:
        if isinstance(expression, str) or type(expression).__name__ == "Column":
            # Text that is no SQL is refused by Spark, which knows best why.
            with contextlib.suppress(errors.SqlglotError):
                found |= _qualifiers(sqlglot.tokenize(text_of(expression), read="spark"))
    return found


def _qualifiers(tokens: Sequence[Any]) -> set[str]:
    kinds = ["START", *(token.token_type.name for token in tokens), "END"]
    names = [token.text.lower() for token in tokens]
    variables: set[str] = set()
    for number, kind in enumerate(kinds[1:]):
        if kind == "ARROW":
            start = number - 1
            while kinds[number] == "R_PAREN" and start and kinds[start + 1] != "L_PAREN":
                start -= 1
            variables |= set(names[start:number])
    return {
        name
        for name, before, kind, after in zip(names, kinds, kinds[1:], kinds[2:], strict=False)
        if after == "DOT" and before != "DOT" and kind not in _NO_NAMES and name not in variables
    }


def parts_of(condition: str | None, target: Struct, source: Struct, alias: str) -> Parts:
    """Takes a condition apart; without the text of one there is nothing that is understood.

    Example:
        >>> from halocline.schema import Field
        >>> columns = lambda *names: Struct([Field(name, Primitive("long")) for name in names])
        >>> parts_of("t.id = s.id AND t.day > 3", columns("id", "day"), columns("id"), "t")
        Parts(keys=(('id', 'id'),), tests=('`day` > 3',), all_keys=False)
    """
    import sqlglot
    from sqlglot import errors, exp

    if condition is None:
        return Parts()
    try:
        tree = sqlglot.parse_one(condition, dialect="spark")
    except (errors.SqlglotError, RecursionError):
        return Parts()
    sides = _Sides(target, source, alias)
    keys, tests, parts = [], [], list(_conjuncts(tree))
    for part in parts:
        if isinstance(part, exp.EQ) and (key := sides.key(part)):
            keys.append(key)
        elif sides.is_about_target(part):
            tests.append(sides.bare(part).sql(dialect="spark"))
    return Parts(tuple(keys), tuple(tests), len(keys) == len(parts))


@dataclass(frozen=True)
class SourceRows:
    """The rows of a merge's source, computed once.

    Attributes:
        rows: The rows.
        count: How many there are.
        where: A condition that every row of the table meets which may match, if one is known.
        key: A key of whole numbers that is no partition column, if there is one.
    """

    rows: DataFrame
    count: int
    where: str | None
    key: tuple[str, str] | None

    def keys(self) -> SourceKeys | None:
        """The values of the key, if they are not too many."""
        if self.key is None or not 0 < self.count <= MOST_KEYS:
            return None
        name, column = self.key
        return SourceKeys.of(name, self.rows.select(quoted(column)).toArrow().column(0))


def source_rows(
    source: DataFrame, parts: Parts, target: Struct, columns: Struct, partitions: Collection[str]
) -> SourceRows:
    """Computes the source, and what its values rule out by the parts of a condition."""
    keys = [
        (one, other)
        for one, other in parts.keys
        if _is_comparable(target.find([one])[1].type, columns.find([other])[1].type)
    ]
    aggregates = [F.count(F.lit(1))]
    for _, other in keys:
        column = F.col(quoted(other))
        aggregates += [F.min(column), F.max(column)]
        # Of a single key two rows with the same value are refused if they match, so there are as many values as rows.
        aggregates += [F.approx_count_distinct(column, _ROUGHLY)] if len(parts.keys) > 1 else [F.count(column)]
    rows, (count, *figures) = computed_with_figures(source, aggregates)
    tests = list(parts.tests)
    for number, (one, other) in enumerate(keys):
        lowest, highest, distinct = figures[3 * number : 3 * number + 3]
        test = _range_test(quoted(one), lowest, highest)
        if distinct <= MOST_VALUES and lowest is not None:
            values = [row[0] for row in rows.select(quoted(other)).distinct().limit(MOST_VALUES + 1).collect()]
            test = _list_test(quoted(one), values) or test
        tests += [test] if test else []
    whole = next((key for key in keys if key[0] not in partitions and _is_whole(key, target, columns)), None)
    return SourceRows(rows, count, " AND ".join(f"({test})" for test in tests) if tests else None, whole)


class _Sides:
    """Tells columns of the table from columns of the source."""

    def __init__(self, target: Struct, source: Struct, alias: str) -> None:
        self._target = {name.lower(): name for name in target.names}
        self._source = {name.lower(): name for name in source.names}
        self._alias = alias.lower()
        # A qualifier may be a column instead, with the name after it inside.
        fields = (*target.fields, *source.fields)
        self._nested = {field.name.lower() for field in fields if not isinstance(field.type, Primitive)}

    def key(self, part: exp.EQ) -> tuple[str, str] | None:
        """The key that an equation is, if it is one."""
        from sqlglot import exp

        found = {}
        for side in (part.left, part.right):
            if isinstance(side, exp.Column) and (place := self._place(side)):
                found[place[0]] = place[1]
        return (found["target"], found["source"]) if len(found) == 2 else None

    def is_about_target(self, part: exp.Expr) -> bool:
        """Whether a part is made of columns of the table and constants, compared in plain ways."""
        from sqlglot import exp

        plain = (exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or, exp.Not)
        compared = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is)
        if not all(isinstance(node, (*plain, *compared)) for node in part.walk()):
            return False
        places = [self._place(column) for column in part.find_all(exp.Column)]
        return bool(places) and all(place is not None and place[0] == "target" for place in places)

    def bare(self, part: exp.Expr) -> exp.Expr:
        """The part without aliases, every name quoted."""
        from sqlglot import exp

        copy = part.copy()
        for column in list(copy.find_all(exp.Column)):
            column.set("table", None)
            column.this.set("quoted", True)
        return copy

    def _place(self, column: exp.Column) -> tuple[str, str] | None:
        """The side and the name of a column; None if that is not certain."""
        name, table = column.name.lower(), column.table.lower()
        if column.args.get("db"):
            return None
        if not table:
            if (name in self._target) == (name in self._source):
                return None
            return ("target", self._target[name]) if name in self._target else ("source", self._source[name])
        if table in self._nested:
            return None
        if table == self._alias:
            return ("target", self._target[name]) if name in self._target else None
        return ("source", self._source[name]) if name in self._source else None


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    from sqlglot import exp

    if isinstance(tree, exp.Paren):
        yield from _conjuncts(tree.this)
    elif isinstance(tree, exp.And):
        yield from _conjuncts(tree.left)
        yield from _conjuncts(tree.right)
    else:
        yield tree


def _is_comparable(target: DataType, source: DataType) -> bool:
    """Whether the order of values is the same on both sides, and the same as in the log's statistics."""
    if target.name in _WHOLE or decimal_of(target):
        return source.name in _WHOLE or decimal_of(source) is not None
    return target == source and target.name in ("string", "date")


def _is_whole(key: tuple[str, str], target: Struct, columns: Struct) -> bool:
    """Whether both columns of a key have whole numbers."""
    return all(side.find([name])[1].type.name in _WHOLE for side, name in zip((target, columns), key, strict=True))


def _range_test(name: str, lowest: Any, highest: Any) -> str | None:
    if lowest is None:
        return "false"  # null is equal to nothing, so no row of the table matches
    low, high = _literal(lowest), _literal(highest)
    return None if low is None or high is None else f"{name} BETWEEN {low} AND {high}"


def _list_test(name: str, values: Sequence[Any]) -> str | None:
    literals = [_literal(value) for value in values if value is not None]
    if not literals or None in literals or len(values) > MOST_VALUES:
        return None
    return f"{name} IN ({', '.join(text for text in literals if text)})"


def _literal(value: Any) -> str | None:
    """SQL for a value; None where it would take more than quotes."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str) and value.isprintable() and not set(value) & {"'", "\\"}:
        return f"'{value}'"
    return None
