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

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from halocline.errors import ConstraintError
from halocline.formats.delta.configuration.constraints import checks, invariant_of
from halocline.formats.delta.configuration.generated import generation_of
from halocline.schema.char_types import declared_type
from halocline.schema.types import Array, DataType, Map, Primitive, Struct
from halocline.schema.visitor import Visitor
from halocline.spark.types.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARK: Final = "HALOCLINE_RULE_BROKEN"
_FOUND = re.compile(re.escape(_MARK) + r"<(?P<number>\d+)>(?P<row>.*?)</" + re.escape(_MARK) + ">", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RowRule:
    """A condition that every row must meet.

    Args:
        name: How the rule is called in messages: `CHECK positive_amount`, `NOT NULL id`.
        condition: Spark SQL over the table's columns.
    """

    name: str
    condition: str


def rules_of(schema: Struct, configuration: Mapping[str, str]) -> tuple[RowRule, ...]:
    """The rules of a table, those of the schema first.

    Args:
        schema: The schema.
        configuration: The table's properties.

    Example:
        >>> from halocline.schema import Field
        >>> schema = Struct([Field("id", Primitive("long"), nullable=False)])
        >>> [rule.name for rule in rules_of(schema, {"delta.constraints.small": "id < 10"})]
        ['NOT NULL id', 'CHECK small']
    """
    checked = (RowRule(f"CHECK {name}", condition) for name, condition in sorted(checks(configuration).items()))
    return (*_schema_rules(schema), *checked)


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


def _schema_rules(schema: Struct) -> Iterator[RowRule]:
    for field in schema.fields:
        name, path = field.name, quoted(field.name)
        if not field.nullable:
            yield RowRule(f"NOT NULL {name}", f"{path} IS NOT NULL")
        if inside := _COMPLETE.visit(field.type, (path, 0)):
            yield RowRule(f"NOT NULL inside {name}", inside)
        if (condition := invariant_of(field)) is not None:
            yield RowRule(f"invariant of {name}", condition)
        if (expression := generation_of(field)) is not None:
            yield RowRule(f"generated column {name}", f"{path} <=> ({expression})")
        if (declared := declared_type(field)) is not None:
            yield RowRule(f"length of {name}", f"{path} IS NULL OR length({path}) <= {declared.parameters[0]}")


class _Complete(Visitor[tuple[str, int], str]):
    """A condition that is true if nothing below a value is null that must not be; empty if nothing must.

    It holds where the parent is there at all. The context is SQL for the value, and how deep it stands.
    """

    def primitive(self, type: Primitive, context: tuple[str, int]) -> str:
        return ""

    def struct(self, type: Struct, context: tuple[str, int]) -> str:
        path, depth = context
        parts: list[str] = []
        for field in type.fields:
            inner = f"{path}.{quoted(field.name)}"
            parts += [] if field.nullable else [f"{inner} IS NOT NULL"]
            parts.append(self.visit(field.type, (inner, depth)))
        return _where_present(path, parts)

    def array(self, type: Array, context: tuple[str, int]) -> str:
        path, depth = context
        return _where_present(path, [self._elements(type.element, type.contains_null, path, depth)])

    def map(self, type: Map, context: tuple[str, int]) -> str:
        path, depth = context
        values = self._elements(type.value, type.value_contains_null, f"map_values({path})", depth)
        return _where_present(path, [values, self._elements(type.key, True, f"map_keys({path})", depth)])

    def _elements(self, type: DataType, nullable: bool, path: str, depth: int) -> str:
        each = f"x{depth}"
        conditions = [] if nullable else [f"{each} IS NOT NULL"]
        if below := self.visit(type, (each, depth + 1)):
            conditions.append(below)
        return f"forall({path}, {each} -> {' AND '.join(conditions)})" if conditions else ""


_COMPLETE: Final = _Complete()


def _where_present(path: str, parts: Iterable[str]) -> str:
    conditions = " AND ".join(filter(None, parts))
    return f"({path} IS NULL OR ({conditions}))" if conditions else ""


def _shortened(row: str, longest: int = 500) -> str:
    return row if len(row) <= longest else row[:longest] + " …"
