"""Vacuum: deleting files below a table that no version within the retention needs.

A file is *needed* if it is live, if it was removed less than the retention ago, or if it holds the deletion vector of
such a file. Of the rest, what is younger than the retention stays as well: it may belong to a commit that is under way.
Change data has no entry in the table's state and goes by age alone.

Hidden names, those that begin with `_` or `.`, are never looked at, but for `_change_data` and folders of a partition
column that is called so. Files outside the table's root are never touched, whoever refers to them.

Deleting history is writing: the gate is the one for writing, whatever the name of the feature says. Keeping less than
the table's own `delta.deletedFileRetentionDuration` breaks readers of older versions and writers that are slow, so it
must be asked for in so many words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import InputError, UnsupportedError
from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.locations import is_absolute
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Clock, Transaction, system_clock
from halocline.formats.delta.configuration import properties
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.snapshot import access
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.base import ObjectMeta

RETENTION: Final = "delta.deletedFileRetentionDuration"
_CHANGE_DATA: Final = "_change_data"


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum found.

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
        return sum(meta.size for meta in self.files)


def vacuum(
    snapshot: Snapshot,
    *,
    retention_ms: int | None = None,
    dry_run: bool = True,
    allow_short_retention: bool = False,
    record: bool = True,
    clock: Clock = system_clock,
) -> Vacuumed:
    """Finds the files that nobody needs and, unless it is a dry run, deletes them.

    Args:
        snapshot: The newest version of the table.
        retention_ms: How long removed files are kept; the table's own setting if not given.
        dry_run: Whether to delete nothing and only tell what would go.
        allow_short_retention: Whether the retention may be shorter than the table's own.
        record: Whether the log records the beginning and the end.
        clock: Tells the present.

    Raises:
        InputError: The retention is shorter than the table's and that was not allowed (`RETENTION_TOO_SHORT`).
        IncompatibleError: The release may not write the table.
        UnsupportedError: A catalog decides about the table's files.
    """
    table = snapshot.store.root
    access.check_access(snapshot.release, snapshot.protocol, snapshot.metadata, access.MAINTENANCE, table)
    if snapshot.protocol.supports("catalogManaged"):
        raise UnsupportedError(
            f"{table} is managed by a catalog, which alone knows what may be deleted",
            sides={"table": str(snapshot.protocol), "needed": "a table without catalogManaged"},
        )
    configured = properties.duration_ms(snapshot.configuration, RETENTION) or 0
    kept_for = configured if retention_ms is None else retention_ms
    if kept_for < configured and not allow_short_retention:
        raise InputError(
            f"keeping removed files for {_hours(kept_for)} is less than {table} promises",
            condition="RETENTION_TOO_SHORT",
            sides={"asked for": _hours(kept_for), "table": f"{RETENTION}, {_hours(configured)}"},
            next_step="Keep them longer, or allow a short retention if nobody reads or writes the table.",
        )
    cutoff = clock() - kept_for
    unneeded = tuple(_unneeded(snapshot, cutoff))
    found = Vacuumed(unneeded, cutoff, deleted=not dry_run)
    if dry_run:
        return found
    return _delete(snapshot, found, configured, retention_ms, allow_short_retention, record, clock)


def _delete(
    snapshot: Snapshot,
    found: Vacuumed,
    configured: int,
    retention_ms: int | None,
    allow_short_retention: bool,
    record: bool,
    clock: Clock,
) -> Vacuumed:
    store = snapshot.store
    if record:
        parameters: dict[str, Any] = {"retentionCheckEnabled": not allow_short_retention}
        parameters["defaultRetentionMillis"] = configured
        if retention_ms is not None:
            parameters["specifiedRetentionMillis"] = retention_ms
        metrics = {"numFilesToDelete": len(found.files), "sizeOfDataToDelete": found.bytes}
        _note(snapshot, "VACUUM START", parameters, metrics, clock)
    # Somebody may have brought an old file back since the snapshot was taken.
    back = set(_needed(_newest(snapshot), found.cutoff_ms))
    found = replace(found, files=tuple(meta for meta in found.files if meta.path not in back))
    try:
        store.delete_many(meta.path for meta in found.files)
    except Exception:
        if record:
            _note(snapshot, "VACUUM END", {"status": "FAILED"}, None, clock)
        raise
    if record:
        folders = {meta.path.rpartition("/")[0] for meta in found.files}
        metrics = {"numDeletedFiles": len(found.files), "numVacuumedDirectories": len(folders)}
        _note(snapshot, "VACUUM END", {"status": "COMPLETED"}, metrics, clock)
    return found


def _newest(snapshot: Snapshot) -> Snapshot:
    return Snapshot.load(snapshot.store, release=snapshot.release, operation=access.WRITE)


def _note(
    snapshot: Snapshot, operation: str, parameters: dict[str, Any], metrics: dict[str, int] | None, clock: Clock
) -> None:
    Transaction(_newest(snapshot), clock=clock).commit([], CommitDescription(operation, parameters, metrics))


# ---------------------------------------------------------------------- what is needed


def _unneeded(snapshot: Snapshot, cutoff_ms: int) -> Iterator[ObjectMeta]:
    needed = set(_needed(snapshot, cutoff_ms))
    partitions = tuple(f"{name}=" for name in snapshot.partition_columns)
    for meta in snapshot.store.list():
        if meta.modified_ms < cutoff_ms and meta.path not in needed and not is_hidden(meta.path, partitions):
            yield meta


def is_hidden(path: str, partitions: tuple[str, ...] = ()) -> bool:
    """Whether a path is not the table's data.

    Args:
        path: A path below the table's root.
        partitions: How folders of partition columns begin, such as `day=`.

    Example:
        >>> is_hidden("_delta_log/0.json"), is_hidden("_change_data/cdc-1.parquet"), is_hidden("day=1/a.parquet")
        (True, False, False)
    """
    for segment in path.split("/"):
        if segment.startswith(("_", ".")) and segment != _CHANGE_DATA and not segment.startswith(partitions or "/"):
            return True
    return False


def _needed(snapshot: Snapshot, cutoff_ms: int) -> Iterator[str]:
    """Paths below the root of files that are live or were removed after the cutoff, and of their vectors."""
    live = snapshot.files(columns=["path", "deletion_vector"])
    dead = snapshot.tombstones()
    recent = dead.filter(pc.greater_equal(pc.fill_null(dead["deletionTimestamp"], 0), cutoff_ms))
    vectors = {*vectors_in(live["deletion_vector"]), *_descriptors(recent["deletionVector"])}
    files = {file_path(snapshot.store, vector) for vector in vectors if vector and vector.storage_type != "i"}
    # A root is written with escapes, and paths in the log are decoded; either spelling means the same folder.
    roots = (f"{snapshot.store.root}/", f"{unquote(snapshot.store.root)}/")
    for path in (*live["path"].to_pylist(), *recent["path"].to_pylist(), *files):
        if not is_absolute(path):
            yield path
        else:
            yield from (path[len(root) :] for root in roots if path.startswith(root))


def _descriptors(column: pa.ChunkedArray) -> Iterator[DeletionVector | None]:
    names = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
    fields = ("storage_type", "path_or_inline_dv", "offset", "size_in_bytes", "cardinality")
    for row in column.to_pylist():
        yield None if row is None else DeletionVector(**dict(zip(fields, (row[name] for name in names), strict=True)))


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / 3_600_000:g} h"
