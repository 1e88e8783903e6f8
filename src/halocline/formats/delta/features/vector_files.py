"""Files of deletion vectors that the table's own log no longer names once the feature is gone.

A tombstone of a data file with a vector protects the vector's file from being vacuumed, but only from clients that know
vectors. Others see a file in the table's folder that nobody names, and delete it, and with it the way back to older
versions. So each such file gets a tombstone of its own while it is within retention.
"""

from __future__ import annotations

from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.locations import is_absolute
from halocline.formats.delta.snapshot.snapshot import Snapshot


def untold_vector_files(snapshot: Snapshot, now_ms: int) -> list[str]:
    """Decoded paths of vector files within retention that have no tombstone of their own, in order."""
    retention = snapshot.properties.deleted_file_retention_ms
    tombstones = snapshot.tombstones().select(["path", "deletionTimestamp", "deletionVector"]).to_pylist()
    told = {row["path"] for row in tombstones if row["deletionVector"] is None}
    found = set()
    for row in tombstones:
        stored = row["deletionVector"]
        kept = (row["deletionTimestamp"] or 0) + retention > now_ms
        if stored is not None and kept and stored["storageType"] != "i":
            path = _below_root(snapshot, _vector(stored))
            if path is not None:
                found.add(path)
    return sorted(found - told)


def _vector(stored: dict[str, object]) -> DeletionVector:
    offset = stored["offset"]
    return DeletionVector(
        storage_type=str(stored["storageType"]),
        path_or_inline_dv=str(stored["pathOrInlineDv"]),
        offset=offset if isinstance(offset, int) else None,
        size_in_bytes=0,
        cardinality=0,
    )


def _below_root(snapshot: Snapshot, vector: DeletionVector) -> str | None:
    """The path below the table; None for a file elsewhere, which no vacuum of this table finds."""
    path = file_path(snapshot.store, vector)
    return None if is_absolute(path) else path
