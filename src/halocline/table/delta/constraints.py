"""Existing rows held against a condition that is about to become a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halocline.errors import ConstraintError
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of
from halocline.spark.write.expressions import checked_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_existing_rows(spark: SparkSession, snapshot: Snapshot, name: str, condition: str) -> None:
    """Makes sure that every row of a snapshot meets a condition; null does not.

    Raises:
        ConstraintError: One does not; it is shown.
        InputError: The condition cannot be read, or names a column that the table does not have.
    """
    rows = frame_of(spark, snapshot)
    checked_condition(rows, condition, snapshot.store.root)
    broken = (
        rows.where(f"NOT coalesce(({condition}), false)")
        .limit(1)
        .selectExpr("to_json(struct(*), map('ignoreNullFields', 'false'))")
    )
    if found := broken.collect():
        raise ConstraintError(
            f"{snapshot.store.root} has rows that break {name}; nothing was changed",
            sides={"constraint": condition, "row": found[0][0]},
            next_step="Correct the rows first, or choose another condition.",
        )
