"""Keeping a table's folder small: deleting files that no version within the retention needs.

A file is *needed* while it is live, while a tombstone younger than the retention names it, or while it is younger than
that itself; the same goes for the files of deletion vectors. Everything else below the table is deleted, but for names
that begin with `_` or `.`, which belong to somebody: only change data, and folders of partition columns, count as data.
Versions older than the retention can no longer be read afterwards.

Looking is the default, deleting takes `dry_run=False`. What was deleted, and that it was begun, stands in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.delta import properties
from halocline.formats.delta.action_rules import physical_partition_columns
from halocline.formats.delta.actions import DeletionVector
from halocline.formats.delta.deletion_vectors import file_path
from halocline.formats.delta.locations import locate
from halocline.formats.delta.snapshot import Snapshot
from halocline.formats.delta.transaction import Transaction, system_clock
from halocline.storage.base import ObjectMeta
from halocline.table.opened import Opened

RETENTION: Final = "delta.deletedFileRetentionDuration"
_HOUR_MS: Final = 3_600_000
_OURS: Final = ".halocline-"
_DATA: Final = ("_change_data", "_delta_index")


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum found and did.

    Attributes:
        files: The files that nobody needs, relative to the table.
        bytes: How long they are together.
        deleted: Whether they were deleted.
        cutoff_ms: Nothing younger than this was touched, in milliseconds since the epoch.
        version: The version that the table then had.
    """

    files: tuple[str, ...]
    bytes: int
    deleted: bool
    cutoff_ms: int
    version: int


class Upkeep(Opened):
    """The part of `Table` that keeps its folder small."""

    def vacuum(
        self, retention_hours: float | None = None, dry_run: bool = True, *, enforce_retention: bool = True
    ) -> Vacuumed:
        """Finds, and if asked deletes, the files that no version within the retention needs.

        Args:
            retention_hours: How old a file must be; the table's `delta.deletedFileRetentionDuration` if not given.
            dry_run: Only look.
            enforce_retention: Refuse a shorter time than the table promises. Without it, readers of older versions
                and writers under way may lose files under their feet.

        Raises:
            InputError: The time is shorter than the table promises, or negative.
            IncompatibleError: The release that acts may not write the table, and so may not delete its files.

        Example:
            >>> Table.for_path("lake/orders").vacuum().bytes  # doctest: +SKIP
            1048576
        """
        snapshot = self.snapshot("write.maintenance")
        promised = properties.duration_ms(snapshot.configuration, RETENTION) or 0
        asked = None if retention_hours is None else int(retention_hours * _HOUR_MS)
        _check_retention(asked, promised, enforce_retention)
        cutoff = system_clock() - (promised if asked is None else asked)
        found = sorted(_unneeded(snapshot, cutoff), key=lambda meta: meta.path)
        size = sum(meta.size for meta in found)
        paths = tuple(meta.path for meta in found)
        if dry_run:
            return Vacuumed(paths, size, False, cutoff, snapshot.version)
        parameters = {
            "retentionCheckEnabled": enforce_retention,
            "defaultRetentionMillis": promised,
            **({} if asked is None else {"specifiedRetentionMillis": asked}),
        }
        metrics = {"numFilesToDelete": len(paths), "sizeOfDataToDelete": size}
        Transaction(snapshot).commit([], "VACUUM START", parameters, metrics=metrics)
        try:
            self.store.delete_many(paths)
        except BaseException:
            Transaction(self.snapshot("write.maintenance")).commit([], "VACUUM END", {"status": "FAILED"})
            raise
        folders = len({path.rpartition("/")[0] for path in paths})
        metrics = {"numDeletedFiles": len(paths), "numVacuumedDirectories": folders}
        last = self.snapshot("write.maintenance")
        version = Transaction(last).commit([], "VACUUM END", {"status": "COMPLETED"}, metrics=metrics)
        return Vacuumed(paths, size, True, cutoff, version)


def _check_retention(asked: int | None, promised: int, enforce: bool) -> None:
    if asked is not None and asked < 0:
        raise InputError("files cannot be kept for a negative time", sides={"given": f"{asked / _HOUR_MS} hours"})
    if enforce and asked is not None and asked < promised:
        raise InputError(
            "the table promises to keep removed files for longer",
            condition="RETENTION_TOO_SHORT",
            sides={"asked for": f"{asked / _HOUR_MS} hours", "promised": f"{promised / _HOUR_MS} hours ({RETENTION})"},
            next_step=f"Shorten {RETENTION}, or pass enforce_retention=False if nobody reads or writes older versions.",
        )


def _unneeded(snapshot: Snapshot, cutoff_ms: int) -> Iterator[ObjectMeta]:
    needed = set(_needed(snapshot, cutoff_ms))
    partitions = tuple(f"{name}=" for name in physical_partition_columns(snapshot.metadata))
    partitions += tuple(f"{name}=" for name in snapshot.partition_columns)
    for meta in snapshot.store.list():
        if meta.modified_ms < cutoff_ms and _is_data(meta.path, partitions) and _described(meta.path) not in needed:
            yield meta


def _needed(snapshot: Snapshot, cutoff_ms: int) -> Iterator[str]:
    """The paths, relative to the table, that must stay."""
    live = snapshot.files(columns=["path", "deletion_vector"])
    yield from _paths(snapshot, live, "deletion_vector")
    tombstones = snapshot.tombstones().select(["path", "deletionTimestamp", "deletionVector"])
    young = [(when or 0) >= cutoff_ms for when in tombstones["deletionTimestamp"].to_pylist()]
    yield from _paths(snapshot, tombstones.filter(pa.array(young, pa.bool_())), "deletionVector")


def _paths(snapshot: Snapshot, files: pa.Table, vectors: str) -> Iterator[str]:
    store = snapshot.store
    for path in files["path"].to_pylist():
        holder, inner = locate(store, path)
        if holder is store:
            yield inner
    for vector in files[vectors].to_pylist():
        if vector is None:
            continue
        described = DeletionVector(*(), **dict(zip(_VECTOR, vector.values(), strict=True)))
        if described.storage_type != "i":
            holder, inner = locate(store, file_path(store, described))
            if holder is store:
                yield inner


_VECTOR: Final = ("storage_type", "path_or_inline_dv", "offset", "size_in_bytes", "cardinality")


def _is_data(path: str, partitions: tuple[str, ...]) -> bool:
    """Whether a file is the table's own data, or something that a scan or a Hadoop file system left beside it."""
    *folders, name = path.split("/")
    for folder in folders:
        if folder.startswith(_OURS):
            return True
        if folder.startswith(("_", ".")) and not folder.startswith((*_DATA, *partitions)):
            return False
    if name.startswith("."):
        return name.endswith(".crc")
    return not name.startswith("_") or name.startswith(partitions)


def _described(path: str) -> str:
    """The file that a Hadoop checksum file, `.<name>.crc`, stands beside; any other path itself."""
    folder, slash, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        return f"{folder}{slash}{name[1 : -len('.crc')]}"
    return path
