"""Companion indexes over Delta and Hudi tables: what they are made of, and when they may answer.

The rows of the source are read with Arrow, file by file, on the machine that runs this; deletion vectors of a Delta
table become masks, and a slice of a Hudi table is read with its log files merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from halocline.errors import UnsupportedError
from halocline.formats.base import TableFormat, detect_format
from halocline.formats.delta.snapshot.change_feed import ChangeFile
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.index.companion.identity import Companion, check_fresh, companion_of
from halocline.formats.index.companion.source import IndexedFile, IndexedSource
from halocline.formats.index.companion.sync import create_companion, sync_companion
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.types import Field, Struct
from halocline.spark.scan.change_feed import positions_left_out
from halocline.spark.scan.file_rows import FileRows, live_files
from halocline.storage import open_store
from halocline.storage.base import Store


def build_index(
    source: Store, store: Store, columns: Sequence[str], *, fields: Mapping[str, Any] | None = None
) -> IndexSnapshot:
    """Makes a companion index of a Delta or Hudi table.

    Args:
        source: Where the table lies.
        store: Where its companion is to lie.
        columns: The columns that are to be searched.
        fields: How columns are indexed; see `halocline.formats.index.split.fields`.

    Raises:
        AlreadyExistsError: There is a table already.
        NotFoundError: There is no source, or it has no such column.
        UnsupportedError: The source is of another format.
    """
    opened = source_at(source)
    made = create_companion(store, opened, columns, options=fields)
    return sync_companion(made, lambda: opened)


def sync_index(store: Store) -> IndexSnapshot:
    """Brings a companion up to date with its source.

    Raises:
        InputError: The table is no companion, or its source has changed its columns.
    """
    snapshot = IndexSnapshot.load(store)
    source = companion_of(snapshot).source
    return sync_companion(snapshot, lambda: source_at(open_store(source)))


def fresh_companion(store: Store, *, stale: str = "refuse") -> IndexSnapshot:
    """A companion that may answer.

    Args:
        store: Where it lies.
        stale: `refuse` unless it shows the version that its source has; or `allow`.

    Raises:
        ConflictError: It shows another version.
        InputError: The table is no companion, or there is no such choice.
    """
    snapshot = IndexSnapshot.load(store)
    found = Companion.of(snapshot)
    version = -1 if found is None or stale == "allow" else source_at(open_store(found.source)).version
    check_fresh(snapshot, version, stale=stale)
    return snapshot


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
    def schema(self) -> Struct:
        """See `IndexedSource.schema`."""
        return struct_of_arrow(self.snapshot.schema.columns)

    @cached_property
    def _slices(self) -> dict[str, FileSlice]:
        return {f"{each.partition}/{each.file_id}".lstrip("/"): each for each in self.snapshot.slices}

    def files(self) -> Iterable[IndexedFile]:
        """See `IndexedSource.files`."""
        for path, each in self._slices.items():
            names = [each.base.path] if each.base else []
            # A log file can grow where the file system lets writers append, so its size is part of what it is.
            yield IndexedFile(path, " ".join([*names, *(f"{log.path}:{log.size}" for log in each.logs)]))

    def rows(self, path: str, columns: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """See `IndexedSource.rows`."""
        slice = self._slices[path]
        reader = self.snapshot.reader([each.name for each in columns], merging=bool(slice.logs))
        return reader.read(self.snapshot.store, slice)

    def deleted(self, path: str) -> Iterable[int]:
        """See `IndexedSource.deleted`."""
        return ()
