"""Files of deletion vectors that the table's own log no longer names once the feature is gone.

A tombstone of a data file with a vector protects the vector's file from being vacuumed, but only from clients that know
vectors. Others see a file in the table's folder that nobody names, and delete it, and with it the way back to older
versions. So each such file gets a tombstone of its own while it is within retention.
"""

from __future__ import annotations

from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.locations import is_absolute
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.snapshot.snapshot import Snapshot


def untold_vector_files(snapshot: Snapshot, now_ms: int) -> list[str]:
    """Decoded paths of vector files within retention that have no tombstone of their own, in order.

    A file outside of the table's root is none of them: no vacuum of this table finds it.
    """
    oldest = now_ms - snapshot.properties.deleted_file_retention_ms
    dead = snapshot.tombstones()
    times, vectors = dead["deletion_timestamp"].to_pylist(), list(vectors_in(dead["deletion_vector"]))
    told = {path for path, vector in zip(dead["path"].to_pylist(), vectors, strict=True) if vector is None}
    files = {
        file_path(snapshot.store, vector)
        for time, vector in zip(times, vectors, strict=True)
        if vector is not None and vector.storage_type != "i" and (time or 0) > oldest
    }
    return sorted(path for path in files - told if not is_absolute(path))
