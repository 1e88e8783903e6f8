"""Changing rows where they are: from the rows that clauses take to the actions of one commit.

*Hits* are the rows that a clause takes: the file, the position in it, the number of the clause, and the row of the
source that goes with it, if there is one. They are computed once and kept, so that everything that follows agrees on
them, whatever the condition was. Only files with hits are touched. Either all their rows are written again, changed or
not; or, where the table marks rows, the hits are marked and only changed rows are written. Rows keep their ids.

A table with a change feed gets the rows before and after as change files, unless nothing but whole files went, or rows
were only marked as deleted: readers see that by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.formats.delta.actions.action import Action, Add, Cdc, Remove
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.log.live_files import from_adds
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of, session_zone
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.scan.scan import FileLayout, scan
from halocline.spark.session.pinning import computed_once
from halocline.spark.types.assignment import Lacking
from halocline.spark.types.columns import quoted, written_fields
from halocline.spark.write.guard import Watched, checked, watched
from halocline.storage.base import Store
from halocline.table.delta.clauses import CLAUSE, FILE, OLD, ROW, Clause, ClauseKind, with_old
from halocline.table.delta.removal import feeds_changes
from halocline.table.delta.row_counts import check_rows
from halocline.table.delta.row_edits import Edited, edited, with_values
from halocline.table.delta.row_files import CHANGE_TYPE, RowFiles
from halocline.table.delta.row_marks import marked, marks_rows, positions_by_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE_ID: Final = "__halocline_source_id"
SMALL: Final = 500_000
"""So many hits are sent to every executor rather than shuffled."""

_HIT_FILE: Final = "__halocline_hit_file"
_HIT_ROW: Final = "__halocline_hit_row"
HIT_SOURCE: Final = "__halocline_hit_source"
_OTHER: Final = "__halocline_other_number"


@dataclass(frozen=True)
class Hits:
    """The rows that clauses take.

    Attributes:
        files: The files that hold them.
        frame: File number, position, source row and clause of each; None if the first clause takes every row.
        counts: How many rows each clause takes.
    """

    files: pa.Table
    frame: DataFrame | None
    counts: Mapping[int, int | None]

    @property
    def is_small(self) -> bool:
        """Whether all of them fit into every executor."""
        return sum(count or 0 for count in self.counts.values()) <= SMALL


@dataclass(frozen=True)
class Changed:
    """What changes the rows.

    Attributes:
        removes: The files that go, or are replaced.
        adds: The files that replace them.
        marked: How many of these are old files with a vector.
        changes: What the change feed needs.
        is_recorded: Whether the change feed of the commit is in change files, so that inserts belong there, too.
        rows: How many rows the new files hold.
        updated: How many rows were updated.
        deleted: How many rows were deleted; None if nobody counted them.
    """

    removes: list[Remove] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)
    marked: int = 0
    changes: list[Cdc] = field(default_factory=list)
    is_recorded: bool = False
    rows: int = 0
    updated: int = 0
    deleted: int | None = 0

    @property
    def actions(self) -> list[Action]:
        """All of it."""
        return [*self.removes, *self.adds, *self.changes]

    @property
    def copied(self) -> int:
        """How many rows were written again as they were."""
        return self.rows - self.updated

    def vectors(self, prefix: str) -> dict[str, int]:
        """How many vectors came, went and grew, under the names that commits use."""
        again = {add.path for add in self.adds if add.deletion_vector is not None}
        had = {each.path for each in self.removes if each.deletion_vector is not None}
        return {
            f"{prefix}Added": len(again),
            f"{prefix}Removed": len(had),
            f"{prefix}Updated": len(again & had),
        }


def hits_in(spark: SparkSession, files: pa.Table, found: DataFrame) -> tuple[Hits, int]:
    """The hits, and how many rows of the source at most go with one of them.

    Args:
        spark: The session.
        files: The files that were looked into.
        found: File number, position, source row and clause; kept already, and possibly several times per row.
    """
    from pyspark.sql import functions as F

    rows = found.groupBy(FILE, ROW).agg(
        F.count(F.lit(1)).alias("n"), F.min(SOURCE_ID).alias(SOURCE_ID), F.min(CLAUSE).alias(CLAUSE)
    )
    figures = rows.groupBy(FILE, CLAUSE).agg(F.count(F.lit(1)), F.max("n")).collect()
    counts: dict[int, int | None] = {}
    for _, clause, count, _ in figures:
        counts[clause] = (counts.get(clause) or 0) + count
    numbers = sorted({row[0] for row in figures})
    frame = rows.select(
        F.col(FILE).alias(_HIT_FILE),
        F.col(ROW).alias(_HIT_ROW),
        F.col(SOURCE_ID).alias(HIT_SOURCE),
        F.col(CLAUSE).alias(CLAUSE),
    )
    if len(numbers) < len(files):
        others = {_HIT_FILE: pa.array(numbers, pa.int64()), _OTHER: pa.array(range(len(numbers)), pa.int64())}
        small = F.broadcast(spark.createDataFrame(pa.table(others)))
        frame = frame.join(small, _HIT_FILE).drop(_HIT_FILE).withColumnRenamed(_OTHER, _HIT_FILE)
    return Hits(files.take(pa.array(numbers, pa.int64())), frame, counts), max((row[3] for row in figures), default=0)


def change_rows(
    spark: SparkSession,
    snapshot: Snapshot,
    state: TableConfiguration,
    hits: Hits,
    clauses: Sequence[Clause],
    row_files: RowFiles,
    *,
    alias: str = "target",
    joined: Callable[[DataFrame], DataFrame] | None = None,
    split: int = 0,
    lacking: Lacking = Lacking.REFUSED,
) -> Changed:
    """Works out what changes the rows that clauses take.

    Args:
        spark: The session.
        snapshot: The version that was read.
        state: What the table is going to be.
        hits: The rows.
        clauses: The clauses that hits speak of by number.
        row_files: Where rows are written.
        alias: The table's alias in expressions.
        joined: Puts columns of the source beside rows with `HIT_SOURCE`.
        split: How many clauses, counted from the first, may speak of the source.
        lacking: What becomes of fields that an assigned struct lacks.
    """
    if not len(hits.files):
        return Changed()
    removes = list(removes_from(hits.files, timestamp_ms=system_clock(), data_change=True))
    work = _Work(spark, snapshot, state, hits, dict(enumerate(clauses)), row_files, alias, joined, split, lacking)
    updated = work.count(ClauseKind.UPDATE) or 0
    deleted = work.count(ClauseKind.DELETE)
    marks = marks_rows(snapshot) and hits.frame is not None
    recorded = feeds_changes(snapshot) and not (marks and not updated)
    edits = work.rows(only_hits=marks, old=recorded)
    if recorded:
        # Values are computed once: what is written and what the feed says must not differ.
        rows = Watched(checked(computed_once(edits.rows), edits.rules, snapshot.store.root))
    else:
        rows = watched(edits.rows, edits.rules)
    adds = work.written(rows) if updated or not marks else []
    changes = work.recorded(rows.rows) if recorded else []
    figures = row_files.figures(adds)
    if not marks and deleted is not None:
        check_rows(snapshot.store, hits.files, figures["numOutputRows"] + deleted)
    again = work.marked() if marks else []
    if hits.frame is None:
        updated = figures["numOutputRows"]
    return Changed(removes, [*again, *adds], len(again), changes, recorded, figures["numOutputRows"], updated, deleted)


def inserted(
    spark: SparkSession, store: Store, state: TableConfiguration, adds: Sequence[Add], row_files: RowFiles
) -> list[Cdc]:
    """The rows of new files once more, as changes; read back, since computing them again might give others."""
    from pyspark.sql import functions as F

    if not adds:
        return []
    decode = Locations(store.root).decode
    df = scan(
        spark,
        store,
        pa.Table.from_batches([from_adds([(decode(add.path), add) for add in adds])]),
        FileLayout.of(state),
        zone=session_zone(spark),
    )
    return row_files.write_changes(df.withColumn(CHANGE_TYPE, F.lit("insert")), state.schema)


@dataclass(frozen=True)
class _Work:
    spark: SparkSession
    snapshot: Snapshot
    state: TableConfiguration
    hits: Hits
    clauses: Mapping[int, Clause]
    row_files: RowFiles
    alias: str
    joined: Callable[[DataFrame], DataFrame] | None
    split: int
    lacking: Lacking

    def count(self, kind: ClauseKind) -> int | None:
        """How many rows clauses of a kind take; None if nobody knows."""
        found = [self.hits.counts.get(n, 0) for n, clause in self.clauses.items() if clause.kind is kind]
        return None if None in found else sum(count or 0 for count in found)

    def rows(self, *, only_hits: bool, old: bool) -> Edited:
        """The rows of the touched files after the clauses, deleted ones included."""
        identities = self.row_files.identities()
        df = with_old(self._located(identities, only_hits), self.snapshot.schema, self.alias)
        df = with_values(df, {n: c for n, c in self.clauses.items() if n >= self.split}, self.snapshot.schema)
        if self.joined is not None:
            both = {n: c for n, c in self.clauses.items() if n < self.split}
            df = with_values(self.joined(df), both, self.snapshot.schema)
        keep = [name for name in (identities.row_id, identities.row_commit_version) if name is not None]
        found = edited(
            df,
            self.clauses,
            self.snapshot.schema,
            self.state.schema,
            self.state.metadata.configuration,
            keep=[*keep, OLD] if old else keep,
            table=self.snapshot.store.root,
            partition_columns=self.state.metadata.partition_columns,
            lacking=self.lacking,
        )
        if identities.row_commit_version is None:
            return found
        # A changed row was last changed by the version to come, which is what a missing number means.
        version = quoted(identities.row_commit_version)
        others = [quoted(name) for name in found.rows.columns if name != identities.row_commit_version]
        fresh = f"CASE WHEN {CLAUSE} IS NULL THEN {version} END AS {version}"
        return Edited(found.rows.selectExpr(*others, fresh), found.rules)

    def _located(self, identities: RowColumns, only_hits: bool) -> DataFrame:
        from dataclasses import replace

        from pyspark.sql import functions as F

        hits = self.hits
        columns = identities if hits.frame is None else replace(identities, file=FILE, row=ROW)
        df = frame_of(self.spark, self.snapshot, files=hits.files, rows=columns)
        if hits.frame is None:
            return df.withColumn(CLAUSE, F.lit(0))
        found = F.broadcast(hits.frame) if hits.is_small else hits.frame
        same = (F.col(FILE) == F.col(_HIT_FILE)) & (F.col(ROW) == F.col(_HIT_ROW))
        return df.join(found, same, "inner" if only_hits else "left").drop(_HIT_FILE, _HIT_ROW)

    def written(self, watched: Watched) -> list[Add]:
        """Writes what is left of the rows."""
        gone = [str(number) for number, clause in self.clauses.items() if clause.kind is ClauseKind.DELETE]
        rows = watched.rows
        if gone:
            rows = rows.where(f"coalesce({CLAUSE} NOT IN ({', '.join(gone)}), true)")
        adds = self.row_files.rewrite(rows.drop(CLAUSE, OLD), self.state.schema, data_change=True)
        if adds:
            watched.check(self.snapshot.store.root)
        return adds

    def recorded(self, rows: DataFrame) -> list[Cdc]:
        """Writes the rows before and after."""
        updates = [str(number) for number, clause in self.clauses.items() if clause.kind is ClauseKind.UPDATE]
        deletes = [str(number) for number, clause in self.clauses.items() if clause.kind is ClauseKind.DELETE]
        before, after = self.snapshot.schema, self.state.schema
        changes: list[Cdc] = []
        old = [f"{OLD}.{quoted(field.name)} AS {quoted(field.name)}" for field in written_fields(before)]
        new = [quoted(field.name) for field in written_fields(after)]
        gone = f"CASE WHEN {CLAUSE} IN ({', '.join(deletes)}) THEN 'delete' ELSE 'update_preimage' END"
        kind = f"{gone if deletes else repr('update_preimage')} AS {CHANGE_TYPE}"
        touched = rows.where(f"{CLAUSE} IS NOT NULL").selectExpr(*old, kind)
        changes += self.row_files.write_changes(touched, before)
        if updates:
            posts = rows.where(f"{CLAUSE} IN ({', '.join(updates)})").selectExpr(
                *new, f"'update_postimage' AS {CHANGE_TYPE}"
            )
            changes += self.row_files.write_changes(posts, after)
        return changes

    def marked(self) -> list[Add]:
        assert self.hits.frame is not None
        found: Any = self.hits.frame.select(_HIT_FILE, _HIT_ROW).toArrow()
        rows = positions_by_file(found[_HIT_FILE], found[_HIT_ROW])
        return marked(self.snapshot, self.hits.files, rows, self.row_files)
