"""The rules that every written row must obey, as Spark expressions over the incoming rows.

A *rule* is a condition with a name. It comes from the schema (NOT NULL, invariants, generated columns, the length of
char and varchar) or from the table's properties (CHECK constraints). A row obeys it when the condition is exactly
true; false and null both break it, except that generated columns compare null-safely.

How rows are held against rules while they are written is in `halocline.spark.write.guard`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from halocline.errors import ConstraintError
from halocline.formats.delta.configuration.constraints import checks, invariant_of
from halocline.formats.delta.configuration.generated import generation_of
from halocline.schema.types import Struct
from halocline.spark.types.char_types import lengths_hold
from halocline.spark.types.columns import Everywhere, quoted

LONGEST_SHOWN: Final = 500
"""So many characters are shown of a row that breaks a rule."""


@dataclass(frozen=True, slots=True)
class RowRule:
    """A condition that every row must meet.

    Attributes:
        name: How the rule is called in messages: `CHECK positive_amount`, `NOT NULL id`.
        condition: Spark SQL over the table's columns.
        message: What is said of a row that breaks it.
        next_step: What to do about such a row.
        sides: What the rule and the row go by in messages.
        text: The rule for people, if its condition is not.
    """

    name: str
    condition: str
    message: str = ""
    next_step: str = "Correct the rows, or drop the rule first."
    sides: tuple[str, str] = ("rule", "row")
    text: str = ""

    def refusal(self, shown: str, table: str) -> ConstraintError:
        """The error for a row that breaks it."""
        shown = shown if len(shown) < LONGEST_SHOWN else f"{shown} …"
        return ConstraintError(
            f"{table}: {self.message or f'a row breaks {self.name}'}; nothing was written",
            sides=dict(zip(self.sides, (self.text or self.condition, shown), strict=True)),
            next_step=self.next_step,
        )


def rules_of(schema: Struct, configuration: Mapping[str, str]) -> tuple[RowRule, ...]:
    """The rules of a table, those of the schema first.

    Example:
        >>> from halocline.schema.types import Field, Primitive
        >>> schema = Struct([Field("id", Primitive("long"), nullable=False)])
        >>> [rule.name for rule in rules_of(schema, {"delta.constraints.small": "id < 10"})]
        ['NOT NULL id', 'CHECK small']
    """
    checked = (RowRule(f"CHECK {name}", condition) for name, condition in sorted(checks(configuration).items()))
    return (*_schema_rules(schema), *checked)


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
        if condition := lengths_hold(path, field):
            yield RowRule(f"length of {name}", condition)


class _Complete(Everywhere):
    """That nothing below a value is null that must not be.

    A struct that is null has null fields. Elements of arrays and maps are judged only where they are there at all.
    """

    def itself(self, sql: str, nullable: bool) -> str:
        return "" if nullable else f"{sql} IS NOT NULL"


_COMPLETE: Final = _Complete()
