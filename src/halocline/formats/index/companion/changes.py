"""What has to change in a companion so that it shows another version of its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from halocline.errors import InputError
from halocline.formats.index.companion.source import IndexedFile
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.source_files import CompanionFile, source_files

_MOST_GONE: Final = 0.5
"""The share of rows whose files are gone up to which a split stays."""


@dataclass(frozen=True)
class CompanionChanges:
    """What has to happen so that a companion shows a version of its source.

    Attributes:
        new: Files to index.
        masked: Splits with files that have lost more rows, each with its files as they are now, None for one that is
            gone or is indexed again.
        gone: Splits of files that are gone, or that are indexed again.
        kept: How many splits stay as they are.
    """

    new: tuple[IndexedFile, ...]
    masked: tuple[tuple[SplitAdd, tuple[IndexedFile | None, ...]], ...]
    gone: tuple[SplitAdd, ...]
    kept: int


def companion_changes(snapshot: IndexSnapshot, files: Iterable[IndexedFile]) -> CompanionChanges:
    """What has to change in a companion.

    Args:
        snapshot: The companion.
        files: The files of the source at the version that it is to show.

    Raises:
        InputError: A split belongs to no file of a source.
        MalformedError: The log does not say which.
    """
    left = {each.path: each for each in files}
    masked, gone, kept = [], [], 0
    for split in snapshot.files.values():
        before = source_files(split)
        if not before:
            raise InputError(
                f"{split.path} is a split of rows and not of a companion",
                sides={"table": snapshot.store.root, "split": split.path},
                next_step="Make the companion anew, and write to its source only.",
            )
        now = tuple(_unchanged(each, left) for each in before)
        lost = sum(each.rows for each, file in zip(before, now, strict=True) if file is None)
        if lost > _MOST_GONE * (split.num_records or 0) or not any(now):
            gone.append(split)
            continue
        for file in now:
            if file is not None:
                del left[file.path]
        states = [(None, None) if file is None else (file.path, file.masked) for file in now]
        if states == [(each.path, each.masked) for each in before]:
            kept += 1
        else:
            masked.append((split, now))
    return CompanionChanges(tuple(left.values()), tuple(masked), tuple(gone), kept)


def everything_anew(snapshot: IndexSnapshot, files: Iterable[IndexedFile]) -> CompanionChanges:
    """What has to change in a companion of which nothing is to stay."""
    return CompanionChanges(tuple(files), (), tuple(snapshot.files.values()), 0)


def _unchanged(before: CompanionFile, files: Mapping[str, IndexedFile]) -> IndexedFile | None:
    """The file as it is now; None if it is gone, or is another one."""
    found = None if before.path is None else files.get(before.path)
    return found if found is not None and found.state == before.state else None
