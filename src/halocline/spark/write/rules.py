"""The rules that every written row must obey, as Spark expressions over the incoming rows.

A *rule* is a condition with a name. It comes from the schema (NOT NULL, invariants, generated columns, the length of
char and varchar) or from the table's properties (CHECK constraints). A row obeys it when the condition is exactly
true; false and null both break it, except that generated columns compare null-safely.

`guarded` puts all rules into the plan of the write itself, so the rows are computed once. The first row that breaks a
rule ends the Spark job, the files written so far are never committed, and `violation` turns Spark's error into a
`ConstraintError` that names the rule and shows the row. The limit: the row shown is one of possibly many, whichever
task met its own first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import ConstraintError, MalformedError
from halocline.spark.types.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARK: Final = "HALOCLINE_RULE_BROKEN"
_FOUND = re.compile(re.escape(_MARK) + r"<(?P<number>\d+)>(?P<row>.*?)</" + re.escape(_MARK) + ">", re.DOTALL)
_CHAR = re.compile(r"(?:var)?char\s*\(\s*(?P<length>\d+)\s*\)", re.IGNORECASE)

INVARIANTS: Final = "delta.invariants"
GENERATION: Final = "delta.generationExpression"
CONSTRAINTS: Final = "delta.constraints."
_CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True, slots=True)
class RowRule:
    """A condition that every row must meet.

    Args:
        name: How the rule is called in messages: `CHECK positive_amount`, `NOT NULL id`.
        condition: Spark SQL over the table's columns.
    """

    name: str
    condition: str


def rules_of(schema: Mapping[str, Any], configuration: Mapping[str, str]) -> tuple[RowRule, ...]:
    """The rules of a table, those of the schema first.

    Args:
        schema: The parsed schema with logical names.
        configuration: The table's properties.

    Example:
        >>> schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": False, "metadata": {}}]}
        >>> [rule.name for rule in rules_of(schema, {"delta.constraints.small": "id < 10"})]
        ['NOT NULL id', 'CHECK small']
    """
    checks = (
        RowRule(f"CHECK {key.removeprefix(CONSTRAINTS)}", condition)
        for key, condition in sorted(configuration.items())
        if key.startswith(CONSTRAINTS)
    )
    return (*_schema_rules(schema), *checks)


def guarded(df: DataFrame, rules: Sequence[RowRule]) -> DataFrame:
    """The same rows; computing one that breaks a rule fails with a message that `violation` understands.

    The check stands in the projection of the first column and not in a filter, because Spark moves filters below
    joins, where they would judge rows that the join drops.
    """
    from pyspark.sql import functions as F

    if not rules or not df.columns:
        return df
    row = F.to_json(F.struct(*(F.col(quoted(name)) for name in df.columns)), {"ignoreNullFields": "false"})
    broken = F.lit(None).cast("int")
    for number, rule in reversed(list(enumerate(rules))):
        broken = F.when(~F.coalesce(F.expr(rule.condition), F.lit(False)), F.lit(number)).otherwise(broken)
    first = F.col(quoted(df.columns[0]))
    message = F.concat(F.lit(f"{_MARK}<"), broken.cast("string"), F.lit(">"), row, F.lit(f"</{_MARK}>"))
    checked = F.when(broken.isNull(), first).otherwise(F.raise_error(message).cast(df.schema[0].dataType))
    return df.withColumn(df.columns[0], checked)


def violation(error: BaseException, rules: Sequence[RowRule], table: str) -> ConstraintError | None:
    """The rule that a failed Spark job broke, or None if it failed for another reason."""
    found = _FOUND.search(str(error))
    if found is None or int(found["number"]) >= len(rules):
        return None
    rule = rules[int(found["number"])]
    return ConstraintError(
        f"{table}: a row breaks {rule.name}; nothing was written",
        sides={"rule": rule.condition, "row": _shortened(found["row"])},
        next_step="Correct the rows, or drop the rule first.",
    )


def _schema_rules(schema: Mapping[str, Any]) -> Iterator[RowRule]:
    for field in schema["fields"]:
        name, path = field["name"], quoted(field["name"])
        metadata = field.get("metadata") or {}
        if not field.get("nullable", True):
            yield RowRule(f"NOT NULL {name}", f"{path} IS NOT NULL")
        yield from _nested_not_null(field["type"], path, name)
        if INVARIANTS in metadata:
            yield RowRule(f"invariant of {name}", _invariant(metadata[INVARIANTS], name))
        if GENERATION in metadata:
            yield RowRule(f"generated column {name}", f"{path} <=> ({metadata[GENERATION]})")
        if limit := _CHAR.fullmatch(str(metadata.get(_CHAR_VARCHAR, ""))):
            yield RowRule(f"length of {name}", f"{path} IS NULL OR length({path}) <= {limit['length']}")


def _nested_not_null(kind: Any, path: str, name: str) -> Iterator[RowRule]:
    """NOT NULL below the top level: it holds where the parent is there at all."""
    condition = _complete(kind, path, 0)
    if condition is not None:
        yield RowRule(f"NOT NULL inside {name}", condition)


def _complete(kind: Any, path: str, depth: int) -> str | None:
    """A condition that is true if nothing below `path` is null that must not be; None if nothing must."""
    if not isinstance(kind, Mapping):
        return None
    each = f"x{depth}"
    parts: list[str] = []
    if kind["type"] == "struct":
        for field in kind["fields"]:
            inner = f"{path}.{quoted(field['name'])}"
            if not field.get("nullable", True):
                parts.append(f"{inner} IS NOT NULL")
            if below := _complete(field["type"], inner, depth):
                parts.append(below)
    elif kind["type"] == "array":
        parts = _elements(kind["elementType"], kind.get("containsNull", True), path, each, depth)
    elif kind["type"] == "map":
        values = f"map_values({path})"
        parts = _elements(kind["valueType"], kind.get("valueContainsNull", True), values, each, depth)
        parts += _elements(kind["keyType"], True, f"map_keys({path})", each, depth)
    return f"({path} IS NULL OR ({' AND '.join(parts)}))" if parts else None


def _elements(kind: Any, nullable: bool, path: str, each: str, depth: int) -> list[str]:
    conditions = [] if nullable else [f"{each} IS NOT NULL"]
    if below := _complete(kind, each, depth + 1):
        conditions.append(below)
    return [f"forall({path}, {each} -> {' AND '.join(conditions)})"] if conditions else []


def _invariant(text: str, name: str) -> str:
    try:
        condition = json.loads(text)["expression"]["expression"]
    except (ValueError, TypeError, KeyError):
        condition = None
    if not isinstance(condition, str):
        raise MalformedError(
            f"the invariant of column {name} cannot be read",
            condition="MALFORMED_METADATA",
            sides={"expected": '{"expression": {"expression": "<SQL>"}}', "found": text[:200]},
        )
    return condition


def _shortened(row: str, longest: int = 500) -> str:
    return row if len(row) <= longest else row[:longest] + " …"
