"""Delta and Hudi tables as the sources of companion indexes: what identifies them, and what they are made of.

The rows are read with Arrow, file by file, on the machine that runs this; deletion vectors of a Delta table become
masks, and a slice of a Hudi table is read with its log files merged.

A Delta table is known by its id, and a state of it by its version and who committed that. A Hudi table has no id that
it keeps: it is known by the writes that it shares with the time when its companion last followed it, which archiving,
cleaning, restores and moves between table versions leave as they are (`halocline.formats.hudi.timeline.progress`). A
state of it is the set of its completed writes, and the rule by which log files are merged. Where its history was
deleted, or all its writes have times that every table has, a data file that the companion shows must still be there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import msgspec
import pyarrow as pa

from halocline.errors import UnsupportedError
from halocline.formats.base import TableFormat, detect_format
from halocline.formats.delta.snapshot.change_feed import ChangeFile
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.hudi.blocks.frame import LogBlock, read_blocks
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.merge.rules import merge_rule
from halocline.formats.hudi.names import BaseFile, LogFile
from halocline.formats.hudi.slices import FileSlice, data_files
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.progress import ReadProgress
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.index.companion.source import IndexedFile, IndexedSource
from halocline.formats.index.split.source_files import CompanionFile
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.types import Field, Struct
from halocline.spark.scan.change_feed import positions_left_out
from halocline.spark.scan.file_rows import FileRows, live_files
from halocline.storage.base import Store

_M = TypeVar("_M", bound=msgspec.Struct)


def source_at(store: Store) -> IndexedSource:
    """The newest version of a table, as a companion needs it.

    Raises:
        UnsupportedError: It is of another format.
    """
    format = detect_format(store)
    match format:
        case TableFormat.DELTA:
            return DeltaSource(Snapshot.load(store))
        case TableFormat.HUDI:
            return HudiSource(HudiSnapshot.load(store))
    raise UnsupportedError(
        f"{store.root} is an index table itself",
        sides={"source": str(format), "possible": "delta, hudi"},
        next_step="Search it as it is.",
    )


class DeltaMark(msgspec.Struct, frozen=True, rename="camel"):
    """What a companion keeps of a Delta table.

    Attributes:
        table: Its id.
        version: The version that is shown.
        commit: Who committed that version: a version number comes again where a table is restored from a copy.
    """

    table: str
    version: int
    commit: str | None = None


class HudiMark(msgspec.Struct, frozen=True, rename="camel"):
    """What a companion keeps of a Hudi table.

    Attributes:
        completed: The completed writes of the active timeline.
        pending: The pending ones.
        rule: What tells the rule by which log files are merged from another one; None in a table without any.
    """

    completed: list[str]
    pending: list[str]
    rule: str | None = None

    @property
    def progress(self) -> ReadProgress:
        """The same as sets."""
        return ReadProgress(frozenset(self.completed), frozenset(self.pending))


def _parse_mark(text: str, kind: type[_M]) -> _M | None:
    """The mark in a text; None if it is of a table of another format."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


@dataclass(frozen=True)
class DeltaSource:
    """A version of a Delta table."""

    snapshot: Snapshot

    @property
    def url(self) -> str:
        """See `IndexedSource.url`."""
        return self.snapshot.store.root

    @property
    def format(self) -> str:
        """See `IndexedSource.format`."""
        return "delta"

    @property
    def version(self) -> int:
        """See `IndexedSource.version`."""
        return self.snapshot.version

    @property
    def mark(self) -> str:
        """See `IndexedSource.mark`."""
        return msgspec.json.encode(self._mark).decode()

    def is_at(self, mark: str) -> bool:
        """See `IndexedSource.is_at`."""
        return _parse_mark(mark, DeltaMark) == self._mark

    def is_same(self, mark: str, files: Callable[[], Iterable[CompanionFile]]) -> bool:
        """See `IndexedSource.is_same`."""
        known = _parse_mark(mark, DeltaMark)
        return known is not None and known.table == self.snapshot.metadata.id

    @cached_property
    def _mark(self) -> DeltaMark:
        info = self.snapshot.commit_info
        committed = None if info is None else info.txn_id or info.timestamp
        return DeltaMark(self.snapshot.metadata.id, self.version, None if committed is None else str(committed))

    @property
    def schema(self) -> Struct:
        """See `IndexedSource.schema`."""
        return self.snapshot.schema

    @cached_property
    def _files(self) -> dict[str, ChangeFile]:
        return {each.path: each for each in live_files(self.snapshot)}

    def files(self) -> Iterable[IndexedFile]:
        """See `IndexedSource.files`."""
        for path, each in self._files.items():
            yield IndexedFile(path, "", None if each.without is None else each.without.unique_id)

    def rows(self, path: str, columns: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """See `IndexedSource.rows`."""
        wanted = [self.snapshot.schema.get(each.name) or each for each in columns]
        reader = FileRows.of(self.snapshot, Struct([replace(each, nullable=True) for each in wanted]))
        return reader.read([replace(self._files[path], without=None)])

    def deleted(self, path: str) -> Iterable[int]:
        """See `IndexedSource.deleted`."""
        return positions_left_out(self.snapshot.store, self._files[path])


@dataclass(frozen=True)
class HudiSource:
    """A Hudi table as of its newest instant."""

    snapshot: HudiSnapshot

    @property
    def url(self) -> str:
        """See `IndexedSource.url`."""
        return self.snapshot.store.root

    @property
    def format(self) -> str:
        """See `IndexedSource.format`."""
        return "hudi"

    @property
    def version(self) -> int:
        """See `IndexedSource.version`."""
        return self.snapshot.version

    @property
    def mark(self) -> str:
        """See `IndexedSource.mark`."""
        progress = ReadProgress.at(self.snapshot.timeline)
        return msgspec.json.encode(HudiMark(sorted(progress.completed), sorted(progress.pending), self._rule)).decode()

    def is_at(self, mark: str) -> bool:
        """See `IndexedSource.is_at`."""
        known = _parse_mark(mark, HudiMark)
        return known is not None and known.rule == self._rule and known.progress.is_whole(self.snapshot.timeline)

    def is_same(self, mark: str, files: Callable[[], Iterable[CompanionFile]]) -> bool:
        """See `IndexedSource.is_same`."""
        known = _parse_mark(mark, HudiMark)
        if known is None:
            return False
        if not known.completed or known.progress.shares_write(self.snapshot.timeline):
            return True  # nothing is shown of a table without a write
        shown = {file.path: file.state for file in files()}
        if not shown and not known.progress.own_times:
            return True  # no row is shown
        return any(file.path in shown.get(_group(file), "") for file in data_files(self.snapshot.store))

    @cached_property
    def _rule(self) -> str | None:
        """The rule by which log files are merged: a move to another table version may change it, and no file."""
        if self.snapshot.config.type is not TableType.MERGE_ON_READ:
            return None
        try:
            rule = merge_rule(self.snapshot.config, self.snapshot.dialect)
        except UnsupportedError:
            return None  # slices with log files cannot be read at all
        return hashlib.blake2b(repr(rule).encode(), digest_size=4).hexdigest()

    @property
    def schema(self) -> Struct:
        """See `IndexedSource.schema`."""
        return struct_of_arrow(self.snapshot.schema.columns)

    @cached_property
    def _slices(self) -> dict[str, FileSlice]:
        return {_group(slice): slice for slice in self.snapshot.slices}

    def files(self) -> Iterable[IndexedFile]:
        """See `IndexedSource.files`."""
        uncounted = self._uncounted
        for path, slice in self._slices.items():
            state = [slice.base.path] if slice.base else []
            if slice.logs:
                # A log file can grow where the file system lets writers append, so its size is part of what it is.
                state += (f"{log.path}:{log.size}" for log in slice.logs)
                state += (f"without:{time}" for time in self._written_into(slice, uncounted))
                state += [f"rule:{self._rule}"]
            yield IndexedFile(path, " ".join(state))

    @cached_property
    def _uncounted(self) -> frozenset[str]:
        """The writes that may be in log files of the slices, and do not count at this instant.

        From layout 2 on a log file belongs to one write and is left out with it. Before, a file that is in a slice may
        have rows of a write that counts only later. It began before its file was there, so the timeline shows it to
        whoever looks after listing the files.
        """
        timeline = self.snapshot.timeline
        if timeline.config.layout > 1 or not any(slice.logs for slice in self._slices.values()):
            return frozenset()
        later = HudiTimeline.load(self.snapshot.store, self.snapshot.config)
        return frozenset(each.time for each in later.instants if each.is_write and each.time not in timeline.committed)

    def _written_into(self, slice: FileSlice, writes: frozenset[str]) -> list[str]:
        """The writes, of some, that have written into log files of a slice."""
        if not writes:
            return []
        paths = [log.path for log in slice.logs]
        contents = zip(paths, self.snapshot.store.get_many(paths), strict=True)
        blocks = (block for path, data in contents for block in read_blocks(data, path))
        return sorted({block.instant for block in blocks if isinstance(block, LogBlock)} & writes)

    def rows(self, path: str, columns: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """See `IndexedSource.rows`."""
        slice = self._slices[path]
        reader = self.snapshot.reader([each.name for each in columns], merging=bool(slice.logs))
        return reader.read(self.snapshot.store, slice)

    def deleted(self, path: str) -> Iterable[int]:
        """See `IndexedSource.deleted`."""
        return ()


def _group(file: FileSlice | BaseFile | LogFile) -> str:
    """What a companion knows a file group by."""
    return f"{file.partition}/{file.file_id}".lstrip("/")
