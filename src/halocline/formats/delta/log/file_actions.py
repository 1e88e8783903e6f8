"""Actions made from rows of a file list: a live file to be added again, changed, or removed.

Paths go back into the log exactly as the log had them. Clients compare them as text: a remove that spells its path
otherwise than the add leaves the file live for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from halocline.formats.delta.actions.action import Add, DeletionVector, Remove
from halocline.formats.delta.log.live_files import ALL


def adds_from(files: Any, *, data_change: bool) -> Iterator[Add]:
    """The adds that would put these files into the table as they are."""
    for row in _rows(files):
        yield Add(
            path=row["log_path"],
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            modification_time=row["modification_time"],
            data_change=data_change,
            stats=row["stats"],
            tags=_map(row["tags"]),
            deletion_vector=_vector(row),
            base_row_id=row["base_row_id"],
            default_row_commit_version=row["default_row_commit_version"],
            clustering_provider=row["clustering_provider"],
        )


def removes_from(files: Any, *, timestamp_ms: int, data_change: bool) -> Iterator[Remove]:
    """The removes that take these files out of the table."""
    for row in _rows(files):
        yield Remove(
            path=row["log_path"],
            deletion_timestamp=timestamp_ms,
            data_change=data_change,
            extended_file_metadata=True,
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            tags=_map(row["tags"]),
            deletion_vector=_vector(row),
            base_row_id=row["base_row_id"],
            default_row_commit_version=row["default_row_commit_version"],
        )


def _rows(files: Any) -> Iterator[dict[str, Any]]:
    batches = [files] if not hasattr(files, "to_batches") else files.select(ALL.names).to_batches(max_chunksize=8192)
    for batch in batches:
        yield from batch.to_pylist()


def _map(pairs: Any) -> dict[str, str | None] | None:
    return None if pairs is None else dict(pairs)


def _vector(row: dict[str, Any]) -> DeletionVector | None:
    stored = row["deletion_vector"]
    return None if stored is None else DeletionVector(**stored)
