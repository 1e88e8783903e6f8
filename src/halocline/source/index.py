"""Index tables through the data source: rows of a version, those that a search finds, and streams of what is added.

With the option `search` the source gives the rows that a query finds; tasks search the splits, and Spark filters what
they give as it filters any rows. A stream without a checkpoint begins with the rows that are there, and then delivers
the splits that each version adds. A version that takes rows away stops it, unless `ignoreDeletes` says otherwise.
Splits that are only laid out otherwise, by a merge for instance, are no news.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import InputPartition

from halocline.errors import InputError, NotFoundError
from halocline.formats.index.history import version_at
from halocline.formats.index.log.actions import SplitAdd, decode_lines
from halocline.formats.index.log.encodings import decoded
from halocline.formats.index.search import Search, splits_to_search
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.log.names import INDEX
from halocline.schema.types import Struct
from halocline.schema.visitor import nullable
from halocline.source.options import LATEST, OF_EVERY_FORMAT, OF_SEARCHES, SourceOptions
from halocline.source.parts import PartPartition, PartsReader, PartsStreamReader
from halocline.source.stream_offsets import Offset, StreamOffsets, beginning_is_lost
from halocline.source.stream_start import check_time, commit_bytes
from halocline.spark.scan.file_rows import check_columns
from halocline.spark.scan.slice_frames import PartReader
from halocline.spark.scan.split_frames import SplitReader
from halocline.spark.scan.split_search import CachePlace, SplitSearch, split_tasks
from halocline.table.index.opened import IndexOpened

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STREAM: Final = "read.stream"


OPTIONS: Final = (
    OF_SEARCHES
    | OF_EVERY_FORMAT
    | {"startingVersion", "startingTimestamp", "ignoreDeletes", "skipChangeCommits", "maxRecordsPerFile", "txnVersion"}
    | {"follow", "replaceWhere", "partitionOverwriteMode", "mergeSchema", "overwriteSchema", "partitionBy"}
)


def columns(asked: SourceOptions) -> tuple[Struct, int]:
    """The columns that are shown, and the version that they are of."""
    snapshot = asked.opened(IndexOpened).to_read(**asked.at(None), stale=asked.stale)
    return nullable(snapshot.schema), snapshot.version


class IndexReader(PartsReader):
    """Reads the rows of a version, or those that a search finds."""

    def partitions(self) -> Sequence[InputPartition]:
        """What the tasks read, of similar cost."""
        asked = self._asked
        table = asked.opened(IndexOpened)
        if self._version is None:
            snapshot = table.to_read(**asked.at(None), stale=asked.stale)
        else:  # it was checked when it was fixed, with its columns
            snapshot = table.snapshot(version=self._version)
        if asked.search is None:
            return split_partitions(snapshot, self._schema, list(snapshot.files.values()))
        found = Search.of(snapshot, asked.search)
        check_columns(snapshot.schema, self._schema)
        work = SplitSearch(found, tuple(self._schema.fields), CachePlace.of(asked.settings))
        reader = PartReader(snapshot.store, work.rows, self._schema)
        return [PartPartition(reader, each) for each in split_tasks(splits_to_search(found, snapshot.files.values()))]


class IndexStreamReader(PartsStreamReader):
    """Reads what is added, version by version."""

    def __init__(self, asked: SourceOptions, schema: StructType, version: int | None) -> None:
        # The version at which columns were shown does not matter.
        super().__init__(asked, schema, StreamOffsets(identity=("table",), order=("version",)))

    def first(self) -> dict[str, Any]:
        """The position of a query that begins now: before the first version, which stands for all that is there."""
        snapshot, asked = self._snapshot(), self._asked
        if asked.starting_timestamp is not None:
            moment = asked.opened(IndexOpened).milliseconds(asked.starting_timestamp)
            try:
                before = version_at(snapshot.store, moment - 1)
            except NotFoundError:
                return _position(snapshot, -1)
            check_time(asked.starting_timestamp, before + 1, snapshot.version, snapshot.store.root)
            return _position(snapshot, before)
        if asked.starting_version == LATEST:
            return _position(snapshot, snapshot.version)
        if asked.starting_version is not None:
            return _position(snapshot, int(asked.starting_version) - 1)
        return _position(snapshot, -1) | {"whole": True}

    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the table has come."""
        snapshot = self._snapshot()
        return _position(snapshot, snapshot.version)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What the tasks of a micro-batch read."""
        now, begins = self._snapshot(), self.beginning(start, end)
        first, newest = _version(now, begins), _version(now, end)
        is_whole = begins.get("whole") is True
        if newest <= first and not is_whole:  # a stream that begins with a version to come waits for it
            return []
        last = self._asked.opened(IndexOpened).snapshot(STREAM, version=newest)
        splits = last.files.values() if is_whole else self._added(last, first)
        return split_partitions(last, self._schema, list(splits))

    def planned_before(self, start: Offset, end: Offset) -> dict[str, Any]:
        """Where a first micro-batch begins whose end does not say it; see `StreamOffsets.beginning`."""
        if self._asked.starting_version == LATEST:
            raise beginning_is_lost(self._asked.path, "startingVersion", start, end)
        return dict(start)

    def _snapshot(self) -> IndexSnapshot:
        return self._asked.opened(IndexOpened).to_read(STREAM, stale=self._asked.stale)

    def _added(self, last: IndexSnapshot, first: int) -> Iterator[SplitAdd]:
        """The splits that the versions after one have added, as each of them had it."""
        for version in range(first + 1, last.version + 1):
            path = INDEX.commit_path(version)
            lines = decode_lines(decoded(commit_bytes(last.store, path, version), path), path)
            taken = [each.remove.path for each in lines if each.remove is not None and each.remove.data_change]
            taken += [each.add.path for each in lines if each.add is not None and each.add.deletion_mask is not None]
            added = [each.add for each in lines if each.add is not None and each.add.data_change]
            fresh = [each for each in added if each.deletion_mask is None]
            if taken and self._asked.skip_change_commits:
                continue
            if taken and not (self._asked.ignore_deletes and not fresh):
                raise InputError(
                    f"version {version} of {last.store.root} takes rows away that the stream has delivered",
                    condition="STREAM_ROWS_REMOVED",
                    sides={"first of its splits": min(taken), "adds": f"{len(fresh)} splits"},
                    next_step="Set skipChangeCommits to leave such versions out, or ignoreDeletes if they add nothing.",
                )
            yield from fresh


def split_partitions(snapshot: IndexSnapshot, schema: Struct, splits: Sequence[SplitAdd]) -> list[InputPartition]:
    """Splits in parts of similar cost, one for each task."""
    check_columns(snapshot.schema, schema)
    reader = SplitReader(tuple(schema.fields))
    slim = [msgspec.structs.replace(each, min_values=None, max_values=None) for each in splits]
    return [PartPartition(PartReader(snapshot.store, reader.read, schema), each) for each in split_tasks(slim)]


def _position(snapshot: IndexSnapshot, version: int) -> dict[str, Any]:
    return {"version": version, "table": snapshot.metadata.id}


def _version(snapshot: IndexSnapshot, offset: Mapping[str, Any]) -> int:
    """The version of a position, if it is one of this table."""
    version = offset.get("version")
    if type(version) is not int or offset.get("table") != snapshot.metadata.id:
        raise InputError(
            f"the checkpoint holds no position in {snapshot.store.root}",
            condition="STREAM_TABLE_REPLACED",
            sides={"checkpoint": str(dict(offset))[:200], "table": snapshot.metadata.id},
            next_step="Start the query with a new checkpoint, and startingVersion where it is to go on.",
        )
    return version
