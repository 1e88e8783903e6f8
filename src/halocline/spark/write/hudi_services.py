"""Parts of a Hudi table service, each done by a task of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from halocline.formats.hudi.maintain.running import Runner, Work, in_turn
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.spark.write.hudi_rows import attempt
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STAT: Final = "stat binary"


def in_spark_tasks(spark: SparkSession, store: Store) -> Runner:
    """What has parts done by tasks, one each; by this process, if no other sees the store."""
    if isinstance(store, MemoryStore):
        return in_turn

    def run(work: Work, parts: Sequence[Any]) -> list[WriteStat]:
        def stats(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in (each for batch in numbers for each in batch.column(0).to_pylist()):
                told = msgspec.json.encode(work(parts[number], "-".join(map(str, attempt()))))
                yield pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], names=["stat"])

        if not parts:
            return []
        found = spark.range(0, len(parts), 1, len(parts)).mapInArrow(stats, _STAT).collect()
        return [msgspec.json.decode(row[0], type=WriteStat) for row in found]

    return run
