"""Searching an index table: rows as a DataFrame, how many there are, and how a query is answered.

Splits are left aside by partition values, bounds and terms before a task opens them. No result is ever cut short but by
`limit`; what the index could not answer was read from the rows, and `explain_search` says which and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from halocline.errors import InputError
from halocline.formats.index.explain import SearchExplanation, explained
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.relevance.best import check_scored
from halocline.formats.index.search import Search, check_own, splits_to_search
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.schema.types import Primitive
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.read_errors import in_our_words
from halocline.spark.scan.scan import columns_asked_for, columns_spoken_of
from halocline.spark.scan.split_frames import kept_splits
from halocline.spark.scan.split_search import (
    NUMBER,
    SCORE,
    SPLIT,
    CachePlace,
    SplitSearch,
    few_count,
    few_rows,
    found_count,
    found_rows,
    found_statistics,
)
from halocline.spark.session.analysis import filtered, read_without_spark
from halocline.spark.session.functions import F
from halocline.spark.types.columns import quoted
from halocline.spark.types.constant_rows import known_rows
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import Moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SNIPPET: Final = "_snippet"
_MOST_ROWS: Final = 2**31 - 1
"""What Spark can limit rows to."""


def search(
    table: IndexOpened,
    query: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    limit: int | None = None,
    score: bool = False,
    snippets: Sequence[str] | None = None,
    within: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    damaged: Literal["rebuild", "refuse"] = "rebuild",
    stale: Literal["refuse", "allow"] = "refuse",
) -> DataFrame:
    """The rows that a query finds.

    Args:
        table: The table.
        query: What is looked for; see `halocline.formats.index.query`.
        columns: The columns wanted; all if not given.
        where: A condition that rows must meet as well. As SQL text it also leaves splits out.
        limit: How many rows at most; all if not given.
        score: Whether rows come with their relevance, in the column `_score`, the best first. That takes a job at once,
            which adds up the statistics of all splits; see `halocline.formats.index.relevance`.
        snippets: Columns of text of which the part that was found is shown, with marks, in a column `NAME_snippet`.
        within: The columns for words that name none; all if not given.
        version: The version; the newest if not given.
        timestamp: A time; the version that held then.
        damaged: What becomes of a split whose index cannot be used: `rebuild` answers from its rows, `refuse` is an
            error.
        stale: Whether a companion index may answer whose source has moved on.

    Raises:
        ConflictError: It is a companion index, and its source has moved on.
        InputError: The query is not understood, or a column cannot answer it.
        NotFoundError: There is no such column or version.
        IncompatibleError: A split cannot be searched by this release.

    Example:
        >>> logs = Table.for_path("lake/logs", spark)  # doctest: +SKIP
        >>> logs.search("timeout AND level:ERROR", where="at >= '2026-11-01'").show()  # doctest: +SKIP
    """
    if limit is not None and limit < 0:
        raise InputError(f"there are no {limit} rows", sides={"limit": str(limit), "possible": "0 or more"})
    snapshot = table.to_read(version=version, timestamp=timestamp, stale=stale)
    schema = snapshot.schema
    wanted = columns_asked_for(schema, columns)
    shown = {name: f"{name}{_SNIPPET}" for name in _texts(snapshot, snippets or ())}
    needed = {*columns_spoken_of(schema, wanted, where), *shown}
    fields = tuple(field for field in schema.fields if field.name in needed)
    asked = replace(_asked(table, snapshot, query, within, damaged), columns=fields, snippets=shown)
    if where is None:
        asked = replace(asked, most=limit)
    splits = _splits(table, snapshot, asked.search, where)
    if score:
        asked = _scored(table, snapshot, asked, splits)
    few = None if score else few_rows(table.store, asked, splits)
    if few is None:
        df = found_rows(table.spark, table.store, asked, splits)
    else:
        df = known_rows(table.spark, few, asked.schema.fields)
    df = df if where is None else filtered(df, where)
    if score:
        df = df.orderBy(F.desc(SCORE), SPLIT, NUMBER)
    df = df if limit is None else df.limit(min(limit, _MOST_ROWS))
    names = [*wanted, *shown.values(), *([SCORE] if score else [])]
    # The columns are known here; asking Spark for them takes as long as finding the rows.
    return df if [each.name for each in asked.schema.fields] == names else df.select(*map(quoted, names))


def count(
    table: IndexOpened,
    query: str,
    *,
    where: str | Column | None = None,
    within: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    damaged: Literal["rebuild", "refuse"] = "rebuild",
    stale: Literal["refuse", "allow"] = "refuse",
) -> int:
    """How many rows a query finds; see `search`.

    Without `where`, no row is fetched.

    Example:
        >>> Table.for_path("lake/logs", spark).count("timeout AND level:ERROR")  # doctest: +SKIP
        1284
    """
    with in_our_words():
        if where is not None:
            found = search(
                table,
                query,
                where=where,
                within=within,
                version=version,
                timestamp=timestamp,
                damaged=damaged,
                stale=stale,
            )
            return int(found.count())
        snapshot = table.to_read(version=version, timestamp=timestamp, stale=stale)
        asked = _asked(table, snapshot, query, within, damaged)
        splits = _splits(table, snapshot, asked.search, None)
        few = few_count(table.store, asked, splits)
        return found_count(table.spark, table.store, asked, splits) if few is None else few


def explain_search(
    table: IndexOpened,
    query: str,
    *,
    where: str | Column | None = None,
    within: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
) -> SearchExplanation:
    """How a search would be answered: by the index, the log or the rows, and which splits are left aside.

    Nothing is searched, and no split is opened.

    Example:
        >>> print(Table.for_path("lake/logs").explain_search("timeout AND day:2026-11-01"))  # doctest: +SKIP
    """
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    bound = Search.of(snapshot, query, within)
    if where is None:
        return explained(snapshot, bound, None, "")
    zone, text = "UTC", where if isinstance(where, str) else None
    if table.session is not None:
        zone, text = session_zone(table.spark), read_without_spark(table.spark, where)
    if text is None:
        told = "Spark filters the rows that were found; what it alone understands leaves no splits aside"
        return explained(snapshot, bound, None, told)
    kept = frozenset(each.path for each in kept_splits(snapshot, snapshot.files.values(), text, zone))
    return explained(snapshot, bound, kept, "Spark filters the rows that were found")


def _asked(
    table: IndexOpened,
    snapshot: IndexSnapshot,
    query: str,
    within: Sequence[str] | None,
    damaged: Literal["rebuild", "refuse"],
) -> SplitSearch:
    bound, place = Search.of(snapshot, query, within), CachePlace.of(table.settings)
    return SplitSearch(bound, place=place, rebuild=damaged == "rebuild")


def _scored(table: IndexOpened, snapshot: IndexSnapshot, asked: SplitSearch, splits: Sequence[SplitAdd]) -> SplitSearch:
    """The same with the statistics of the whole table; every split has to tell them."""
    check_scored(asked.search)
    every = list(snapshot.files.values()) if splits else []
    check_own(every)
    with in_our_words():
        return replace(asked, statistics=found_statistics(table.spark, table.store, asked, every))


def _splits(table: IndexOpened, snapshot: IndexSnapshot, search: Search, where: str | Column | None) -> list[SplitAdd]:
    """The splits that may have a row."""
    text = read_without_spark(table.spark, where)
    if text is None:
        return splits_to_search(search, snapshot.files.values())
    return splits_to_search(search, kept_splits(snapshot, snapshot.files.values(), text, session_zone(table.spark)))


def _texts(snapshot: IndexSnapshot, names: Sequence[str]) -> list[str]:
    """Columns of text, as the table spells them."""
    found = []
    for name in names:
        (spelt,), field = snapshot.schema.find([name])
        if field.type != Primitive("string"):
            raise InputError(
                f"there are no snippets of column {spelt}",
                sides={"column": str(field.type), "possible": "columns of text"},
                next_step="Leave it out.",
            )
        found.append(spelt)
    return found
