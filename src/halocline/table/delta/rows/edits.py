"""Rows as clauses leave them: new values assigned, cast, generated and checked in the plan of one pass.

Rows come with the number of the clause that takes them (`CLAUSE`, null for rows that stay as they are) and with
themselves as they were (`OLD`). `with_values` computes the values that clauses assign, each only for the rows of its
own clause, so that an expression never meets a row that it was not written for. `edited` turns them into rows of the
table.

Generated columns that a clause does not set are computed anew for the rows it changes. The table's rules are held
against changed rows only: a row that is merely moved to another file is nobody's to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError
from halocline.formats.delta.configuration.generated import generation_of
from halocline.formats.delta.configuration.identity import identity_columns
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.schema.json_edge import type_from_json
from halocline.schema.types import DataType, Field, Struct, is_void
from halocline.spark.session.analysis import column_of
from halocline.spark.session.functions import F
from halocline.spark.types import char_types
from halocline.spark.types.assignment import Assignment, Casting, Lacking
from halocline.spark.types.columns import (
    cast_type,
    missing,
    quoted,
    written_fields,
)
from halocline.spark.types.partition_values import kept_sql
from halocline.spark.write.guard import UNFIT, fit_rules, judged, unfit_item
from halocline.spark.write.row_plan import RowPlan
from halocline.spark.write.rules import rules_of
from halocline.table.delta.rows.clauses import CLAUSE, OLD, Clause, ClauseKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SET: Final = "__halocline_set_"
_STEP: Final = re.compile(r"`(?:[^`]|``)*`|[^.]+")


def checked_values(values: Mapping[str, Any], schema: Struct, alias: str | None, table: str) -> dict[str, Any]:
    """Values to be assigned, by column or by the path of a nested field, in the table's spelling.

    Names may be given with the table's alias in front.
    """
    own = {column.name for column in identity_columns(schema)}
    found: dict[str, Any] = {}
    for given, value in values.items():
        path = _path(given, schema, alias)
        if path is None:
            named = given.replace("`", "")
            message = f"there is no column {named!r} to set"
            raise InputError.unknown(message, named, schema.names, condition="COLUMN_NOT_FOUND")
        if path[0] in own:
            raise InputError(
                f"{table} makes the values of column {path[0]} itself, and they never change",
                sides={"column": f"{path[0]}, an identity column", "asked for": f"to set {given}"},
                next_step=f"Leave {path[0]} out.",
            )
        name = ".".join(map(quoted, path))
        if any(name == other or name.startswith(f"{other}.") or other.startswith(f"{name}.") for other in found):
            raise InputError(f"column {given} is set twice", sides={"given": ", ".join(values)})
        found[name] = value
    return found


def with_values(df: DataFrame, clauses: Mapping[int, Clause], schema: Struct) -> DataFrame:
    """Rows with `CLAUSE` and `OLD`, and with what their clauses assign, in columns of their own.

    The values of clauses are by quoted path, as `checked_values` gives them.
    """
    items = []
    for number, clause in clauses.items():
        if clause.kind is ClauseKind.UPDATE:
            for column, value in _by_column(clause.values or {}, schema):
                taken = F.when(F.col(CLAUSE) == F.lit(number), value)
                items.append(taken.alias(_name(number, column)))
    return df.select("*", *items) if items else df


def changed_columns(clauses: Sequence[Clause], schema: Struct) -> set[str]:
    """The columns that may have other values after updates: those that a clause sets, and generated ones."""
    updates = [clause for clause in clauses if clause.kind is ClauseKind.UPDATE]
    named = {_unquoted(_STEP.findall(name)[0]) for clause in updates for name in clause.values or ()}
    return named | {field.name for field in schema.fields if updates and generation_of(field) is not None}


def edited(
    df: DataFrame,
    clauses: Mapping[int, Clause],
    before: Struct,
    state: TableConfiguration,
    keep: Sequence[str],
    table: str,
    lacking: Lacking,
) -> RowPlan:
    """Rows of what the table is going to be, with `CLAUSE` and columns to keep; rules are for changed ones."""
    after = state.schema
    given = {
        field.name: type_from_json(field.dataType.jsonValue()) for field in df.schema if field.name.startswith(_SET)
    }
    fields = written_fields(after)
    work = Assignment(Casting.EXACT, lacking)
    values = [(field, _value(field, before, given, clauses, work)) for field in fields]
    items = [f"{kept_sql(sql, field, state.partition_columns)} AS {quoted(field.name)}" for field, sql in values]
    work.check(table)
    kept = list(map(quoted, (CLAUSE, *keep)))
    rows = df.selectExpr(*items, *kept, *unfit_item(work.fits))
    kept += [UNFIT] if work.fits else []
    rows = rows.selectExpr(*_generated(fields, given, clauses, state.partition_columns), *kept)
    fits, rules = fit_rules(work.fits), rules_of(after, state.metadata.configuration)
    updates = [str(number) for number, clause in clauses.items() if clause.kind is ClauseKind.UPDATE]
    changed = f"{CLAUSE} IN ({', '.join(updates)})" if updates else "false"
    held = [replace(rule, condition=f"NOT coalesce({changed}, false) OR ({rule.condition})") for rule in rules]
    rows = char_types.known_to_spark(rows, after)
    return RowPlan(judged(rows, held if updates else [], first=len(fits)), (*fits, *rules))


def _value(
    field: Field, before: Struct, given: Mapping[str, DataType], clauses: Mapping[int, Clause], work: Assignment
) -> str:
    """SQL for one column: what its clause assigns, else what it was."""
    name, known = field.name, before.get(field.name)
    stays = missing(field.type)
    if known is not None and not is_void(known.type):
        stays = work.value(f"{OLD}.{quoted(known.name)}", known.type, field.type, name)
    branches = ""
    for number, clause in clauses.items():
        source = _name(number, name)
        if source in given:
            old = None if known is None or not clause.keeps_fields else (f"{OLD}.{quoted(known.name)}", known.type)
            sql = work.value(quoted(source), given[source], field.type, name, old)
            branches += f" WHEN {number} THEN {char_types.fitted(sql, field)}"
    return f"CASE {CLAUSE}{branches} ELSE {stays} END" if branches else stays


def _generated(
    fields: Sequence[Field],
    given: Mapping[str, DataType],
    clauses: Mapping[int, Clause],
    partition_columns: Sequence[str],
) -> Iterator[str]:
    """The columns, generated ones computed anew where a clause changes the row and does not set them."""
    for field in fields:
        name, expression = quoted(field.name), generation_of(field)
        numbers = [
            str(number)
            for number, clause in clauses.items()
            if clause.kind is ClauseKind.UPDATE and _name(number, field.name) not in given
        ]
        if expression is None or not numbers:
            yield name
            continue
        anew = kept_sql(f"CAST(({expression}) AS {cast_type(field.type)})", field, partition_columns)
        yield f"CASE WHEN {CLAUSE} IN ({', '.join(numbers)}) THEN {anew} ELSE {name} END AS {name}"


def _by_column(values: Mapping[str, Any], schema: Struct) -> Iterator[tuple[str, Column]]:
    """What is assigned to each column of the top level; nested fields become part of their struct."""
    nested: dict[str, dict[tuple[str, ...], Any]] = {}
    for name, value in values.items():
        top, *below = map(_unquoted, _STEP.findall(name))
        if below:
            nested.setdefault(top, {})[tuple(below)] = value
        else:
            yield top, column_of(value)
    for top, inner in nested.items():
        yield top, _with_fields(f"{OLD}.{quoted(top)}", schema.find([top])[1].struct or Struct(), inner)


def _with_fields(sql: str, struct: Struct, values: Mapping[tuple[str, ...], Any]) -> Column:
    """A struct with other values in some of its fields, at any depth; it is there even if it was not."""
    parts = []
    for field in struct.fields:
        name = field.name
        here, inner = f"{sql}.{quoted(name)}", {path[1:]: value for path, value in values.items() if path[0] == name}
        if () in inner:
            part = column_of(inner[()])
        elif inner:
            part = _with_fields(here, field.struct or Struct(), inner)
        else:
            part = F.expr(here)
        parts.append(part.alias(name))
    known = set(struct.names)
    parts += [column_of(value).alias(path[0]) for path, value in values.items() if path[0] not in known]
    return F.struct(*parts)


def _path(given: str, schema: Struct, alias: str | None) -> list[str] | None:
    """The column, and the steps below it, that a name stands for; None if there is none."""
    text = given.strip()
    prefixes = () if alias is None else (f"{alias}.", f"`{alias}`.")
    bare = [text[len(each) :] for each in prefixes if text.lower().startswith(each.lower())]
    for candidate in (text, *bare):
        if (field := schema.get(candidate)) is not None:
            return [field.name]
        if found := _steps(candidate, schema):
            return found
    return None


def _steps(text: str, schema: Struct) -> list[str] | None:
    found: list[str] = []
    inner: Struct | None = schema
    for part in _STEP.findall(text):
        field = None if inner is None else inner.get(_unquoted(part) if part[:1] == "`" else part)
        if field is None:
            return None
        found.append(field.name)
        inner = field.struct
    return found or None


def _name(number: int, column: str) -> str:
    return f"{_SET}{number}_{column}"


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`")
