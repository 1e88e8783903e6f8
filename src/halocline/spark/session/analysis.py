"""Asking Spark what an expression means, without running anything.

PySpark writes every error of its analyser to the log, stack trace and all, before a caller can handle it. An expression
that Spark does not understand ends in a refusal that says so itself, so the log is left out of it here.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from halocline.errors import InputError
from halocline.schema.json_edge import type_from_json
from halocline.schema.types import DataType
from halocline.spark.session.functions import F
from halocline.spark.session.session import is_connect, setting
from halocline.spark.session.variables import BEGIN, SUBSTITUTED, with_variables

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import Column, DataFrame, SparkSession

Expression: TypeAlias = "str | Column"
"""SQL text, or a Spark column."""

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_NOT_DETERMINISTIC: Final = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
_VIEW: Final = re.compile(r"`((?:[^`]|``)*) halocline_[0-9a-f]{32}`")
_here: Final = threading.local()
_SETTINGS_OF_SIGNS: Final = {
    BEGIN: {SUBSTITUTED: "true"},
    "\\": {"spark.sql.parser.escapedStringLiterals": "false"},
    '"': {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "false"},
}
"""Settings that change together what a sign in SQL text means, with their defaults."""


def text_of(expression: Expression) -> str:
    """An expression for people; a column is shown as Spark shows it."""
    return expression if isinstance(expression, str) else str(expression).removeprefix("Column<'").removesuffix("'>")


def view_of(name: str) -> str:
    """A name for a view of one statement, which `told_of` shows as what it stands for."""
    return f"{name} halocline_{uuid.uuid4().hex}"


def told_of(expression: Expression) -> str:
    """An expression as a commit tells it, with tables under the names that the user gave them.

    Example:
        >>> told_of(f"id IN (SELECT id FROM `{view_of('sales.orders')}` AS orders)")
        'id IN (SELECT id FROM sales.orders AS orders)'
    """
    return _VIEW.sub(lambda found: found[1].replace("``", "`"), text_of(expression))


def column_of(value: Any) -> Column:
    """A value as a Spark column: text is SQL, anything else but a column is a constant."""
    if isinstance(value, str):
        # Spark takes a word behind an expression for its alias, and drops it; between brackets it refuses it.
        return F.expr(f"({value}\n)")
    return value if type(value).__name__ == "Column" else F.lit(value)


def read_without_spark(spark: SparkSession, where: Expression | None) -> str | None:
    """The text of a condition, by which files may be left out; None if Spark alone knows what it means."""
    if not isinstance(where, str):
        return None
    text = with_variables(spark, where)
    is_sparks = any(
        sign in text and all(setting(spark, key, default).lower() == "true" for key, default in settings.items())
        for sign, settings in _SETTINGS_OF_SIGNS.items()
    )
    return None if is_sparks else text


def _alone(expression: Any) -> list[Column]:
    """Text without brackets, which must make sense as well: `1, 2` and `a) OR (b` do only between brackets."""
    return [F.expr(expression).alias("alone")] if isinstance(expression, str) else []


def type_of(df: DataFrame, expression: Any, name: str, hint: str) -> DataType:
    """The type of an expression over the columns of a DataFrame."""

    def asked() -> Any:
        return df.select(column_of(expression).alias("value"), *_alone(expression)).schema[0].dataType.jsonValue()

    error, found = _analysed(asked)
    if error is not None:
        raise unusable(name, expression, first_line(error), hint)
    return type_from_json(found)


def check_condition(df: DataFrame, condition: Expression, name: str, hint: str) -> None:
    """Makes sure that something is a condition over a DataFrame, and one that chance does not decide.

    A condition such as `rand() < 0.5` may hold for a row now and not when it is asked again. The present time is the
    same throughout a query, and is taken.
    """
    type = type_of(df, condition, name, hint)
    if type.name != "boolean":
        raise InputError(
            f"{text_of(condition)!r} is no condition",
            condition="PREDICATE_INVALID",
            sides={"gives": str(type), "needed": "boolean"},
        )
    if check_steady(df, condition, name) is not None:
        error, _ = _analysed(lambda: df.where(column_of(condition)).schema)
        if error is not None:
            raise unusable(name, condition, first_line(error), hint)


def check_value(df: DataFrame, value: Any, name: str, hint: str) -> None:
    """Makes sure that a row alone decides a value over a DataFrame.

    Other rows of the same files are there or not by chance, so a window or an aggregate over them says nothing.
    """
    type_of(df, value, name, hint)
    # Spark takes none of these for a filter either, and says so without running it.
    error, _ = _analysed(lambda: df.where(column_of(value).isNotNull()).schema)
    if error is not None:
        why = f"it is not the row alone that decides it: {first_line(error)}"
        raise unusable(name, value, why, "Compute such values by a query, and MERGE them into the table.")


def makes_sense(df: DataFrame, condition: Expression) -> bool:
    """Whether something is a condition over the columns of a DataFrame."""
    error, _ = _analysed(lambda: df.where(column_of(condition)).schema)
    return error is None


def filtered(df: DataFrame, condition: Expression) -> DataFrame:
    """The rows of a condition."""
    if not isinstance(condition, str) and type(condition).__name__ != "Column":
        raise InputError(
            f"{condition!r} is no condition",
            condition="PREDICATE_INVALID",
            sides={"given": type(condition).__name__, "expected": "SQL text, or a Spark column"},
        )

    def analysed() -> DataFrame:
        rows, alone = df.where(column_of(condition)), _alone(condition)
        if is_connect(df.sparkSession):
            _ = rows.select(*alone).schema  # a Connect session looks at the plan only now
        return rows

    error, found = _analysed(analysed)
    if error is not None:
        raise unusable("the condition", text_of(condition), first_line(error), "Correct the condition.")
    rows: DataFrame = found
    return rows


def check_steady(df: DataFrame, expression: Any, name: str) -> PySparkException | None:
    """Makes sure that chance does not decide an expression; what else Spark has against it in a join is returned."""
    # Spark takes no condition of chance for a join, and says so without running it.
    nothing = df.sparkSession.range(1).select()
    error, _ = _analysed(lambda: df.join(nothing, column_of(expression).isNotNull()).schema)
    if error is not None and error.getCondition() == _NOT_DETERMINISTIC:
        why = "it is not the same whenever it is computed"
        raise unusable(name, expression, why, "Compute such values into a column first, and use that.")
    return error


def _analysed(ask: Callable[[], Any]) -> tuple[PySparkException | None, Any]:
    """What Spark answers, or the error by which it says that it does not understand."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        with unlogged():
            return None, ask()
    except (AnalysisException, ParseException) as error:
        return error, None


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
