"""Small file groups: those that take new rows, so that a table does not grow by a file for every write.

As in Apache Hudi, a base file below a limit takes rows until it is as large as files are meant to be. How many rows
that is, the last large write tells; a row is taken for a kibibyte if there was none. In a merge-on-read table it is the
smallest group of each partition, if it has no log files: its base file is written anew, since indexes look for keys in
base files. Groups that a table service is about to merge take nothing.

The limit: a table that logs changes has its new rows in new groups.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.timeline import HudiTimeline

FULL: Final = 120 * 1024 * 1024
"""How large base files are meant to be."""

_ROW: Final = 1024
"""How large a row is taken for, while no write was large enough to tell."""


def room_in_groups(
    snapshot: HudiSnapshot,
    slices: Sequence[FileSlice],
    limit: int,
    rows_per_group: int,
    taken: Collection[tuple[str, str]] = (),
) -> dict[str, list[tuple[int, int]]]:
    """Which slices of a list take new rows, and how many, by partition; the smallest first.

    Args:
        snapshot: The table.
        slices: The slices.
        limit: Below how many bytes a base file is small; none is at 0.
        rows_per_group: The most rows of a file group.
        taken: Partitions and ids of groups that a table service is about to merge.
    """
    if not limit or snapshot.config.change_logging is not None:
        return {}
    merging, row = snapshot.config.type is TableType.MERGE_ON_READ, row_size(snapshot.timeline, limit)
    sized = sorted((each.base.size, number) for number, each in enumerate(slices) if each.base and not each.logs)
    found: dict[str, list[tuple[int, int]]] = {}
    for size, number in sized:
        slice = slices[number]
        rows = min((FULL - size) // row, rows_per_group - size // row)
        is_taken = (slice.partition, slice.file_id) in taken or (merging and slice.partition in found)
        if size >= limit or rows < 1 or is_taken:
            continue
        found.setdefault(slice.partition, []).append((number, rows))
    return found


def row_size(timeline: HudiTimeline, enough: int) -> int:
    """How many bytes of a base file a row takes: what the last write says that wrote enough of them."""
    for instant in reversed(timeline.writes):
        stats = [each for _, each in timeline.commit_metadata(instant).stats if each.log_version is None]
        written, rows = sum(each.total_write_bytes or 0 for each in stats), sum(each.num_writes or 0 for each in stats)
        if written > enough and rows:
            return max(1, written // rows)
    return _ROW
