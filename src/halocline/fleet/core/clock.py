"""Clocks: milliseconds that never run backwards.

Leases compare durations, so what matters is that a clock keeps running while a process is stopped or a machine sleeps,
and that it is never set back. `SystemClock` counts from a steady clock of the machine and adds the wall time at which
it began: comparable with dates, unmoved when the date is corrected.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Final

LATEST_MS: Final = 253_402_300_799_000
"""The last second of the year 9999: what comes later cannot be shown as a date."""


class Clock(ABC):
    """Where a coordinator or a member takes the time from."""

    @abstractmethod
    def now(self) -> int:
        """Milliseconds since 1970 as of this clock's beginning, never less than before."""

    @abstractmethod
    def wall(self) -> int:
        """Milliseconds since 1970 as the machine's date says, for others to compare theirs with."""

    def anchor(self) -> None:
        """Counts from the machine's date again, which may have been corrected; not while a lease is counted by it."""
        return


class SystemClock(Clock):
    """The machine's clock."""

    def __init__(self) -> None:
        self.anchor()

    def anchor(self) -> None:
        """The date as of now is what counts from now on."""
        self._offset = self.wall() - steady_ms()

    def now(self) -> int:
        """The wall time when this clock was made, plus what has passed since."""
        return self._offset + steady_ms()

    def wall(self) -> int:
        """The machine's date."""
        return time.time_ns() // 1_000_000


class ManualClock(Clock):
    """A clock that moves only when told to, for tests and simulations."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        """What was set."""
        return self._now

    def wall(self) -> int:
        """The same."""
        return self._now

    def advance(self, by: int) -> None:
        """Lets time pass."""
        self._now += max(by, 0)


def steady_ms() -> int:
    """Milliseconds by a clock of the machine that is never set, and goes on while the machine sleeps."""
    # CLOCK_BOOTTIME goes on while the machine sleeps; a lease that survives a nap would be a danger.
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000
