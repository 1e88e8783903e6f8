"""Changing rows that are in the table: delete them, update them, merge others into them, rearrange them.

Every change goes the same way. The newest version is opened behind the gate; the log and one Spark job tell which files
hold rows that are to change; those files are rewritten, or their rows marked where the table has deletion vectors
enabled; and one transaction commits it all. If anything fails before, nothing is left behind. A change that finds
nothing to change commits nothing.

Somebody else's commit in between is no trouble unless it touched rows that this one read: then a `ConflictError` says
so, and the change can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from halocline.errors import InputError
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.session.analysis import Expression, column_of, text_of
from halocline.spark.session.pinning import computed_once
from halocline.spark.types.columns import blank_frame
from halocline.table.delta.clauses import (
    CLAUSE,
    FILE,
    ROW,
    Clause,
    check_analysed,
    is_steady,
)
from halocline.table.delta.matches import is_about_partitions, matches
from halocline.table.delta.opened import Opened
from halocline.table.delta.row_changes import SOURCE_ID, Changed, Hits, hits_in
from halocline.table.delta.row_files import RowFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """A change of rows.

    Attributes:
        version: The version that has it; the one that was read if there was nothing to change.
        committed: Whether there was anything to change.
        metrics: Figures, under the names that commits use.
    """

    version: int
    committed: bool
    metrics: Mapping[str, int] = field(default_factory=dict)


class RowChange:
    """A change under way: the version that it starts from, and its transaction."""

    def __init__(self, table: Opened, what: str) -> None:
        self.began = time.monotonic()
        self.snapshot = table.snapshot("write")
        self.spark: SparkSession = table.spark
        self.transaction = table.transaction(self.snapshot)
        self.table = table.url
        check_removable(self.snapshot, what)

    @property
    def columns(self) -> DataFrame:
        """No rows, but all columns."""
        return blank_frame(self.spark, self.snapshot.schema)

    def check(self, clause: Clause) -> None:
        """Makes sure that what a clause says makes sense for the table's columns.

        Raises:
            InputError: A condition is none, or may come out otherwise when it is asked again.
        """
        check_analysed(self.columns, [clause], f"the change of {self.table}")

    def hits(self, candidates: pa.Table, where: Expression | None) -> Hits:
        """The rows that meet a condition, taken by the first clause."""
        from pyspark.sql import functions as F

        if where is None:
            return Hits(candidates, None, {0: None})
        if isinstance(where, str) and is_steady(where) and is_about_partitions(self.snapshot, where):
            found = matches(self.spark, self.snapshot, candidates, where)
            return Hits(found.whole, None, {0: found.rows})
        if not len(candidates):
            return Hits(candidates, None, {})
        df = frame_of(self.spark, self.snapshot, files=candidates, rows=RowColumns(file=FILE, row=ROW))
        numbers = (F.lit(None).cast("long").alias(SOURCE_ID), F.lit(0).alias(CLAUSE))
        found_rows = computed_once(df.where(column_of(where)).select(FILE, ROW, *numbers))
        return hits_in(self.spark, candidates, found_rows)[0]

    def commit(self, files: RowFiles, changed: Changed, operation: str, where: Expression | None) -> RowsChanged:
        """Commits what changes rows, if anything does."""
        metrics = self._metrics(changed, operation)
        if not changed.actions:
            return RowsChanged(self.snapshot.version, False, metrics)
        parameters = {"predicate": [] if where is None else [f"({text_of(where)})"]}
        said = CommitDescription(operation, parameters, metrics)
        version = files.commit(self.transaction, changed.actions, said)
        return RowsChanged(version, True, metrics)

    def _metrics(self, changed: Changed, operation: str) -> dict[str, int]:
        vectors = changed.vectors("numDeletionVectors")
        fresh = [add for add in changed.adds if add.deletion_vector is None]
        rows = {"numDeletedRows": changed.deleted} if operation == "DELETE" else {"numUpdatedRows": changed.updated}
        again = {add.path for add in changed.adds}
        gone = [each for each in changed.removes if each.path not in again]
        return {
            "numRemovedFiles": len(gone),
            "numRemovedBytes": sum(each.size or 0 for each in gone),
            "numAddedFiles": len(fresh),
            "numAddedBytes": sum(add.size for add in fresh),
            **{name: count for name, count in rows.items() if count is not None},
            "numCopiedRows": changed.copied if operation == "UPDATE" else changed.rows,
            "numAddedChangeFiles": len(changed.changes),
            **vectors,
            "executionTimeMs": int((time.monotonic() - self.began) * 1000),
        }


def check_removable(snapshot: Snapshot, what: str) -> None:
    """Makes sure that rows may be taken away.

    Raises:
        InputError: The table only takes new rows.
    """
    if snapshot.protocol.supports("appendOnly") and snapshot.properties.append_only:
        raise InputError(
            f"{snapshot.store.root} is append-only: rows cannot be deleted or changed",
            condition="TABLE_APPEND_ONLY",
            sides={"table": "delta.appendOnly=true", "asked for": what},
            next_step="Set delta.appendOnly=false on the table first.",
        )
