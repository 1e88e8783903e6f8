"""Expressions that users write into a table, checked before they are stored.

A table keeps SQL in three places: conditions that rows must meet, expressions that generate a column, and defaults. All
of them are evaluated by every later write, so one that cannot be evaluated would make the table unwritable. Spark is
asked to analyse each over the table's columns, without running anything.

An expression must give the same result for the same row whenever it is computed: generated values are checked against
it later. Random values, the present time, subqueries and aggregates are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.configuration import identity
from halocline.formats.delta.configuration.generated import generation_of
from halocline.schema.defaults import default_of
from halocline.schema.json_edge import type_from_json
from halocline.schema.types import DataType, Field, Struct
from halocline.spark.types.assignment import Assignment
from halocline.spark.types.columns import blank_frame, quoted, sql_type, written_fields
from halocline.spark.types.input_schema import first_line
from halocline.spark.write.rules import rules_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PRESENT: Final = re.compile(r"\b(current_(date|time|timestamp|user|timezone)|now|localtimestamp)\b", re.IGNORECASE)


def check_expressions(spark: SparkSession | None, schema: Struct, configuration: Mapping[str, str], table: str) -> None:
    """Makes sure that every expression of a table can be evaluated.

    Args:
        spark: The session; without one, a table with expressions is refused.
        schema: The table's schema.
        configuration: Its properties, which hold its constraints.
        table: Its name, for messages.

    Raises:
        InputError: An expression cannot be evaluated (`PREDICATE_INVALID`), or there is no session to ask.
        SchemaError: A generated column's type does not fit its expression.
    """
    fields = written_fields(schema)
    generated = [(field, sql) for field in fields if (sql := generation_of(field)) is not None]
    defaults = [(field, sql) for field in fields if (sql := default_of(field)) is not None]
    conditions = [rule for rule in rules_of(schema, configuration) if not rule.name.startswith("generated column")]
    written = [rule for rule in conditions if rule.name.startswith(("CHECK", "invariant"))]
    _check_identity(schema)
    if not (generated or defaults or written):
        return
    if spark is None:
        raise InputError(
            f"{table} would hold SQL expressions, and checking them takes Spark",
            sides={"expressions": ", ".join([f.name for f, _ in (*generated, *defaults)] + [r.name for r in written])},
            next_step="Give a session: create(path, schema, spark)",
        )
    everything = blank_frame(spark, schema)
    for rule in written:
        _analysed(everything, rule.condition, rule.name, steady=False)
    own = {field.name for field, _ in generated}
    base = everything.select(*(quoted(field.name) for field in fields if field.name not in own))
    for field, expression in generated:
        name = f"generated column {field.name}"
        found = _analysed(base, expression, name, steady=True)
        _check_type(field, found, name, expression)
    for field, expression in defaults:
        name = f"default of {field.name}"
        found = _analysed(spark.range(1).select(), expression, name, steady=False)
        _check_type(field, found, name, expression)


def checked_condition(df: DataFrame, where: str, table: str) -> str:
    """The condition, if it is one over the columns of a DataFrame.

    Raises:
        InputError: It is not.
    """
    if not isinstance(where, str) or not where.strip():
        raise InputError("a condition is SQL text", sides={"given": repr(where)[:80]})
    found = _analysed(df, where, f"the condition for {table}", steady=True)
    if found.name != "boolean":
        raise InputError(
            f"{where!r} is no condition",
            condition="PREDICATE_INVALID",
            sides={"gives": sql_type(found), "needed": "boolean"},
        )
    return where


def _analysed(df: DataFrame, expression: str, name: str, *, steady: bool) -> DataType:
    """The type of an expression over some columns."""
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F

    if steady and (word := _PRESENT.search(expression)):
        raise _refused(name, expression, f"{word[0]} is not the same whenever it is computed")
    try:
        type = type_from_json(df.select(F.expr(expression).alias("value")).schema[0].dataType.jsonValue())
        if steady:
            # Spark takes no condition of a join that may come out otherwise next time.
            _ = df.join(df.sparkSession.range(1).select(), F.expr(expression).isNotNull()).schema
    except (AnalysisException, ParseException) as error:
        raise _refused(name, expression, first_line(error)) from None
    return type


def _refused(name: str, expression: str, why: str) -> InputError:
    return InputError(
        f"{name} cannot be used",
        condition="PREDICATE_INVALID",
        sides={"expression": expression, "because": why},
        next_step="Write it over the table's columns, with functions that depend on nothing else.",
    )


def _check_type(field: Field, found: DataType, name: str, expression: str) -> None:
    work = Assignment()
    work.value("x", found, field.type, field.name)
    if work.problems:
        raise SchemaError(
            f"{name} does not fit its column",
            sides={"column": f"{field.name} {sql_type(field.type)}", expression: sql_type(found)},
            next_step="Cast the expression to the column's type.",
        )


def _check_identity(schema: Struct) -> None:
    for field in schema.fields:
        column = identity.identity_of(field)
        if column is None:
            continue
        computed = generation_of(field) is not None or default_of(field) is not None
        if field.type.name != "long" or column.step == 0 or computed:
            raise SchemaError(
                f"column {column.name} cannot be an identity column",
                sides={
                    "column": f"{column.name} {sql_type(field.type)}, step {column.step}",
                    "needed": "bigint, a step other than 0, neither an expression nor a default",
                },
            )
