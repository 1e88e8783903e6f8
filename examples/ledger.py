"""What must be true of every read: the rows that each version of the table is known to hold.

Writers note what they committed under the version that has it. A version nobody noted changed no rows. A read is right
if the number of rows and their sum are those of the version it read; it can be judged once every version up to it is
known to be noted, so reads are kept and judged at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock


def amount(id: int) -> int:
    """The amount of an order, in cents; the same formula in Python and in Spark."""
    return id * 7919 % 10_000


AMOUNT_SQL = "id * 7919 % 10000"


@dataclass(frozen=True)
class Read:
    """What one read saw."""

    who: str
    version: int
    count: int
    total: int


@dataclass
class Ledger:
    """Counts and sums by version, and every read."""

    reads: list[Read] = field(default_factory=list)
    writes: int = 0
    deletes: int = 0
    marked: int = 0
    retried: int = 0
    failed: list[str] = field(default_factory=list)
    batches: dict[int, range] = field(default_factory=dict)
    _changes: dict[int, tuple[int, int]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def wrote(self, version: int, batch: int, ids: range) -> None:
        """A version added these rows."""
        with self._lock:
            self._note(version, len(ids), sum(map(amount, ids)))
            self.batches[batch] = ids
            self.writes += 1

    def deleted(self, version: int, ids: Iterable[int], *, marked: bool) -> None:
        """A version took these rows away."""
        gone = list(ids)
        with self._lock:
            self._note(version, -len(gone), -sum(map(amount, gone)))
            self.deletes += 1
            self.marked += marked

    def saw(self, read: Read) -> None:
        """Somebody read a version."""
        with self._lock:
            self.reads.append(read)

    def refailed(self, who: str, error: BaseException) -> None:
        """Something went wrong that should not."""
        with self._lock:
            self.failed.append(f"{who}: {type(error).__name__}: {error}")

    def again(self) -> None:
        """Somebody else was first, and the same is tried again."""
        with self._lock:
            self.retried += 1

    def _note(self, version: int, count: int, total: int) -> None:
        had = self._changes.get(version)
        assert had is None, f"version {version} was committed twice"
        self._changes[version] = (count, total)

    def truth(self, version: int) -> tuple[int, int]:
        """The rows of a version, and their sum."""
        with self._lock:
            held = [change for at, change in self._changes.items() if at <= version]
        return sum(count for count, _ in held), sum(total for _, total in held)

    def wrong(self) -> list[Read]:
        """The reads that saw anything but the rows of their version."""
        return [read for read in self.reads if (read.count, read.total) != self.truth(read.version)]

    def line(self) -> str:
        """Where things stand, in one line."""
        return (
            f"{len(self.reads)} reads, {self.writes} appends, {self.deletes} deletes"
            f" ({self.marked} by marking rows), {len(self.failed)} failed"
        )
