"""Keeping clients away from the part of a log that they can no longer read.

Old versions of a table still use a feature after it was dropped. Either the history is *truncated* to a checkpoint that
was made without the feature, once the versions before are past a retention of their own (a day, unless the table says
otherwise), so that a transaction in flight never loses the versions it started from. Or it is *protected*: three
checkpoints in a row stand between the old versions and the drop, because some readers go back that far when a
checkpoint cannot be opened, and the table forbids to clean them up piecemeal.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from halocline.errors import MalformedError, NotYetError
from halocline.formats.delta.commit.log_cleanup import clean_log
from halocline.formats.delta.commit.post_commit import supports_protocol
from halocline.formats.delta.features.drop_work import DropWork
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.formats.delta.log.replay import Replay
from halocline.formats.delta.log.timestamps import increasing, text_of
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.fence import check_fence
from halocline.formats.log.names import DELTA, FileKind
from halocline.formats.log.segment import complete_checkpoints, list_files

BARRIER_CHECKPOINTS: Final = 3
RETENTION: Final = "delta.dropFeatureTruncateHistory.retentionDuration"
EMPTY_COMMIT: Final = "Empty Commit"


def checkpointed_commit(work: DropWork) -> int:
    """Makes an empty commit and a checkpoint of it, makes sure that it can be read, and returns its version."""
    version = work.begin(work.snapshot()).commit([], EMPTY_COMMIT)
    checkpoint(work, version)
    return version


def checkpoint(work: DropWork, version: int) -> None:
    """Writes the checkpoint of a version and makes sure that it can be read."""
    write_checkpoint(work.store, version, now_ms=work.clock())
    found = Replay.open(work.store, version).checkpoint
    if found is None or found.files.version != version:
        raise MalformedError(
            f"the checkpoint of version {version} of {work.store.root} cannot be read back",
            condition="MALFORMED_LOG",
            sides={"written": f"version {version}", "found": "none" if found is None else found.name},
            next_step="Run the same command again.",
        )


def raise_barrier(work: DropWork) -> None:
    """Leaves as many checkpoints as readers may go back to, all without traces of the feature."""
    for _ in range(BARRIER_CHECKPOINTS):
        checkpointed_commit(work)


def has_checkpoint_from(work: DropWork, version: int) -> bool:
    """Whether there is a checkpoint of this version or a later one."""
    return any(each.version >= version for each in complete_checkpoints(list_files(work.store, DELTA)))


def truncate(work: DropWork, snapshot: Snapshot) -> None:
    """Deletes history that is past the retention for dropping features."""
    work.reopen()
    check_fence()
    clean_log(
        work.store,
        snapshot.configuration,
        now_ms=work.clock(),
        retention_ms=snapshot.properties.truncation_retention_ms,
        whole_days=False,
        supports=partial(supports_protocol, work.release),
    )


def is_truncated_before(work: DropWork, version: int) -> bool:
    """Whether the log holds nothing before a version, and can be read from there."""
    files = list_files(work.store, DELTA)
    older = any(file.version < version for file in files if file.kind is not FileKind.CHECKSUM)
    return not older and any(each.version >= version for each in complete_checkpoints(files))


def truncate_before(work: DropWork, version: int) -> None:
    """Deletes all history before a version."""
    if version <= 0 or is_truncated_before(work, version):
        return
    if not has_checkpoint_from(work, version):
        checkpointed_commit(work)
    snapshot = work.snapshot()
    truncate(work, snapshot)
    if not is_truncated_before(work, version):
        raise not_yet(work, snapshot, version, f"the log still holds versions before {version}")


def not_yet(work: DropWork, snapshot: Snapshot, version: int, found: str) -> NotYetError:
    """The error that says when the history before a version can be truncated."""
    files = list_files(work.store, DELTA)
    times = increasing([file for file in files if file.kind is FileKind.COMMIT])
    usable = [
        times[each.version] for each in complete_checkpoints(files) if each.version >= version and each.version in times
    ]
    retention_ms = snapshot.properties.truncation_retention_ms
    hours = retention_ms / 3_600_000
    until = min(usable, default=work.clock()) + retention_ms
    return NotYetError(
        f"feature {work.record.name} is out of the newest version of {work.store.root}, but not out of its history",
        condition="DROP_WAIT_FOR_RETENTION",
        until_ms=until,
        sides={"history": found, "kept for": f"{hours:g} hours ({RETENTION})", "come back": f"at {text_of(until)}"},
        next_step="Drop the feature again then, or now without truncating history.",
    )
