"""Deleting what a log no longer needs.

The *cutoff* is midnight UTC before now less `delta.logRetentionDuration`. The *boundary* is the newest checkpoint that
is not newer than the newest commit at the cutoff, and can be opened: from one that is torn, or has lost a sidecar, no
version after it can be put together. Everything before the boundary goes: commits, checkpoints, checksums, compactions
that begin at or before it, staged commits; the boundary, its own commit and everything after it stay. Then sidecars
that no remaining checkpoint refers to go, once they are a day old. Without a boundary nothing is deleted.

Commits go before checkpoints and old ones before new ones, so a crash in between leaves a log whose newest versions
are whole.

A table whose history is protected (`checkpointProtection`) may only be cleaned past the protected version at once, or
by a release that understands every protocol on the way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from halocline.compat.protocol import Protocol
from halocline.errors import IncompatibleError, MalformedError, NotFoundError
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.checkpoint_read import Checkpoint, sidecar_name
from halocline.formats.delta.log.checkpoint_write import classic_path
from halocline.formats.delta.log.commits import Tail
from halocline.formats.delta.log.timestamps import increasing
from halocline.formats.log.names import CHECKPOINT_KINDS, DELTA, FileKind, LogEntry
from halocline.formats.log.segment import CheckpointFiles, complete_checkpoints, list_files
from halocline.storage.base import ObjectMeta, Store

DAY_MS: Final = 86_400_000
PROTECTION: Final = "checkpointProtection"
_SIDECARS: Final = f"{DELTA.folder}/_sidecars"
_STAGED: Final = (f"{DELTA.folder}/_staged_commits", f"{DELTA.folder}/_commits")
_ORDER: Final = {FileKind.COMMIT: 0, FileKind.COMPACTION: 1, FileKind.CHECKSUM: 2}


@dataclass(frozen=True)
class Cleaned:
    """What a cleanup deleted.

    Attributes:
        boundary: The version of the checkpoint that the log now begins with; None if nothing could be deleted.
        log_files: Paths of deleted commits, checkpoints, checksums, compactions and staged commits.
        sidecars: Paths of deleted sidecars.
        skipped: Why nothing was deleted although there would have been something; None otherwise.
    """

    boundary: int | None = None
    log_files: tuple[str, ...] = ()
    sidecars: tuple[str, ...] = ()
    skipped: str | None = None


def clean_log(
    store: Store,
    configuration: TableConfiguration,
    *,
    now_ms: int,
    retention_ms: int | None = None,
    whole_days: bool = True,
    newest: int | None = None,
    supports: Callable[[Protocol, str], bool],
) -> Cleaned:
    """Deletes what is past its retention.

    Args:
        store: Where the table lies.
        configuration: What the table is now.
        now_ms: The present.
        retention_ms: How long to keep history; the table's own setting if not given.
        whole_days: Whether the cutoff is rounded down to midnight UTC.
        newest: The newest version, if it is known.
        supports: Whether this release supports a protocol for `read` or `write`.

    Raises:
        MalformedError: The retention of the table cannot be read.
    """
    if retention_ms is None:
        if not configuration.properties.cleans_log:
            return Cleaned(skipped="delta.enableExpiredLogCleanup is false")
        retention_ms = configuration.properties.log_retention_ms
    cutoff = now_ms - retention_ms
    if whole_days:
        cutoff -= cutoff % DAY_MS
    if not _has_commit_before(store, cutoff, newest):
        return Cleaned()
    files = list_files(store, DELTA)
    boundary = next((each for each in boundaries_at(files, cutoff) if _is_whole(store, each)), None)
    if boundary is None:
        return Cleaned()
    expired = expired_files(files, boundary.version)
    if not expired:
        return Cleaned(boundary.version)
    if not _is_allowed(store, files, expired, boundary.version, configuration, supports):
        protected = configuration.properties.protected_before
        return Cleaned(boundary.version, skipped=f"history before version {protected} is protected")
    _leave_classic_name(store, boundary, files)
    staged = _staged_before(store, boundary.version)
    gone = [file.path for file in expired] + [meta.path for meta in staged]
    store.delete_many(gone)
    sidecars = _unreferenced_sidecars(store, now_ms) if _removed_checkpoints(expired) else ()
    store.delete_many(meta.path for meta in sidecars)
    return Cleaned(boundary.version, tuple(gone), tuple(meta.path for meta in sidecars))


def _has_commit_before(store: Store, cutoff_ms: int, newest: int | None) -> bool:
    """Whether the oldest commit is old enough; if it is not, the rest of the log need not be listed."""
    if newest is not None and store.lists_whole_folders:
        with contextlib.suppress(NotFoundError):
            return store.head(DELTA.commit_path(_oldest_commit(store, newest))).modified_ms <= cutoff_ms
    for meta in store.list(DELTA.folder):
        file = DELTA.parse(meta)
        if file is not None and file.kind is FileKind.COMMIT:
            return file.modified_ms <= cutoff_ms
    return False


def _oldest_commit(store: Store, newest: int) -> int:
    """The first commit of a log that has shrunk from its beginning."""
    absent, present = -1, newest
    while present - absent > 1:
        middle = (absent + present) // 2 if absent >= 0 else 0
        if store.exists(DELTA.commit_path(middle)):
            present = middle
        else:
            absent = middle
    return present


def boundaries_at(files: Sequence[LogEntry], cutoff_ms: int) -> list[CheckpointFiles]:
    """The checkpoints that are not newer than the newest commit at the cutoff, the best first.

    Their own commits must still be there, since the time of a version is only known from its commit.
    """
    times = increasing([file for file in files if file.kind is FileKind.COMMIT])
    newest = max((version for version, time_ms in times.items() if time_ms <= cutoff_ms), default=-1)
    return [each for each in reversed(complete_checkpoints(files)) if each.version <= newest and each.version in times]


def _is_whole(store: Store, checkpoint: CheckpointFiles) -> bool:
    """Whether a checkpoint can be opened, and has all of its sidecars."""
    try:
        sidecars = Checkpoint(store, DELTA, checkpoint).others.sidecars
    except (MalformedError, NotFoundError):
        return False
    return all(store.exists(f"{_SIDECARS}/{sidecar_name(each)}") for each in sidecars)


def expired_files(files: Iterable[LogEntry], boundary: int) -> list[LogEntry]:
    """What may go before a boundary, in the order to delete it: commits first, checkpoints last, old before new."""

    def is_expired(file: LogEntry) -> bool:
        return file.version <= boundary if file.kind is FileKind.COMPACTION else file.version < boundary

    return sorted(filter(is_expired, files), key=lambda file: (_ORDER.get(file.kind, 3), file.version, file.path))


# ---------------------------------------------------------------------- protected history


def _is_allowed(
    store: Store,
    files: Sequence[LogEntry],
    expired: Sequence[LogEntry],
    boundary: int,
    configuration: TableConfiguration,
    supports: Callable[[Protocol, str], bool],
) -> bool:
    if not configuration.protocol.supports(PROTECTION) or boundary >= configuration.properties.protected_before:
        return True
    first = min(file.version for file in expired)
    commits = [file for file in files if file.kind is FileKind.COMMIT and first <= file.version <= boundary]
    checkpoints = [each for each in complete_checkpoints(files) if first <= each.version <= boundary]
    try:
        heads = [Checkpoint(store, DELTA, each).others.header for each in checkpoints]
        heads += [Tail(store, [commit]).header() for commit in commits]
    except (MalformedError, NotFoundError):
        return False
    protocols = [protocol_of(head.protocol) for head in heads if head.protocol is not None]
    return all(supports(found, "read") and supports(found, "write") for found in protocols)


# ---------------------------------------------------------------------- around checkpoints


def _removed_checkpoints(expired: Iterable[LogEntry]) -> bool:
    return any(file.kind in CHECKPOINT_KINDS for file in expired)


def _leave_classic_name(store: Store, boundary: CheckpointFiles, files: Iterable[LogEntry]) -> None:
    """Old clients must find a protocol that they can refuse once the first commits are gone."""
    top = boundary.files[0]
    path = classic_path(boundary.version)
    is_named_by_id = top.kind is FileKind.CHECKPOINT_BY_ID and top.name.endswith(".parquet")
    if is_named_by_id and not any(file.path == path for file in files):
        store.put(path, store.get(top.path))


def _staged_before(store: Store, boundary: int) -> list[ObjectMeta]:
    found = []
    for folder in _STAGED:
        for meta in store.list(folder):
            version = meta.path.rpartition("/")[2].partition(".")[0]
            if version.isdigit() and int(version) < boundary:
                found.append(meta)
    return found


def _unreferenced_sidecars(store: Store, now_ms: int) -> tuple[ObjectMeta, ...]:
    candidates = [meta for meta in store.list(_SIDECARS) if meta.modified_ms < now_ms - DAY_MS]
    if not candidates:
        return ()
    used: set[str] = set()
    for checkpoint in complete_checkpoints(list_files(store, DELTA)):
        try:
            sidecars = Checkpoint(store, DELTA, checkpoint).others.sidecars
        except (MalformedError, NotFoundError, IncompatibleError):
            # What it refers to cannot be told, so everything may be.
            return ()
        used |= {sidecar_name(sidecar) for sidecar in sidecars}
    return tuple(meta for meta in candidates if meta.path.rpartition("/")[2] not in used)
