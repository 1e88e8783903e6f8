"""Clauses: what is done to a row, and when.

A *clause* updates, deletes or inserts rows that meet its condition; one without a condition takes every row. Clauses
stand in a list, and the first one whose condition holds for a row decides about it. A row that no clause takes stays as
it is. Conditions and values are SQL text or Spark columns; a condition that comes out null does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from halocline.schema.types import Struct
from halocline.spark.session.analysis import Expression, check_condition, check_value, column_of, told_of
from halocline.spark.session.functions import F
from halocline.spark.types.columns import quoted, written_fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE: Final = "__halocline_place"
TARGET_ALIAS: Final = "t"
"""What a table is called in the expressions of a merge that does not say otherwise."""

CLAUSE: Final = "__halocline_clause"
OLD: Final = "__halocline_old"
"""A struct with the row as the table has it."""

_OF_ONE_QUERY: Final = re.compile(
    r"\b(current_\w+|curdate|now|localtimestamp|unix_timestamp|select)\b|\(\s*(from|table)\b|\$\{", re.IGNORECASE
)
OF_BOTH_SIDES: Final = "Name columns of both sides with their aliases: t.id = s.id"
"""What to do about an expression of a merge that Spark does not understand."""


class ClauseKind(StrEnum):
    """What a clause does, in the words of commits."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True)
class Clause:
    """One thing that is done to rows.

    Attributes:
        kind: What is done.
        condition: Which rows it takes; all if None.
        values: The new value of each column; None stands for all columns of the source.
        keeps_fields: Whether fields that an assigned struct lacks stay as they were.
    """

    kind: ClauseKind
    condition: Expression | None = None
    values: Mapping[str, Any] | None = None
    keeps_fields: bool = False

    def describe(self) -> dict[str, str]:
        """The clause as commits describe it."""
        told = {} if self.condition is None else {"predicate": told_of(self.condition)}
        return {**told, "actionType": self.kind.value}


def chosen(clauses: Sequence[Clause], first: int = 0) -> Column:
    """The number of the clause that takes a row, counted from `first`; null if none does."""
    found: Any = F
    for number, clause in enumerate(clauses, first):
        holds = F.lit(True) if clause.condition is None else F.coalesce(column_of(clause.condition), F.lit(False))
        found = found.when(holds, F.lit(number))
    return F.lit(None).cast("int") if found is F else found


def with_old(df: DataFrame, schema: Struct, target: DataFrame) -> DataFrame:
    """Rows of a table, perhaps beside others, with the struct `OLD`; `target` is the frame that they come from."""
    columns = [target[quoted(field.name)] for field in written_fields(schema)]
    return df.select("*", F.struct(*columns).alias(OLD))


def is_steady(where: str) -> bool:
    """Whether a condition that chance does not decide says the same in every query: nothing of now, or of other tables.

    Example:
        >>> is_steady("day < '2026-11-01'"), is_steady("day < current_date()")
        (True, False)
        >>> is_steady("id IN (SELECT id FROM v)"), is_steady("id IN (TABLE v)"), is_steady("day < ${limit}")
        (False, False, False)
    """
    return _OF_ONE_QUERY.search(where) is None


def named(df: DataFrame, alias: str | None) -> DataFrame:
    """Rows of a table under the name by which expressions know it, if it has one."""
    return df if alias is None else df.alias(alias)


def known_by(where: Expression | None, alias: str | None) -> Expression | None:
    """A condition on rows that go by an alias: a column where text speaks of it, since files are told by bare names."""
    if alias is None or not isinstance(where, str):
        return where
    # Between a name and its dot may be quotes of two kinds, blanks or a comment, so any word like it is taken for it.
    speaks = re.compile(rf"(?<!\w){re.escape(alias)}(?!\w)", re.IGNORECASE)
    return column_of(where) if speaks.search(where.replace("``", "`")) else where


def predicate_of(where: Expression | None) -> dict[str, list[str]]:
    """The condition of a change as commits record it."""
    return {"predicate": [] if where is None else [f"({told_of(where)})"]}


def check_analysed(df: DataFrame, clauses: Sequence[Clause], what: str, hint: str = OF_BOTH_SIDES) -> None:
    """Makes sure that Spark understands all of it, that chance decides no condition, and other rows no value."""
    for clause in clauses:
        if clause.condition is not None:
            check_condition(df, clause.condition, f"the condition of {what}", hint)
        for name, value in (clause.values or {}).items():
            check_value(df, value, f"the value for {name} of {what}", hint)
