"""Searches and aggregates of an index table in Spark's tasks.

The driver reads the query, leaves aside the splits that cannot have a row of it, and sends the others to tasks, several
to each. A task asks the index of a split for row numbers and fetches those rows, a batch at a time, so it holds the
numbers of one split and one batch of rows. What an index cannot answer is answered from the rows; a split whose index
is damaged or of a later kind is searched with one that is built anew, unless that is refused.

Scores take two rounds: the first, a job of its own, adds up the statistics of all splits, and the second scores rows by
them. Rows then come with hidden columns, by which those with the same score are put in order.

A search that finds few rows is answered here and now, for a job costs more than finding them: the driver looks at the
terms of the splits, several at once, and opens the indexes of those that are left, if there is little to unpack.
Whether rows are few is found out before any of them is fetched.

Unpacked indexes are kept in a folder of the machine that runs the tasks, for the next search
(`halocline.index.cacheFolder`, `halocline.index.cacheBytes`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import pyarrow as pa

from halocline.errors import IncompatibleError, MalformedError
from halocline.formats.index.aggregate.partial import Partial, merged, partial_of
from halocline.formats.index.aggregate.request import Aggregation
from halocline.formats.index.aggregate.run import aggregate_split
from halocline.formats.index.explain import reads_rows
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.evaluate import SplitHits
from halocline.formats.index.relevance.best import best_in_split, scored_rows
from halocline.formats.index.relevance.snippets import Highlighter
from halocline.formats.index.relevance.statistics import WordStatistics, split_statistics
from halocline.formats.index.search import Search, count_split, few_in_split, index_to_ask, search_split
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.facts import at_hand
from halocline.formats.index.split.file import GROUP_ROWS
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.footers import at_once
from halocline.spark.scan.packing import packed
from halocline.spark.scan.slice_frames import PartReader, part_frame
from halocline.spark.session.settings import Settings
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

SCORE: Final = "_score"
"""The column of scores."""

SPLIT: Final = "__halocline_split"
NUMBER: Final = "__halocline_number"
"""The hidden columns that say which row of which split a scored row is."""

_BATCH_ROWS: Final = 65_536
_AT_ONCE: Final = 64
_LOOKED_AT: Final = 256
_OPENED_HERE: Final = 256 * 1024 * 1024
_READING: Final = 8
"""What reading rows costs in place of asking an index of that size."""

_FEW_ROWS: Final = 2000
_FEW_GROUPS: Final = 64
_TASK_BYTES: Final = 64 * 1024 * 1024
_OPENING: Final = 2 * 1024 * 1024
"""What opening an index costs, in bytes that could be read meanwhile."""

_TOLD: Final = Struct([Field("told", Primitive("binary"))])
_RANKED: Final = (
    Field(SCORE, Primitive("double")),
    Field(SPLIT, Primitive("string")),
    Field(NUMBER, Primitive("long")),
)


@dataclass(frozen=True)
class CachePlace:
    """Where a machine keeps unpacked indexes, found out on that machine.

    Attributes:
        folder: The folder; one of the user's own below the system's temporary folder if empty.
        most_bytes: How much it holds at most.
    """

    folder: str
    most_bytes: int

    @staticmethod
    def of(told: Settings) -> CachePlace | None:
        """The place that settings name; None if they want no cache."""
        return CachePlace(told.index_cache_folder or "", told.index_cache_bytes) if told.index_cache_bytes else None

    def opened(self) -> IndexCache | None:
        """The cache; None if the folder is somebody else's."""
        folder = self.folder or os.path.join(tempfile.gettempdir(), f"halocline-indexes-{os.getuid()}")
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if os.lstat(folder).st_uid == os.getuid():
                return IndexCache(folder, self.most_bytes)
        return None


@dataclass(frozen=True)
class SplitSearch:
    """What a task needs to know to search splits.

    Attributes:
        search: What is looked for.
        columns: The columns of the table to give.
        place: Where unpacked indexes are kept on the machine of the task; nowhere if not given.
        rebuild: Whether a split with an index that cannot be used answers by one that is built anew.
        most: How many rows of one split are wanted at most; all if not given.
        statistics: Those of the whole table, where rows are to be scored.
        snippets: The columns of which snippets are made, and how the columns of these are called.
    """

    search: Search
    columns: tuple[Field, ...] = ()
    place: CachePlace | None = None
    rebuild: bool = True
    most: int | None = None
    statistics: WordStatistics | None = None
    snippets: dict[str, str] = field(default_factory=dict)

    @cached_property
    def schema(self) -> Struct:
        """The columns of what is found."""
        made = [Field(name, Primitive("string")) for name in self.snippets.values()]
        return Struct([*self.columns, *made, *(() if self.statistics is None else _RANKED)])

    def rows(self, store: Store, split: SplitAdd) -> Iterator[pa.RecordBatch]:
        """The rows that one split has, a batch at a time."""
        return self.fetched(store, split, self._hits(store, split))

    def fetched(self, store: Store, split: SplitAdd, hits: SplitHits) -> Iterator[pa.RecordBatch]:
        """The rows that were found in one split, a batch at a time."""
        schema = arrow_schema(self.schema.fields)
        found = len(hits.rows) if self.most is None else min(self.most, len(hits.rows))
        for start in range(0, found, _BATCH_ROWS):
            end = min(start + _BATCH_ROWS, found)
            scores = None if hits.scores is None else hits.scores[start:end]
            part = replace(hits, rows=hits.rows[start:end], scores=scores)
            table = scored_rows(store, split, self.columns, part)
            arrays = [*table.columns, *(self._snippets(table, column) for column in self.snippets)]
            if scores is not None:
                count = len(part.rows)
                arrays += [pa.array(scores), pa.repeat(pa.scalar(split.path), count), pa.array(part.rows, pa.int64())]
            yield from pa.Table.from_arrays(arrays, schema=schema).to_batches()

    def likely(self, store: Store, splits: Sequence[SplitAdd]) -> Iterator[SplitAdd]:
        """The splits that may have a row, as far as their terms tell; several are looked at at once."""

        def may_have(split: SplitAdd) -> bool:
            try:
                return index_to_ask(store, split, self.search) > 0
            except (MalformedError, IncompatibleError):
                return True  # whoever asks it builds another index, or says what is wrong

        for start in range(0, len(splits), _AT_ONCE):
            some = splits[start : start + _AT_ONCE]
            yield from (each for each, may in zip(some, at_once(may_have, some), strict=True) if may)

    def _hits(self, store: Store, split: SplitAdd) -> SplitHits:
        if self.statistics is None:
            return search_split(store, split, self.search, rebuild=self.rebuild, cache=self.opened_cache())
        told, most = self.statistics, self.most
        return best_in_split(store, split, self.search, told, most, rebuild=self.rebuild, cache=self.opened_cache())

    def count(self, store: Store, split: SplitAdd) -> Iterator[pa.RecordBatch]:
        """How many rows one split has."""
        yield _told(count_split(store, split, self.search, rebuild=self.rebuild, cache=self.opened_cache()))

    def words(self, store: Store, split: SplitAdd) -> Iterator[pa.RecordBatch]:
        """The statistics of one split."""
        told = split_statistics(store, split, self.search, rebuild=self.rebuild, cache=self.opened_cache())
        yield _told((told.rows, dict(told.lengths), [[*key, count] for key, count in told.having.items()]))

    def opened_cache(self) -> IndexCache | None:
        """Where unpacked indexes are kept on this machine."""
        return None if self.place is None else self.place.opened()

    def _snippets(self, table: pa.Table, column: str) -> pa.Array:
        marker = Highlighter(self.search, column)
        texts = table.column(column).to_pylist()
        return pa.array([None if each is None else marker.snippet(each).marked() for each in texts], pa.string())


@dataclass(frozen=True)
class SplitAggregation:
    """What a task needs to know to aggregate splits, or rows."""

    asked: Aggregation
    search: Search | None = None
    place: CachePlace | None = None
    rebuild: bool = True

    def partial(self, store: Store, split: SplitAdd) -> Iterator[pa.RecordBatch]:
        """What one split adds."""
        cache = None if self.place is None else self.place.opened()
        found = aggregate_split(store, split, self.asked, self.search, rebuild=self.rebuild, cache=cache)
        yield pa.RecordBatch.from_pydict({"told": [_packed(found.partial)]}, arrow_schema(_TOLD.fields))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the rows of one task add."""
        names = [each.name for each in self.asked.columns]
        parts = (partial_of(self.asked, pa.Table.from_batches([batch]).select(names)) for batch in batches)
        packed = _packed(merged(self.asked, parts))
        yield pa.RecordBatch.from_pydict({"told": [packed]}, arrow_schema(_TOLD.fields))


def few_rows(store: Store, asked: SplitSearch, splits: Sequence[SplitAdd]) -> pa.Table | None:
    """The rows that splits have of a search, if they are few and easily had; None if tasks have to look for them.

    Raises:
        MalformedError: The rows of a split are damaged.
    """
    cache = asked.opened_cache()
    hits = _few(store, asked, splits, lambda each: few_in_split(store, each, asked.search, _FEW_ROWS, cache=cache))
    if hits is None:
        return None
    found, rows, groups = [], 0, 0
    for each, few in hits:
        if few.count and (asked.most is None or rows < asked.most):
            found.append((each, few))
            here = few.count if asked.most is None else min(few.count, asked.most)
            all_groups = (each.num_records or 0) // GROUP_ROWS + 1
            # Those that come first lie in the first groups, as far as rows are spread evenly.
            rows, groups = rows + here, groups + min(here, all_groups * here // few.count + 1)
    if rows > _FEW_ROWS or groups > _FEW_GROUPS:
        return None

    def fetched(part: tuple[SplitAdd, SplitHits]) -> list[pa.RecordBatch]:
        split, few = part
        return list(asked.fetched(store, split, few) if few.total is None else asked.rows(store, split))

    batches = [batch for part in at_once(fetched, found) for batch in part]
    return pa.Table.from_batches(batches, arrow_schema(asked.schema.fields))


def few_count(store: Store, asked: SplitSearch, splits: Sequence[SplitAdd]) -> int | None:
    """How many rows splits have of a search, if that is easily told; None if tasks have to count."""
    cache = asked.opened_cache()
    counts = _few(store, asked, splits, lambda each: count_split(store, each, asked.search, cache=cache))
    return None if counts is None else sum(count for _, count in counts)


def _few(
    store: Store, asked: SplitSearch, splits: Sequence[SplitAdd], ask: Callable[[SplitAdd], T]
) -> list[tuple[SplitAdd, T]] | None:
    """What every split answers that may have a row; None if there is more to do than a driver should."""
    if len(splits) > _LOOKED_AT:
        return None

    def look(split: SplitAdd) -> int:
        return index_to_ask(store, split, asked.search)

    try:
        asking = list(map(look, splits)) if at_hand(store, splits) else at_once(look, splits)
        left = [each for each, size in zip(splits, asking, strict=True) if size]
        read = _READING * sum(each.size for each in left) if reads_rows(asked.search) else 0
        if sum(asking) + read > _OPENED_HERE:
            return None
        return list(zip(left, at_once(ask, left), strict=True))
    except (MalformedError, IncompatibleError):
        return None  # a task builds another index, or says what is wrong


def found_rows(spark: SparkSession, store: Store, asked: SplitSearch, splits: Sequence[SplitAdd]) -> DataFrame:
    """The rows that splits have of a search."""
    return part_frame(spark, PartReader(store, asked.rows, asked.schema), list(map(_slim, splits)), split_tasks)


def found_count(spark: SparkSession, store: Store, asked: SplitSearch, splits: Sequence[SplitAdd]) -> int:
    """How many rows splits have of a search."""
    return sum(msgspec.json.decode(each, type=int) for each in _answers(spark, store, asked.count, splits))


def found_statistics(
    spark: SparkSession, store: Store, asked: SplitSearch, splits: Sequence[SplitAdd]
) -> WordStatistics:
    """The statistics of splits together."""
    told = (msgspec.json.decode(each) for each in _answers(spark, store, asked.words, splits))
    return WordStatistics.added(
        WordStatistics(rows, lengths, {(column, word): count for column, word, count in having})
        for rows, lengths, having in told
    )


def found_partials(
    spark: SparkSession, store: Store, asked: SplitAggregation, splits: Sequence[SplitAdd]
) -> list[Partial]:
    """What splits add to an aggregate."""
    return [_unpacked(each) for each in _answers(spark, store, asked.partial, splits)]


def row_partials(df: DataFrame, asked: SplitAggregation) -> list[Partial]:
    """What rows add to an aggregate."""
    return [_unpacked(bytes(row[0])) for row in df.mapInArrow(asked, "told binary").collect()]


def _answers(
    spark: SparkSession,
    store: Store,
    ask: Callable[[Store, SplitAdd], Iterator[pa.RecordBatch]],
    splits: Sequence[SplitAdd],
) -> list[bytes]:
    """What every split answers."""
    frame = part_frame(spark, PartReader(store, ask, _TOLD), list(map(_slim, splits)), split_tasks)
    return [bytes(row[0]) for row in frame.collect()]


def split_tasks(splits: Sequence[SplitAdd]) -> list[list[SplitAdd]]:
    """Splits in parts of similar cost, one for each task: a task costs more than opening a small index.

    Example:
        >>> len(split_tasks([SplitAdd("a.split.parquet", {}, 1000, 0, True)] * 30))
        1
    """
    return list(packed(splits, lambda each: each.size + _OPENING, _TASK_BYTES))


def _slim(split: SplitAdd) -> SplitAdd:
    """A split without what only pruning needs."""
    return msgspec.structs.replace(split, min_values=None, max_values=None, stats=None, doc_mapping_json=None)


def _told(value: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"told": [msgspec.json.encode(value)]}, arrow_schema(_TOLD.fields))


def _packed(partial: Partial) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, partial.schema) as writer:
        writer.write_table(partial)
    return bytes(sink.getvalue().to_pybytes())


def _unpacked(data: bytes) -> Partial:
    return pa.ipc.open_stream(data).read_all()
