"""Reading the rows of an index table: a native scan of its splits, which are Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from halocline.spark.scan.split_frames import split_frame
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import Moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def read_rows(
    table: IndexOpened,
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
        where: A condition. As SQL text it also leaves splits out.
        columns: The columns wanted; all if not given.

    Raises:
        IncompatibleError: The release that acts lacks a feature that the table requires.
        NotFoundError: There is no such version.

    Example:
        >>> Table.for_path("lake/logs", spark).to_df(where="status >= 500").count()  # doctest: +SKIP
        1284
    """
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    return split_frame(table.spark, snapshot, where=where, columns=columns)
