"""How much a table holds: files, bytes and deleted rows, counted once and then kept up to date.

A *table size* counts the live files of one version. That of the next version is the same plus what the commit moves, as
long as that is *exact*: every removed file tells its size, and every added one is new. Commits that add files again,
to attach ids or statistics, are not exact, and neither are commits whose adds look like that; whoever counts on from
there must count from the beginning.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.actions import operations
from halocline.formats.delta.actions.action import Add, Commit, Remove

_KB: Final = 1024
_MB: Final = 1024 * _KB
_GB: Final = 1024 * _MB


def _steps(first: int, last: int, step: int) -> list[int]:
    return list(range(first * _MB, last * _MB + 1, step * _MB))


BOUNDARIES: Final = (
    0,
    *(8 * _KB << power for power in range(10)),
    *_steps(8, 40, 4),
    *_steps(48, 120, 8),
    *_steps(124, 144, 4),
    *_steps(160, 576, 16),
    *_steps(640, 1408, 64),
    *_steps(1536, 2048, 128),
    *_steps(2304, 4096, 256),
    *(8 * _GB << power for power in range(6)),
)
"""Where the bins of the histogram of file sizes begin, as Delta defines them."""


def moved_files(commit: Commit) -> list[tuple[int, int | None, int]] | None:
    """Size, deleted rows and 1 of each file that a commit adds, -1 of each that it removes; None if that is not exact.

    The deleted rows are None without a deletion vector.
    """
    adds, removes = commit.adds, commit.removes
    operation = commit.commit_info.operation if commit.commit_info else None
    again = operation in operations.ADDS_AGAIN or (not removes and any(not each.data_change for each in adds))
    phantom = operation in operations.REMOVES_NOTHING_LIVE and bool(removes)
    if (again and adds) or phantom or any(each.size is None for each in removes):
        return None
    signed: list[tuple[Add | Remove, int]] = [*((add, 1) for add in adds), *((remove, -1) for remove in removes)]
    return [
        (file.size or 0, file.deletion_vector.cardinality if file.deletion_vector else None, sign)
        for file, sign in signed
    ]


@dataclass(frozen=True)
class Histogram:
    """Files by size.

    Attributes:
        counts: How many files fall into each bin of `BOUNDARIES`.
        totals: How long the files of each bin are together.
    """

    counts: tuple[int, ...] = (0,) * len(BOUNDARIES)
    totals: tuple[int, ...] = (0,) * len(BOUNDARIES)

    def plus(self, sizes: Iterable[tuple[int, int]]) -> Histogram:
        """The histogram with files moved: pairs of a size and how many came, or went if negative."""
        counts, totals = list(self.counts), list(self.totals)
        for size, times in sizes:
            index = bin_of(size)
            counts[index] += times
            totals[index] += times * size
        return Histogram(tuple(counts), tuple(totals))

    def to_json(self) -> dict[str, Any]:
        """As version checksums write it."""
        return {
            "sortedBinBoundaries": list(BOUNDARIES),
            "fileCounts": list(self.counts),
            "totalBytes": list(self.totals),
        }

    @staticmethod
    def from_json(content: object) -> Histogram | None:
        """Out of a version checksum; None if there is none, or one with other bins."""
        if not isinstance(content, Mapping) or content.get("sortedBinBoundaries") != list(BOUNDARIES):
            return None
        counts, totals = content.get("fileCounts"), content.get("totalBytes")
        if not (_is_whole(counts) and _is_whole(totals)):
            return None
        return Histogram(tuple(counts), tuple(totals))  # type: ignore[arg-type]


@dataclass(frozen=True)
class TableSize:
    """The live files of one version, counted.

    Attributes:
        files: How many files there are.
        bytes: How long they are together.
        vectors: How many have a deletion vector; None if that was never counted.
        deleted: How many rows those vectors delete; None if that was never counted.
        histogram: Files by size; None if they were never sorted.
    """

    files: int = 0
    bytes: int = 0
    vectors: int | None = 0
    deleted: int | None = 0
    histogram: Histogram | None = Histogram()

    def after(self, commit: Commit) -> TableSize | None:
        """The size of the next version; None if the commit does not lead to it exactly."""
        moved = moved_files(commit)
        if moved is None:
            return None
        after = TableSize(
            files=self.files + sum(sign for _, _, sign in moved),
            bytes=self.bytes + sum(sign * size for size, _, sign in moved),
            vectors=None if self.vectors is None else self.vectors + sum(s for _, r, s in moved if r is not None),
            deleted=None if self.deleted is None else self.deleted + sum(s * (r or 0) for _, r, s in moved),
            histogram=self.histogram and self.histogram.plus((size, sign) for size, _, sign in moved),
        )
        return None if after._is_impossible else after

    @property
    def _is_impossible(self) -> bool:
        bins = () if self.histogram is None else (*self.histogram.counts, *self.histogram.totals)
        return min(self.files, self.bytes, self.vectors or 0, self.deleted or 0, *bins) < 0

    def with_files(self, sizes: pa.Array, deleted: pa.Array) -> TableSize:
        """The size with more files, given as columns: their sizes and their deleted rows, null without a vector."""
        by_size = [(entry["values"], entry["counts"]) for entry in pc.value_counts(sizes).to_pylist()]
        return TableSize(
            files=self.files + len(sizes),
            bytes=self.bytes + (pc.sum(sizes).as_py() or 0),
            vectors=None if self.vectors is None else self.vectors + len(deleted) - deleted.null_count,
            deleted=None if self.deleted is None else self.deleted + (pc.sum(deleted).as_py() or 0),
            histogram=self.histogram and self.histogram.plus(by_size),
        )


def bin_of(size: int) -> int:
    """The bin of `BOUNDARIES` that a file of that size falls into."""
    return bisect_right(BOUNDARIES, size) - 1


def _is_whole(values: object) -> bool:
    return isinstance(values, list) and len(values) == len(BOUNDARIES) and all(type(each) is int for each in values)
