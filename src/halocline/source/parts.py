"""Readers of the data source for tables that are read in parts, as Hudi and index tables are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from halocline.source.options import SourceOptions
from halocline.source.read_limits import ReadAllAvailable, SupportsTriggerAvailableNow
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

    Attributes:
        ORDER: What positions are compared by.
    """

    ORDER: ClassVar[str]

    def __init__(self, asked: SourceOptions, schema: StructType, version: int | None) -> None:
        # The version at which columns were shown does not matter.
        self._asked = asked
        self._schema = struct_of(schema)
        self._last: dict[str, Any] | None = None
        self._ends: dict[str, Any] | None = None
        self._begins: dict[str, Any] | None = None

    @abstractmethod
    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the table has come."""

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """How far the next micro-batch goes: as far as the table has come, and never back."""
        reached = self.reportLatestOffset() if self._last is None else self._last
        self._ends = self._furthest(reached, self._ends, start)
        return self._ends

    def beginning(self, start: dict[str, Any]) -> dict[str, Any]:
        """Where a micro-batch begins: Spark before 4.2 does not say how far a stream has come when it asks how far."""
        self._begins = self._furthest(start, self._begins)
        return self._begins

    def _furthest(self, position: dict[str, Any], *others: dict[str, Any] | None) -> dict[str, Any]:
        """The same position, or as far on in the same table as one of the others; strange ones are met elsewhere."""
        here = position[self.ORDER]
        known = [each for each in others if each is not None and each.get("table") == position["table"]]
        ranks = (each[self.ORDER] for each in known if type(each.get(self.ORDER)) is type(here))
        furthest = max([here, *ranks], key=self.rank)
        return position if furthest == here else {**position, self.ORDER: furthest}

    @staticmethod
    def rank(position: Any) -> Any:
        """What the order of positions is by."""
        return position

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
