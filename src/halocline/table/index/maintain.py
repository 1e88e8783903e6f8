"""Maintenance of an index table: few large splits instead of many small ones, and indexes that are built anew.

Tasks do the work, one group of splits each, and every group is a commit of its own: what is done stays done.
"""

from __future__ import annotations

from halocline.errors import UnsupportedError
from halocline.formats.index.log.actions import COOLDOWN_MS, SplitAdd
from halocline.formats.index.maintain.reindex import why_reindex
from halocline.formats.index.merge.group import MergeTarget
from halocline.formats.index.merge.plan import TARGET_SIZE, MergeGroup, merge_groups
from halocline.formats.index.merge.run import MergeReport, commit_merged, together
from halocline.formats.index.protocol import OWN
from halocline.formats.index.skips import rested
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.spark.scan.footers import at_once
from halocline.spark.write.split_merge import GroupMerging, merged_groups
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import as_operation

_MAINTENANCE = "write.maintenance"


@as_operation
def merge_splits(
    table: IndexOpened, *, target_size: int = TARGET_SIZE, max_groups: int | None = None, cooldown_ms: int = COOLDOWN_MS
) -> MergeReport:
    """Merges small splits of each partition into large ones; the rows stay the same.

    A split that cannot be used is recorded as skipped, with the reason, and rests.

    Args:
        table: The table.
        target_size: The bytes of a merged split at most.
        max_groups: How many splits are made at most, of the most small ones first.
        cooldown_ms: How long a split rests that could not be used.

    Raises:
        InputError: The size or the number is not above zero.
        IncompatibleError: The release that acts may not write the table.

    Example:
        >>> Table.for_path("lake/logs", spark).merge_splits(target_size=512 * 1024**2).sources  # doctest: +SKIP
        24
    """
    snapshot = table.snapshot(_MAINTENANCE)
    groups = merge_groups(rested(snapshot, table.clock()), target_size=target_size, max_groups=max_groups)
    return _carried_out(table, snapshot, groups, cooldown_ms, again=False, operation="MERGE SPLITS")


@as_operation
def reindex(table: IndexOpened, *, every: bool = False) -> MergeReport:
    """Builds the indexes of splits anew from their rows, where they are not as the table says now.

    Those are splits of IndexTables4Spark, damaged ones, and those that were built with other options. A table with
    splits of IndexTables4Spark comes to require version 5, and whoever is known to use it is asked first.

    Args:
        table: The table.
        every: Whether all splits get a new index.

    Raises:
        IncompatibleError: The release that acts may not write the table, or somebody known would break.
        UnsupportedError: A split holds no rows of its own, or columns in a form that is not theirs.

    Example:
        >>> Table.for_path("lake/logs", spark).reindex().merged  # doctest: +SKIP
    """
    snapshot = table.snapshot(_MAINTENANCE)
    splits = [*snapshot.files.values()] if every else _outdated(snapshot)
    if companion := next((each for each in splits if _is_foreign_companion(each)), None):
        raise UnsupportedError(
            f"{companion.path} is a companion: it holds an index of rows that lie in another table",
            sides={"split": "companion", "indexed again": "splits that hold their rows"},
        )
    if any(not each.is_own for each in splits) and not OWN.can_upgrade_to(snapshot.protocol):
        after = table.transaction(snapshot, at_least=OWN).terms_after([])
        table.approve(snapshot.terms, after)
    groups = [MergeGroup((each,)) for each in splits]
    return _carried_out(table, snapshot, groups, COOLDOWN_MS, again=True, operation="REINDEX")


def _is_foreign_companion(split: SplitAdd) -> bool:
    """Whether a split of IndexTables4Spark has an index and no rows."""
    return split.companion_source_files is not None and not split.is_own


def _carried_out(
    table: IndexOpened,
    snapshot: IndexSnapshot,
    groups: list[MergeGroup],
    cooldown_ms: int,
    *,
    again: bool,
    operation: str,
) -> MergeReport:
    if not groups:
        return together(())
    now_ms = table.clock()
    work = GroupMerging(MergeTarget.of(snapshot), now_ms, again)
    reports = []
    for done in merged_groups(table.spark, table.store, work, groups):
        table.check_lease()
        newest = snapshot.newest()
        reports.append(commit_merged(newest, done, now_ms=now_ms, cooldown_ms=cooldown_ms, operation=operation))
    return together(reports)


def _outdated(snapshot: IndexSnapshot) -> list[SplitAdd]:
    """The splits whose indexes are not as the table says now."""
    target, splits = MergeTarget.of(snapshot), list(snapshot.files.values())
    reasons = at_once(lambda each: why_reindex(snapshot.store, each, target), splits)
    return [each for each, reason in zip(splits, reasons, strict=True) if reason is not None]
