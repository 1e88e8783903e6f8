"""Readers that read a table after every storage step of a move, and what they saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from halocline.storage.base import Store
from tests.support.faulty_store import WRITES, FaultyStore


@dataclass
class WatchingReader:
    """A reader, and what it must see.

    Attributes:
        name: What to call it.
        read: Reads all rows, sorted.
        expected: The rows.
        also: What it may see as well until it has seen the rows once; None if nothing.
        stops: Whether it may fail from now on, because it does not know the version that the table has.
    """

    name: str
    read: Callable[[], Sequence[Any]]
    expected: Sequence[Any]
    also: Sequence[Any] | None = None
    stops: Callable[[], bool] = lambda: False
    seen: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def look(self, step: str) -> None:
        """Reads, and counts what came of it: right, empty, partial, failed, or refused where it may be."""
        try:
            found = self.read()
        except BaseException as error:  # a panic of a library is no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            outcome, told = ("refused", "") if self.stops() else ("failed", f"{error}"[:200])
        else:
            self.also = None if found == self.expected else self.also
            right = found == self.expected or (self.also is not None and found == self.also)
            outcome = "right" if right else "empty" if not found else "partial"
            told = f"{len(found)} rows of {len(self.expected)}"
        self.seen[outcome] += 1
        if outcome not in ("right", "refused"):
            self.problems.append(f"{self.name} {outcome} after {step}: {told}")


class WatchedStore(FaultyStore):
    """A store that has readers read the table after every write."""

    def __init__(self, inner: Store, readers: Sequence[WatchingReader]) -> None:
        super().__init__(inner)
        self.readers = readers
        self.steps = 0

    def _do(self, name, path, action, torn=None):
        result = super()._do(name, path, action, torn)
        if name in WRITES:
            self.steps += 1
            for each in self.readers:
                each.look(f"{name} {path}")
        return result

    @property
    def problems(self) -> list[str]:
        return [problem for each in self.readers for problem in each.problems]
