"""Reading the rows of an index table: a native scan of its splits, which are Parquet files, or Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from halocline.spark.scan.split_frames import SplitReader, kept_splits, split_frame
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import Moment
from halocline.table.record_batches import RowsAsked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


def read_rows(
    table: IndexOpened,
    *,
    version: int | None = None,
    timestamp: Moment | None = None,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
    stale: Literal["refuse", "allow"] = "refuse",
) -> DataFrame:
    """The rows of a version, the newest if neither a version nor a time is given.

    Args:
        table: The table.
        version: The version.
        timestamp: A time; the version that held then.
        where: A condition. As SQL text it also leaves splits out.
        columns: The columns wanted; all if not given.
        stale: Whether a companion index may answer whose source has moved on.

    Raises:
        ConflictError: It is a companion index, and its source has moved on.
        IncompatibleError: The release that acts lacks a feature that the table requires.
        NotFoundError: There is no such version.

    Example:
        >>> Table.for_path("lake/logs", spark).to_df(where="status >= 500").count()  # doctest: +SKIP
        1284
    """
    snapshot = table.to_read(version=version, timestamp=timestamp, stale=stale)
    return split_frame(table.spark, snapshot, where=where, columns=columns)


def read_arrow(
    table: IndexOpened,
    *,
    version: int | None = None,
    timestamp: Moment | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    stale: Literal["refuse", "allow"] = "refuse",
) -> pa.RecordBatchReader:
    """The rows of a version as a stream of Arrow batches, without Spark; see `halocline.table.record_batches`.

    Args:
        table: The table.
        version: The version.
        timestamp: A time; the version that held then.
        where: An SQL condition: columns compared with literals, and these combined. It also leaves splits out.
        columns: The columns wanted; all if not given.
        stale: Whether a companion index may answer whose source has moved on.

    Raises:
        ConflictError: It is a companion index, and its source has moved on.
        IncompatibleError: The release that acts lacks a feature that the table requires.
        NotFoundError: There is no such version.
        UnsupportedError: Spark alone can decide the condition.

    Example:
        >>> Table.for_path("lake/logs").to_arrow(where="status >= 500").read_all().num_rows  # doctest: +SKIP
        1284
    """
    snapshot = table.to_read(version=version, timestamp=timestamp, stale=stale)
    asked = RowsAsked.of(snapshot.schema, where, columns, table.zone)
    splits = kept_splits(snapshot, snapshot.files.values(), where, table.zone)
    return asked.read_parts(table.store, SplitReader(tuple(asked.needed.fields)).read, splits)
