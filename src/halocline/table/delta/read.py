"""Reading the rows of a table, or what happened to them.

Rows come as a DataFrame from a native scan of exactly the live files, pruned by `where` before Spark sees them: a
filter added to the DataFrame later still leaves out row groups, but no files. Without Spark they come as Arrow batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from halocline.errors import InputError
from halocline.formats.delta.actions.statistics import all_live_rows
from halocline.formats.delta.snapshot.change_feed import OPERATION, changes, column_source
from halocline.formats.delta.snapshot.history import history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.change_feed import change_frame
from halocline.spark.scan.file_rows import FileRows, change_files, plain
from halocline.spark.scan.frames import frame_of
from halocline.spark.scan.read_errors import in_our_words
from halocline.table.delta.opened import Opened
from halocline.table.opening import Moment
from halocline.table.record_batches import RowsAsked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


def read_rows(
    table: Opened,
    *,
    version: int | None = None,
    timestamp: Moment | None = None,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of a version, the newest if neither a version nor a time is given.

    Args:
        table: The table.
        version: The version.
        timestamp: A time; the version that held then.
        where: A condition. As SQL text it also leaves files out.
        columns: The columns wanted; all if not given.

    Raises:
        IncompatibleError: The release that acts lacks a feature that the table requires.
        NotFoundError: There is no such version.

    Example:
        >>> Table.for_path("lake/orders", spark).to_df(where="day >= '2026-11-01'").count()  # doctest: +SKIP
        1284
    """
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    return frame_of(table.spark, snapshot, where=where, columns=columns, not_null=True)


def read_arrow(
    table: Opened,
    *,
    version: int | None = None,
    timestamp: Moment | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """The rows of a version as a stream of Arrow batches, without Spark; see `halocline.table.record_batches`.

    Args:
        table: The table.
        version: The version.
        timestamp: A time; the version that held then.
        where: An SQL condition: columns compared with literals, `IN`, `BETWEEN`, `IS NULL`, `LIKE 'a%'`, and these
            combined. It also leaves files out.
        columns: The columns wanted; all if not given.

    Raises:
        IncompatibleError: The release that acts lacks a feature that the table requires.
        NotFoundError: There is no such version.
        UnsupportedError: Spark alone can decide the condition, or read a column.

    Example:
        >>> Table.for_path("lake/orders").to_arrow(where="day >= '2026-11-01'").read_all().num_rows  # doctest: +SKIP
        1284
    """
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    asked = RowsAsked.of(snapshot.schema, where, columns, table.zone)
    rows = FileRows.of(snapshot, plain(asked.needed), zone=table.zone)
    files = snapshot.files(where, timezone=table.zone)
    return asked.stream(rows.schema, rows.read(change_files(snapshot, files)))


def count_rows(
    table: Opened,
    *,
    where: str | Column | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
) -> int:
    """How many rows a version has. Without a condition the log knows it, deleted rows included, and no row is read.

    Where the log does not say it of every file, or with a condition, rows are counted.

    Args:
        table: The table.
        where: A condition; SQL text if the table was opened without Spark.
        version: The version.
        timestamp: A time; the version that held then.

    Raises:
        IncompatibleError: The release that acts lacks a feature that the table requires.
        NotFoundError: There is no such version.

    Example:
        >>> Table.for_path("lake/orders", spark).count()  # doctest: +SKIP
        1284
    """
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    known = all_live_rows(snapshot.files(columns=["stats", "deletion_vector"])) if where is None else None
    if known is not None:
        return known
    columns = snapshot.schema.names[:1]
    if table.session is None:
        if where is not None and not isinstance(where, str):
            raise InputError(
                "a condition without Spark is SQL text",
                sides={"given": type(where).__name__},
                next_step="For instance where=\"country = 'at'\".",
            )
        return sum(
            batch.num_rows for batch in read_arrow(table, version=snapshot.version, where=where, columns=columns)
        )
    with in_our_words():
        return int(frame_of(table.spark, snapshot, where=where, columns=columns).count())


def read_changes(table: Opened, first: int | Moment, last: int | Moment | None = None) -> DataFrame:
    """What happened to each row from one version to another, both included: the change feed.

    Args:
        table: The table.
        first: The first version, or a time as text or datetime: then the first version at or after it.
        last: The last version, or a time; the newest version if not given.

    Raises:
        InputError: The range is empty, or the change feed was off in it.
        NotFoundError: The log no longer holds the first versions.

    Example:
        >>> Table.for_path("lake/orders", spark).changes(3, 5).select("_change_type").distinct()  # doctest: +SKIP
    """
    if last is None or isinstance(last, int):
        end = table.snapshot(OPERATION, version=last)
    else:
        end = table.snapshot(OPERATION, timestamp=last)
    start = first if isinstance(first, int) else first_version_from(end, table.milliseconds(first))
    shown = end if last is None else column_source(end, table.snapshot(OPERATION))
    return change_frame(table.spark, shown, changes(end, start))


def first_version_from(end: Snapshot, timestamp_ms: int) -> int:
    """The oldest version that is not before a time; the one after `end` if all are."""
    times = {entry.version: entry.timestamp_ms for entry in history(end)}
    return min((version for version, time in times.items() if time >= timestamp_ms), default=end.version + 1)
