"""Transactions: read a version, prepare actions, commit them as the next version or not at all.

A transaction starts from a snapshot, or from nothing to create a table. It remembers what it read, so that `commit` can
tell whether somebody else's commit in between makes a difference. `commit` then

- passes the gate for the protocol before and the protocol after, and checks that features only come in, unless the
  commit says which one it drops;
- checks the actions and the metadata, and fills in what follows from the version: row ids, timestamps, provenance;
- puts the commit where no version is yet, rebuilding it on every commit that came first, or gives way with a
  `ConflictError`;
- afterwards writes the checksum, the checkpoint when it is due, and shortens the log, none of which can fail it.

When `commit` returns, the version is there and readable. When it raises, nothing was committed, but for an
`UnavailableError`, whose message says that the outcome is unknown. A transaction commits once.

The files that a commit adds must not be in the table already, unless they are added again with another deletion
vector; commits that do add files again say so by their operation (see `halocline.formats.delta.actions.operations`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import pyarrow as pa

from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import InputError, InternalError
from halocline.formats.delta.actions import domains
from halocline.formats.delta.actions.action import Action, Add, Commit, Metadata, ProtocolAction, Txn, decode_commit
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.actions.protocol import action_of, protocol_of
from halocline.formats.delta.commit import conflicts
from halocline.formats.delta.commit.intent import Intent, Reads, is_blind_append, isolation_for
from halocline.formats.delta.commit.post_commit import Done, after_commit
from halocline.formats.delta.commit.provenance import CommitDescription, engine_info, provenance
from halocline.formats.delta.configuration import commit_rules, identity, in_commit_timestamps, row_tracking
from halocline.formats.delta.configuration.metadata_rules import check_metadata, terms_of
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.log.live_files import from_adds, on_disk
from halocline.formats.delta.log.timestamps import commit_info_in
from halocline.formats.delta.snapshot import access
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log import gate
from halocline.formats.log.commit import Winner, land
from halocline.formats.log.fence import fenced
from halocline.formats.log.gate import own_release
from halocline.formats.log.names import DELTA
from halocline.storage.base import Store

Clock = Callable[[], int]
"""Tells the present, in milliseconds since the epoch."""


def system_clock() -> int:
    """The computer's clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Outcome:
    """How a commit ended.

    Attributes:
        version: The version that the table then had; the one that was read if nothing had to be committed.
        committed: Whether there is a new version. False for a transaction of an application that is in the table.
        losses: How many commits came first and were rebased on.
        problems: What went wrong afterwards, none of which matters to the commit.
    """

    version: int
    committed: bool = True
    losses: int = 0
    problems: tuple[str, ...] = ()


class Transaction:
    """One change of a table.

    Args:
        snapshot: The version to start from; None for a table that is created in `store`.
        store: Where to create a table.
        release: Who creates it; this release if not given.
        engine: What to call ourselves in the provenance.
        clock: Tells the present.
        timezone: The zone that timestamps without one are in, for read predicates.
        permit: Raises if a change that makes use of a fleet's level may not become visible any more.

    Attributes:
        store: Where the table lies.
        outcome: How the commit ended; None before.
    """

    def __init__(
        self,
        snapshot: Snapshot | None,
        *,
        store: Store | None = None,
        release: Release | None = None,
        engine: str | None = None,
        clock: Clock = system_clock,
        timezone: str | None = None,
        permit: Callable[[], None] | None = None,
    ) -> None:
        if snapshot is not None:
            snapshot.replay.check_newest()  # what is added behind a torn commit is in a table that nobody can read
            store, release = snapshot.store, snapshot.release
        assert store is not None, "a transaction has a table, or a place for one"
        self.store = store
        self.snapshot = snapshot
        self.outcome: Outcome | None = None
        self._release = release or own_release()
        self._engine = engine or engine_info()
        self._clock = clock
        self._timezone = timezone
        self._permit = permit
        self._txn_id = str(uuid.uuid4())
        self._reads = Reads()

    @staticmethod
    def create(store: Store, **options: Any) -> Transaction:
        """A transaction that creates a table where none is; the options are those of any other."""
        return Transaction(None, store=store, **options)

    @property
    def before(self) -> TableConfiguration | None:
        """What the table was at the version it started from; None for a new table."""
        return None if self.snapshot is None else self.snapshot.configuration

    @property
    def read_version(self) -> int:
        """The version it started from, -1 for a new table."""
        return -1 if self.snapshot is None else self.snapshot.version

    # ------------------------------------------------------------------ reading

    def read_whole_table(self) -> None:
        """Notes that every row counts: any file added or removed meanwhile is a conflict."""
        self._reads = replace(self._reads, whole_table=True)

    def read_files(self, paths: Iterable[str], where: str | None = None) -> None:
        """Notes which files were read, and by which condition they were found.

        Args:
            paths: Decoded paths, as in a file list.
            where: The SQL condition. Files that others add count as unread only where it may hold in their partition.
        """
        predicates = self._reads.predicates if where is None else (*self._reads.predicates, where)
        self._reads = replace(self._reads, paths=self._reads.paths.union(paths), predicates=predicates)

    def files(self, where: str | None = None) -> pa.Table:
        """The live files that may hold a row of a condition, all of them without one, noted as read."""
        if self.snapshot is None:
            raise InputError("a table that is yet to be created has no files", sides={"table": self.store.root})
        found = self.snapshot.files(where, timezone=self._timezone)
        if where is None:
            self.read_whole_table()
        self.read_files(found["path"].to_pylist(), where)
        return found

    def txn_version(self, app_id: str) -> int | None:
        """The last transaction of an application in the table; None if there is none. Noted as read."""
        self._reads = replace(self._reads, app_ids=self._reads.app_ids | {app_id})
        found = None if self.snapshot is None else self.snapshot.txns.get(app_id)
        return None if found is None else found.version

    # ------------------------------------------------------------------ committing

    def commit(
        self,
        actions: Iterable[Action],
        said: CommitDescription | str,
        *,
        configuration: TableConfiguration | None = None,
        uses_level: bool = False,
        dropped_feature: str | None = None,
        revalidate: Callable[[int], None] | None = None,
        row_id_mark: int = row_tracking.NO_MARK,
    ) -> int:
        """Commits the actions as the next version, and returns it.

        Args:
            actions: What to commit: files, domains, metadata, protocol. Provenance is made here.
            said: What the commit says about itself; the word for the operation alone if there is nothing else to say.
                If the table has its application's transaction or a later one already, nothing is committed and the
                version that was read is returned; `outcome.committed` tells.
            configuration: What the table becomes; of protocol and metadata, those that change are committed as well.
            uses_level: Whether the actions do what only a level of a fleet allows, as a change of the protocol does.
            dropped_feature: The one feature that this commit takes out of the protocol.
            revalidate: With a dropped feature: raises if it cannot be dropped after a version that came first.
            row_id_mark: The highest row id of files that come back from before the table stopped tracking rows.

        Raises:
            InputError: The actions cannot be one commit of this table.
            IncompatibleError: The release may not write the table, before or after.
            ConflictError: Somebody else's commit contradicts this one; the condition tells in what.
            UnavailableError: The store could not be reached; whether the commit took effect is unknown.
        """
        if self.outcome is not None:
            raise InternalError(f"the transaction has committed version {self.outcome.version} already")
        said = CommitDescription(said) if isinstance(said, str) else said
        if said.txn is not None:
            seen = self.txn_version(said.txn[0])
            if seen is not None and seen >= said.txn[1]:
                self.outcome = Outcome(self.read_version, committed=False)
                return self.read_version
            actions = [*actions, Txn(said.txn[0], said.txn[1], self._clock())]
        if configuration is not None:
            actions = [*configuration.actions_since(self.before), *actions]
        actions = tuple(actions)
        intent = self._prepared(actions, said, dropped_feature, row_id_mark)
        uses_level = uses_level or any(isinstance(each, ProtocolAction) for each in actions)
        proposal = _Proposal(intent, self._ground(intent, revalidate), self._txn_id)
        with fenced(self._permit) if self._permit is not None and uses_level else nullcontext():
            landed = land(
                self.store,
                proposal,
                self.read_version + 1,
                path=DELTA.commit_path,
                read=None if self.snapshot is None else self.snapshot.replay.segment.last_commit,
                is_same=self._is_same_table,
            )
        known = None if self.snapshot is None else self.snapshot.replay.known
        done = Done(landed.version, landed.proposal.intent, self.before, landed.proposal.passed, self._release, known)
        self.outcome = Outcome(landed.version, losses=landed.losses)
        self.outcome = replace(self.outcome, problems=after_commit(self.store, done, self._clock()))
        return landed.version

    def _is_same_table(self) -> bool:
        """Whether the table in the store is the one that was read, by its id."""
        read = _given(self.before).metadata
        return read_header(self.store, self.read_version).metadata.id == read.id

    def _prepared(
        self, actions: tuple[Action, ...], said: CommitDescription, dropped_feature: str | None, row_id_mark: int
    ) -> Intent:
        actions = self._with_protocol(commit_rules.without_repeated_transactions(actions))
        commit_rules.check_no_duplicates(actions, Locations(self.store.root))
        after = self._checked(actions, said.operation, dropped_feature)
        version, now_ms, known = self.read_version + 1, self._clock(), self._row_id_mark()
        mark = max(known, row_id_mark)
        actions = row_tracking.assigned(
            actions, after.protocol, after.properties, mark, version, is_forgotten=mark > known
        )
        timestamp = self._in_commit_timestamp(after, now_ms)
        if timestamp is not None and any(isinstance(each, Metadata) for each in actions):
            stored = None if self.before is None else self.before.properties
            metadata = in_commit_timestamps.with_enablement(after.metadata, stored, version, timestamp)
            after = after.with_metadata(metadata)
            actions = tuple(metadata if isinstance(each, Metadata) else each for each in actions)
        isolation = isolation_for(actions, said.operation, after.properties)
        info = provenance(
            replace(said, tags={**self._tags_for(after.metadata), **said.tags}),
            timestamp_ms=now_ms,
            read_version=self.read_version,
            isolation=isolation.value,
            is_blind_append=is_blind_append(actions, self._reads),
            engine=self._engine,
            txn_id=self._txn_id,
            in_commit_timestamp=timestamp,
        )
        return Intent(self.read_version, said.operation, actions, info, after, self._reads, isolation, mark)

    def _with_protocol(self, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        """A table older than protocols gets one with its next commit."""
        if self.snapshot is None or self.snapshot.protocol_action is not None:
            return actions
        if any(isinstance(each, ProtocolAction) for each in actions):
            return actions
        return (action_of(self.snapshot.protocol), *actions)

    def _checked(self, actions: tuple[Action, ...], operation: str, dropped_feature: str | None) -> TableConfiguration:
        """What the table is after the commit, which the release may write and a table may be."""
        new_protocol = next((each for each in actions if isinstance(each, ProtocolAction)), None)
        new_metadata = next((each for each in actions if isinstance(each, Metadata)), None)
        before = self.before
        if before is None:
            commit_rules.check_first(actions)
        else:
            self._check_access(before.terms, actions)
            commit_rules.check_appendable(actions, before, self.store.root)
        protocol = protocol_of(new_protocol) if new_protocol is not None else _given(before).protocol
        metadata = new_metadata if new_metadata is not None else _given(before).metadata
        if new_protocol is not None or new_metadata is not None:
            self._check_access(terms_of(protocol, metadata), actions)
        if before is not None and new_protocol is not None:
            gate.check_transition(before.protocol, protocol, dropped_feature, self.store.root)
        if new_metadata is not None:
            check_metadata(metadata, None if before is None else before.metadata, protocol, operation)
        after = before if before and not new_protocol and not new_metadata else TableConfiguration(protocol, metadata)
        access.check_log(self._release, after.facts, gate.WRITE, self.store.root)
        domains.check(actions, protocol)
        commit_rules.check_actions(actions, protocol, metadata)
        return after

    def _check_access(self, terms: Terms, actions: Iterable[Action]) -> None:
        gate.check_access(self._release, terms, self._asked_for(actions), self.store.root)

    def _asked_for(self, actions: Iterable[Action]) -> str:
        """What the snapshot was opened for, if that is finer; rows that come in always take a whole writer."""
        asked = gate.WRITE if self.snapshot is None else self.snapshot.operation
        brings_rows = any(isinstance(each, Add) and each.data_change for each in actions)
        return asked if asked.startswith(f"{gate.WRITE}.") and not brings_rows else gate.WRITE

    def _row_id_mark(self) -> int:
        if self.snapshot is None or not self.snapshot.protocol.supports(row_tracking.FEATURE):
            return row_tracking.NO_MARK
        return row_tracking.high_water_mark(self.snapshot.domains.get(row_tracking.DOMAIN))

    def _in_commit_timestamp(self, after: TableConfiguration, now_ms: int) -> int | None:
        if not after.properties.in_commit_timestamps:
            return None
        previous = None if self.snapshot is None else self.snapshot.timestamp_ms
        return in_commit_timestamps.next_timestamp(now_ms, previous)

    def _tags_for(self, metadata: Metadata) -> dict[str, str]:
        before = self.before
        if before is None or before.metadata == metadata or not identity.only_marks_moved(before.metadata, metadata):
            return {}
        return {identity.ONLY_MARKS_TAG: "true"}

    def _ground(self, intent: Intent, revalidate: Callable[[int], None] | None) -> conflicts.Ground:
        return conflicts.Ground(
            table=self.store.root,
            locations=Locations(self.store.root),
            read=self.before or intent.configuration,
            check_access=lambda terms: self._check_access(terms, intent.actions),
            first_match=self._first_match,
            revalidate=revalidate,
        )

    def _first_match(self, predicate: str, candidates: Sequence[Add]) -> Add | None:
        """The first file that may hold rows of the predicate, in the schema that was read."""
        if self.snapshot is None:
            return candidates[0]
        pruner = self.snapshot.pruner(predicate, timezone=self._timezone)
        files = from_adds(candidates, ("path", "partition_values", "stats"))
        keep = pruner.keep(on_disk(files))
        return candidates[0] if keep is None else next(compress(candidates, keep.to_pylist()), None)


@dataclass(frozen=True)
class _Proposal:
    """An intent on its way into the log."""

    intent: Intent
    ground: conflicts.Ground
    txn_id: str
    passed: tuple[Commit, ...] = ()

    def encode(self, version: int) -> bytes:
        return self.intent.encode()

    def is_own(self, winner: Winner) -> bool:
        if self.txn_id.encode() not in winner.data:
            return False
        info = commit_info_in(winner.data, winner.path)
        return info is not None and info.txn_id == self.txn_id

    def rebased(self, winner: Winner) -> _Proposal:
        commit = decode_commit(winner.data, winner.path.rpartition("/")[2])
        theirs = conflicts.WinningCommit(winner.version, commit, winner.modified_ms)
        intent = conflicts.rebased(self.intent, theirs, self.ground)
        return replace(self, intent=intent, passed=(*self.passed, commit))


def _given(before: TableConfiguration | None) -> TableConfiguration:
    if before is None:
        raise InternalError("a new table has nothing to read")
    return before
