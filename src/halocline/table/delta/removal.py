"""Taking rows out of a table by a condition, as the actions of one commit.

Files all of whose rows meet the condition are removed. Of the others, either the rows that stay are written again, or,
where the table has deletion vectors enabled, the rows that go are marked and nothing is rewritten. A table with a
change feed gets the rows that went as change files if files were rewritten; otherwise readers can tell by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.formats.delta.actions.action import Action, Add, Cdc, Remove
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of
from halocline.spark.scan.row_columns import RowColumns
from halocline.table.delta.matches import Matches, matches, unmet
from halocline.table.delta.row_files import CHANGE_TYPE, RowFiles
from halocline.table.delta.row_marks import marked, marks_rows, positions_by_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE: Final = "__halocline_file_number"
_ROW: Final = "__halocline_row_number"


@dataclass(frozen=True)
class Removal:
    """What takes the rows out.

    Attributes:
        removes: The files that go, or are replaced.
        adds: The files that replace them: rewritten ones, or the same with vectors.
        changes: The rows that went, if the change feed needs them.
        deleted_rows: How many rows went; None if the log does not say.
        copied_rows: How many rows were written again.
        is_recorded: Whether the change feed of this commit is in change files, so that inserts belong there, too.
    """

    removes: list[Remove] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)
    changes: list[Cdc] = field(default_factory=list)
    deleted_rows: int | None = 0
    copied_rows: int = 0
    is_recorded: bool = False

    @property
    def actions(self) -> list[Action]:
        """All of it."""
        return [*self.removes, *self.adds, *self.changes]

    @property
    def removed_bytes(self) -> int:
        """The length of the files that go."""
        return sum(each.size or 0 for each in self.removes)


def feeds_changes(snapshot: Snapshot) -> bool:
    """Whether a table keeps a change feed."""
    return snapshot.properties.change_data_feed


def remove_rows(spark: SparkSession, snapshot: Snapshot, files: pa.Table, where: str, row_files: RowFiles) -> Removal:
    """Works out what takes the rows that meet a condition out of a table.

    Args:
        spark: The session.
        snapshot: The version that was read.
        files: Its files that may hold such rows.
        where: The condition.
        row_files: Where rows that stay are written.
    """
    found = matches(spark, snapshot, files, where)
    changes = row_files.layout.data_change
    whole = list(removes_from(found.whole, timestamp_ms=system_clock(), data_change=changes))
    if not len(found.mixed):
        return Removal(whole, deleted_rows=found.rows)
    mixed = list(removes_from(found.mixed, timestamp_ms=system_clock(), data_change=changes))
    if changes and marks_rows(snapshot):
        return Removal(
            [*whole, *mixed], _marked(spark, snapshot, found.mixed, where, row_files), deleted_rows=found.rows
        )
    return _rewritten(spark, snapshot, found, where, row_files, [*whole, *mixed])


def _marked(spark: SparkSession, snapshot: Snapshot, files: pa.Table, where: str, row_files: RowFiles) -> list[Add]:
    """The same files with vectors that also name the rows that go."""
    df = frame_of(spark, snapshot, where=where, files=files, rows=RowColumns(file=_FILE, row=_ROW))
    positions: Any = df.select(_FILE, _ROW).toArrow()
    return marked(snapshot, files, positions_by_file(positions[_FILE], positions[_ROW]), row_files)


def _rewritten(
    spark: SparkSession,
    snapshot: Snapshot,
    found: Matches,
    where: str,
    row_files: RowFiles,
    removes: list[Remove],
) -> Removal:
    from pyspark.sql import functions as F

    staying = frame_of(spark, snapshot, where=unmet(where), files=found.mixed, rows=row_files.identities())
    adds = row_files.rewrite(staying, snapshot.schema, data_change=row_files.layout.data_change)
    changes: list[Cdc] = []
    recorded = row_files.layout.data_change and feeds_changes(snapshot)
    if recorded:
        going = frame_of(spark, snapshot, where=where, files=found.files)
        changes = row_files.write_changes(going.withColumn(CHANGE_TYPE, F.lit("delete")), snapshot.schema)
    copied = row_files.figures(adds)["numOutputRows"]
    return Removal(removes, adds, changes, found.rows, copied, recorded)
