"""Groups of splits that are merged or indexed again, each by one task; the driver commits what comes of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from halocline.formats.index.merge.group import MergedGroup, MergeTarget, merge_group
from halocline.formats.index.merge.plan import MergeGroup
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.slice_frames import PartReader, part_frame
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOLD = Struct([Field("told", Primitive("binary"))])


@dataclass(frozen=True)
class GroupMerging:
    """What a task needs to know to merge groups.

    Attributes:
        target: What merged splits are like.
        now_ms: The present, in milliseconds since the epoch.
        again: Whether rows are indexed again in any case.
    """

    target: MergeTarget
    now_ms: int
    again: bool = False

    def run(self, store: Store, group: MergeGroup) -> Iterator[pa.RecordBatch]:
        """Merges one group."""
        done = merge_group(store, group.splits, self.target, now_ms=self.now_ms, again=self.again)
        yield pa.RecordBatch.from_pydict({"told": [pickle.dumps(done)]}, arrow_schema(_TOLD.fields))


def merged_groups(
    spark: SparkSession, store: Store, work: GroupMerging, groups: Sequence[MergeGroup]
) -> Iterator[MergedGroup]:
    """What became of groups, each as soon as Spark hands it over."""
    frame = part_frame(spark, PartReader(store, work.run, _TOLD), groups, lambda parts: [[part] for part in parts])
    for row in frame.toLocalIterator():
        yield pickle.loads(bytes(row[0]))
