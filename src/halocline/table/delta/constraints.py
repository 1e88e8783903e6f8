"""The CHECK constraints of a table: a new one holds for every row that is there before it holds for those to come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from halocline.errors import ConstraintError, InputError
from halocline.formats.delta.configuration import alter as change
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of
from halocline.spark.write.expressions import checked_condition
from halocline.table.delta.alter import Altered, alter
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.matches import unmet
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Validator = Callable[[Snapshot, str, str], None]
"""Called with a snapshot, the name and the expression of a constraint; raises if a row does not fit it."""


@as_operation
def add_constraint(table: Opened, name: str, expression: str, *, validator: Validator | None = None) -> Altered:
    """Adds a CHECK constraint, once every existing row has been found to fit it.

    Args:
        table: The table.
        name: The name of the constraint.
        expression: A Spark SQL condition over the table's columns.
        validator: Makes sure of the existing rows; the table's own if left out.

    Raises:
        ConstraintError: A row does not fit.
        InputError: The table has files, and nobody can look at their rows.
    """
    snapshot = table.snapshot("write")
    target = change.add_constraint(snapshot.configuration, name, expression)
    if snapshot.totals[0]:
        check = validator or (None if table.session is None else partial(check_existing_rows, table.session))
        if check is None:
            raise InputError(
                f"existing rows of {table.url} must be checked against constraint {name}, which takes Spark",
                sides={"table": f"{snapshot.totals[0]} files", "opened": "without a Spark session"},
                next_step="Open the table with a session: Table.for_path(path, spark)",
            )
        check(snapshot, name, expression)
    asked, told = frozenset({"checkConstraints"}), {"name": name, "expr": expression}
    return alter(table, lambda _: target, "ADD CONSTRAINT", told, snapshot, asked=asked, depends_on_rows=True)


def drop_constraint(table: Opened, name: str, *, if_exists: bool = False) -> Altered:
    """Takes a CHECK constraint away; the feature stays in the protocol."""
    gone = partial(change.drop_constraint, name=name, if_exists=if_exists)
    return alter(table, gone, "DROP CONSTRAINT", {"name": name})


def check_existing_rows(spark: SparkSession, snapshot: Snapshot, name: str, condition: str) -> None:
    """Makes sure that every row of a snapshot meets a condition; null does not."""
    rows = frame_of(spark, snapshot)
    checked_condition(rows, condition, snapshot.store.root)
    broken = rows.where(unmet(condition)).limit(1)
    if found := broken.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false'))").collect():
        raise ConstraintError(
            f"{snapshot.store.root} has rows that break {name}; nothing was changed",
            sides={"constraint": condition, "row": found[0][0]},
            next_step="Correct the rows first, or choose another condition.",
        )
