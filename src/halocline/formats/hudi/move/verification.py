"""Before the flip: the table as its next version will show it, against the table as it is.

The same files in the same slices, read by the same rule and schema, give the same rows, so only slices that differ in
one of these are read. That makes the check as small as the timeline, whatever the size of the data. `content` reads
everything and is for whoever wants to see it with their own eyes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from halocline.errors import ConflictError
from halocline.formats.hudi.move.survey import same_rows
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot


@dataclass(frozen=True, slots=True)
class TableContent:
    """What a table holds.

    Attributes:
        rows: How many rows.
        digest: A digest of all rows, whatever their order.
    """

    rows: int
    digest: str


def content(snapshot: HudiSnapshot) -> TableContent:
    """Reads all rows of a table, and sums them up."""
    rows, total = 0, 0
    for batch in snapshot.read():
        for row in batch.to_pylist():
            rows += 1
            total += int.from_bytes(hashlib.blake2b(repr(sorted(row.items())).encode(), digest_size=16).digest())
    return TableContent(rows, f"{total % (1 << 128):032x}")


def verify(before: HudiSnapshot, after: HudiSnapshot) -> None:
    """Compares a table with what it will be.

    Raises:
        ConflictError: They differ; nothing has been flipped.
    """
    _same(before, "completed writes", *({each.time for each in one.timeline.writes} for one in (before, after)))
    _same(before, "pending instants", before.timeline.pending, after.timeline.pending)
    _same(before, "columns", before.schema.columns, after.schema.columns)
    old, new = ({(each.partition, each.file_id): each for each in one.slices} for one in (before, after))
    _same(before, "file groups", set(old), set(new))
    _same(before, "files", *({key: _files(each) for key, each in one.items()} for one in (old, new)))
    with_logs = [key for key, each in old.items() if each.logs]
    if not with_logs:
        return
    now, later = before.reader(), after.reader()
    if now.rule != later.rule:
        for key in with_logs:
            _same(before, f"rows of file group {key[1]}", True, same_rows(before.store, old[key], now, later))


def _files(slice: FileSlice) -> tuple[str | None, tuple[str, ...]]:
    return slice.base.path if slice.base else None, tuple(each.path for each in slice.logs)


def _same(snapshot: HudiSnapshot, subject: str, before: object, after: object) -> None:
    if before != after:
        raise ConflictError(
            f"{subject} of {snapshot.store.root} would not be the same after the move",
            condition="MOVE_UNVERIFIED",
            sides={"before": str(before)[:300], "after": str(after)[:300]},
            next_step="Nothing has been flipped. See that no other writer is at work, then try again.",
        )
