"""Which splits are merged: small ones of the same partition, in the order of the log, up to a size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from halocline.errors import InputError
from halocline.formats.index.log.actions import SplitAdd

TARGET_SIZE: Final = 1024**3
LARGE: Final = 0.45
"""A split of such a share of the target is left as it is."""


@dataclass(frozen=True)
class MergeGroup:
    """Splits of one partition that become one.

    Attributes:
        splits: The splits, in the order of their rows.
    """

    splits: tuple[SplitAdd, ...]

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(each.size for each in self.splits)


def merge_groups(
    splits: Iterable[SplitAdd], *, target_size: int = TARGET_SIZE, max_groups: int | None = None
) -> list[MergeGroup]:
    """The groups to merge, the ones with the most splits first.

    Args:
        splits: The splits that may be merged, in the order of the log.
        target_size: The bytes of a merged split at most.
        max_groups: How many groups at most.

    Raises:
        InputError: The size or the number is not above zero.

    Example:
        >>> some = [SplitAdd(f"{n}.split.parquet", {}, 40, 0, True) for n in range(5)]
        >>> [[each.path[0] for each in group.splits] for group in merge_groups(some, target_size=100)]
        [['0', '1'], ['2', '3']]
    """
    if target_size < 1 or (max_groups is not None and max_groups < 1):
        raise InputError(
            "splits are merged up to a size, into some groups",
            sides={"target size": str(target_size), "groups": str(max_groups)},
            next_step="Use a size and a number above zero.",
        )
    waiting: dict[tuple[tuple[str, str | None], ...], list[SplitAdd]] = {}
    groups: list[MergeGroup] = []
    for split in splits:
        if not split.is_own or split.size >= LARGE * target_size:
            continue
        partition = tuple(sorted(split.partition_values.items()))
        group = waiting.setdefault(partition, [])
        if group and sum(each.size for each in group) + split.size > target_size:
            groups.append(MergeGroup(tuple(group)))
            group = waiting[partition] = []
        group.append(split)
    groups += (MergeGroup(tuple(each)) for each in waiting.values())
    several = [each for each in groups if len(each.splits) > 1]
    return sorted(several, key=lambda each: (-len(each.splits), each.splits[0].path))[:max_groups]
