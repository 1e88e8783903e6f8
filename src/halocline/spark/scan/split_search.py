"""Searches of an index table in Spark's tasks.

The driver reads the query, leaves aside the splits that cannot have a row of it, and sends the others to tasks, several
to each. A task asks the index of a split for row numbers and fetches those rows, a batch at a time, so it holds the
numbers of one split and one batch of rows. What an index cannot answer is answered from the rows; a split whose index
is damaged or of a later kind is searched with one that is built anew, unless that is refused.

Unpacked indexes are kept in a folder of the machine that runs the tasks, for the next search
(`halocline.index.cacheFolder`, `halocline.index.cacheBytes`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa

from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.rows import split_rows
from halocline.formats.index.search import Search, count_split, search_split
from halocline.formats.index.split.cache import IndexCache
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.slice_frames import PartReader, part_frame
from halocline.spark.session.settings import Settings
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_ROWS: Final = 16_384
_TASK_BYTES: Final = 64 * 1024 * 1024
_OPENING: Final = 2 * 1024 * 1024
"""What opening an index costs, in bytes that could be read meanwhile."""

_COUNT: Final = Struct([Field("found", Primitive("long"))])


@dataclass(frozen=True)
class SplitSearch:
    """What a task needs to know to search splits.

    Attributes:
        search: What is looked for.
        schema: The columns to give.
        cache: Where unpacked indexes are kept on the machine of the task; nowhere if not given.
        rebuild: Whether a split with an index that cannot be used answers by one that is built anew.
        most: How many rows of one split are wanted at most; all if not given.
    """

    search: Search
    schema: Struct
    cache: CachePlace | None = None
    rebuild: bool = True
    most: int | None = None

    def rows(self, store: Store, split: SplitAdd) -> Iterator[pa.RecordBatch]:
        """The rows that one split has, a batch at a time."""
        cache = None if self.cache is None else self.cache.opened()
        found = search_split(store, split, self.search, rebuild=self.rebuild, cache=cache)
        numbers = found.rows if self.most is None else found.rows[: self.most]
        for start in range(0, len(numbers), _BATCH_ROWS):
            part: np.ndarray = numbers[start : start + _BATCH_ROWS]
            yield from split_rows(store, split, self.schema.fields, part).to_batches()

    def count(self, store: Store, split: SplitAdd) -> Iterator[pa.RecordBatch]:
        """How many rows one split has."""
        cache = None if self.cache is None else self.cache.opened()
        found = count_split(store, split, self.search, rebuild=self.rebuild, cache=cache)
        yield pa.RecordBatch.from_pydict({"found": [found]}, arrow_schema(_COUNT.fields))


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


def found_rows(spark: SparkSession, store: Store, search: SplitSearch, splits: Sequence[SplitAdd]) -> DataFrame:
    """The rows that splits have of a search."""
    return part_frame(spark, PartReader(store, search.rows, search.schema), list(map(_slim, splits)), split_tasks)


def found_count(spark: SparkSession, store: Store, search: SplitSearch, splits: Sequence[SplitAdd]) -> int:
    """How many rows splits have of a search."""
    counting = replace(search, schema=_COUNT)
    frame = part_frame(spark, PartReader(store, counting.count, _COUNT), list(map(_slim, splits)), split_tasks)
    return sum(int(row[0]) for row in frame.collect())


def split_tasks(splits: Sequence[SplitAdd]) -> list[list[SplitAdd]]:
    """Splits in parts of similar cost, one for each task: a task costs more than opening a small index.

    Example:
        >>> len(split_tasks([SplitAdd("a.split.parquet", {}, 1000, 0, True)] * 30))
        1
    """
    found: list[list[SplitAdd]] = []
    left = 0
    for split in splits:
        cost = split.size + _OPENING
        if not found or cost > left:
            found.append([])
            left = _TASK_BYTES
        found[-1].append(split)
        left -= cost
    return found


def _slim(split: SplitAdd) -> SplitAdd:
    """A split without what only pruning needs."""
    return msgspec.structs.replace(split, min_values=None, max_values=None, stats=None, doc_mapping_json=None)
