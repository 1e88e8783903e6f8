"""Vacuum: deleting files below a table that no version within the retention needs.

A file is *needed* if it is live, if it was removed less than the retention ago, or if it holds the deletion vector of
such a file. Of the rest, what is younger than the retention stays as well: it may belong to a commit that is under way.
Change data has no entry in the table's state and goes by age alone.

What the log names and what a listing shows are compared by where they lie, not by how they are spelt. If a live file is
not found in the listing all the same, nothing is deleted and the file is named: either the table is damaged already, or
its log spells files in a way that would make others look unneeded.

Only the table's own files are looked at. Hidden names, those that begin with `_` or `.`, are left out, but for
`_change_data`, folders of a partition column that is called so, and what Spark had begun in the folder of a write that
was killed; so is the folder `metadata`, in which Iceberg's metadata of the same table lies. Symbolic links are neither
followed nor deleted. A folder with a log of its own is another table and stays whole. Files outside the table's root
are never touched, whoever refers to them.

A *lite* vacuum does not list the folder. It deletes the unneeded ones among the files that commits have removed; see
`halocline.formats.delta.maintain.removed_files`.

Deleting history is writing: the gate is the one for writing, whatever the name of the feature says. Keeping less than
the table's own `delta.deletedFileRetentionDuration` breaks readers of older versions and writers that are slow, so it
must be asked for in so many words.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import HaloclineError, InputError, NotFoundError, UnsupportedError, shortened
from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.locations import is_absolute
from halocline.formats.delta.actions.operations import VACUUM_END, VACUUM_START
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Clock, Transaction, system_clock
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.log.timestamps import CommitClock
from halocline.formats.delta.maintain.removed_files import clock_of, removed_files, write_mark
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log import gate
from halocline.formats.log.names import DELTA, LOG_FOLDERS
from halocline.progress import working
from halocline.storage.base import ObjectMeta
from halocline.storage.location import Location

RETENTION: Final = "delta.deletedFileRetentionDuration"
_CHANGE_DATA: Final = "_change_data"
_ICEBERG: Final = "metadata/"
_BEGUN: Final = re.compile(r"(?<=[0-9a-f]{32}/)_temporary/\d+/(_temporary/)?")
"""Where Spark keeps what tasks write until a write is whole, in the folder that each write of ours has."""
_OTHER_LOGS: Final = frozenset(LOG_FOLDERS.values()) - {DELTA.folder}


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum found.

    Attributes:
        files: The files that nobody needs, in order of path.
        cutoff_ms: The time before which they were last written.
        deleted: Whether they were deleted; False for a dry run.
        last_version: The newest version that is not younger than that time; None if all are.
    """

    files: tuple[ObjectMeta, ...]
    cutoff_ms: int
    deleted: bool
    last_version: int | None = None

    @property
    def bytes(self) -> int:
        """How long the files are together."""
        return sum(meta.size for meta in self.files)

    def __str__(self) -> str:
        done = "deleted" if self.deleted else "to be deleted, by dry_run=False"
        return f"{len(self.files):,} files of {self.bytes:,} bytes {done if self.files else 'are without use'}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


def vacuum(
    snapshot: Snapshot,
    *,
    retention_ms: int | None = None,
    dry_run: bool = True,
    allow_short_retention: bool = False,
    lite: bool = False,
    clock: Clock = system_clock,
) -> Vacuumed:
    """Finds the files that nobody needs and, unless it is a dry run, deletes them.

    Args:
        snapshot: The newest version of the table.
        retention_ms: How long removed files are kept; the table's own setting if not given.
        dry_run: Whether to delete nothing and only tell what would go.
        allow_short_retention: Whether the retention may be shorter than the table's own.
        lite: Whether to look only at files that commits have removed.
        clock: Tells the present.

    Raises:
        InputError: The retention is shorter than the table's and that was not allowed (`RETENTION_TOO_SHORT`).
        IncompatibleError: The release may not write the table.
        NotFoundError: A live file is not where the log says (`DATA_FILES_MISSING`); nothing was deleted.
        UnsupportedError: A catalog decides about the table's files, a table of another format lies there, too, or the
            log no longer tells what a lite vacuum has to know (`VACUUM_LITE_IMPOSSIBLE`).
    """
    table = snapshot.store.root
    gate.check_access(snapshot.release, snapshot.configuration.terms, gate.MAINTENANCE, table)
    if snapshot.protocol.supports("catalogManaged"):
        raise UnsupportedError(
            f"{table} is managed by a catalog, which alone knows what may be deleted",
            sides={"table": str(snapshot.protocol), "needed": "a table without catalogManaged"},
        )
    configured = snapshot.properties.deleted_file_retention_ms
    kept_for = configured if retention_ms is None else retention_ms
    if kept_for < configured and not allow_short_retention:
        raise InputError(
            f"keeping removed files for {_hours(kept_for)} is less than {table} promises",
            condition="RETENTION_TOO_SHORT",
            sides={"asked for": _hours(kept_for), "table": f"{RETENTION}, {_hours(configured)}"},
            next_step="Keep them longer, or allow a short retention if nobody reads or writes the table.",
        )
    cutoff = clock() - kept_for
    with working(f"vacuum {table}") as tell:
        tell("looking at its log" if lite else "looking at its files")
        commits = clock_of(snapshot)
        old, links = _removed(snapshot, commits, cutoff) if lite else _listed(snapshot, cutoff)
        needed = _needed(snapshot, cutoff, links)
        unneeded = tuple(meta for meta in old if meta.path not in needed)
        found = Vacuumed(unneeded, cutoff, not dry_run, commits.newest_until(cutoff))
        if dry_run:
            return found
        parameters: dict[str, Any] = {"retentionCheckEnabled": not allow_short_retention}
        parameters["defaultRetentionMillis"] = configured
        if retention_ms is not None:
            parameters["specifiedRetentionMillis"] = retention_ms
        tell(f"deleting {len(unneeded):,} files, {found.bytes:,} bytes")
        return _delete(snapshot.reopened(gate.WRITE), found, links, parameters, clock)


def _delete(
    snapshot: Snapshot, found: Vacuumed, links: Collection[str], parameters: dict[str, Any], clock: Clock
) -> Vacuumed:
    """Deletes what was found, with notes in the log before and after."""
    metrics = {"numFilesToDelete": len(found.files), "sizeOfDataToDelete": found.bytes}
    _note(snapshot, VACUUM_START, parameters, metrics, clock)
    # Somebody may have brought an old file back since the snapshot was taken.
    back = _needed(snapshot.again(), found.cutoff_ms, links)
    found = replace(found, files=tuple(meta for meta in found.files if meta.path not in back))
    try:
        snapshot.store.delete_many(meta.path for meta in found.files)
    except Exception:
        _note(snapshot, VACUUM_END, {"status": "FAILED"}, None, clock)
        raise
    snapshot.store.sweep(clock())
    folders = {meta.path.rpartition("/")[0] for meta in found.files}
    metrics = {"numDeletedFiles": len(found.files), "numVacuumedDirectories": len(folders)}
    _note(snapshot, VACUUM_END, {"status": "COMPLETED"}, metrics, clock)
    # The files are gone whether or not that can be noted; without the mark, the next lite vacuum looks at more.
    with contextlib.suppress(HaloclineError):
        write_mark(snapshot.store, found.last_version)
    return found


def _note(
    snapshot: Snapshot, operation: str, parameters: dict[str, Any], metrics: dict[str, int] | None, clock: Clock
) -> None:
    Transaction(snapshot.again(), clock=clock).commit([], CommitDescription(operation, parameters, metrics))


# ---------------------------------------------------------------------- what is needed


def _removed(snapshot: Snapshot, clock: CommitClock, cutoff_ms: int) -> tuple[list[ObjectMeta], set[str]]:
    """The table's files below its root that commits have removed before the cutoff, and the symbolic links there."""
    store, partitions = snapshot.store, tuple(f"{name}=" for name in snapshot.partition_columns)
    removed = removed_files(snapshot, clock, cutoff_ms)
    # Links are on local disks only, where a listing costs little.
    is_local = Location.parse(store.root).is_local
    links = {meta.path for meta in store.list(follow_links=False) if meta.is_link} if is_local else set[str]()
    kept = (meta for meta in removed if not is_hidden(meta.path, partitions))
    return [meta for meta in kept if not _leads_through(meta.path, links)], links


def _listed(snapshot: Snapshot, cutoff_ms: int) -> tuple[list[ObjectMeta], set[str]]:
    """The table's files below its root that were last written before the cutoff, and the symbolic links there.

    Makes sure on the way that every live file is there.
    """
    store, partitions = snapshot.store, tuple(f"{name}=" for name in snapshot.partition_columns)
    old: list[ObjectMeta] = []
    links, tables, missing = set[str](), set[str](), set(_live(snapshot))
    for meta in store.list(follow_links=False):
        missing.discard(meta.path)
        if meta.is_link:
            links.add(meta.path)
        if (table := _table_around(meta.path)) is not None:
            tables.add(table)
        elif meta.modified_ms < cutoff_ms and not meta.is_link and not is_hidden(meta.path, partitions):
            old.append(meta)
    if "" in tables:
        raise UnsupportedError(
            f"{store.root} is also a table of another format, whose files cannot be told from unneeded ones",
            sides={"found": ", ".join(LOG_FOLDERS.values()), "needed": f"{DELTA.folder} alone"},
            next_step="Clean up with the tools of the format that writes the table.",
        )
    gone = sorted(name for name in missing if not (_leads_through(name, links) and store.exists(name)))
    if gone:
        raise NotFoundError(
            f"nothing of {store.root} is deleted while {len(gone)} of its live files are not where its log says",
            condition="DATA_FILES_MISSING",
            sides={"log": shortened(gone), "folder": "no such files"},
            next_step="Bring the files back from a backup, restore a version without them, or delete the rows in them.",
        )
    return [meta for meta in old if not _leads_through(meta.path, tables)], links


def _table_around(path: str) -> str | None:
    """The folder that a file of a log makes a table; None for the table itself and for other files."""
    segments = path.split("/")
    for depth, segment in enumerate(segments):
        if segment in _OTHER_LOGS or (depth and segment == DELTA.folder):
            return "/".join(segments[:depth])
    return None


def _leads_through(path: str, folders: Collection[str]) -> bool:
    """Whether a path, or a folder above it, is among some."""
    while path and folders:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


def is_hidden(path: str, partitions: tuple[str, ...] = ()) -> bool:
    """Whether a path is not the table's data; what Spark has begun to write in a folder of ours is."""
    if path.startswith(_ICEBERG):
        return True
    path = _BEGUN.sub("", path)
    return any(
        segment.startswith(("_", ".")) and segment != _CHANGE_DATA and not segment.startswith(partitions or "/")
        for segment in path.split("/")
    )


def _needed(snapshot: Snapshot, cutoff_ms: int, links: Collection[str]) -> set[str]:
    """Names below the root of files that are live or were removed after the cutoff, and of their vectors."""
    dead = snapshot.tombstones()
    recent = dead.filter(pc.greater_equal(pc.fill_null(dead["deletion_timestamp"], 0), cutoff_ms))
    needed = {*_live(snapshot), *_below(snapshot, recent["path"], vectors_in(recent["deletion_vector"]))}
    linked = [path for path in needed if _leads_through(path, links)]
    root = Location.parse(snapshot.store.root).real()
    real = (Location.parse(snapshot.store.address(path)).real().below(root) for path in linked)
    return needed | {path for path in real if path is not None}


def _live(snapshot: Snapshot) -> Iterator[str]:
    files = snapshot.files(columns=["path", "deletion_vector"])
    return _below(snapshot, files["path"], vectors_in(files["deletion_vector"]))


def _below(snapshot: Snapshot, paths: pa.ChunkedArray, vectors: Iterable[DeletionVector | None]) -> Iterator[str]:
    """The data files and vector files that lie below the root."""
    stored = {vector for vector in vectors if vector is not None and vector.storage_type != "i"}
    for path in (*paths.to_pylist(), *(file_path(snapshot.store, vector) for vector in stored)):
        if not is_absolute(path):
            yield path


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / 3_600_000:g} h"
