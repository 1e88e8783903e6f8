"""The files of a log that make up one version.

A *segment* is a checkpoint, or none, and every commit after it up to one version. It is found by listing: once from
the checkpoint that the pointer hints at, and from the beginning where the hint leads nowhere. A segment that exists is
whole: the commits follow each other without a gap, and a checkpoint in parts has all of them. Everything else is a
`MalformedError` that names the gap, never a shorter table.

Of several checkpoints the newest counts; at one version the best kind, then the one with more parts, then the greater
name. Checkpoints that turned out to be unreadable can be left out, and the segment then reaches further back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.log.names import CHECKPOINT_KINDS, DIGITS, LOG_FOLDERS, FileKind, LogEntry, LogLayout
from halocline.formats.log.pointer import Pointer, read_pointer
from halocline.storage.base import Store

_LISTINGS: Final = 3
"""How often a log is listed before a gap in it is believed."""
_LEFT_OUT: Final = 100
"""How many commits that a listing does not show are looked for one by one."""


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A complete checkpoint: one file, or all of its parts in order."""

    version: int
    files: tuple[LogEntry, ...]

    @property
    def name(self) -> str:
        """The name of its first file."""
        return self.files[0].name

    @property
    def _rank(self) -> tuple[int, int, int, str]:
        first = self.files[0]
        return (self.version, CHECKPOINT_KINDS.index(first.kind), first.parts, first.name)


@dataclass(frozen=True)
class Segment:
    """The files of one version. Made by `find_segment`.

    Attributes:
        version: The version they add up to.
        checkpoint: Where to begin; None to begin at version 0.
        commits: Every commit after the checkpoint, oldest first.
        compactions: Compactions whose range lies after the checkpoint and within the version.
        checksums: Version checksums from the checkpoint on, oldest first.
        checkpoint_commit: The commit of the checkpoint's own version, if it is still there.
        pointer: What the pointer says of this very checkpoint, if it was asked.
    """

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[LogEntry, ...]
    compactions: tuple[LogEntry, ...] = ()
    checksums: tuple[LogEntry, ...] = ()
    checkpoint_commit: LogEntry | None = None
    pointer: Pointer | None = None

    @property
    def last_commit(self) -> LogEntry | None:
        """The commit that made the version, if the log still has it."""
        return self.commits[-1] if self.commits else self.checkpoint_commit

    @property
    def checksum(self) -> LogEntry | None:
        """The checksum of exactly this version, if there is one."""
        last = self.checksums[-1] if self.checksums else None
        return last if last is not None and last.version == self.version else None

    @cached_property
    def cover(self) -> tuple[LogEntry, ...]:
        """The fewest files that hold every change after the checkpoint, oldest first.

        A compaction stands for the commits of its range where it is not longer than they are.
        """
        longest: dict[int, LogEntry] = {}
        for each in self.compactions:
            if each.version not in longest or each.end > longest[each.version].end:
                longest[each.version] = each
        chosen: list[LogEntry] = []
        position = 0
        while position < len(self.commits):
            commit = self.commits[position]
            compaction = longest.get(commit.version)
            if compaction is not None:
                replaced = self.commits[position : position + compaction.end - compaction.version + 1]
                if compaction.size <= sum(each.size for each in replaced):
                    chosen.append(compaction)
                    position += len(replaced)
                    continue
            chosen.append(commit)
            position += 1
        return tuple(chosen)


def find_segment(
    store: Store, layout: LogLayout, version: int | None = None, *, without: Collection[str] = ()
) -> Segment:
    """Finds the files of a version.

    Args:
        store: Where the table lies.
        layout: The log folder and its names.
        version: The version; the newest if not given.
        without: Paths of checkpoint files that must not be used.

    Raises:
        NotFoundError: There is no log (`TABLE_NOT_FOUND`) or not this version in it (`VERSION_NOT_FOUND`); the
            versions that can be read are named.
        MalformedError: A commit between the checkpoint and the version is missing.
    """
    for _ in range(_LISTINGS - 1):
        try:
            return _listed_segment(store, layout, version, without)
        except MalformedError:
            # A clean-up may have taken away files while they were listed.
            continue
    return _listed_segment(store, layout, version, without)


def _listed_segment(store: Store, layout: LogLayout, version: int | None, without: Collection[str]) -> Segment:
    pointer = None if without else read_pointer(store, layout)
    if pointer is not None and (version is None or version >= pointer.version):
        segment = _newest(list_files(store, layout, first=pointer.version, known=version), version)
        # Without a checkpoint in sight the hint is stale; the log may well be whole from its beginning.
        if segment is not None and segment.checkpoint is not None and version in (None, segment.version):
            told = pointer if pointer.version == segment.checkpoint.version else None
            return _contiguous(replace(segment, pointer=told), layout)
    files = list_files(store, layout, known=version)
    segment = _newest(files, version, without)
    if segment is None or version not in (None, segment.version) or _is_before_history(segment, files):
        raise _missing(store, layout, files, version)
    return _contiguous(segment, layout)


def list_files(store: Store, layout: LogLayout, *, first: int = 0, known: int | None = None) -> list[LogEntry]:
    """Every file of the log that belongs to version `first` or a later one, in version order within each kind.

    A version that is known from elsewhere is looked for, whatever the listing shows.
    """
    found: list[LogEntry] = []
    beginning = f"{layout.folder}/"
    for meta in store.list(layout.folder, start_after=layout.prefix(first) if first else None):
        # Versions come first in a listing; pointers and folders begin with a later character.
        if meta.path[len(beginning) : len(beginning) + 1] > "9":
            break
        file = layout.parse(meta)
        if file is not None:
            found.append(file)
    if left_out := _left_out(store, layout, found, first, -1 if known is None else known):
        found = sorted((*found, *left_out), key=lambda file: file.path)
    if layout.states:
        after = f"{beginning}{layout.states}" + (f"{first:0{DIGITS}d}" if first else "")
        found += filter(None, map(layout.parse, store.list(layout.folder, start_after=after)))
    return found


def _left_out(store: Store, layout: LogLayout, listed: Iterable[LogEntry], first: int, known: int) -> list[LogEntry]:
    """Commits that a listing does not show though later ones are known, as it may with those made while it runs."""
    versions = {file.version for file in listed if file.kind is FileKind.COMMIT}
    found: list[LogEntry] = []
    lowest = first + 1 if first else min(versions, default=0)
    absent = (each for each in range(max([known, *versions], default=0), lowest - 1, -1) if each not in versions)
    for version in islice(absent, _LEFT_OUT):
        try:
            file = layout.parse(store.head(layout.commit_path(version)))
        except NotFoundError:
            break  # a real gap: what a clean-up or somebody's hand took away
        if file is not None:
            found.append(file)
    return found


def complete_checkpoints(files: Iterable[LogEntry], without: Collection[str] = ()) -> list[CheckpointFiles]:
    """The checkpoints of which no part is missing, worst first."""
    complete: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, LogEntry]] = {}
    for file in files:
        if file.path in without:
            continue
        if file.kind is FileKind.CHECKPOINT_PART:
            parts.setdefault((file.version, file.parts), {})[file.part] = file
        elif file.kind in CHECKPOINT_KINDS:
            complete.append(CheckpointFiles(file.version, (file,)))
    for (version, total), found in parts.items():
        if len(found) == total and all(part in found for part in range(1, total + 1)):
            complete.append(CheckpointFiles(version, tuple(found[part] for part in range(1, total + 1))))
    return sorted(complete, key=lambda checkpoint: checkpoint._rank)


def readable_versions(files: Sequence[LogEntry]) -> range:
    """The newest version of the log and all before it that can be put together without a gap."""
    commits = {file.version for file in files if file.kind is FileKind.COMMIT}
    checkpoints = {checkpoint.version for checkpoint in complete_checkpoints(files)}
    newest = max(commits | checkpoints, default=-1)
    first = newest + 1
    while first - 1 in commits:
        first -= 1
    # A version can be put together from a checkpoint just before the unbroken commits or among them, or from 0.
    bases = [version for version in checkpoints if version >= first - 1] + ([0] if first == 0 and commits else [])
    return range(min(bases), newest + 1) if bases else range(0)


def _newest(files: Sequence[LogEntry], version: int | None, without: Collection[str] = ()) -> Segment | None:
    """The files that end at the version, or at the newest one, gaps and all; None if there are none up to it."""
    upto = [file for file in files if version is None or file.end <= version]
    commits = [file for file in upto if file.kind is FileKind.COMMIT]
    checkpoints = complete_checkpoints(upto, without)
    checkpoint = checkpoints[-1] if checkpoints else None
    start = -1 if checkpoint is None else checkpoint.version
    tail = tuple(file for file in commits if file.version > start)
    if not tail and checkpoint is None:
        return None
    end = tail[-1].version if tail else start
    return Segment(
        version=end,
        checkpoint=checkpoint,
        commits=tail,
        compactions=tuple(f for f in upto if f.kind is FileKind.COMPACTION and start < f.version < f.end <= end),
        checksums=tuple(f for f in upto if f.kind is FileKind.CHECKSUM and start <= f.version <= end),
        checkpoint_commit=next((file for file in commits if file.version == start), None),
    )


def _is_before_history(segment: Segment, files: Sequence[LogEntry]) -> bool:
    """Whether cleanup has taken what the segment needs: it begins in the middle, and a later checkpoint exists."""
    begins_in_the_middle = segment.checkpoint is None and segment.commits[0].version > 0
    return begins_in_the_middle and any(each.version > segment.version for each in complete_checkpoints(files))


def _contiguous(segment: Segment, layout: LogLayout) -> Segment:
    start = -1 if segment.checkpoint is None else segment.checkpoint.version
    for expected, file in enumerate(segment.commits, start=start + 1):
        if file.version != expected:
            last = file.version - 1
            missing = f"version {expected} is" if last == expected else f"versions {expected} to {last} are"
            base = f"a checkpoint of version {start}" if start >= 0 else "no checkpoint"
            raise MalformedError(
                f"the log is not contiguous: {missing} missing before version {file.version}",
                condition="MALFORMED_LOG",
                sides={
                    "log has": f"{base}, then commits up to version {segment.version}",
                    "missing": layout.commit_path(expected),
                },
                next_step="Restore the missing commit from a backup, or read a version before the gap.",
            )
    return segment


def _missing(store: Store, layout: LogLayout, files: Sequence[LogEntry], version: int | None) -> NotFoundError:
    versions = readable_versions(files)
    if version is None or not files:
        others = [
            f"{folder}/, the log of another format ({name})"
            for name, folder in LOG_FOLDERS.items()
            if folder != layout.folder and any(True for _ in store.list(folder))
        ]
        return NotFoundError(
            f"no log of a table in {store.root}",
            condition="TABLE_NOT_FOUND",
            sides={
                "looked for": f"{layout.folder}/ with a commit or a checkpoint",
                "found": " and ".join(others) or f"{len(files)} other files there",
            },
            next_step="Check the path; it is the folder that holds the log folder.",
        )
    available = f"{versions.start} to {versions[-1]}" if versions else "none"
    return NotFoundError(
        f"version {version} is not in the log of {store.root}",
        condition="VERSION_NOT_FOUND",
        sides={"asked for": str(version), "available": available},
        next_step=f"Ask for a version from {available}." if versions else None,
    )
