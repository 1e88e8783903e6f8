"""What a task of the data source reads where tables are read in parts, as Hudi and index tables are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from halocline.spark.scan.slice_frames import PartReader

if TYPE_CHECKING:
    import pyarrow as pa


class PartPartition(InputPartition):
    """What one task reads."""

    def __init__(self, reader: PartReader, parts: Sequence[Any]) -> None:
        super().__init__(None)
        self.reader = reader
        self.parts = list(parts)


def rows_of(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task; this is what a worker runs."""
    if isinstance(partition, PartPartition):
        for part in partition.parts:
            yield from partition.reader.batches(part)
