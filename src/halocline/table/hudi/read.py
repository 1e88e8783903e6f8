"""Reading the rows of a Hudi table: as they are or were, those that writes brought, or how they changed.

Where base files hold all rows, they come from a native scan of exactly those files; slices with log files are merged by
workers (`halocline.spark.scan.slice_frames`). Partitions that cannot hold a row of `where` are left out before Spark
sees them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from halocline.errors import InputError
from halocline.formats.hudi.change_data import change_range
from halocline.formats.hudi.incremental import HudiIncremental, read_range
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiQuery, HudiSnapshot
from halocline.formats.hudi.timeline.instant import checked_time, instant_text
from halocline.schema.arrow import struct_of_arrow
from halocline.spark.scan.slice_frames import PartReader, part_frame, pruned_slices, slice_frame
from halocline.table.hudi.opened import HudiOpened
from halocline.table.opening import Moment
from halocline.table.record_batches import RowsAsked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

Instant = str | int | datetime
"""An instant as the table spells it, as text or number, or a time."""

CHANGES = "read.changes"


class IncompleteRangeWarning(UserWarning):
    """Writes of a range have left the timeline, so the rows that they brought are not among those returned."""


def read_rows(
    table: HudiOpened,
    *,
    query: str = HudiQuery.SNAPSHOT,
    version: int | str | None = None,
    timestamp: Moment | None = None,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows as of an instant, the newest if neither an instant nor a time is given.

    Args:
        table: The table.
        query: `snapshot`, or `read_optimized`, which leaves log files aside: faster, and as of the last compaction.
        version: An instant, as `history` shows it.
        timestamp: A time; the instant that held then.
        where: A condition. As SQL text it also leaves partitions out.
        columns: The columns wanted; all, with those that Hudi adds, if not given.

    Raises:
        IncompatibleError: The release that acts does not know the table version.
        InputError: There is no such query, or no such column.
        NotFoundError: The files of that instant have been cleaned.

    Example:
        >>> Table.for_path("lake/trips", spark).to_df(where="region = 'eu'").count()  # doctest: +SKIP
        1284
    """
    asked = _query(query)
    snapshot = _snapshot(table, version, timestamp)
    merging = asked is HudiQuery.SNAPSHOT and any(each.logs for each in snapshot.slices)
    return slice_frame(
        table.spark,
        snapshot,
        snapshot.slices,
        lambda needed: snapshot.reader(needed, merging=merging),
        where=where,
        columns=columns,
    )


def read_arrow(
    table: HudiOpened,
    *,
    query: str = HudiQuery.SNAPSHOT,
    version: int | str | None = None,
    timestamp: Moment | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """The rows as of an instant as a stream of Arrow batches, without Spark; see `halocline.table.record_batches`.

    Args:
        table: The table.
        query: `snapshot`, or `read_optimized`, as for `to_df`.
        version: An instant, as `history` shows it.
        timestamp: A time; the instant that held then.
        where: An SQL condition: columns compared with literals, and these combined. It also leaves partitions out.
        columns: The columns wanted; all, with those that Hudi adds, if not given.

    Raises:
        IncompatibleError: The release that acts does not know the table version.
        InputError: There is no such query, or no such column.
        NotFoundError: The files of that instant have been cleaned.
        UnsupportedError: Spark alone can decide the condition.

    Example:
        >>> Table.for_path("lake/trips").to_arrow(columns=["region"]).read_all().num_rows  # doctest: +SKIP
        1284
    """
    asked = _query(query)
    snapshot = _snapshot(table, version, timestamp)
    rows = RowsAsked.of(struct_of_arrow(snapshot.schema.columns), where, columns, table.zone)
    slices: Sequence[FileSlice] = snapshot.slices
    merging = asked is HudiQuery.SNAPSHOT and any(each.logs for each in slices)
    if where is not None:
        slices = pruned_slices(snapshot, slices, where, rows.needed, table.zone)
    if not merging:
        slices = [each for each in slices if each.base is not None]
    return rows.read_parts(table.store, snapshot.reader(rows.needed.names, merging=merging).read, slices)


def _snapshot(table: HudiOpened, version: int | str | None, timestamp: Moment | None) -> HudiSnapshot:
    number = int(checked_time(version)) if isinstance(version, str) else version
    return table.snapshot(version=number, timestamp=timestamp)


def read_written(
    table: HudiOpened,
    begin: Instant,
    end: Instant | None = None,
    *,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows that writes of a range of time brought, `(begin, end]`; see `halocline.formats.hudi.incremental`.

    Args:
        table: The table.
        begin: The time after which writes count: when they were requested up to table version 7, and when they were
            completed from 8 on. `0` is before all.
        end: The time up to which they count. If not given, up to the newest; up to table version 7 to the last one
            before a write that is still under way, as `HudiTable.settled` tells.
        where: A condition. As SQL text it also leaves partitions out.
        columns: The columns wanted; all if not given.

    Raises:
        ConflictError: Up to table version 7, a write is still under way that began before the range begins or ends, so
            that later ranges would miss it (`RANGE_UNSETTLED`).
        InputError: A time is none, or is a requested time where completion times count.

    Example:
        >>> Table.for_path("lake/trips", spark).incremental("20261115114938669").count()  # doctest: +SKIP
        12
    """
    found = written_in(table, table.snapshot(), begin, end)
    return slice_frame(table.spark, found.snapshot, found.slices, found.reader, where=where, columns=columns)


def written_in(table: HudiOpened, snapshot: HudiSnapshot, begin: Instant, end: Instant | None) -> HudiIncremental:
    """The writes of a range; a range whose first writes nobody knows any more comes with a warning."""
    first, last = instant_of(table, snapshot, begin), None if end is None else instant_of(table, snapshot, end)
    found = read_range(snapshot, first, last)
    if not found.is_complete:
        warnings.warn(
            f"writes of {table.url} after {first} have left its timeline; their rows are not among those returned",
            IncompleteRangeWarning,
            stacklevel=4,
        )
    return found


def read_changes(table: HudiOpened, begin: Instant, end: Instant | None = None) -> DataFrame:
    """How rows changed in a range of time, `(begin, end]`: `op`, `ts_ms`, and the row `before` and `after`.

    Args:
        table: The table.
        begin: The time after which writes count, as for `incremental`.
        end: The time up to which they count, as for `incremental`.

    Raises:
        ConflictError: A write is still under way that later ranges would miss, as for `incremental`.
        InputError: The table does not log changes (`CHANGE_FEED_OFF`), or a time is none.

    Example:
        >>> Table.for_path("lake/trips", spark).changes(0).groupBy("op").count().show()  # doctest: +SKIP
    """
    snapshot = table.snapshot(CHANGES)
    last = None if end is None else instant_of(table, snapshot, end)
    found = change_range(snapshot, instant_of(table, snapshot, begin), last)
    return part_frame(table.spark, PartReader(table.store, found.read, struct_of_arrow(found.output)), found.parts)


def _query(query: str) -> HudiQuery:
    if query not in tuple(HudiQuery):
        step = "The rows of a range are incremental(begin, end), and how they changed changes(begin, end)."
        raise InputError.unknown(f"there is no query {query!r}", query, HudiQuery, next_step=step)
    return HudiQuery(query)


def instant_of(table: HudiOpened, snapshot: HudiSnapshot, given: Instant) -> str:
    """The time as the table spells it."""
    text = str(given) if isinstance(given, str | int) else ""
    if text.isascii() and text.isdigit():
        return text
    moment = datetime.fromtimestamp(table.milliseconds(given) / 1000, UTC)
    return instant_text(moment, snapshot.config)
