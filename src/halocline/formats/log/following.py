"""What came after a version that is known, found by the names of its files instead of a listing.

A listing of a local folder costs as much as the folder is long, and a log keeps its commits for a month. Whoever has
opened a table before knows a whole segment, and the names of what follows: the next commits, and the checkpoint that
the pointer names. So a few files are asked for by name, however long the log has grown.

What is asked for last keeps that honest. The pointer is read after the commits: if it names a later version than they
reach, a clean-up has taken some. A clean-up takes commits away from the oldest on, and checkpoints after them: if the
first commit that the segment needs is still there at the end, none behind it was taken meanwhile. If the last known
commit is another file than it was, the table is another one.

Where names do not tell, nothing is found and the log has to be listed: it was cleaned up or made anew, went on by
very many versions, or has a gap. The limit: a gap of more than a few commits, which somebody made by hand behind the
known version, looks like the end of the log until the table is next opened without knowing a version.
"""

from __future__ import annotations

from typing import Final

from halocline.errors import NotFoundError
from halocline.formats.log.names import LogEntry, LogLayout
from halocline.formats.log.pointer import Pointer, read_pointer
from halocline.formats.log.segment import CheckpointFiles, Segment, complete_checkpoints
from halocline.storage.base import Store

_MOST: Final = 100
"""How many new commits, or parts of a checkpoint, are asked for one by one."""
_AHEAD: Final = 4
"""How many commits behind the first absent one are asked for, to notice a gap."""


def following(store: Store, layout: LogLayout, known: Segment, version: int | None = None) -> Segment | None:
    """The segment of the newest version, or of one that is not before the known one.

    Args:
        store: Where the table lies.
        layout: The log folder and its names.
        known: A segment that was found before.
        version: The version; the newest if not given.

    Returns:
        What a listing would find, without compactions that are new; None where only a listing can tell.
    """
    last = known.last_commit
    if last is None or last.etag is None or (version is not None and version < known.version):
        return None
    look = _Look(store, layout)
    fresh: list[LogEntry] = []
    while version is None or known.version + len(fresh) < version:
        entry = look.at(layout.commit_path(known.version + 1 + len(fresh)))
        if entry is None:
            break
        fresh.append(entry)
        if len(fresh) > _MOST:
            return None
    newest = known.version + len(fresh)
    if version is None and any(look.at(layout.commit_path(newest + 1 + each)) for each in range(1, _AHEAD + 1)):
        return None
    if version not in (None, newest):
        return None
    pointer = read_pointer(store, layout)
    if version is None and pointer is not None and pointer.version > newest:
        return None
    found = look.reaching(known, tuple(fresh), newest, pointer)
    return found if found is not None and look.stands(found, last) else None


class _Look:
    """Asks for files of a log by name."""

    def __init__(self, store: Store, layout: LogLayout) -> None:
        self._store = store
        self._layout = layout

    def at(self, path: str) -> LogEntry | None:
        """The file of that name; None if there is none."""
        try:
            return self._layout.parse(self._store.head(path))
        except NotFoundError:
            return None

    def reaching(
        self, known: Segment, fresh: tuple[LogEntry, ...], newest: int, pointer: Pointer | None
    ) -> Segment | None:
        """The known segment with what is new; it begins with the checkpoint of the pointer if that is newer."""
        checkpoint, told = known.checkpoint, known.pointer
        start = -1 if checkpoint is None else checkpoint.version
        if pointer is not None and start < pointer.version <= newest:
            checkpoint, told, start = self._checkpoint(pointer), pointer, pointer.version
            if checkpoint is None:
                return None
        every = tuple(filter(None, (known.checkpoint_commit, *known.commits, *fresh)))
        # The checksum of the known version may have been written since.
        summed = range(known.version + (known.checksum is not None), newest + 1)
        checksums = (*known.checksums, *(self.at(f"{self._layout.prefix(each)}.crc") for each in summed))
        return Segment(
            version=newest,
            checkpoint=checkpoint,
            commits=tuple(each for each in every if each.version > start),
            compactions=tuple(each for each in known.compactions if each.version > start),
            checksums=tuple(each for each in checksums if each is not None and each.version >= start),
            checkpoint_commit=next((each for each in every if each.version == start), None),
            pointer=told,
        )

    def _checkpoint(self, pointer: Pointer) -> CheckpointFiles | None:
        """The checkpoint that the pointer names, if all of it is there."""
        prefix = f"{self._layout.prefix(pointer.version)}.checkpoint"
        if pointer.v2_checkpoint is not None:
            named = pointer.v2_checkpoint.get("path") if isinstance(pointer.v2_checkpoint, dict) else None
            paths = [f"{self._layout.folder}/{named}"] if isinstance(named, str) and "/" not in named else []
        elif pointer.parts is not None:
            parts = range(1, min(pointer.parts, _MOST) + 1)
            paths = [f"{prefix}.{part:010d}.{pointer.parts:010d}.parquet" for part in parts]
        else:
            paths = [f"{prefix}.parquet"]
        files = tuple(filter(None, map(self.at, paths)))
        found = complete_checkpoints(file for file in files if file.version == pointer.version)
        return found[-1] if found else None

    def stands(self, found: Segment, last: LogEntry) -> bool:
        """Whether everything that the segment needs is there after all of it was looked for."""
        checkpoint = found.checkpoint.files if found.checkpoint else ()
        needed = [last, *found.commits[:1], *found.compactions, *checkpoint]
        return all(self.at(each.path) == each for each in needed)
