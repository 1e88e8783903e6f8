"""Asking Spark what an expression means, without running anything.

PySpark writes every error of its analyser to the log, stack trace and all, before a caller can handle it. An expression
that Spark does not understand ends in a refusal that says so itself, so the log is left out of it here.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from halocline.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Expression: TypeAlias = "str | Column"
"""SQL text, or a Spark column."""

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_NOT_DETERMINISTIC: Final = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
_here: Final = threading.local()


def text_of(expression: Expression) -> str:
    """An expression for people; a column is shown as Spark shows it."""
    return expression if isinstance(expression, str) else str(expression).removeprefix("Column<'").removesuffix("'>")


def column_of(value: Any) -> Column:
    """A value as a Spark column: text is SQL, anything else but a column is a constant."""
    from pyspark.sql import functions as F

    if isinstance(value, str):
        return F.expr(value)
    return value if type(value).__name__ == "Column" else F.lit(value)


def type_of(df: DataFrame, expression: Any, name: str, hint: str) -> Any:
    """The type of an expression over the columns of a DataFrame, as the log spells types.

    Args:
        df: Where its columns come from.
        expression: SQL text, a column, or a constant.
        name: What the expression is, for messages.
        hint: What to do if Spark does not understand it.

    Raises:
        InputError: Spark does not (`PREDICATE_INVALID`).
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        with unlogged():
            return df.select(column_of(expression).alias("value")).schema[0].dataType.jsonValue()
    except (AnalysisException, ParseException) as error:
        raise unusable(name, expression, first_line(error), hint) from None


def check_deterministic(df: DataFrame, condition: Expression, name: str) -> None:
    """Refuses a condition that may hold for a row now and not when it is asked again, such as `rand() < 0.5`.

    The present time is the same throughout a query, and is taken.

    Raises:
        InputError: It is one (`PREDICATE_INVALID`).
    """
    from pyspark.errors import AnalysisException

    try:
        with unlogged():
            # Spark takes no such condition for a join, and says so without running it.
            _ = df.join(df.sparkSession.range(1).select(), column_of(condition).isNotNull()).schema
    except AnalysisException as error:
        if error.getCondition() == _NOT_DETERMINISTIC:
            why = "it is not the same whenever it is computed"
            hint = "Compute such values into a column first, and use that."
            raise unusable(name, condition, why, hint) from None


def unusable(name: str, expression: Any, because: str, hint: str) -> InputError:
    """The error for an expression that cannot be used."""
    return InputError(
        f"{name} cannot be used",
        condition="PREDICATE_INVALID",
        sides={"expression": str(expression)[:200], "because": because},
        next_step=hint,
    )


def first_line(error: BaseException) -> str:
    """What an error of Spark says in short."""
    return next((line for line in str(error).splitlines() if line.strip()), "")[:200]


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Keeps PySpark from logging errors of this thread that are handled by whoever asks."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        # PySpark needs a logger of its own class under the name, so it has to be the one who makes it.
        PySparkLogger.getLogger(name).addFilter(_heard)
    before = getattr(_here, "depth", 0)
    _here.depth = before + 1
    try:
        yield
    finally:
        _here.depth = before


def _heard(_: logging.LogRecord) -> bool:
    return not getattr(_here, "depth", 0)
