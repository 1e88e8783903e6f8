"""Hudi tables through the data source: rows as of an instant, of a range, how they changed, and streams of them.

A stream without a checkpoint begins with the rows that are there, and then delivers what each write brings: new rows,
and changed ones as they are now. Deleted rows are not delivered; `readChangeFeed` tells of them, where the table logs
changes. Its position is a time, of the kind that ranges are of: requested up to table version 7, completed from 8 on.

Up to version 7 a write may be completed after one that began later, and a range that ends between them would miss it.
So a stream goes no further than the first write that is still pending; one that has died holds it up until a writer
takes it back. A batch is read only from a timeline that shows the write at which it ends, or that it was taken back.
The limit: files between two positions that were cleaned meanwhile are gone, and the stream says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from halocline.errors import InputError, NotFoundError
from halocline.formats.hudi.change_data import change_range, change_schema
from halocline.formats.hudi.incremental import accounts_for, as_settled, read_range, settled_time
from halocline.formats.hudi.snapshot import HudiQuery, HudiSnapshot
from halocline.formats.hudi.timeline.instant import order
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.types import Struct
from halocline.source.options import LATEST, OF_EVERY_FORMAT, OF_HUDI, SourceOptions
from halocline.source.parts import PartPartition, PartsReader, PartsStreamReader
from halocline.source.stream_offsets import Offset, StreamOffsets, beginning_is_lost, position_of
from halocline.spark.scan.file_rows import check_columns
from halocline.spark.scan.slice_frames import PartReader, in_tasks
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.read import CHANGES, instant_of, written_in

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STREAM: Final = "read.stream"
_NOTHING_YET: Final = ""
_LOOKS: Final = 3


OPTIONS: Final = OF_HUDI | OF_EVERY_FORMAT | {"readChangeFeed", "follow"}


def columns(asked: SourceOptions) -> tuple[Struct, int]:
    """The columns that are shown, and the version that they are of."""
    snapshot = _end_of(asked)
    return _shown(asked, snapshot), snapshot.version


def _end_of(asked: SourceOptions, version: int | None = None) -> HudiSnapshot:
    """The instant to read."""
    return asked.opened(HudiOpened).snapshot(CHANGES if asked.change_feed else "read", **asked.at(version))


def _shown(asked: SourceOptions, snapshot: HudiSnapshot) -> Struct:
    """The columns that the source shows."""
    return struct_of_arrow(change_schema(snapshot) if asked.change_feed else snapshot.schema.columns)


class HudiReader(PartsReader):
    """Reads the rows of an instant or of a range, or how they changed."""

    def partitions(self) -> Sequence[InputPartition]:
        """What the tasks read, of similar size."""
        asked, columns, table = self._asked, self._schema.names, self._asked.opened(HudiOpened)
        snapshot = _end_of(asked, self._version)
        check_columns(_shown(asked, snapshot), self._schema)
        if asked.change_feed:
            begin, end = (each and instant_of(table, snapshot, each) for each in (asked.begin, asked.end))
            return _changes(snapshot, begin, end, self._schema)
        if asked.begin is not None or asked.end is not None:
            found = written_in(table, snapshot, asked.begin or "0", asked.end)
            return _divided(PartReader(snapshot.store, found.reader(columns).read, self._schema), found.slices)
        merging = asked.query is HudiQuery.SNAPSHOT and any(each.logs for each in snapshot.slices)
        reader = snapshot.reader(columns, merging=merging)
        return _divided(PartReader(snapshot.store, reader.read, self._schema), snapshot.slices)


class HudiStreamReader(PartsStreamReader):
    """Reads what writes bring, in the order in which they take effect."""

    def __init__(self, asked: SourceOptions, schema: StructType, version: int | None) -> None:
        # The instant at which columns were shown does not matter.
        super().__init__(asked, schema, StreamOffsets(identity=("table", "layout"), order=("time",), rank=order))

    def first(self) -> dict[str, Any]:
        """The position at which a query that begins now begins."""
        snapshot = self._snapshot()
        if self._asked.begin == LATEST:
            return _position(snapshot, settled_time(snapshot.timeline) or "0")
        given = self._asked.begin
        if given is None:
            return _position(snapshot, _NOTHING_YET)
        return _position(snapshot, instant_of(self._asked.opened(HudiOpened), snapshot, given))

    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the table has come."""
        snapshot = self._snapshot()
        return _position(snapshot, settled_time(snapshot.timeline) or _NOTHING_YET)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What the tasks of a micro-batch read."""
        snapshot, columns = self._showing(end), self._schema.names
        check_columns(_shown(self._asked, snapshot), self._schema)
        last, first = _time(snapshot, end), _time(snapshot, self.beginning(start, end))
        if order(first) >= order(last):
            return []
        if self._asked.change_feed:
            return _changes(snapshot, first or None, last, self._schema)
        if first == _NOTHING_YET:
            then = as_settled(snapshot, last)
            reader = then.reader(columns, merging=any(each.logs for each in then.slices))
            return _divided(PartReader(snapshot.store, reader.read, self._schema), then.slices)
        found = read_range(snapshot, first, last)
        return _divided(PartReader(snapshot.store, found.reader(columns).read, self._schema), found.slices)

    def planned_before(self, start: Offset, end: Offset) -> dict[str, Any]:
        """Where a first micro-batch begins whose end does not say it; see `StreamOffsets.beginning`."""
        if self._asked.begin == LATEST:
            raise beginning_is_lost(self._asked.path, "beginInstant", start, end)
        return dict(start)

    def _showing(self, end: Mapping[str, Any]) -> HudiSnapshot:
        """The table with the write at which a micro-batch ends: without it, rows would be left out for good."""
        for _ in range(_LOOKS):
            snapshot = self._snapshot()
            last = _time(snapshot, end)
            if last == _NOTHING_YET or accounts_for(snapshot.timeline, last):
                return snapshot
        raise NotFoundError(
            f"the timeline of {snapshot.store.root} does not show the write at {last}, at which the batch ends",
            sides={"batch": last, "timeline": settled_time(snapshot.timeline) or "no write"},
            next_step="Start the query again: the listing of its files is behind what it has shown before.",
        )

    def _snapshot(self) -> HudiSnapshot:
        return self._asked.opened(HudiOpened).snapshot(CHANGES if self._asked.change_feed else STREAM)


def _divided(reader: PartReader, parts: Sequence[Any]) -> list[InputPartition]:
    return [PartPartition(reader, each) for each in in_tasks(parts)]


def _changes(snapshot: HudiSnapshot, begin: str | None, end: str | None, schema: Struct) -> list[InputPartition]:
    found = change_range(snapshot, begin, end)
    return _divided(PartReader(snapshot.store, found.read, schema), found.parts)


def _position(snapshot: HudiSnapshot, time: str) -> dict[str, Any]:
    return {"time": time, "table": snapshot.config.name, "layout": snapshot.config.layout}


def _time(snapshot: HudiSnapshot, offset: Mapping[str, Any]) -> str:
    """The time of a position, if it is one of this table as it is now."""
    time, here = offset.get("time"), _position(snapshot, "")
    if not isinstance(time, str) or {**position_of(offset), "time": ""} != here:
        raise InputError(
            f"the checkpoint holds no position in {snapshot.store.root} as it is now",
            condition="STREAM_TABLE_REPLACED",
            sides={"checkpoint": str(dict(offset))[:200], "table": str(here)},
            next_step="Start the query with a new checkpoint, and beginInstant where it is to go on.",
        )
    return time
