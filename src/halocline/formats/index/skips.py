"""Skips: splits that an operation could not use, on record, so that nobody tries them again at once.

A skip does not take rows away. It says what was wrong, how often, and when to try again; the split rests until then.
"""

from __future__ import annotations

from collections.abc import Mapping

from halocline.formats.index.log.actions import COOLDOWN_MS, SplitAdd, SplitSkip
from halocline.formats.index.snapshot import IndexSnapshot


def skip_of(
    split: SplitAdd,
    reason: str,
    operation: str,
    *,
    now_ms: int,
    known: Mapping[str, SplitSkip] | None = None,
    cooldown_ms: int = COOLDOWN_MS,
) -> SplitSkip:
    """The action that records a skip.

    Args:
        split: The split.
        reason: What is wrong with it.
        operation: What was to be done, `merge` or `read`.
        now_ms: The present, in milliseconds since the epoch.
        known: The skips that the table has, to count on from.
        cooldown_ms: How long the split rests.

    Example:
        >>> first = skip_of(SplitAdd("a", {}, 9, 0, True), "damaged", "merge", now_ms=5, cooldown_ms=10)
        >>> again = skip_of(SplitAdd("a", {}, 9, 0, True), "damaged", "merge", now_ms=20, known={"a": first})
        >>> first.retry_after, first.skip_count, again.skip_count
        (15, 1, 2)
    """
    before = (known or {}).get(split.path)
    return SplitSkip(
        path=split.path,
        skip_timestamp=now_ms,
        reason=reason,
        operation=operation,
        partition_values=split.partition_values,
        size=split.size,
        retry_after=now_ms + cooldown_ms,
        skip_count=1 if before is None else before.skip_count + 1,
    )


def rested(snapshot: IndexSnapshot, now_ms: int) -> list[SplitAdd]:
    """The live splits that may be tried now, in the order of the log."""
    skips = snapshot.skips
    return [each for each in snapshot.files.values() if each.path not in skips or not skips[each.path].rests_at(now_ms)]
