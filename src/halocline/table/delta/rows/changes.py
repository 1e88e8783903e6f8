"""Changing rows where they are: from the rows that clauses take to the actions of one commit.

Only files with *hits*, rows that a clause takes, are touched; see `hits`. Either all their rows are written again,
changed or not; or, where the table marks rows, the hits are marked and only changed rows are written. Rows keep their
ids. Few hits are brought to the driver, and their files copied without Spark; see `copies`.

Where a condition stands for the hits, rows are deleted by it without computing them: files all of whose rows meet it
are removed unread, and of the others the rows that stay are written again, or those that go are marked. Rows are
updated by it where files are written again: it is held against each row once more.

A table with a change feed gets the rows before and after as change files, unless nothing but whole files went, or rows
were only marked as deleted: readers see that by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from halocline.errors import shortened
from halocline.formats.delta.actions.action import Action, Add, Cdc, Remove
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.actions.statistics import all_live_rows
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.log.live_files import from_adds
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.types import Field, Primitive
from halocline.spark.scan.frames import frame_of, session_zone
from halocline.spark.scan.row_columns import RowColumns, split_places
from halocline.spark.scan.scan import scan
from halocline.spark.session.analysis import check_steady
from halocline.spark.session.functions import F
from halocline.spark.session.pinning import computed_once, computed_with_figures
from halocline.spark.types.arrow_rows import fetched
from halocline.spark.types.assignment import Lacking
from halocline.spark.types.columns import blank_frame, quoted, written_fields
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.guard import BROKEN, Watched, check_told, checked, watched
from halocline.spark.write.row_plan import RowPlan
from halocline.storage.base import Store
from halocline.table.delta.rows.clauses import (
    CLAUSE,
    OLD,
    PLACE,
    Clause,
    ClauseKind,
    check_analysed,
    named,
    with_old,
)
from halocline.table.delta.rows.commit import RowChange
from halocline.table.delta.rows.copies import Copies
from halocline.table.delta.rows.counts import check_rows, figures
from halocline.table.delta.rows.edits import changed_columns, edited, with_values
from halocline.table.delta.rows.files import CHANGE_TYPE, RowFiles, marks_rows
from halocline.table.delta.rows.hits import HIT_PLACE, NO_PLACES, SMALL, Hits, Places, by_file
from halocline.table.delta.rows.matches import matches, unmet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SMALL_VALUES: Final = 4_000_000
"""So many values, of hits and the source beside them, are sent to every executor."""

_MOST_BYTES: Final = 128 * 1024 * 1024
"""So much text, or what is as long as its JSON, is brought to the driver."""


@dataclass(frozen=True)
class Changed:
    """What changes rows.

    Attributes:
        removes: The files that go, or are replaced.
        adds: The files that replace them: rewritten ones, or the same with vectors.
        changes: What the change feed needs.
        is_recorded: Whether the change feed of the commit is in change files, so that inserts belong there, too.
        rows: How many rows the new files hold.
        updated: How many rows were updated.
        deleted: How many rows were deleted; None if nobody counted them.
    """

    removes: list[Remove] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)
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

    @property
    def gone(self) -> list[Remove]:
        """The files that are no longer there, marked or not."""
        again = {add.path for add in self.adds}
        return [each for each in self.removes if each.path not in again]

    def vectors(self, prefix: str) -> dict[str, int]:
        """How many vectors came, went and grew, under the names that commits use."""
        marked = {add.path for add in self.adds if add.deletion_vector is not None}
        had = {each.path for each in self.removes if each.deletion_vector is not None}
        return {f"{prefix}Added": len(marked), f"{prefix}Removed": len(had), f"{prefix}Updated": len(marked & had)}

    def metrics(self, rows: Mapping[str, int | None]) -> dict[str, int]:
        """The figures that the commit of a delete or an update records, those of its rows among them."""
        fresh = [add for add in self.adds if add.deletion_vector is None]
        return {
            "numRemovedFiles": len(self.gone),
            "numRemovedBytes": sum(each.size or 0 for each in self.gone),
            "numAddedFiles": len(fresh),
            "numAddedBytes": sum(add.size for add in fresh),
            **{name: count for name, count in rows.items() if count is not None},
            "numCopiedRows": self.copied,
            "numAddedChangeFiles": len(self.changes),
            **self.vectors("numDeletionVectors"),
        }


def check_clause(work: RowChange, clause: Clause, alias: str | None) -> None:
    """Makes sure that what the only clause of a change says makes sense for the table's columns."""
    columns = named(blank_frame(work.spark, work.snapshot.schema), alias)
    hint = f"The table has the columns {shortened(work.snapshot.schema.names, 25)}."
    check_analysed(columns, [clause], f"the change of {work.table.url}", hint)
    for name, value in (clause.values or {}).items():
        check_steady(columns, value, f"the value for {name}")


def removed(files: pa.Table, *, data_change: bool = True) -> list[Remove]:
    """What takes files out of a table now."""
    return list(removes_from(files, timestamp_ms=system_clock(), data_change=data_change))


def remove_rows(spark: SparkSession, snapshot: Snapshot, files: pa.Table, where: str, row_files: RowFiles) -> Changed:
    """What takes the rows that meet a condition out of a table, given its files that may hold such rows."""
    found, changes_data = matches(spark, snapshot, files, where), row_files.layout.data_change
    removes = removed(found.files, data_change=changes_data)
    if not len(found.mixed):
        return Changed(removes, deleted=found.rows)
    if changes_data and marks_rows(snapshot):
        rows = frame_of(spark, snapshot, where=where, files=found.mixed, rows=RowColumns(place=PLACE))
        return Changed(removes, _marked(snapshot, found.mixed, _places(rows, PLACE), row_files), deleted=found.rows)
    gone = (found.rows or 0) - (all_live_rows(found.whole) or 0)
    copies = Copies.changing(spark, snapshot, found.mixed, gone, row_files)
    adds: list[Add] | None = None
    if copies is not None:
        rows = frame_of(spark, snapshot, where=where, files=found.mixed, rows=RowColumns(place=PLACE))
        adds = copies.changed(_places(rows, PLACE), NO_PLACES, None, data_change=changes_data)
    if adds is None:
        staying = frame_of(spark, snapshot, where=unmet(where), files=found.mixed, rows=row_files.identities())
        adds = row_files.rewrite(staying, snapshot.schema, data_change=changes_data)
    check_rows(snapshot.store, found.mixed, figures(adds)["numOutputRows"] + gone)
    changes: list[Cdc] = []
    recorded = changes_data and snapshot.properties.change_data_feed
    if recorded:
        going = frame_of(spark, snapshot, where=where, files=found.files)
        changes = row_files.write_changes(going.withColumn(CHANGE_TYPE, F.lit("delete")), snapshot.schema)
    return Changed(removes, adds, changes, recorded, rows=figures(adds)["numOutputRows"], deleted=found.rows)


def _is_of_any_length(field: Field) -> bool:
    return not isinstance(field.type, Primitive) or field.type.name in ("string", "binary")


def _length(field: Field) -> str:
    """SQL for how long a value is, roughly."""
    name = quoted(field.name)
    text = name if isinstance(field.type, Primitive) else f"to_json(named_struct('v', {name}))"
    return f"coalesce(octet_length(CAST({text} AS binary)), 0)"


def _places(rows: DataFrame, name: str) -> Places:
    """The files and positions of rows, given a column of their places."""
    return split_places(rows.select(name).toArrow().column(0).to_numpy())


def _marked(snapshot: Snapshot, files: pa.Table, places: Places, row_files: RowFiles) -> list[Add]:
    """The files with rows marked, given by the numbers of their files and their positions."""
    bitmaps = {number: BitMap64(places[1][rows].tolist()) for number, rows in by_file(places)}
    return row_files.mark(snapshot, files, bitmaps)


def inserted(spark: SparkSession, store: Store, adds: Sequence[Add], row_files: RowFiles) -> list[Cdc]:
    """The rows of new files once more, as changes; read back, since computing them again might give others."""
    if not adds:
        return []
    decode, state = Locations(store.root).decode, row_files.state
    files = pa.Table.from_batches([from_adds(adds, paths=[decode(add.path) for add in adds])])
    df = scan(spark, store, files, FileLayout.of(state).with_nulls, zone=session_zone(spark))
    return row_files.write_changes(df.withColumn(CHANGE_TYPE, F.lit("insert")), state.schema)


@dataclass(frozen=True)
class Rewrite:
    """Changing the rows that clauses take.

    Attributes:
        work: The change under way.
        row_files: Where rows are written.
        clauses: The clauses that hits speak of by number.
        alias: The table's alias in expressions, if it has one.
        joined: Puts columns of the source beside rows with `HIT_SOURCE`.
        split: How many clauses, counted from the first, may speak of the source.
        lacking: What becomes of fields that an assigned struct lacks.
    """

    work: RowChange
    row_files: RowFiles
    clauses: Sequence[Clause]
    alias: str | None = None
    joined: Callable[[DataFrame], DataFrame] | None = None
    split: int = 0
    lacking: Lacking = Lacking.REFUSED

    def changed(self, hits: Hits) -> Changed:
        """Works out what changes the rows."""
        if not len(hits.files):
            return Changed()
        snapshot = self.work.snapshot
        updated, deleted = self._count(hits, ClauseKind.UPDATE) or 0, self._count(hits, ClauseKind.DELETE)
        marks = marks_rows(snapshot) and hits.frame is not None
        recorded = snapshot.properties.change_data_feed and not (marks and not updated)
        if not marks and not recorded and (copies := self._copies(hits)) and (copied := self._copied(hits, copies)):
            return copied
        edits = self._rows(*self._located(hits, marks), keep=[OLD] if recorded else [])
        if recorded:
            # Values are computed once: what is written and what the feed says must not differ.
            rows = Watched(checked(computed_once(edits.rows), edits.rules, snapshot.store.root))
        else:
            rows = watched(edits.rows, edits.rules)
        adds = self._written(rows) if updated or not marks else []
        changes = self._recorded(rows.rows) if recorded else []
        count = figures(adds)["numOutputRows"]
        if not marks and deleted is not None:
            check_rows(snapshot.store, hits.files, count + deleted)
        if marks and hits.frame is not None:
            places = hits.places or _places(hits.frame, HIT_PLACE)
            adds = [*_marked(snapshot, hits.files, places, self.row_files), *adds]
        updated = count if hits.frame is None and hits.where is None else updated
        return Changed(removed(hits.files), adds, changes, recorded, count, updated, deleted)

    def _copies(self, hits: Hits) -> Copies | None:
        """The files, if they are copied with what the clauses make of few rows."""
        changed, snapshot = changed_columns(self.clauses, self.work.snapshot.schema), self.work.snapshot
        counted = hits.counts and None not in hits.counts.values()
        placed = hits.places is not None if hits.frame is not None else hits.where is not None
        if not counted or not placed or not changed.isdisjoint(snapshot.partition_columns):
            return None
        return Copies.changing(self.work.spark, snapshot, hits.files, hits.rows, self.row_files)

    def _copied(self, hits: Hits, copies: Copies) -> Changed | None:
        """Copies the files, with rows patched that clauses update, and without those that clauses delete.

        None if the new values are too many to be brought here, or Arrow does not take what is in the files.
        """
        deletes = self._of_kind(ClauseKind.DELETE)
        if len(deletes) == len(self.clauses) and hits.places is not None:
            adds = copies.changed(hits.places, NO_PLACES, None, data_change=True)
            updated, deleted = 0, len(hits.places[0])
        else:
            values = self._values(hits)
            if values is None:
                return None
            places, gone = split_places(values[PLACE].to_numpy()), np.isin(values[CLAUSE].to_numpy(), deletes)
            left_out, patched = ((places[0][some], places[1][some]) for some in (gone, ~gone))
            adds = copies.changed(left_out, patched, values.filter(pa.array(~gone)), data_change=True)
            updated, deleted = int((~gone).sum()), int(gone.sum())
        if adds is None:
            return None
        count = figures(adds)["numOutputRows"]
        check_rows(self.work.snapshot.store, hits.files, count + deleted)
        return Changed(removed(hits.files), adds, rows=count, updated=updated, deleted=deleted)

    def _values(self, hits: Hits) -> pa.Table | None:
        """Place and clause of each hit, and the values of columns that updates change; None if these are too long."""
        schema = self.work.snapshot.schema
        located, joined = self._located(hits, only_hits=True, placed=True)
        edits = self._rows(located.where(f"{CLAUSE} IS NOT NULL"), joined, keep=[PLACE])
        fields = [schema.find([name])[1] for name in sorted(changed_columns(self.clauses, schema))]
        rows = edits.rows.select(PLACE, CLAUSE, BROKEN, *(quoted(field.name) for field in fields))
        if lengths := [_length(field) for field in fields if _is_of_any_length(field)]:
            rows, (length,) = computed_with_figures(rows, [F.sum(F.expr(" + ".join(lengths)))])
            if (length or 0) > _MOST_BYTES:
                return None
        values = fetched(rows)
        check_told(values[BROKEN], edits.rules, self.work.table.url)
        return values

    def _of_kind(self, kind: ClauseKind) -> list[int]:
        """The numbers of the clauses of a kind."""
        return [number for number, clause in enumerate(self.clauses) if clause.kind is kind]

    def _numbers(self, kind: ClauseKind) -> str:
        """The same, as SQL lists them."""
        return ", ".join(map(str, self._of_kind(kind)))

    def _count(self, hits: Hits, kind: ClauseKind) -> int | None:
        """How many rows clauses of a kind take; None if nobody knows."""
        counts = [hits.counts.get(number, 0) for number, clause in enumerate(self.clauses) if clause.kind is kind]
        return None if None in counts else sum(filter(None, counts))

    def _rows(self, df: DataFrame, joined: Callable[[DataFrame], DataFrame] | None, *, keep: Sequence[str]) -> RowPlan:
        """The rows of the touched files after the clauses, deleted ones included, given with `CLAUSE` and `OLD`."""
        identities, before = self.row_files.identities(), self.work.snapshot.schema
        clauses = list(enumerate(self.clauses))
        df = with_values(df, dict(clauses[self.split :]), before)
        df = df if joined is None else joined(df)
        df = with_values(df, dict(clauses[: self.split]), before)
        kept = [*identities.names, *keep]
        after = edited(df, dict(clauses), before, self.row_files.state, kept, self.work.table.url, self.lacking)
        if identities.row_commit_version is None:
            return after
        # A changed row was last changed by the version to come, which is what a missing number means.
        version = quoted(identities.row_commit_version)
        others = [quoted(name) for name in after.rows.columns if name != identities.row_commit_version]
        fresh = f"CASE WHEN {CLAUSE} IS NULL THEN {version} END AS {version}"
        return RowPlan(after.rows.selectExpr(*others, fresh), after.rules)

    def _located(
        self, hits: Hits, only_hits: bool, *, placed: bool = False
    ) -> tuple[DataFrame, Callable[[DataFrame], DataFrame] | None]:
        """The rows with `CLAUSE` and `OLD`, and what is still to be joined.

        The source is put beside few hits, so that the rows of the table are joined once. Values of clauses that must
        not speak of it are computed before it comes.
        """
        if hits.frame is not None and hits.has_rows:
            return hits.frame, None
        identities = self.row_files.identities()
        columns = identities if hits.frame is None and not placed else replace(identities, place=PLACE)
        schema = self.work.snapshot.schema
        df = named(frame_of(self.work.spark, self.work.snapshot, files=hits.files, rows=columns), self.alias)
        if hits.frame is None:
            taken = F.lit(0) if hits.where is None else F.when(F.expr(hits.where), F.lit(0))
            return with_old(df.select("*", taken.alias(CLAUSE)), schema, df), self.joined
        frame, joined = hits.frame, self.joined
        small = hits.rows <= SMALL and hits.rows * len(frame.columns) <= _SMALL_VALUES
        if joined is not None and all(clause.kind is ClauseKind.DELETE for clause in self.clauses[self.split :]):
            beside = joined(frame)
            if hits.rows * len(beside.columns) <= _SMALL_VALUES:
                frame, joined, small = beside, None, True
        same = F.col(PLACE) == F.col(HIT_PLACE)
        rows = df.join(F.broadcast(frame) if small else frame, same, "inner" if only_hits else "left")
        return with_old(rows, schema, df), joined

    def _written(self, watched: Watched) -> list[Add]:
        """Writes what is left of the rows."""
        rows, deletes = watched.rows, self._numbers(ClauseKind.DELETE)
        if deletes:
            rows = rows.where(f"coalesce({CLAUSE} NOT IN ({deletes}), true)")
        adds = self.row_files.rewrite(rows.drop(CLAUSE, OLD), self.row_files.state.schema, data_change=True)
        if adds:
            watched.check(self.work.table.url)
        return adds

    def _recorded(self, rows: DataFrame) -> list[Cdc]:
        """Writes the rows before and after."""
        updates, deletes = self._numbers(ClauseKind.UPDATE), self._numbers(ClauseKind.DELETE)
        before, after = self.work.snapshot.schema, self.row_files.state.schema
        old = [f"{OLD}.{quoted(field.name)} AS {quoted(field.name)}" for field in written_fields(before)]
        new = [quoted(field.name) for field in written_fields(after)]
        kind = f"CASE WHEN {CLAUSE} IN ({deletes or 'NULL'}) THEN 'delete' ELSE 'update_preimage' END AS {CHANGE_TYPE}"
        touched = rows.where(f"{CLAUSE} IS NOT NULL").selectExpr(*old, kind)
        changes = self.row_files.write_changes(touched, before)
        if updates:
            posts = rows.where(f"{CLAUSE} IN ({updates})").selectExpr(*new, f"'update_postimage' AS {CHANGE_TYPE}")
            changes += self.row_files.write_changes(posts, after)
        return changes
