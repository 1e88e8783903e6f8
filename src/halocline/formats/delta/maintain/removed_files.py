"""What a lite vacuum looks at instead of a listing: the files that commits have removed.

Every file that ever was part of a table and is no longer is named by the commit that removed it; so are its deletion
vector, and files of changes. Commits older than the retention are read, from behind the *mark* that the last vacuum
left, up to the newest that is not younger than the cutoff. The mark is the file `_last_vacuum_info` of the log; Delta
Spark reads and writes the same.

The log says nothing of files that failed writes left behind. Where it no longer holds the commits behind the mark, it
says nothing of the files that those removed either, so a lite vacuum is refused there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from halocline.errors import NotFoundError, UnsupportedError
from halocline.formats.delta.actions.action import decode_commit
from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.locations import Locations, is_absolute
from halocline.formats.delta.log.timestamps import CommitClock
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA, FileKind
from halocline.formats.log.segment import list_files
from halocline.storage.base import ObjectMeta, Store

MARK: Final = f"{DELTA.folder}/_last_vacuum_info"
"""Where the mark lies."""


class _Mark(msgspec.Struct, rename="camel", omit_defaults=True):
    """The version up to which files were vacuumed; none if it is not known."""

    latest_commit_version_outside_of_retention_window: int | None = None


def clock_of(snapshot: Snapshot) -> CommitClock:
    """Tells the times of all commits that the log has, up to the snapshot's."""
    files = [file for file in list_files(snapshot.store, DELTA) if file.version <= snapshot.version]
    return CommitClock(snapshot.store, snapshot.metadata, files)


def removed_files(snapshot: Snapshot, clock: CommitClock, cutoff_ms: int) -> list[ObjectMeta]:
    """The files below the root that commits since the last vacuum have removed before a time, in order of path.

    Whether one is there still, or part of the table again, is not looked at. The time of each is that of its removal.

    Raises:
        UnsupportedError: The log no longer holds all of the commits (`VACUUM_LITE_IMPOSSIBLE`).
    """
    last = clock.newest_until(cutoff_ms)
    if last is None:
        return []
    marked = read_mark(snapshot.store)
    first = 0 if marked is None or marked > snapshot.version else marked + 1
    present = {file.version for file in clock.files if file.kind is FileKind.COMMIT}
    gone = [version for version in range(first, last + 1) if version not in present]
    if gone:
        raise UnsupportedError(
            f"the log of {snapshot.store.root} does not tell all files that were removed since the last vacuum",
            condition="VACUUM_LITE_IMPOSSIBLE",
            sides={"needed": f"commits {first} to {last}", "missing": f"{gone[0]} to {gone[-1]}"},
            next_step="Run a full vacuum once; lite ones go on from there.",
        )
    found: dict[str, ObjectMeta] = {}
    for meta in _named(snapshot.store, range(first, last + 1)):
        before = found.get(meta.path)
        if before is None or before.modified_ms < meta.modified_ms:
            found[meta.path] = meta
    return [found[path] for path in sorted(found) if found[path].modified_ms < cutoff_ms and not is_absolute(path)]


def _named(store: Store, versions: range) -> Iterator[ObjectMeta]:
    """What commits remove, and files of changes, which are nobody's once their commit is old enough."""
    locations = Locations(store.root)
    contents = store.get_many(DELTA.commit_path(version) for version in versions)
    for version, data in zip(versions, contents, strict=True):
        commit = decode_commit(data, f"{version:020}.json")
        for remove in commit.removes:
            when, vector = remove.deletion_timestamp or 0, remove.deletion_vector
            yield ObjectMeta(locations.decode(remove.path), remove.size or 0, when)
            if vector is not None and vector.storage_type != "i":
                yield ObjectMeta(file_path(store, vector), vector.size_in_bytes, when)
        for change in commit.cdcs:
            yield ObjectMeta(locations.decode(change.path), change.size, 0)


def read_mark(store: Store) -> int | None:
    """The version up to which files were vacuumed; None if nothing says so that can be read."""
    try:
        return msgspec.json.decode(store.get(MARK), type=_Mark).latest_commit_version_outside_of_retention_window
    except (NotFoundError, msgspec.MsgspecError):
        return None


def write_mark(store: Store, version: int | None) -> None:
    """Leaves a mark, unless there is one of a later version already."""
    if version is not None and version > (read_mark(store) or -1):
        store.put(MARK, msgspec.json.encode(_Mark(version)))
