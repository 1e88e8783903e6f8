"""Merges splits of a table: plans groups, merges each, and commits what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from halocline.errors import ConflictError
from halocline.formats.index.delete import removal
from halocline.formats.index.log.actions import COOLDOWN_MS, SplitAdd, SplitRemove, SplitSkip
from halocline.formats.index.merge.group import MergedGroup, MergeTarget, masked_like, masked_since, merge_group
from halocline.formats.index.merge.plan import TARGET_SIZE, merge_groups
from halocline.formats.index.skips import rested, skip_of
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.source_files import files_of_all
from halocline.formats.index.split.writer import HEAP_BYTES
from halocline.formats.index.transaction import IndexTransaction

_TRIES = 5


@dataclass(frozen=True)
class MergeReport:
    """What merging did.

    Attributes:
        merged: The new splits by how they were made.
        sources: How many splits went into them.
        skipped: Splits that could not be used, with the reason.
        given_way: The paths of splits that somebody else removed meanwhile.
        versions: The versions that were committed.
    """

    merged: dict[str, str]
    sources: int
    skipped: dict[str, str]
    given_way: tuple[str, ...]
    versions: tuple[int, ...]


def merge_splits(
    snapshot: IndexSnapshot,
    *,
    target_size: int = TARGET_SIZE,
    max_groups: int | None = None,
    cooldown_ms: int = COOLDOWN_MS,
    now_ms: int | None = None,
    scratch: str | None = None,
    heap_bytes: int = HEAP_BYTES,
) -> MergeReport:
    """Merges small splits of a table, group by group, in this process.

    Args:
        snapshot: The table.
        target_size: The bytes of a merged split at most.
        max_groups: How many groups at most, the ones with the most splits first.
        cooldown_ms: How long a split rests that could not be used.
        now_ms: The present, in milliseconds since the epoch.
        scratch: A folder for indexes and files while they are written.
        heap_bytes: The memory for indexing.

    Raises:
        IncompatibleError: This release may not write the table.
        InputError: The size or the number is not above zero.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    target = MergeTarget.of(snapshot)
    groups = merge_groups(rested(snapshot, now_ms), target_size=target_size, max_groups=max_groups)
    snapshot = snapshot.reopened("write")
    reports = []
    for group in groups:
        done = merge_group(snapshot.store, group.splits, target, now_ms=now_ms, scratch=scratch, heap_bytes=heap_bytes)
        reports.append(commit_merged(snapshot, done, now_ms=now_ms, cooldown_ms=cooldown_ms))
    return together(reports)


def commit_merged(
    snapshot: IndexSnapshot,
    done: MergedGroup,
    *,
    now_ms: int,
    cooldown_ms: int = COOLDOWN_MS,
    operation: str = "MERGE SPLITS",
) -> MergeReport:
    """Commits what became of a group: the new split in place of its sources, and skips of the unusable ones.

    Rows of the sources that somebody else deleted meanwhile are deleted in the new split as well. If a source is gone,
    the new split goes, too.

    Args:
        snapshot: A version of the table, not older than the one that the group was planned on.
        done: What became of the group.
        now_ms: The present, in milliseconds since the epoch.
        cooldown_ms: How long a split rests that could not be used.
        operation: The word for it in the history.

    Raises:
        ConflictError: Others were faster again and again.
    """
    known = done.split
    for attempt in range(_TRIES):
        snapshot = snapshot if attempt == 0 else snapshot.newest()
        gone = tuple(each.path for each in done.sources if each.path not in snapshot.files)
        split = None if gone or known is None else _up_to_date(snapshot, done, known)
        actions: list[SplitAdd | SplitRemove | SplitSkip] = []
        if split is not None:
            actions += (removal(each, now_ms, data_change=False) for each in done.sources)
            actions.append(split)
        actions += (
            skip_of(snapshot.files[path], reason, "merge", now_ms=now_ms, known=snapshot.skips, cooldown_ms=cooldown_ms)
            for path, reason in done.damaged.items()
            if path in snapshot.files
        )
        try:
            versions = (IndexTransaction(snapshot).commit(actions, operation, how=done.how),) if actions else ()
        except ConflictError:
            if attempt + 1 == _TRIES:
                raise
            continue
        if split is None and known is not None:
            snapshot.store.delete(known.path)
        made = {} if split is None else {split.path: done.how}
        used = 0 if split is None else len(done.sources)
        return MergeReport(made, used, dict(done.damaged), gone, versions)
    raise AssertionError("unreachable: the last try returns or raises")


def together(reports: Iterable[MergeReport]) -> MergeReport:
    """What several groups did."""
    done: Sequence[MergeReport] = list(reports)
    return MergeReport(
        merged={path: how for each in done for path, how in each.merged.items()},
        sources=sum(each.sources for each in done),
        skipped={path: reason for each in done for path, reason in each.skipped.items()},
        given_way=tuple(path for each in done for path in each.given_way),
        versions=tuple(version for each in done for version in each.versions),
    )


def _up_to_date(snapshot: IndexSnapshot, done: MergedGroup, split: SplitAdd) -> SplitAdd:
    """The new split, with what was deleted in its sources since they were read."""
    now = [snapshot.files[each.path] for each in done.sources]
    if [(each.deletion_mask, each.tags) for each in now] == [(each.deletion_mask, each.tags) for each in done.sources]:
        return split
    plain = files_of_all(replace(split, deletion_mask=None), now)
    if done.keeps_deleted:
        return masked_like(snapshot.store, plain, now)
    return masked_since(snapshot.store, plain, done.sources, now)
