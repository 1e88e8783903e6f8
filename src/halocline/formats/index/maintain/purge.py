"""Purge: deleting splits and masks that no version within the retention needs.

A file is *needed* if a version names it that was the newest one at some time within the retention. Of the rest, what
is younger than the retention stays as well: it may belong to a commit that is under way. Only what is known to be the
table's goes: files that its log names, and those that a writer has left whom the log never heard of, or no longer
remembers. The latter are told by their names, which have a number of their own (a UUID), and splits of Halocline by
their footers as well. Everything else below the table is somebody's, whatever it is called.

If a live split is not in the listing, nothing is deleted and the split is named: the table is damaged already, or its
log spells paths in a way that would make others look unneeded.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from halocline.errors import InputError, NotFoundError
from halocline.formats.index.history import read_commit
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.layout import KEY
from halocline.formats.index.split.location import below_root
from halocline.formats.index.split.masks import FOLDER
from halocline.formats.log.names import INDEX, LOG_FOLDERS, FileKind
from halocline.formats.log.segment import list_files, readable_versions
from halocline.storage.base import ObjectMeta, Store

HOUR_MS: Final = 3_600_000
RETENTION_MS: Final = 168 * HOUR_MS
LEAST_MS: Final = 24 * HOUR_MS
"""A shorter retention has to be allowed in so many words."""

_NUMBERED: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.(split|split\.parquet|bin)$")
_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
"""The bytes behind the footer of a Parquet file: its length, and the magic."""


@dataclass(frozen=True)
class Purged:
    """What a purge found.

    Attributes:
        files: The files that nobody needs, in order of path.
        cutoff_ms: The time before which they were last written.
        deleted: Whether they were deleted; False for a dry run.
    """

    files: tuple[ObjectMeta, ...]
    cutoff_ms: int
    deleted: bool

    @property
    def bytes(self) -> int:
        """How long the files are together."""
        return sum(each.size for each in self.files)

    def __str__(self) -> str:
        done = "deleted" if self.deleted else "to be deleted, by dry_run=False"
        return f"{len(self.files):,} files of {self.bytes:,} bytes {done if self.files else 'are without use'}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


def purge(
    snapshot: IndexSnapshot,
    *,
    retention_ms: int = RETENTION_MS,
    dry_run: bool = True,
    allow_short_retention: bool = False,
    now_ms: int | None = None,
) -> Purged:
    """Finds the splits and masks that nobody needs and, unless it is a dry run, deletes them.

    Args:
        snapshot: The newest version of the table.
        retention_ms: How long files are kept that the table no longer has.
        dry_run: Whether to delete nothing and only tell what would go.
        allow_short_retention: Whether the retention may be shorter than a day.
        now_ms: The present, in milliseconds since the epoch.

    Raises:
        InputError: The retention is shorter than a day, and that was not allowed.
        IncompatibleError: The release may not write the table.
        NotFoundError: A live split is not where the log says; nothing was deleted.
    """
    if retention_ms < LEAST_MS and not allow_short_retention:
        raise InputError(
            f"keeping files for {retention_ms / HOUR_MS:g} hours may take them from under readers and writers",
            condition="RETENTION_TOO_SHORT",
            sides={"asked for": f"{retention_ms / HOUR_MS:g} hours", "least": f"{LEAST_MS / HOUR_MS:g} hours"},
            next_step="Keep them longer, or allow a short retention if nobody reads or writes the table.",
        )
    snapshot = snapshot.reopened("write").newest()
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    cutoff = now - retention_ms
    listed = list(_listed(snapshot.store))
    live = {below_root(snapshot.store, path) for path in snapshot.files}
    if missing := sorted(live - {each.path for each in listed}):
        raise NotFoundError(
            f"{missing[0]} is in the table and not in its folder; nothing was deleted",
            condition="DATA_FILES_MISSING",
            sides={"missing": f"{len(missing)} splits", "listed": f"{len(listed)} files"},
            next_step="Restore the split from a backup, or delete its rows, and purge again.",
        )
    needed = _needed(snapshot, cutoff)
    old = [each for each in listed if each.path not in needed and each.modified_ms < cutoff]
    named = _named(snapshot.store) if old else set[str]()
    found = tuple(each for each in old if _is_own(snapshot, named, each))
    if not dry_run:
        # Somebody may have brought a file back since the snapshot was taken.
        back = _needed(snapshot.newest(), cutoff)
        found = tuple(each for each in found if each.path not in back)
        snapshot.store.delete_many(each.path for each in found)
        snapshot.store.sweep(now)
    return Purged(found, cutoff, deleted=not dry_run)


def _listed(store: Store) -> Iterator[ObjectMeta]:
    found = list(store.list(follow_links=False))
    # A folder with a log of its own is another table and stays whole.
    logs = [f"{name}/" for name in LOG_FOLDERS.values()]
    others = {each.path.partition(f"/{log}")[0] + "/" for each in found for log in logs if f"/{log}" in each.path}
    for each in found:
        folder, _, name = each.path.rpartition("/")
        if each.path.startswith((*logs, *others)) or each.is_link:
            continue
        if name.endswith((".split", ".split.parquet")) or folder == FOLDER:
            yield each


def _is_own(snapshot: IndexSnapshot, named: Collection[str], file: ObjectMeta) -> bool:
    """Whether a file is one of the table's, by its log or by what its writer made it tell."""
    if file.path in named:
        return True
    if not _NUMBERED.search(file.path):
        return False
    return not file.path.endswith(".parquet") or _says_split(snapshot.store, file)


def _says_split(store: Store, file: ObjectMeta) -> bool:
    """Whether the footer of a Parquet file has the entry of a split."""
    tail = store.get_range(file.path, max(file.size - _TAIL, 0), _TAIL)
    length = int.from_bytes(tail[:4], "little")
    if len(tail) != _TAIL or not tail.endswith(_MAGIC) or length + _TAIL > file.size:
        return False
    return KEY in store.get_range(file.path, file.size - _TAIL - length, length)


def _named(store: Store) -> set[str]:
    """Every file that the commits and the checkpoint which are left name."""
    files = list_files(store, INDEX)
    readable = readable_versions(files)
    found: set[str] = set()
    if readable:
        for split in IndexReplay.open(store, readable.start).state.files.values():
            found.update(_files_of(store, split))
    for commit in files:
        if commit.kind is FileKind.COMMIT and commit.version in readable:
            for line in read_commit(store, commit):
                if line.add is not None:
                    found.update(_files_of(store, line.add))
                if line.remove is not None:
                    found.add(below_root(store, line.remove.path))
    return found


def _needed(snapshot: IndexSnapshot, cutoff: int) -> set[str]:
    """The files of every version that was the newest one at some time since the cutoff."""
    store = snapshot.store
    files = list_files(store, INDEX)
    commits = [each for each in files if each.kind is FileKind.COMMIT]
    readable = readable_versions(files)
    before = [each.version for each in commits if each.modified_ms <= cutoff and each.version in readable]
    oldest = max(before, default=readable.start if readable else snapshot.version)
    splits = list(IndexReplay.open(store, oldest).state.files.values())
    for commit in commits:
        if commit.version > oldest:
            splits += (each.add for each in read_commit(store, commit) if each.add is not None)
    return {path for split in (*splits, *snapshot.files.values()) for path in _files_of(store, split)}


def _files_of(store: Store, split: SplitAdd) -> Iterator[str]:
    yield below_root(store, split.path)
    if split.deletion_mask is not None and split.deletion_mask.path is not None:
        yield below_root(store, split.deletion_mask.path)
