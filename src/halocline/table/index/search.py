"""Searching an index table: rows as a DataFrame, how many there are, and how a query is answered.

Splits are left aside by partition values, bounds and terms before a task opens them. No result is ever cut short but by
`limit`; what the index could not answer was read from the rows, and `explain_search` says which and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from halocline.errors import InputError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.search import Search, splits_to_search
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.schema.types import Struct
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.read_errors import in_our_words
from halocline.spark.scan.scan import columns_asked_for, columns_spoken_of
from halocline.spark.scan.split_frames import kept_splits
from halocline.spark.scan.split_search import CachePlace, SplitSearch, found_count, found_rows
from halocline.spark.types.columns import quoted
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import Moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def search(
    table: IndexOpened,
    query: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    limit: int | None = None,
    within: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    damaged: Literal["rebuild", "refuse"] = "rebuild",
) -> DataFrame:
    """The rows that a query finds.

    Args:
        table: The table.
        query: What is looked for; see `halocline.formats.index.query`.
        columns: The columns wanted; all if not given.
        where: A condition that rows must meet as well. As SQL text it also leaves splits out.
        limit: How many rows at most; all if not given.
        within: The columns for words that name none; all if not given.
        version: The version; the newest if not given.
        timestamp: A time; the version that held then.
        damaged: What becomes of a split whose index cannot be used: `rebuild` answers from its rows, `refuse` is an
            error.

    Raises:
        InputError: The query is not understood, or a column cannot answer it.
        NotFoundError: There is no such column or version.
        IncompatibleError: A split cannot be searched by this release.

    Example:
        >>> logs = Table.for_path("lake/logs", spark)  # doctest: +SKIP
        >>> logs.search("timeout AND level:ERROR", where="at >= '2026-11-01'").show()  # doctest: +SKIP
    """
    if limit is not None and limit < 0:
        raise InputError(f"there are no {limit} rows", sides={"limit": str(limit), "possible": "0 or more"})
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    wanted = columns_asked_for(snapshot.schema, columns)
    needed = columns_spoken_of(snapshot.schema, wanted, where)
    schema = Struct([field for field in snapshot.schema.fields if field.name in set(needed)])
    asked = _asked(table, snapshot, query, within, schema, damaged, limit if where is None else None)
    splits = _splits(table, snapshot, asked.search, where)
    df = found_rows(table.spark, table.store, asked, splits)
    df = df if where is None else df.where(where)
    df = df if df.columns == wanted else df.select(*map(quoted, wanted))
    return df if limit is None else df.limit(limit)


def count(
    table: IndexOpened,
    query: str,
    *,
    where: str | Column | None = None,
    within: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    damaged: Literal["rebuild", "refuse"] = "rebuild",
) -> int:
    """How many rows a query finds; see `search`.

    Without `where`, no row is fetched.

    Example:
        >>> Table.for_path("lake/logs", spark).count("timeout AND level:ERROR")  # doctest: +SKIP
        1284
    """
    with in_our_words():
        if where is not None:
            spoken = search(
                table, query, where=where, within=within, version=version, timestamp=timestamp, damaged=damaged
            )
            return int(spoken.count())
        snapshot = table.snapshot(version=version, timestamp=timestamp)
        asked = _asked(table, snapshot, query, within, Struct([]), damaged, None)
        return found_count(table.spark, table.store, asked, _splits(table, snapshot, asked.search, None))


def _asked(
    table: IndexOpened,
    snapshot: IndexSnapshot,
    query: str,
    within: Sequence[str] | None,
    schema: Struct,
    damaged: Literal["rebuild", "refuse"],
    most: int | None,
) -> SplitSearch:
    return SplitSearch(
        Search.of(snapshot, query, within),
        schema,
        CachePlace.of(table.settings),
        rebuild=damaged == "rebuild",
        most=most,
    )


def _splits(table: IndexOpened, snapshot: IndexSnapshot, search: Search, where: str | Column | None) -> list[SplitAdd]:
    """The splits that may have a row."""
    kept = kept_splits(
        snapshot, snapshot.files.values(), where if isinstance(where, str) else None, session_zone(table.spark)
    )
    return splits_to_search(search, kept)
