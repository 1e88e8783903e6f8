"""Hudi tables through the data source: rows as of an instant, of a range, how they changed, and streams of them.

A stream without a checkpoint begins with the rows that are there, and then delivers what each write brings: new rows,
and changed ones as they are now. Deleted rows are not delivered; `readChangeFeed` tells of them, where the table logs
changes. Its position is a time, of the kind that ranges are of: requested up to table version 7, completed from 8 on.

Up to version 7 a write may be completed after one that began later, and a range that ends between them would miss it.
So a stream goes no further than the first write that is still pending; one that has died holds it up until a writer
takes it back. The limit: files between two positions that were cleaned meanwhile are gone, and the stream says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)

from halocline.errors import InputError, SchemaError
from halocline.formats.hudi.change_data import change_range, change_schema
from halocline.formats.hudi.incremental import as_settled, read_range, settled_time
from halocline.formats.hudi.snapshot import HudiQuery, HudiSnapshot
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.types import Struct
from halocline.source.format_source import FormatSource
from halocline.source.options import LATEST, OF_EVERY_FORMAT, OF_HUDI, SourceOptions
from halocline.source.parts import PartPartition, PartsReader, PartsStreamReader
from halocline.spark.scan.file_rows import plain
from halocline.spark.scan.slice_frames import PartReader, in_tasks
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.read import CHANGES, instant_of, written_in

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STREAM: Final = "read.stream"
_NOTHING_YET: Final = ""


def opened(asked: SourceOptions) -> HudiOpened:
    """The table, opened in the process in which Spark plans for the source."""
    return HudiOpened(asked.store(), settings=asked.settings, zone=asked.zone, short_lived=True)


def end_of(asked: SourceOptions, version: int | None = None) -> HudiSnapshot:
    """The instant to read."""
    operation = CHANGES if asked.change_feed else "read"
    if version is not None:
        return opened(asked).snapshot(operation, version=version)
    return opened(asked).snapshot(operation, version=asked.version, timestamp=asked.timestamp)


def shown_columns(asked: SourceOptions, snapshot: HudiSnapshot) -> Struct:
    """The columns that the source shows."""
    return struct_of_arrow(change_schema(snapshot) if asked.change_feed else snapshot.schema.columns)


def checked_columns(asked: SourceOptions, snapshot: HudiSnapshot, schema: Struct) -> Struct:
    """Columns that somebody has asked for, if the source has them with that type.

    Raises:
        SchemaError: It has not.
    """
    shown = shown_columns(asked, snapshot)
    for each in schema.fields:
        found = shown.get(each.name)
        if found is None or plain(Struct([found])).fields[0].type != plain(Struct([each])).fields[0].type:
            raise SchemaError(
                f"the table has no column {each.name} of that type",
                sides={"asked for": str(each), "table has": ", ".join(map(str, shown.fields))[:300]},
                next_step="Leave the schema out, or give columns that the table has.",
            )
    return schema


class HudiFormatSource(FormatSource):
    """Readers and writers of Hudi tables."""

    options = OF_HUDI | OF_EVERY_FORMAT | {"readChangeFeed", "follow"}

    def columns(self, asked: SourceOptions) -> tuple[Struct, int]:
        """The columns that are shown, and the version that they are of."""
        snapshot = end_of(asked)
        return shown_columns(asked, snapshot), snapshot.version

    def reader(self, asked: SourceOptions, schema: StructType, version: int | None) -> DataSourceReader:
        """Reads the rows of an instant or of a range, or how they changed."""
        return HudiReader(asked, schema, version)

    def writer(self, asked: SourceOptions, schema: Struct, *, overwrite: bool) -> DataSourceArrowWriter:
        """Appends rows, or puts them in place of all others."""
        from halocline.source.hudi_writer import HudiWriter

        return HudiWriter.open(asked, schema, overwrite=overwrite)

    def stream_reader(self, asked: SourceOptions, schema: StructType, version: int | None) -> DataSourceStreamReader:
        """Reads what writes bring; the version at which columns were shown does not matter."""
        return HudiStreamReader(asked, schema)

    def stream_writer(self, asked: SourceOptions, schema: Struct, *, overwrite: bool) -> DataSourceStreamWriter:
        """Appends micro-batches, each once."""
        from halocline.source.hudi_stream import HudiStreamWriter

        return cast(DataSourceStreamWriter, HudiStreamWriter.open(asked, schema, overwrite=overwrite))


class HudiReader(PartsReader):
    """Reads the rows of an instant or of a range, or how they changed."""

    def partitions(self) -> Sequence[InputPartition]:
        """What the tasks read, of similar size."""
        asked, columns = self._asked, self._schema.names
        snapshot = end_of(asked, self._version)
        checked_columns(asked, snapshot, self._schema)
        if asked.change_feed:
            return _changes(snapshot, _begin(asked, snapshot), _end(asked, snapshot), self._schema)
        if asked.begin is not None or asked.end is not None:
            found = written_in(opened(asked), snapshot, asked.begin or "0", asked.end)
            return _divided(PartReader(snapshot.store, found.reader(columns).read, self._schema), found.slices)
        merging = asked.query is HudiQuery.SNAPSHOT and any(each.logs for each in snapshot.slices)
        reader = snapshot.reader(columns, merging=merging)
        return _divided(PartReader(snapshot.store, reader.read, self._schema), snapshot.slices)


class HudiStreamReader(PartsStreamReader):
    """Reads what writes bring, in the order in which they take effect."""

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        snapshot = self._snapshot()
        if self._asked.begin == LATEST:
            return _position(snapshot, settled_time(snapshot.timeline) or "0")
        given = self._asked.begin
        return _position(snapshot, _NOTHING_YET if given is None else instant_of(opened(self._asked), snapshot, given))

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """How far the next micro-batch goes: as far as the table has come, and never back."""
        snapshot = self._snapshot()
        here = _NOTHING_YET if start is None else _time(snapshot, start)
        last = _newest(snapshot) if self._last is None else self._last
        return last if here <= last["time"] else {**last, "time": here}

    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the table has come."""
        return _newest(self._snapshot())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What the tasks of a micro-batch read."""
        snapshot, columns = self._snapshot(), self._schema.names
        checked_columns(self._asked, snapshot, self._schema)
        first, last = _time(snapshot, start), _time(snapshot, end)
        if first == last:
            return []
        if self._asked.change_feed:
            return _changes(snapshot, first or None, last, self._schema)
        if first == _NOTHING_YET:
            then = as_settled(snapshot, last)
            reader = then.reader(columns, merging=any(each.logs for each in then.slices))
            return _divided(PartReader(snapshot.store, reader.read, self._schema), then.slices)
        found = read_range(snapshot, first, last)
        return _divided(PartReader(snapshot.store, found.reader(columns).read, self._schema), found.slices)

    def _snapshot(self) -> HudiSnapshot:
        return opened(self._asked).snapshot(CHANGES if self._asked.change_feed else STREAM)


def _divided(reader: PartReader, parts: Sequence[Any]) -> list[InputPartition]:
    return [PartPartition(reader, each) for each in in_tasks(parts)]


def _changes(snapshot: HudiSnapshot, begin: str | None, end: str | None, schema: Struct) -> list[InputPartition]:
    found = change_range(snapshot, begin, end)
    return _divided(PartReader(snapshot.store, found.read, schema), found.parts)


def _begin(asked: SourceOptions, snapshot: HudiSnapshot) -> str | None:
    return None if asked.begin is None else instant_of(opened(asked), snapshot, asked.begin)


def _end(asked: SourceOptions, snapshot: HudiSnapshot) -> str | None:
    return None if asked.end is None else instant_of(opened(asked), snapshot, asked.end)


def _position(snapshot: HudiSnapshot, time: str) -> dict[str, Any]:
    return {"time": time, "table": snapshot.config.name, "layout": snapshot.config.layout}


def _newest(snapshot: HudiSnapshot) -> dict[str, Any]:
    return _position(snapshot, settled_time(snapshot.timeline) or _NOTHING_YET)


def _time(snapshot: HudiSnapshot, offset: Mapping[str, Any]) -> str:
    """The time of a position, if it is one of this table as it is now."""
    time, here = offset.get("time"), _position(snapshot, "")
    if not isinstance(time, str) or {**offset, "time": ""} != here:
        raise InputError(
            f"the checkpoint holds no position in {snapshot.store.root} as it is now",
            condition="STREAM_TABLE_REPLACED",
            sides={"checkpoint": str(dict(offset))[:200], "table": str(here)},
            next_step="Start the query with a new checkpoint, and beginInstant where it is to go on.",
        )
    return time
