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
        yield Add(**_shared(row, Add), data_change=data_change)


def removes_from(files: Any, *, timestamp_ms: int, data_change: bool) -> Iterator[Remove]:
    """The removes that take these files out of the table."""
    told: dict[str, Any] = {"deletion_timestamp": timestamp_ms, "data_change": data_change, "stats": None}
    for row in _rows(files):
        yield Remove(**_shared(row, Remove) | told, extended_file_metadata=True)


def _rows(files: Any) -> Iterator[dict[str, Any]]:
    batches = [files] if not hasattr(files, "to_batches") else files.select(ALL.names).to_batches(max_chunksize=8192)
    for batch in batches:
        yield from batch.to_pylist()


def _shared(row: dict[str, Any], kind: type[Add | Remove]) -> dict[str, Any]:
    """What a row of a file list says of a file, by the fields of an action."""
    maps = {"partition_values": dict(row["partition_values"] or ()), "tags": row["tags"] and dict(row["tags"])}
    vector = row["deletion_vector"] and DeletionVector(**row["deletion_vector"])
    told = row | maps | {"path": row["log_path"], "deletion_vector": vector}
    return {name: told[name] for name in kind.__struct_fields__ if name in told}
