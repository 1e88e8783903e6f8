"""Expressions that users write into a table, checked before they are stored.

A table keeps SQL in three places: conditions that rows must meet, expressions that generate a column, and defaults. All
of them are evaluated by every later write, so one that cannot be evaluated would make the table unwritable. Spark is
asked to analyse each over the table's columns, without running anything.

An expression must give the same result for the same row whenever it is computed: generated values are checked against
it later. Random values, the present time, subqueries and aggregates are refused. A default is computed once, when a row
comes, so only subqueries and aggregates are refused there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.configuration import identity
from halocline.formats.delta.configuration.generated import generation_of
from halocline.schema.defaults import default_of
from halocline.schema.types import DataType, Field, Struct
from halocline.spark.session.analysis import check_condition, type_of, unusable
from halocline.spark.types.assignment import Assignment, Casting
from halocline.spark.types.columns import blank_frame, quoted, sql_type, written_fields
from halocline.spark.write.rules import rules_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HINT: Final = "Write it over the table's columns, with functions that depend on nothing else."
_PRESENT: Final = re.compile(
    r"\b(current_(date|time|timestamp|user|timezone)|now|localtimestamp|select)\b", re.IGNORECASE
)
_SUBQUERY: Final = re.compile(r"\(\s*(select|with|values|table|from)\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)


def check_expressions(spark: SparkSession | None, schema: Struct, configuration: Mapping[str, str], table: str) -> None:
    """Makes sure that every expression of a table can be evaluated."""
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
        type_of(everything, rule.condition, rule.name, _HINT)
    own = {field.name for field, _ in generated}
    base = everything.select(*(quoted(field.name) for field in fields if field.name not in own))
    for field, expression in generated:
        name = f"generated column {field.name}"
        _check_timeless(expression, name)
        found = type_of(base, expression, name, _HINT)
        check_condition(base, f"({expression}) IS NULL", name, _HINT)
        _check_type(field, found, name, expression, Casting.WIDENING)
    for field, expression in defaults:
        name = f"default of {field.name}"
        if word := _SUBQUERY.search(_QUOTED.sub("''", expression)):
            raise unusable(name, expression, f"{word[1]} begins a subquery, which no default may have", _HINT)
        found = type_of(spark.range(1).select(), expression, name, _HINT)
        _check_type(field, found, name, expression, Casting.ANSI)


def checked_condition(df: DataFrame, where: str, table: str) -> str:
    """The condition, if it is one over the columns of a DataFrame that always says the same of a row."""
    if not isinstance(where, str) or not where.strip():
        raise InputError("a condition is SQL text", sides={"given": repr(where)[:80]})
    name = f"the condition for {table}"
    _check_timeless(where, name)
    check_condition(df, where, name, _HINT)
    return where


def _check_timeless(expression: str, name: str) -> None:
    if word := _PRESENT.search(_QUOTED.sub("''", expression)):
        raise unusable(name, expression, f"{word[0]} is not the same whenever it is computed", _HINT)


def _check_type(field: Field, found: DataType, name: str, expression: str, casting: Casting) -> None:
    work = Assignment(casting)
    work.value("x", found, field.type, field.name)
    # Rows are tried one by one when they come; a text that is no value of its column would be stored as its default.
    is_text = found.name == "string" and field.type.name != "string"
    if work.problems or is_text:
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
