"""A table as a stream of files: what was added, version by version, from a position on.

A *position* says how far a stream has come: a version, and the number of its last file that was delivered, -1 for none
of them. A stream that begins with the rows that are there already walks the files of its first version as a whole;
from the next version on it walks what each commit added. The order of files within a version never changes, so the same
two positions always enclose the same files: that is what makes restarts exact.

Every version passes the gate when the stream reaches it. The stream stops with an error, after everything before has
been delivered, at a version that

- requires a feature which the release that acts lacks;
- takes rows away, unless the options say what to do about it;
- changes the columns; started again, the stream goes on with the new ones if the old files still fit them. What the
  first version that it walks then is made of, only the log before it tells: that is looked up;
- is no longer in the log.

Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from halocline.errors import HaloclineError, InputError, MalformedError, NotFoundError, UnsupportedError
from halocline.formats.delta.actions.action import Commit, Metadata, decode_commit
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.configuration.column_mapping import mode_of
from halocline.formats.delta.configuration.metadata_rules import terms_of
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.configuration.type_widening import can_read_as
from halocline.formats.delta.snapshot.change_feed import OPERATION as CHANGES
from halocline.formats.delta.snapshot.change_feed import ChangeFile, ChangeKind, changes
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log import gate
from halocline.formats.log.names import DELTA, FileKind, LogEntry
from halocline.formats.log.segment import list_files
from halocline.source.options import SourceOptions
from halocline.source.stream_start import check_version, commit_bytes
from halocline.spark.scan.file_rows import live_files

OPERATION = "read.stream"


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has come.

    Attributes:
        version: The version that it is at.
        index: The number of the last file of that version that was delivered, -1 for none.
        is_starting: Whether the version is delivered as a whole rather than what its commit added.
        table: The id of the table.

    Example:
        >>> Position.parse(Position(3, -1, False, "t").to_dict()) == Position(3, -1, False, "t")
        True
    """

    version: int
    index: int
    is_starting: bool
    table: str

    @staticmethod
    def parse(offset: Mapping[str, Any]) -> Position:
        """Reads what a checkpoint holds."""
        values = [offset.get(key) for key in ("version", "index", "isStartingVersion", "tableId")]
        version, index, starting, table = values
        if type(version) is int and type(index) is int and type(starting) is bool and isinstance(table, str):
            return Position(version, index, starting, table)
        raise InputError(
            "the checkpoint holds no position of this stream",
            sides={"found": str(dict(offset))[:200], "expected": "version, index, isStartingVersion, tableId"},
            next_step="Start the query with a checkpoint of its own.",
        )

    def to_dict(self) -> dict[str, Any]:
        """What goes into the checkpoint."""
        return {
            "version": self.version,
            "index": self.index,
            "isStartingVersion": self.is_starting,
            "tableId": self.table,
        }

    @property
    def order(self) -> tuple[int, int]:
        """What positions are compared by."""
        return self.version, self.index


@dataclass
class StreamLog:
    """Walks a table, and delivers the columns of one version."""

    columns: Snapshot
    asked: SourceOptions
    _newest: int = field(default=-1, repr=False)
    _mark: LogEntry | None = field(default=None, repr=False)
    _first_known: int | None = field(default=None, repr=False)
    _known: dict[tuple[int, bool], list[ChangeFile]] = field(default_factory=dict, repr=False)

    @property
    def table(self) -> str:
        """The id of the table."""
        return self.columns.metadata.id

    def newest(self) -> int:
        """The newest version; never an older one than before, whatever a listing shows."""
        known = max(self.columns.version, self._newest)
        listed = list_files(self.columns.store, DELTA, first=known)
        commits = {file.version: file for file in listed if file.kind is FileKind.COMMIT}
        # A commit never changes, so one that has is of another log.
        if self._mark is not None and commits.get(known) != self._mark:
            self._check_table(Position(known, -1, False, self.table), self.asked.snapshot(OPERATION).metadata.id)
        self._newest = max([known, *commits])
        self._mark = commits.get(self._newest)
        return self._newest

    def at_version(self, version: int) -> Position:
        """Where a stream begins that delivers what is added from a version on."""
        check_version(version, self.newest(), self.columns.store.root)
        return Position(version, -1, False, self.table)

    def at_snapshot(self) -> Position:
        """Where a stream begins that first delivers the rows that are there."""
        return Position(self.newest(), -1, True, self.table)

    def advanced(self, start: Position, last: int, most_files: int | None, most_bytes: int | None) -> Position:
        """The furthest position within limits, one file at least; an error only where nothing comes before it."""
        self._check_table(start)
        here, count, size = start, 0, 0
        steps = self._walk(start, last)
        while True:
            try:
                step = next(steps, None)
            except HaloclineError:
                if count == 0:
                    raise
                return here
            if step is None:
                return here
            position, file = step
            if file is not None:
                length = file.file.size or 0
                too_many = most_files is not None and count >= most_files
                too_much = most_bytes is not None and count > 0 and size + length > most_bytes
                if too_many or too_much:
                    return here
                count, size = count + 1, size + length
            here = position

    def files(self, start: Position, end: Position) -> list[ChangeFile]:
        """The files between two positions."""
        self._check_table(start)
        last = end.version if end.index >= 0 else end.version - 1
        found = []
        for position, file in self._walk(start, last):
            if position.order > end.order:
                break
            if file is not None:
                found.append(file)
        return found

    def forget(self, before: Position) -> None:
        """Drops what is remembered of versions that the stream is done with."""
        for key in [key for key in self._known if key[0] < before.version]:
            del self._known[key]

    # ------------------------------------------------------------------ walking

    def _walk(self, start: Position, last: int) -> Iterator[tuple[Position, ChangeFile | None]]:
        """Each file with the position after it, and the end of each version with none."""
        version, index, starting = start.version, start.index, start.is_starting
        while version <= last:
            files = self._files(version, starting)
            for number in range(index + 1, len(files)):
                yield Position(version, number, starting, self.table), files[number]
            version, index, starting = version + 1, -1, False
            yield Position(version, index, starting, self.table), None

    def _files(self, version: int, starting: bool) -> list[ChangeFile]:
        key = (version, starting)
        if key not in self._known:
            self._known[key] = self._whole(version) if starting else self._added(version)
        return self._known[key]

    def _whole(self, version: int) -> list[ChangeFile]:
        snapshot = self.asked.snapshot(OPERATION, version=version)
        self._check_columns(snapshot.metadata, version)
        return live_files(snapshot)

    def _added(self, version: int) -> list[ChangeFile]:
        commit = self._commit(version)
        metadata = commit.metadata or self.columns.metadata
        store = self.columns.store
        if commit.protocol is not None:
            terms = terms_of(protocol_of(commit.protocol), metadata)
            gate.check_access(self.columns.release, terms, OPERATION, store.root)
        if commit.metadata is not None:
            self._check_columns(commit.metadata, version)
        else:
            self._check_first(version)
        self._first_known = version if self._first_known is None else min(version, self._first_known)
        if self.asked.change_feed:
            return changes(self.asked.snapshot(CHANGES, version=version), version)
        if not self._is_delivered(commit, version):
            return []
        places = Locations(store.root)
        return [
            ChangeFile(places.decode(add.path), add, ChangeKind.INSERT, version, 0, without=add.deletion_vector)
            for add in commit.adds
            if add.data_change
        ]

    def _commit(self, version: int) -> Commit:
        path = DELTA.commit_path(version)
        return decode_commit(commit_bytes(self.columns.store, path, version), path)

    def _is_delivered(self, commit: Commit, version: int) -> bool:
        """Whether the files that a commit adds belong into the stream."""
        asked = self.asked
        removed = [each for each in commit.removes if each.data_change]
        if not removed:
            return True
        added = any(each.data_change for each in commit.adds)
        if asked.skip_change_commits:
            return False
        if asked.ignore_changes or (asked.ignore_deletes and not added):
            return True
        option = "ignoreChanges" if added else "ignoreDeletes"
        raise UnsupportedError(
            f"version {version} of {self.columns.store.root} takes rows away that the stream has delivered",
            condition="STREAM_ROWS_REMOVED",
            sides={"version": str(version), "first file": removed[0].path, "files": str(len(removed))},
            next_step=f"Set skipChangeCommits or {option} to true, or stream the change feed with readChangeFeed.",
        )

    # ------------------------------------------------------------------ checks

    def _check_table(self, position: Position, table: str | None = None) -> None:
        table = table or self.table
        if position.table != table:
            raise InputError(
                f"another table lies at {self.columns.store.root} than the stream has read so far",
                condition="STREAM_TABLE_REPLACED",
                sides={"checkpoint": position.table, "table": table},
                next_step="Start the query with a new checkpoint.",
            )

    def _check_first(self, version: int) -> None:
        """The same for the first version that is walked, whose commit does not tell its columns; later ones follow."""
        newest = self.columns.version
        if version >= newest or (self._first_known is not None and version >= self._first_known):
            return
        try:
            metadata = self.asked.snapshot(OPERATION, version=version).metadata
        except (MalformedError, NotFoundError):
            # The log begins in between. Where nothing after it changes the columns, they are those of now.
            if any(self._commit(later).metadata is not None for later in range(version + 1, newest + 1)):
                raise
            return
        self._check_columns(metadata, version)

    def _check_columns(self, metadata: Metadata, version: int) -> None:
        """The columns of a version must be those that the stream delivers, or older ones that still fit them."""
        schema = Schema.of(metadata.schema, mode_of(metadata.configuration))
        now = {column.physical: column for column in self.columns.columns.walk()}
        then = {column.physical: column for column in schema.walk()}
        is_newer = version > self.columns.version
        changed = [column.path for key, column in then.items() if key not in now]
        if is_newer:
            changed += [column.path for key, column in now.items() if key not in then]
            changed += [column.path for key, column in then.items() if key in now and column.path != now[key].path]
        for key, column in then.items():
            if key in now and not can_read_as(column.type, now[key].type, widened=not is_newer):
                changed.append(column.path)
        # Values of partition columns are not in files, so what is one now must have been one then.
        then_split = {each.physical for each in schema.partition_columns(metadata.partition_columns)}
        now_split = {each.physical for each in self.columns.columns.partition_columns(self.columns.partition_columns)}
        changed += [{**then, **now}[key].path for key in then_split ^ now_split]
        if changed:
            raise UnsupportedError(
                f"version {version} of {self.columns.store.root} changes columns under the stream",
                condition="STREAM_SCHEMA_CHANGED",
                sides={
                    "columns": ", ".join(sorted({".".join(path) for path in changed})),
                    "stream": f"columns of version {self.columns.version}",
                },
                next_step="Start the query again; if columns were dropped or renamed, with a new checkpoint."
                if is_newer
                else "Start the query with a new checkpoint.",
            )
