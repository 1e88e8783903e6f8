"""Work that Spark's tasks do for the driver: a function on many items, an answer in bytes from each.

The function and the items go to Python workers as they are, so both must be ones that can be pickled. What comes back
goes through the driver's limit on results (`spark.driver.maxResultSize`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def in_tasks(spark: SparkSession, function: Callable[[Any], bytes], items: Sequence[Any]) -> list[bytes]:
    """What a function returns for each item, in their order, with a task for each."""

    def answers(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (each for batch in numbers for each in batch.column(0).to_pylist()):
            told = pa.array([function(items[number])], pa.binary())
            yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), told], names=["number", "answer"])

    if not items:
        return []
    found = spark.range(0, len(items), 1, len(items)).mapInArrow(answers, "number bigint, answer binary").collect()
    return [bytes(answer) for _, answer in sorted(found, key=lambda row: row[0])]
