"""What follows a commit: manifests where the table has them, a checkpoint when it is due, a checksum, a shorter log.

None of this is needed for the commit to hold, so nothing here makes it fail: whatever goes wrong is logged and listed
in the outcome. The order matters to whoever reads after a crash: the checkpoint is whole before the pointer names it,
and the log is only shortened behind a checkpoint that exists.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import can
from halocline.formats.delta.actions.action import Commit, CommitInfo, Metadata
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.commit.intent import Intent
from halocline.formats.delta.commit.log_cleanup import clean_log
from halocline.formats.delta.commit.manifests import are_due, touched_by, write_manifests
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log import checksum
from halocline.formats.delta.log.checkpoint_write import WrittenCheckpoint, is_due, write_checkpoint
from halocline.formats.delta.log.checksum import Summary
from halocline.formats.delta.log.replay import KnownVersion
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log import gate
from halocline.storage.base import Store

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Done:
    """A commit that has landed.

    Attributes:
        version: Its version.
        intent: What was committed.
        before: What the table was at the version that was read; None for a new table.
        passed: What the commits between that version and this one did.
        release: Who acted.
        known: The version that was read, to start from; None for a new table.
    """

    version: int
    intent: Intent
    before: TableConfiguration | None
    passed: Sequence[Commit]
    release: Release
    known: KnownVersion | None = None


def after_commit(store: Store, done: Done, now_ms: int) -> tuple[str, ...]:
    """Does what is due after a commit, and tells what went wrong."""
    version, intent, release = done.version, done.intent, done.release
    problems: list[str] = []

    def tried(what: str, act: Callable[[], _T]) -> _T | None:
        try:
            return act()
        except Exception as error:  # the commit holds, whatever happens here
            _log.warning("version %d of %s is committed, but %s failed: %s", version, store.root, what, error)
            problems.append(f"{what}: {error}")
            return None

    if are_due(done.before, intent.configuration, intent.actions):
        tried("its manifests", lambda: _write_manifests(store, done))
    summary = tried("counting its files", lambda: _carried_on(store, done))
    files = summary.table_size.files if summary is not None else 0
    checkpoint = None
    if tried("reading the checkpoint interval", lambda: is_due(version, intent.configuration.properties, files)):
        checkpoint = tried("its checkpoint", lambda: _checkpoint(store, done, now_ms))
    tried("its checksum", lambda: _write_checksum(store, done, summary, checkpoint))
    if checkpoint is not None:
        supports = partial(supports_protocol, release)
        clean = partial(clean_log, store, intent.configuration, now_ms=now_ms, newest=version, supports=supports)
        tried("cleaning the log", clean)
    return tuple(problems)


def _write_manifests(store: Store, done: Done) -> None:
    touched = touched_by(done.before, done.intent.configuration, done.intent.actions)
    written, newest = -1, done.version
    while written < newest:  # who commits meanwhile may have written the same manifests first, and newer ones
        snapshot = Snapshot.load(store, release=done.release, known=done.known)
        write_manifests(snapshot, touched)
        written, newest = snapshot.version, Snapshot.load(store, release=done.release, known=done.known).version


def _checkpoint(store: Store, done: Done, now_ms: int) -> WrittenCheckpoint:
    def check_access(terms: Terms) -> None:
        gate.check_access(done.release, terms, gate.MAINTENANCE, store.root)

    return write_checkpoint(store, done.version, now_ms=now_ms, check_access=check_access, known=done.known)


def supports_protocol(release: Release, protocol: Protocol, operation: str) -> bool:
    """Whether a release may do an operation to tables of a protocol."""
    return can(release, protocol, operation).ok


def _write_checksum(store: Store, done: Done, summary: Summary | None, checkpoint: WrittenCheckpoint | None) -> None:
    if checkpoint is not None:
        info = CommitInfo(done.intent.info)
        timestamp = info.in_commit_timestamp
        summary = replace(checkpoint.summary, in_commit_timestamp=timestamp, txn_id=info.txn_id)
    if summary is not None:
        checksum.write_summary(store, done.version, summary)


def _carried_on(store: Store, done: Done) -> Summary | None:
    """The summary, from the version that was read or, failing that, from the one just before."""
    own = Commit("", (CommitInfo(done.intent.info), *done.intent.actions))
    if done.before is None:
        return checksum.first(own)
    read = done.before
    before = _agreeing(checksum.read_summary(store, done.intent.read_version), read.protocol, read.metadata)
    for commit in done.passed:
        before = None if before is None else checksum.after(before, commit)
    if before is None and done.passed:
        protocol, metadata = read.protocol, read.metadata
        for commit in done.passed:
            protocol = protocol if commit.protocol is None else protocol_of(commit.protocol)
            metadata = commit.metadata or metadata
        before = _agreeing(checksum.read_summary(store, done.version - 1), protocol, metadata)
    return None if before is None else checksum.after(before, own)


def _agreeing(summary: Summary | None, protocol: Protocol, metadata: Metadata) -> Summary | None:
    """The summary, unless the log says otherwise: a checksum is never trusted over the log."""
    if summary is None or protocol_of(summary.protocol) != protocol or summary.metadata != metadata:
        return None
    return summary
