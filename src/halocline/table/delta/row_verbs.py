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
from typing import TYPE_CHECKING, Any

from halocline.errors import InputError
from halocline.formats.delta.commit.provenance import engine_info
from halocline.formats.delta.commit.transaction import Transaction, system_clock
from halocline.formats.delta.configuration import properties
from halocline.formats.delta.configuration.row_tracking import PRESERVED_TAG
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of, session_zone
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.session.pinning import computed_once
from halocline.spark.types.columns import is_void, spark_schema
from halocline.spark.write.expressions import checked_condition
from halocline.table.admission import state_of
from halocline.table.delta.clauses import (
    CLAUSE,
    FILE,
    ROW,
    TARGET_ALIAS,
    Clause,
    Expression,
    Kind,
    check_analysed,
    column_of,
    text_of,
)
from halocline.table.delta.matches import is_about_partitions, matches
from halocline.table.delta.removal import remove_rows
from halocline.table.delta.row_changes import SOURCE_ID, Changed, Hits, change_rows, hits_in
from halocline.table.delta.row_edits import checked_values
from halocline.table.delta.row_files import RowFiles
from halocline.table.opening import Opened

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from halocline.table.delta.merge_builder import MergeBuilder
    from halocline.table.delta.optimize import OptimizeBuilder


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


class Changing(Opened):
    """The part of `Table` that changes rows."""

    def delete(self, where: Expression | None = None) -> RowsChanged:
        """Deletes the rows that meet a condition, all rows without one.

        Args:
            where: SQL text, or a Spark column. Text also tells which files need not be looked into.

        Raises:
            InputError: The condition cannot be used, or the table only takes new rows.
            IncompatibleError: The release that acts may not write the table.
            ConflictError: Somebody else changed the same rows first.

        Example:
            >>> Table.for_path("lake/orders", spark).delete("day < '2026-01-01'").metrics  # doctest: +SKIP
            {'numRemovedFiles': 12, 'numDeletedRows': 48211, ...}
        """
        work = _Started(self, "a delete")
        if where is None:
            found = work.transaction.files()
            removes = list(removes_from(found, timestamp_ms=system_clock(), data_change=True))
            rows = matches(work.spark, work.snapshot, found, "true").rows
            with RowFiles(self.store, state_of(work.snapshot)) as files:
                return work.commit(files, Changed(removes, deleted=rows), "DELETE", None)
        is_steady = work.is_steady(where)
        candidates = work.transaction.files(where if isinstance(where, str) else None)
        with RowFiles(self.store, state_of(work.snapshot)) as files:
            if is_steady and isinstance(where, str):
                gone = remove_rows(work.spark, work.snapshot, candidates, where, files)
                changed = Changed(
                    gone.removes,
                    gone.adds,
                    changes=gone.changes,
                    rows=gone.copied_rows,
                    deleted=gone.deleted_rows,
                )
            else:
                hits = work.hits(candidates, where)
                clauses = [Clause(Kind.DELETE, where)]
                changed = change_rows(work.spark, work.snapshot, state_of(work.snapshot), hits, clauses, files)
            return work.commit(files, changed, "DELETE", where)

    def update(self, set: Mapping[str, Any], where: Expression | None = None) -> RowsChanged:
        """Gives columns of the rows that meet a condition, or of all rows, new values.

        Args:
            set: The new value of each column: SQL text, a Spark column, or a constant that is no text. A nested field
                is named by its path. Values may speak of the row as it was.
            where: SQL text, or a Spark column. Text also tells which files need not be looked into.

        Raises:
            InputError: A column or an expression cannot be used, or the table only takes new rows.
            SchemaError: A value does not fit its column.
            ConstraintError: A changed row breaks a rule of the table; nothing was written.
            IncompatibleError: The release that acts may not write the table.
            ConflictError: Somebody else changed the same rows first.

        Example:
            >>> orders = Table.for_path("lake/orders", spark)  # doctest: +SKIP
            >>> orders.update({"status": "'late'"}, "due < current_date()").version  # doctest: +SKIP
            15
        """
        work = _Started(self, "an update")
        if not set:
            raise InputError("no column is to be set", sides={"given": "nothing"}, next_step="update({'status': ...})")
        values = checked_values(set, work.snapshot.schema, "target", self.url)
        clause = Clause(Kind.UPDATE, where, values)
        check_analysed(work.columns, [clause], f"the update of {self.url}")
        candidates = work.transaction.files(where if isinstance(where, str) else None)
        with RowFiles(self.store, state_of(work.snapshot)) as files:
            hits = work.hits(candidates, where)
            changed = change_rows(work.spark, work.snapshot, state_of(work.snapshot), hits, [clause], files)
            return work.commit(files, changed, "UPDATE", where)

    def merge(
        self,
        source: DataFrame,
        condition: Expression,
        *,
        target_alias: str = TARGET_ALIAS,
        source_alias: str | None = None,
    ) -> MergeBuilder:
        """Begins a merge of other rows into the table; nothing happens before `execute`.

        Args:
            source: The rows, possibly under an alias of their own.
            condition: Which row of the source goes with which row of the table: SQL text, or a Spark column.
            target_alias: What the table is called in expressions.
            source_alias: What the source is called in expressions. If it is not given, names that the source brings
                along count, and `s` where those do not make sense of the expressions.

        Example:
            >>> merge = orders.merge(df, "t.id = s.id")  # doctest: +SKIP
            >>> merge.when_matched_update_all().when_not_matched_insert_all().execute().version  # doctest: +SKIP
            16
        """
        from halocline.table.delta.merge_builder import MergeBuilder

        named = source if source_alias is None else source.alias(source_alias)
        return MergeBuilder(self, named, condition, target_alias)

    def optimize(self) -> OptimizeBuilder:
        """Begins a rearrangement of the table's files, which changes no row; nothing happens before it is executed.

        Example:
            >>> Table.for_path("lake/orders", spark).optimize().execute_compaction().version  # doctest: +SKIP
            17
        """
        from halocline.table.delta.optimize import OptimizeBuilder

        return OptimizeBuilder(self)


class _Started:
    """A change under way: the version that it starts from, and its transaction."""

    def __init__(self, table: Opened, what: str) -> None:
        self.began = time.monotonic()
        self.snapshot = table.snapshot("write")
        self.spark: SparkSession = table.spark
        self.transaction = begun(self.spark, self.snapshot)
        self.table = table.url
        check_removable(self.snapshot, what)

    @property
    def columns(self) -> DataFrame:
        """No rows, but all columns."""
        fields = [{**f, "metadata": {}} for f in self.snapshot.schema["fields"] if not is_void(f["type"])]
        return self.spark.createDataFrame([], spark_schema(fields))

    def is_steady(self, where: Expression) -> bool:
        """Whether a condition says the same of a row whenever it is asked.

        Raises:
            InputError: It is no condition over the table's columns.
        """
        check_analysed(self.columns, [Clause(Kind.DELETE, where)], f"the change of {self.table}")
        try:
            checked_condition(self.columns, where if isinstance(where, str) else "", self.table)
        except InputError:
            return False
        return True

    def hits(self, candidates: pa.Table, where: Expression | None) -> Hits:
        """The rows that meet a condition, taken by the first clause."""
        from pyspark.sql import functions as F

        if where is None:
            return Hits(candidates, None, {0: None})
        if self.is_steady(where) and is_about_partitions(self.snapshot, text_of(where)):
            found = matches(self.spark, self.snapshot, candidates, text_of(where))
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
        version = files.commit(
            self.transaction,
            changed.actions,
            operation,
            {"predicate": [] if where is None else [f"({text_of(where)})"]},
            metrics=metrics,
            tags=preserved(files, changed),
        )
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


def begun(spark: SparkSession, snapshot: Snapshot) -> Transaction:
    """A transaction on a version, in the name of a session."""
    return Transaction(snapshot, engine=engine_info(spark.version), timezone=session_zone(spark))


def preserved(files: RowFiles, changed: Changed) -> dict[str, str] | None:
    """The tag that says that rows kept their ids, if there are any to keep."""
    return {PRESERVED_TAG: "true"} if files.identities().names and changed.adds else None


def check_removable(snapshot: Snapshot, what: str) -> None:
    """Makes sure that rows may be taken away.

    Raises:
        InputError: The table only takes new rows.
    """
    if snapshot.protocol.supports("appendOnly") and properties.flag(snapshot.configuration, "delta.appendOnly"):
        raise InputError(
            f"{snapshot.store.root} is append-only: rows cannot be deleted or changed",
            condition="TABLE_APPEND_ONLY",
            sides={"table": "delta.appendOnly=true", "asked for": what},
            next_step="Set delta.appendOnly=false on the table first.",
        )
