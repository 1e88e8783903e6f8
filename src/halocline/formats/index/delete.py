"""Deleting rows: the actions that take rows of some splits out of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from halocline.errors import NotFoundError
from halocline.formats.index.log.actions import SplitAdd, SplitRemove
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.masks import write_masks


def deletions(
    snapshot: IndexSnapshot, deleted: Mapping[str, Iterable[int]], *, now_ms: int
) -> list[SplitAdd | SplitRemove]:
    """The actions that delete rows: a mask for each split, and a removal of those that have no row left.

    Args:
        snapshot: The version in which the rows were found.
        deleted: The numbers of the rows by the path of their split.
        now_ms: The present, in milliseconds since the epoch.

    Raises:
        InputError: A split does not have such a row.
        NotFoundError: A split is not in that version.
    """
    if unknown := sorted(deleted.keys() - snapshot.files.keys()):
        raise NotFoundError(
            f"{unknown[0]} is not in version {snapshot.version}",
            sides={"asked for": unknown[0], "version has": f"{len(snapshot.files)} splits"},
            next_step="Find the rows anew in the version that they are deleted from.",
        )
    numbers = {path: list(rows) for path, rows in deleted.items()}
    touched = [(snapshot.files[path], rows) for path, rows in numbers.items() if rows]
    return [removal(each, now_ms) if each.live_records == 0 else each for each in write_masks(snapshot.store, touched)]


def removal(split: SplitAdd, now_ms: int, *, data_change: bool = True) -> SplitRemove:
    """The action that takes a whole split out of a table."""
    return SplitRemove(
        path=split.path,
        deletion_timestamp=now_ms,
        data_change=data_change,
        partition_values=split.partition_values,
        size=split.size,
    )
