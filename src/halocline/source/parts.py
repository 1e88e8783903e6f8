"""Readers of the data source for tables that are read in parts, as Hudi and index tables are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from halocline.source.options import SourceOptions
from halocline.source.read_limits import ReadAllAvailable, SupportsTriggerAvailableNow
from halocline.source.stream_offsets import Offset, StreamOffsets
from halocline.spark.scan.slice_frames import PartReader
from halocline.spark.types.columns import struct_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


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


class PartsReader(DataSourceReader):
    """Reads what its partitions name, at a version."""

    def __init__(self, asked: SourceOptions, schema: StructType, version: int | None) -> None:
        self._asked = asked
        self._schema = struct_of(schema)
        self._version = version

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return rows_of(partition)


class PartsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what its partitions name, between two positions; a micro-batch takes all that there is.

    A stream never goes back. A listing may show less of a table than one before it did, and what was delivered once
    would come again; so neither the end of a micro-batch nor its beginning lies before one that this reader has seen.
    """

    def __init__(self, asked: SourceOptions, schema: StructType, offsets: StreamOffsets) -> None:
        self._asked = asked
        self._schema = struct_of(schema)
        self._offsets = offsets
        self._last: dict[str, Any] | None = None

    @abstractmethod
    def first(self) -> dict[str, Any]:
        """The position at which a query that begins now begins."""

    @abstractmethod
    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the table has come."""

    @abstractmethod
    def planned_before(self, start: Offset, end: Offset) -> dict[str, Any]:
        """Where a first micro-batch begins whose end does not say it; see `StreamOffsets.beginning`."""

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        return self._offsets.initial(self.first)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """How far the next micro-batch goes: as far as the table has come, and never back."""
        return self._offsets.planned(start, self.first, lambda _: self._last or self.reportLatestOffset())

    def beginning(self, start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
        """The position at which a micro-batch begins."""
        return self._offsets.beginning(start, end, self.planned_before)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes how far the query goes before it ends."""
        self._last = self.reportLatestOffset()

    def getDefaultReadLimit(self) -> Any:
        """What a micro-batch takes at most: all that there is."""
        return ReadAllAvailable()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return rows_of(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is remembered of what is done."""
