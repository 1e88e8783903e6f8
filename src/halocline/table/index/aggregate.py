"""Aggregates over the rows of an index table, exact, from the log and the index where they suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.index.aggregate.request import (
    Aggregation,
    Avg,
    Bucket,
    Count,
    DateBuckets,
    HistogramBuckets,
    Max,
    Metric,
    Min,
    RangeBuckets,
    Sum,
    TermBuckets,
)
from halocline.formats.index.aggregate.run import finished, from_log
from halocline.formats.index.search import Search
from halocline.schema.arrow import struct_of_arrow
from halocline.spark.scan.read_errors import in_our_words
from halocline.spark.scan.split_search import CachePlace, SplitAggregation, found_partials, row_partials
from halocline.spark.types.constant_rows import known_rows
from halocline.table.index.opened import IndexOpened
from halocline.table.index.read import read_rows
from halocline.table.index.search import search
from halocline.table.opening import Moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_METRICS = (Count, Sum, Min, Max, Avg)
_BUCKETS = (TermBuckets, HistogramBuckets, DateBuckets, RangeBuckets)


def aggregate(
    table: IndexOpened,
    metrics: Mapping[str, Any],
    *,
    by: str | Sequence[str] | Mapping[str, Any] = (),
    query: str | None = None,
    where: str | Column | None = None,
    within: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    damaged: Literal["rebuild", "refuse"] = "rebuild",
    stale: Literal["refuse", "allow"] = "refuse",
) -> DataFrame:
    """Counts, sums, least and greatest values and means, by group, worked out at once.

    Args:
        table: The table.
        metrics: What is worked out, by the names of columns of the result: `Count()`, `Sum("bytes")`, `Min`, `Max`,
            `Avg`.
        by: What rows are grouped by: names of columns, or by the names of columns of the result `TermBuckets("level")`,
            `HistogramBuckets("bytes", 1000)`, `DateBuckets("at", "hour")` and `RangeBuckets("latency", {...})`.
        query: What the rows are searched for; all rows count if not given.
        where: A condition that rows must meet as well. The rows are then fetched.
        within: The columns for words of the query that name none; all if not given.
        version: The version; the newest if not given.
        timestamp: A time; the version that held then.
        damaged: What becomes of a split whose index cannot be used, as for `search`.
        stale: Whether a companion index may answer whose source has moved on.

    Raises:
        ConflictError: It is a companion index, and its source has moved on.
        InputError: A column cannot be aggregated so, or a sum does not fit its type.
        NotFoundError: There is no such column.

    Example:
        >>> logs = Table.for_path("lake/logs", spark)  # doctest: +SKIP
        >>> logs.aggregate({"n": hc.Count()}, by="level", query="timeout").show()  # doctest: +SKIP
    """
    snapshot = table.to_read(version=version, timestamp=timestamp, stale=stale)
    asked = Aggregation.of(snapshot.schema, _metrics(metrics), _buckets(by))
    bound = None if query is None else Search.of(snapshot, query, within)
    work = SplitAggregation(asked, bound, CachePlace.of(table.settings), damaged == "rebuild")
    with in_our_words():
        if where is None:
            known, splits = from_log(asked, bound, snapshot.files.values())
            partials = [known.partial, *(found_partials(table.spark, table.store, work, splits) if splits else ())]
        else:
            columns = [each.name for each in asked.columns] or snapshot.schema.names[:1]
            options: dict[str, Any] = {"where": where, "columns": columns, "version": snapshot.version}
            rows = (
                read_rows(table, **options)
                if query is None
                else search(table, query, within=within, damaged=damaged, **options)
            )
            partials = row_partials(rows, work)
        result: pa.Table = finished(asked, partials)
    return known_rows(table.spark, result, struct_of_arrow(result.schema).fields)


def _metrics(given: Mapping[str, Any]) -> dict[str, Metric]:
    for name, metric in given.items():
        if not isinstance(metric, _METRICS):
            raise _unusable(name, metric, "Count(), Sum(column), Min(column), Max(column) or Avg(column)")
    return dict(given)


def _buckets(given: str | Sequence[str] | Mapping[str, Any]) -> dict[str, Bucket]:
    if isinstance(given, Mapping):
        named = {name: TermBuckets(each) if isinstance(each, str) else each for name, each in given.items()}
    else:
        named = {name: TermBuckets(name) for name in ([given] if isinstance(given, str) else given)}
    for name, bucket in named.items():
        if not isinstance(bucket, _BUCKETS):
            raise _unusable(name, bucket, "a column, TermBuckets, HistogramBuckets, DateBuckets or RangeBuckets")
    return named


def _unusable(name: str, given: Any, expected: str) -> InputError:
    return InputError(
        f"{name!r} cannot be worked out from {given!r:.80}",
        condition="AGGREGATE_INVALID",
        sides={"given": type(given).__name__, "expected": expected},
    )
