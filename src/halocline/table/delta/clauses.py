"""Clauses: what is done to a row, and when.

A *clause* updates, deletes or inserts rows that meet its condition; one without a condition takes every row. Clauses
stand in a list, and the first one whose condition holds for a row decides about it. A row that no clause takes stays as
it is. Conditions and values are SQL text or Spark columns; a condition that comes out null does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from halocline.errors import InputError
from halocline.spark.types.columns import is_void, quoted
from halocline.spark.types.input_schema import first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Expression: TypeAlias = "str | Column"
"""SQL text, or a Spark column."""

FILE: Final = "__halocline_file_number"
ROW: Final = "__halocline_row_number"
TARGET_ALIAS: Final = "t"
"""What a table is called in the expressions of a merge that does not say otherwise."""

CLAUSE: Final = "__halocline_clause"
OLD: Final = "__halocline_old"
"""A struct with the row as the table has it."""


class Kind(StrEnum):
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
    """

    kind: Kind
    condition: Expression | None = None
    values: Mapping[str, Any] | None = None

    def describe(self) -> dict[str, str]:
        """The clause as commits describe it."""
        told = {} if self.condition is None else {"predicate": text_of(self.condition)}
        return {**told, "actionType": self.kind.value}


def text_of(expression: Expression) -> str:
    """An expression for people; a column is shown as Spark shows it."""
    return expression if isinstance(expression, str) else str(expression).removeprefix("Column<'").removesuffix("'>")


def column_of(value: Any) -> Column:
    """A value as a Spark column: text is SQL, anything else but a column is a constant."""
    from pyspark.sql import functions as F

    if isinstance(value, str):
        return F.expr(value)
    return value if type(value).__name__ == "Column" else F.lit(value)


def chosen(clauses: Sequence[Clause], first: int = 0) -> Column:
    """The number of the clause that takes a row, counted from `first`; null if none does."""
    from pyspark.sql import functions as F

    found: Any = F
    for number, clause in enumerate(clauses, first):
        holds = F.lit(True) if clause.condition is None else F.coalesce(column_of(clause.condition), F.lit(False))
        found = found.when(holds, F.lit(number))
    return F.lit(None).cast("int") if found is F else found


def with_old(df: DataFrame, fields: Sequence[Mapping[str, Any]], alias: str) -> DataFrame:
    """Rows of a table under an alias, with the struct `OLD`."""
    from pyspark.sql import functions as F

    names = [quoted(field["name"]) for field in fields if not is_void(field["type"])]
    return df.alias(alias).select("*", F.struct(*map(F.col, names)).alias(OLD))


def check_analysed(df: DataFrame, clauses: Sequence[Clause], what: str) -> None:
    """Makes sure that Spark understands every condition and value over some columns.

    Raises:
        InputError: It does not (`PREDICATE_INVALID`), or a condition is none.
    """
    for clause in clauses:
        for name, expression in _expressions(clause):
            type = analysed_type(df, expression, f"{name} of {what}")
            if name == "the condition" and type != "boolean":
                raise InputError(
                    f"{text_of(expression)!r} is no condition",
                    condition="PREDICATE_INVALID",
                    sides={"gives": str(type), "needed": "boolean"},
                )


def analysed_type(df: DataFrame, expression: Any, name: str) -> Any:
    """The type of an expression over some columns, as the log spells types.

    Raises:
        InputError: Spark does not understand it.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        return df.select(column_of(expression).alias("value")).schema[0].dataType.jsonValue()
    except (AnalysisException, ParseException) as error:
        raise InputError(
            f"{name} cannot be used",
            condition="PREDICATE_INVALID",
            sides={"expression": str(expression)[:200], "because": first_line(error)},
            next_step="Name columns of both sides with their aliases: t.id = s.id",
        ) from None


def _expressions(clause: Clause) -> Iterator[tuple[str, Any]]:
    if clause.condition is not None:
        yield "the condition", clause.condition
    for name, value in (clause.values or {}).items():
        yield f"the value for {name}", value
