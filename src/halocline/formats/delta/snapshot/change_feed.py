"""What happened to the rows of a table between two versions, as files to read.

A *change file* is a file whose rows were inserted, deleted, or whose changes its writer recorded row by row. Per
version: if the writer recorded changes, only those count; otherwise added files are inserts and removed files are
deletes, and a file that stayed with another deletion vector lost or regained exactly the rows in which the two vectors
differ. Commits that change no data give nothing.

Changes are promised only for versions at which the change feed was enabled; before, writers were free to rearrange rows
without saying so. The protocol of every version in the range passes the gate, not only that of the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from halocline.compat.protocol import Protocol
from halocline.errors import InputError, NotFoundError, UnsupportedError
from halocline.formats.delta.actions.action import Add, Cdc, Commit, DeletionVector, Metadata, Remove, decode_commit
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.configuration.metadata_rules import terms_of
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.schema import Column
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.configuration.type_widening import can_read_as
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.snapshot.history import history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log import gate
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import list_files, readable_versions
from halocline.schema.types import Primitive

OPERATION: Final = "read.changes"


class ChangeKind(StrEnum):
    """What the rows of a change file are; the words stand in the change feed."""

    INSERT = "insert"
    DELETE = "delete"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file with changes.

    Attributes:
        path: Its decoded path.
        file: The file; for a removed one, as it was before.
        kind: What its rows are. Those of a recorded file say so themselves.
        version: The version that made the change.
        timestamp_ms: The time of that version.
        without: The vector whose rows do not count.
        only: The vector outside of which no row counts; None if all rows count.
    """

    path: str
    file: Add
    kind: ChangeKind
    version: int
    timestamp_ms: int
    without: DeletionVector | None = None
    only: DeletionVector | None = None


def changes(end: Snapshot, first: int) -> list[ChangeFile]:
    """The changes of the versions from `first` to that of a snapshot, both included."""
    if first > end.version or first < 0:
        raise InputError(
            f"there are no changes from version {first} to version {end.version}",
            sides={"first": str(first), "last": str(end.version)},
            next_step="Give a first version that is not after the last.",
        )
    available = readable_versions(list_files(end.store, DELTA))
    if first not in available:
        raise NotFoundError(
            f"the log of {end.store.root} no longer holds version {first}",
            condition="VERSION_NOT_FOUND",
            sides={"asked for": str(first), "available": f"{available.start} to {available.stop - 1}"},
            next_step=f"Begin at version {available.start}.",
        )
    return list(_Walk(end, first).files())


def column_source(end: Snapshot, newest: Snapshot) -> Snapshot:
    """The version whose columns a range of changes is shown with, as Delta chooses it.

    It is the newest one if that has the same columns and more, which are null in older changes. Otherwise, and where
    columns are mapped, so that a name may have found another meaning, it is the last one of the range.
    """
    if {end.columns.mode, newest.columns.mode} != {"none"} or end.partition_columns != newest.partition_columns:
        return end
    kinds = {column.path: _kind(column) for column in newest.columns.walk()}
    return newest if all(kinds.get(column.path) == _kind(column) for column in end.columns.walk()) else end


def _kind(column: Column) -> object:
    """The type itself, or what holds further types, and whether nulls may be there."""
    return column.field.nullable, column.type if isinstance(column.type, Primitive) else type(column.type)


class _Walk:
    """One pass over the commits, with the protocol and the metadata that held at each."""

    def __init__(self, end: Snapshot, first: int) -> None:
        self._end = end
        self._first = first
        self._locations = Locations(end.store.root)
        self._times = {entry.version: entry.timestamp_ms for entry in history(end, end.version - first + 1)}

    def files(self) -> Iterator[ChangeFile]:
        store, versions = self._end.store, range(self._first, self._end.version + 1)
        header = read_header(store, self._first)
        protocol, metadata = header.protocol_or_legacy(), header.metadata
        self._check(protocol, metadata, self._first)
        contents = store.get_many(DELTA.commit_path(version) for version in versions)
        for version, data in zip(versions, contents, strict=True):
            commit = decode_commit(data, f"{version:020}.json")
            if (
                version == self._first
                and version
                and commit.metadata
                and any(each.data_change for each in commit.removes)
            ):
                # What it takes away was written by the columns of before.
                before = read_header(store, version - 1)
                self._check_files(TableConfiguration(before.protocol_or_legacy(), before.metadata), version - 1)
            if version > self._first and (commit.protocol or commit.metadata):
                protocol = protocol_of(commit.protocol) if commit.protocol else protocol
                metadata = commit.metadata or metadata
                self._check(protocol, metadata, version)
            yield from self._of_commit(commit, version)

    def _check(self, protocol: Protocol, metadata: Metadata, version: int) -> None:
        terms = terms_of(protocol, metadata)
        gate.check_access(self._end.release, terms, OPERATION, self._end.store.root)
        if not TableProperties(metadata.configuration).change_data_feed:
            raise InputError(
                f"the change feed of {self._end.store.root} is off at version {version}",
                condition="CHANGE_FEED_OFF",
                sides={"asked for": f"{self._first} to {self._end.version}", "off at": str(version)},
                next_step="Ask for versions at which delta.enableChangeDataFeed is true.",
            )
        known = {column.physical: column.field for column in self._end.columns.walk()}
        then = TableConfiguration(protocol, metadata)
        for column in then.columns.walk():
            shown = known.get(column.physical)
            if shown is None or (column.field.nullable and not shown.nullable):
                raise self._changed(column, "was dropped or renamed" if shown is None else "became NOT NULL", version)
        self._check_files(then, version)

    def _check_files(self, then: TableConfiguration, version: int) -> None:
        """Files must hold what is shown in types that are read as it; what the log knows of them, they do not hold."""
        end = self._end
        known = {column.physical: column for column in end.columns.walk()}
        was_split = {each.physical for each in then.columns.partition_columns(then.partition_columns)}
        is_split = {each.physical for each in end.columns.partition_columns(end.partition_columns)}
        for column in then.columns.walk():
            shown = known.get(column.physical)
            if shown is not None and not can_read_as(column.type, shown.type):
                raise self._changed(column, f"became {shown.type}", version)
            if column.physical in was_split ^ is_split:
                is_now = column.physical in is_split
                raise self._changed(column, f"{'became' if is_now else 'ceased to be'} a partition column", version)

    def _changed(self, column: Column, happened: str, version: int) -> UnsupportedError:
        return UnsupportedError(
            f"column {column.name} {happened} after version {version}",
            condition="CHANGE_FEED_SCHEMA_CHANGED",
            sides={"version": str(version), "last version": str(self._end.version)},
            next_step="Read the changes before and after that in two ranges.",
        )

    def _of_commit(self, commit: Commit, version: int) -> Iterator[ChangeFile]:
        time = self._times[version]
        if commit.cdcs:
            for recorded in commit.cdcs:
                yield ChangeFile(self._path(recorded), _as_add(recorded), ChangeKind.RECORDED, version, time)
            return
        removed = {self._path(remove): remove for remove in commit.removes if remove.data_change}
        for add in (add for add in commit.adds if add.data_change):
            path, vector = self._path(add), add.deletion_vector
            if (remove := removed.pop(path, None)) is None:
                yield ChangeFile(path, add, ChangeKind.INSERT, version, time, without=vector)
                continue
            before = remove.deletion_vector
            if vector is not None:
                yield ChangeFile(path, add, ChangeKind.DELETE, version, time, without=before, only=vector)
            if before is not None:
                yield ChangeFile(path, add, ChangeKind.INSERT, version, time, without=vector, only=before)
        for path, remove in removed.items():
            gone = _as_add(remove, self._end)
            yield ChangeFile(path, gone, ChangeKind.DELETE, version, time, without=remove.deletion_vector)

    def _path(self, action: Add | Remove | Cdc) -> str:
        return self._locations.decode(action.path)


def _as_add(action: Remove | Cdc, end: Snapshot | None = None) -> Add:
    values, size = action.partition_values, action.size
    if values is None and end is not None and end.partition_columns:
        raise UnsupportedError(
            f"{action.path} was removed without its partition values",
            condition="CHANGE_FEED_INCOMPLETE",
            sides={"expected": ", ".join(end.partition_columns), "found": "none in the remove action"},
            next_step="Read the changes after that version.",
        )
    return Add(action.path, values or {}, size or 0, 0, data_change=True)
