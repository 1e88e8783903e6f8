"""A table at one version: what it is, and which files it consists of.

A `Snapshot` is made behind the gate: the protocol *of that version* is checked for the release that acts and for the
operation it wants, before any file action is read. One you hold is one you may use. The default is that Halocline
itself reads.

Refused besides what the gate refuses: a feature that changes how rows are read, switched on by the metadata but
missing from a protocol with lists. Readers that go by the protocol alone would return wrong rows there, so nobody can
tell which rows the writer meant. `TableHeader.findings` reports the same without opening the table.

A table without any protocol action is refused as well, unless the caller opts in with `legacy_protocol`: a log that
lost its first commits looks the same as one older than protocols, and only the caller knows which it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import InputError, NotFoundError
from halocline.formats.delta.actions.action import CommitInfo, DomainMetadata, Metadata, ProtocolAction, Txn
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.checksum import read_summary
from halocline.formats.delta.log.header import header_of
from halocline.formats.delta.log.listing import Workers
from halocline.formats.delta.log.replay import KnownVersion, Replay
from halocline.formats.delta.log.timestamps import CommitClock, commit_info_in
from halocline.formats.delta.snapshot import access
from halocline.formats.delta.snapshot.pruning import StatsPruner
from halocline.formats.log import gate
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import list_files
from halocline.html import ShownVersion
from halocline.schema.types import Struct
from halocline.storage.base import Store

_T = TypeVar("_T")


class _Configured(Generic[_T]):
    """An attribute of the configuration, which the snapshot has by the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, snapshot: Snapshot, owner: type | None = None) -> _T:
        return cast(_T, getattr(snapshot.configuration, self._name))


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot(ShownVersion):
    """A table at one version. Made by `Snapshot.load`.

    Attributes:
        store: Where the table lies.
        version: The version.
        configuration: What the table is at this version.
        release: Who acts.
        operation: What was asked for.
        level: At which level of its ladder a fleet allows the table to be used, as of when it was opened; None without
            a fleet. What is new above it must not be done.
    """

    store: Store
    version: int
    configuration: TableConfiguration
    release: Release
    operation: str
    replay: Replay
    level: int | None = None

    metadata = _Configured[Metadata]()
    properties = _Configured[TableProperties]()
    schema = _Configured[Struct]()
    columns = _Configured[Schema]()
    partition_columns = _Configured[tuple[str, ...]]()

    @staticmethod
    def load(
        store: Store,
        *,
        version: int | None = None,
        timestamp_ms: int | None = None,
        release: Release | str | None = None,
        operation: str = "read",
        legacy_protocol: bool = False,
        workers: Workers | None = None,
        known: KnownVersion | None = None,
    ) -> Snapshot:
        """Opens a version of a table, if the release may.

        Args:
            store: Where the table lies.
            version: The version; the newest if neither it nor a time is given.
            timestamp_ms: A time, in milliseconds since the epoch; the version that held then.
            release: Who acts; this release of Halocline if not given.
            operation: What it wants to do, `read`, `write` or a finer one.
            legacy_protocol: Take a table without a protocol action as (1,1), with a warning.
            workers: Who lists the files in its checkpoint; this process if not given.
            known: A version that was opened before and is not after this one, to start from.

        Raises:
            IncompatibleError: The release lacks a feature that the table requires.
            MalformedError: The log is damaged, or contradicts itself.
            NotFoundError: There is no table, no such version, or none at that time.
        """
        if timestamp_ms is not None:
            if version is not None:
                raise InputError("give a version or a timestamp, not both")
            version = version_at(store, timestamp_ms)
        replay = Replay.open(store, version, workers, known)
        header = header_of(replay)
        protocol = header.protocol_or_legacy() if legacy_protocol else header.protocol
        actor = gate.own_release() if release is None else Release.parse(release)
        # Before anything else is looked at: what the table asks for may explain what else cannot be read.
        access.check(actor, Terms.of(protocol, header.facts), header.facts, operation, store.root)
        configuration = TableConfiguration(protocol, header.metadata)
        return Snapshot(store, header.version, configuration, actor, operation, replay)

    def gate(self, level: int) -> bool:
        """Whether new behaviour of that level may begin: always without a fleet, which then leaves it to the table."""
        return self.level is None or level <= self.level

    @property
    def terms(self) -> Terms:
        """The protocol, and what is in use under it."""
        return self.configuration.terms

    def reopened(self, operation: str) -> Snapshot:
        """The same version for another operation, behind the gate once more."""
        if operation == self.operation:
            return self
        access.check(self.release, self.terms, self.configuration.facts, operation, self.store.root)
        return replace(self, operation=operation)

    def again(self, version: int | None = None) -> Snapshot:
        """A version of the table, the newest if None: opened anew as this one was, behind the gate."""
        return Snapshot.load(
            self.store,
            version=version,
            release=self.release,
            operation=self.operation,
            legacy_protocol=self.protocol_action is None,
            workers=self.replay.workers,
            known=self.replay.known if version is None or version >= self.version else None,
        )

    def at_level(self, level: int) -> Snapshot:
        """The same version, used at a level of Delta's ladder and no higher."""
        return replace(self, level=level)

    def is_newest(self) -> bool:
        """Whether no later version has been committed meanwhile, and the table is still the same."""
        last = self.replay.segment.last_commit
        if last is None or self.store.exists(DELTA.commit_path(self.version + 1)):
            return False
        # A clean-up takes the oldest commits first: if this one is there, the next was not taken away.
        try:
            there = self.store.head(last.path)
        except NotFoundError:
            return False
        return (there.size, there.etag) == (last.size, last.etag)

    @property
    def protocol(self) -> Protocol:
        """What the table requires at this version."""
        return self.configuration.protocol

    @property
    def protocol_action(self) -> ProtocolAction | None:
        """The protocol as it lies in the log; None for a table older than protocols."""
        return self.replay.header.protocol

    @property
    def txns(self) -> Mapping[str, Txn]:
        """The newest transaction of each application."""
        return self.replay.txns

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The live domains."""
        return self.replay.domains

    @cached_property
    def commit_info(self) -> CommitInfo | None:
        """The provenance of this very version, if its commit is still there."""
        commit = self.replay.segment.last_commit
        return None if commit is None else commit_info_in(self.store.get(commit.path), commit.name)

    @cached_property
    def timestamp_ms(self) -> int:
        """When the version came to be: its in-commit timestamp where enabled, the time of its file otherwise.

        Where the commit itself has been cleaned up, the version's checksum still knows its timestamp.
        """
        segment = self.replay.segment
        if self.properties.in_commit_timestamps:
            summary = read_summary(self.store, self.version) if segment.checksum and not segment.last_commit else None
            told = self.commit_info or summary
            if told is not None and told.in_commit_timestamp is not None:
                return told.in_commit_timestamp
        if segment.last_commit is not None:
            return segment.last_commit.modified_ms
        assert segment.checkpoint is not None
        return segment.checkpoint.files[0].modified_ms

    def files(
        self, where: str | None = None, columns: Sequence[str] | None = None, *, timezone: str | None = None
    ) -> pa.Table:
        """The live files, one row each, without those that cannot hold a row that is asked for.

        Args:
            where: An SQL predicate over the table's columns. It only leaves files out; rows of the files that remain
                need the predicate again.
            columns: Which columns of the list; all if not given. `path` is always among them.
            timezone: The zone that timestamps without one are in. Unknown if not given: less is left out.

        Raises:
            InputError: The predicate cannot be read, or names a column that the table does not have.
            MalformedError: The log is damaged.
        """
        return self.replay.files(columns, None if where is None else self.pruner(where, timezone=timezone))

    def pruner(self, where: str, *, timezone: str | None = None) -> StatsPruner:
        """What leaves out the files that cannot hold a row of a predicate."""
        return StatsPruner.of(where, self.configuration, timezone=timezone)

    def tombstones(self) -> pa.Table:
        """The removed files that the log remembers; see `halocline.formats.delta.log.live_files`."""
        return self.replay.tombstones()

    @cached_property
    def totals(self) -> tuple[int, int]:
        """How many live files there are, and their bytes."""
        sizes = self.replay.files(["size"])["size"]
        return len(sizes), pc.sum(sizes).as_py() or 0


def version_at(store: Store, timestamp_ms: int) -> int:
    """The version of a table that held at a time; see `halocline.formats.delta.log.timestamps`."""
    newest = Replay.open(store)
    return CommitClock(store, header_of(newest).metadata, list_files(store, DELTA)).version_at(timestamp_ms)
