"""Expressions that users write into a table, checked before they are stored.

A table keeps SQL in three places: conditions that rows must meet, expressions that generate a column, and defaults. All
of them are evaluated by every later write, so one that cannot be evaluated would make the table unwritable. Spark is
asked to analyse each over the table's columns, without running anything.

An expression must give the same result for the same row whenever it is computed: generated values are checked against
it later. Random values, the present time, subqueries and aggregates are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.configuration import identity
from halocline.schema.json_edge import struct_from_json
from halocline.spark.types.assignment import Assignment
from halocline.spark.types.columns import Field, is_void, quoted, spark_schema, sql_type
from halocline.spark.types.input_schema import DEFAULT, first_line
from halocline.spark.write.rules import GENERATION, rules_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PRESENT: Final = re.compile(r"\b(current_(date|time|timestamp|user|timezone)|now|localtimestamp)\b", re.IGNORECASE)


def check_expressions(
    spark: SparkSession | None, schema: Mapping[str, Any], configuration: Mapping[str, str], table: str
) -> None:
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
    fields: Sequence[Field] = [field for field in schema["fields"] if not is_void(field["type"])]
    generated = [field for field in fields if GENERATION in (field.get("metadata") or {})]
    defaults = [field for field in fields if DEFAULT in (field.get("metadata") or {})]
    conditions = [rule for rule in rules_of(schema, configuration) if not rule.name.startswith("generated column")]
    written = [rule for rule in conditions if rule.name.startswith(("CHECK", "invariant"))]
    _check_identity(schema["fields"])
    if not (generated or defaults or written):
        return
    if spark is None:
        raise InputError(
            f"{table} would hold SQL expressions, and checking them takes Spark",
            sides={"expressions": ", ".join([f["name"] for f in (*generated, *defaults)] + [r.name for r in written])},
            next_step="Give a session: create(path, schema, spark)",
        )
    plain = [{**field, "metadata": {}, "nullable": True} for field in fields]
    everything = spark.createDataFrame([], spark_schema(plain))
    for rule in written:
        _analysed(everything, rule.condition, rule.name, steady=False)
    own = {field["name"] for field in generated}
    base = everything.select(*(quoted(field["name"]) for field in fields if field["name"] not in own))
    for field in generated:
        expression = str(field["metadata"][GENERATION])
        name = f"generated column {field['name']}"
        found = _analysed(base, expression, name, steady=True)
        _check_type(field, found, name, expression)
    for field in defaults:
        expression, name = str(field["metadata"][DEFAULT]), f"default of {field['name']}"
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
    if found != "boolean":
        raise InputError(
            f"{where!r} is no condition",
            condition="PREDICATE_INVALID",
            sides={"gives": sql_type(found), "needed": "boolean"},
        )
    return where


def _analysed(df: DataFrame, expression: str, name: str, *, steady: bool) -> Any:
    """The type of an expression over some columns."""
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F

    if steady and (word := _PRESENT.search(expression)):
        raise _refused(name, expression, f"{word[0]} is not the same whenever it is computed")
    try:
        type = df.select(F.expr(expression).alias("value")).schema[0].dataType.jsonValue()
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


def _check_type(field: Field, found: Any, name: str, expression: str) -> None:
    work = Assignment()
    work.value("x", found, field["type"], str(field["name"]))
    if work.problems:
        raise SchemaError(
            f"{name} does not fit its column",
            sides={"column": f"{field['name']} {sql_type(field['type'])}", expression: sql_type(found)},
            next_step="Cast the expression to the column's type.",
        )


def _check_identity(fields: Sequence[Field]) -> None:
    for column in identity.identity_columns(struct_from_json({"fields": fields})):
        field = next(each for each in fields if each["name"] == column.name)
        metadata = field.get("metadata") or {}
        if field["type"] != "long" or column.step == 0 or GENERATION in metadata or DEFAULT in metadata:
            raise SchemaError(
                f"column {column.name} cannot be an identity column",
                sides={
                    "column": f"{column.name} {sql_type(field['type'])}, step {column.step}",
                    "needed": "bigint, a step other than 0, neither an expression nor a default",
                },
            )
