"""What must be true of every read: the rows that each version of a table is known to hold.

Writers note what they committed under the version that has it. A version that nobody noted changed no rows. A read is
right if the number of rows and their sum are those of the version it read; it can be judged once every version up to it
is known to be noted, so reads are kept and judged at the end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock


@dataclass(frozen=True, slots=True)
class Read:
    """What one read saw.

    Attributes:
        reader: Who read.
        table: Which table.
        version: Which version of it.
        count: How many rows.
        total: The sum of their amounts.
        at: When, in seconds since the ledger was opened.
    """

    reader: str
    table: str
    version: int
    count: int
    total: int
    at: float


@dataclass(frozen=True, slots=True)
class StateChange:
    """Something that happened to a pipeline or a table, for the picture at the end.

    Attributes:
        at: When, in seconds since the ledger was opened.
        name: The pipeline or the table.
        state: What it is from then on, e.g. `hudi@0.15.0` or `table version 8`.
    """

    at: float
    name: str
    state: str


@dataclass
class Ledger:
    """Counts and sums by table and version, every read, and what happened when."""

    reads: list[Read] = field(default_factory=list)
    writes: int = 0
    retried: int = 0
    failed: list[str] = field(default_factory=list)
    events: list[StateChange] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _changes: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def now(self) -> float:
        """Seconds since the ledger was opened."""
        return time.monotonic() - self._began

    def wrote(self, table: str, version: int, count: int, total: int) -> None:
        """A version has so many rows more, and so much more in sum; both may be negative."""
        with self._lock:
            versions = self._changes.setdefault(table, {})
            if version in versions:
                self.failed.append(f"{table}: version {version} was committed twice")
            versions[version] = (count, total)
            self.writes += 1

    def saw(self, reader: str, table: str, version: int, count: int, total: int) -> None:
        """A version was read."""
        with self._lock:
            self.reads.append(Read(reader, table, version, count, total, self.now))

    def failure(self, name: str, error: BaseException | str) -> None:
        """Something went wrong that should not."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        with self._lock:
            self.failed.append(f"{self.now:.0f} s, {name}: {text}")

    def lost_race(self) -> None:
        """Another writer was first, and the same is tried again."""
        with self._lock:
            self.retried += 1

    def became(self, name: str, state: str) -> None:
        """A pipeline or a table is something else from now on."""
        with self._lock:
            self.events.append(StateChange(self.now, name, state))

    def expected(self, table: str, version: int) -> tuple[int, int]:
        """The rows of a version, and the sum of their amounts."""
        with self._lock:
            held = [change for at, change in self._changes.get(table, {}).items() if at <= version]
        return sum(count for count, _ in held), sum(total for _, total in held)

    def wrong(self) -> list[Read]:
        """The reads that saw anything but the rows of their version."""
        with self._lock:
            reads = list(self.reads)
        return [each for each in reads if (each.count, each.total) != self.expected(each.table, each.version)]

    def line(self) -> str:
        """Where things stand, in one line."""
        return f"{len(self.reads):,} reads, {self.writes:,} writes, {len(self.failed):,} failed"
