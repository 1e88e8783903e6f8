"""Going back: a new version with the rows, the columns and the properties of an older one.

Files that the older version had and the newest lacks are added again, the others are removed; no data is written. The
protocol never shrinks, since versions in between may still be read. Numbers that must not be given out twice stay where
they are: marks of identity columns, ids of columns and rows, and the protection of old checkpoints.

A version whose files were vacuumed cannot be restored. It is refused before anything is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import InputError
from halocline.formats.delta import identity, properties
from halocline.formats.delta.actions import Action, DeletionVector, DomainMetadata
from halocline.formats.delta.deletion_vectors import file_path
from halocline.formats.delta.file_actions import adds_from, removes_from
from halocline.formats.delta.locations import locate
from halocline.formats.delta.metadata_rules import MAX_ID
from halocline.formats.delta.snapshot import Snapshot
from halocline.formats.delta.table_state import TableState
from halocline.formats.delta.transaction import Transaction, system_clock
from halocline.spark.footers import at_once
from halocline.table.admission import admit, state_of
from halocline.table.opened import Moment, Opened

CLUSTERING: Final = "delta.clustering"
"""The domain that holds the clustering columns."""

_KEPT_PREFIXES: Final = (
    "delta.rowTracking",
    "delta.enableRowTracking",
    "delta.requireCheckpointProtectionBeforeVersion",
)
_MOST_SHOWN: Final = 5
_LIST_FROM: Final = 200


@dataclass(frozen=True, slots=True)
class Restored:
    """What going back did.

    Attributes:
        version: The version that the table then had.
        restored_files: How many files came back.
        removed_files: How many went.
        restored_bytes: The length of those that came back.
        removed_bytes: The length of those that went.
        files: How many files the table then had.
        bytes: How long they are together.
    """

    version: int
    restored_files: int
    removed_files: int
    restored_bytes: int
    removed_bytes: int
    files: int
    bytes: int

    @property
    def metrics(self) -> dict[str, int]:
        """The same under the names that commits use."""
        return {
            "tableSizeAfterRestore": self.bytes,
            "numOfFilesAfterRestore": self.files,
            "numRemovedFiles": self.removed_files,
            "numRestoredFiles": self.restored_files,
            "removedFilesSize": self.removed_bytes,
            "restoredFilesSize": self.restored_bytes,
        }


class Restoring(Opened):
    """The part of `Table` that goes back."""

    def restore(self, version: int | None = None, *, timestamp: Moment | None = None) -> Restored:
        """Makes the table what it was at a version or time, as a new version.

        Args:
            version: The version to go back to.
            timestamp: A time; the version that held then.

        Raises:
            NotFoundError: There is no such version, or some of its files are gone.
            InputError: Neither is given, or the table only takes new rows.
            ConflictError: Somebody else changed the table meanwhile.

        Example:
            >>> Table.for_path("lake/orders").restore(12).restored_files  # doctest: +SKIP
            3
        """
        if (version is None) == (timestamp is None):
            raise InputError("give a version or a timestamp to go back to", sides={"version": str(version)})
        current = self.snapshot("write")
        target = self.snapshot(version=version, timestamp=timestamp)
        transaction = Transaction(current)
        here, there = transaction.files(), target.files()
        coming, going = _without(there, here), _without(here, there)
        size = pc.sum(there["size"]).as_py() or 0
        restored = Restored(current.version, len(coming), len(going), _bytes(coming), _bytes(going), len(there), size)
        if target.version == current.version:
            return restored
        _check_files(target, coming)
        state = _state(current, target)
        admit(self.url, current.protocol, state)
        actions: list[Action] = [
            *state.actions,
            *_clustering(current, target),
            *adds_from(coming, data_change=True),
            *removes_from(going, timestamp_ms=system_clock(), data_change=True),
        ]
        parameters = {"version": version, "timestamp": None if timestamp is None else str(timestamp)}
        committed = transaction.commit(actions, "RESTORE", parameters, metrics=restored.metrics)
        return replace(restored, version=committed)


def _state(current: Snapshot, target: Snapshot) -> TableState:
    before = state_of(current)
    metadata = identity.with_furthest_marks(target.metadata, current.metadata)
    kept = _followed(metadata.configuration, current.configuration)
    metadata = replace(metadata, id=current.metadata.id, created_time=current.metadata.created_time, configuration=kept)
    return TableState(metadata, current.protocol.merged(target.protocol), before=before)


def _followed(target: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """The older properties, but for what must not go back."""
    kept = {key: value for key, value in target.items() if not key.startswith(_KEPT_PREFIXES)}
    kept |= {key: value for key, value in current.items() if key.startswith(_KEPT_PREFIXES)}
    if MAX_ID in kept:
        ids = (properties.count(each, MAX_ID) or 0 for each in (target, current))
        kept[MAX_ID] = str(max(ids))
    return kept


def _clustering(current: Snapshot, target: Snapshot) -> list[DomainMetadata]:
    if not current.protocol.supports("clustering"):
        return []
    before, after = current.domains.get(CLUSTERING), target.domains.get(CLUSTERING)
    if before == after:
        return []
    return [after or DomainMetadata(CLUSTERING, '{"clusteringColumns":[],"domainName":"delta.clustering"}')]


def _without(files: pa.Table, others: pa.Table) -> pa.Table:
    """The files of one list that are not in another; a file with another deletion vector is another one."""
    return files.filter(pc.invert(pc.is_in(_keys(files), _keys(others).combine_chunks())))


def _keys(files: pa.Table) -> Any:
    vectors = files["deletion_vector"]
    parts = [pc.struct_field(vectors, name) for name in ("storage_type", "path_or_inline_dv", "offset")]
    texts = [pc.fill_null(part.cast(pa.string()), "") for part in parts]
    return pc.binary_join_element_wise(files["path"], *texts, "\0")


def _bytes(files: pa.Table) -> int:
    return pc.sum(files["size"]).as_py() or 0


def _check_files(target: Snapshot, files: pa.Table) -> None:
    """Makes sure that every file to be added again is still there, and its deletion vector as well.

    Raises:
        InputError: Some are gone (`DATA_FILES_MISSING`).
    """
    paths = set(files["path"].to_pylist())
    for vector in files["deletion_vector"].to_pylist():
        if vector is not None and vector["storage_type"] != "i":
            paths.add(file_path(target.store, DeletionVector(**vector)))
    listed: set[str] = set()
    if len(paths) > _LIST_FROM:
        listed = {meta.path for meta in target.store.list()}

    def is_there(path: str) -> bool:
        holder, inner = locate(target.store, path)
        return (holder is target.store and inner in listed) or holder.exists(inner)

    wanted = sorted(paths)
    gone = [path for path, found in zip(wanted, at_once(is_there, wanted), strict=True) if not found]
    if gone:
        raise InputError(
            f"version {target.version} of {target.store.root} cannot be restored: {len(gone)} of its files are gone",
            condition="DATA_FILES_MISSING",
            sides={"needed": f"{len(wanted)} files that later versions removed", "gone": ", ".join(gone[:_MOST_SHOWN])},
            next_step="Restore a later version, or bring the files back from a backup.",
        )
