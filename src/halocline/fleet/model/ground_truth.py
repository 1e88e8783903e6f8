"""What can be looked at when asking whether a fleet is safe.

The coordinator's state is only what it believes. A `GroundTruth` has what really is: the processes with the binaries
they run and their own clocks, the clients that never call, the formats of the tables, and the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from halocline.fleet.core.effects import Effect
from halocline.fleet.core.events import Event
from halocline.fleet.core.ladder_state import UNHEARD
from halocline.fleet.core.member_step import MemberState, snapshot
from halocline.fleet.core.state import Fleet, LevelRange, State
from halocline.fleet.core.step import step


@dataclass(frozen=True, slots=True)
class CoordinatorStep:
    """One step of a coordinator."""

    before: State
    event: Event
    after: State
    effects: tuple[Effect, ...]

    @staticmethod
    def of(before: State, event: Event) -> CoordinatorStep:
        """The step that the design takes."""
        return CoordinatorStep(before, event, *step(before, event))


@dataclass(frozen=True, slots=True)
class MemberStep:
    """One step of a member."""

    before: MemberState
    after: MemberState


@dataclass(frozen=True, slots=True)
class Process:
    """A process that runs.

    Args:
        runs: What its binary really supports, whatever it reported.
        stalled: Whether an operation in flight has asked, was granted, and will act although the lease is over.
    """

    member: MemberState
    runs: Mapping[str, LevelRange]
    now: int
    stalled: bool = False

    @property
    def active(self) -> bool:
        """Whether it may touch tables."""
        return self.member.active(self.now)

    @property
    def touches(self) -> bool:
        """Whether it can touch tables, allowed or not."""
        return self.stalled or self.active

    def acting(self, ladder: str) -> int:
        """The highest level that it can act under now, in a new operation or one in flight; 0 for none."""
        if not self.touches:
            return 0
        snapshots = (snapshot(self.member, self.now), *self.member.operations.values())
        return max(each.levels.get(ladder, UNHEARD).level for each in snapshots)

    def lowest(self, ladder: str) -> int:
        """The lowest level that it may act under now."""
        views = [each.levels.get(ladder, UNHEARD).level for each in self.member.operations.values()]
        heard = self.member.heard.get(ladder)
        return min([*views, heard.limit if heard else 0])


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Everything there is at one instant.

    Args:
        silent: What clients support that use tables and never speak.
        formats: The level that each table really requires, by (table, ladder).
        used: The highest level per ladder that any process has acted under since the last downgrade.
    """

    now: int
    store: Fleet
    coordinator: State
    processes: tuple[Process, ...] = ()
    silent: tuple[Mapping[str, LevelRange], ...] = ()
    formats: Mapping[tuple[str, str], int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)

    def acting(self) -> list[tuple[str, Mapping[str, LevelRange]]]:
        """The processes that can touch tables now, and what each really supports."""
        speaking = [(str(each.member.report.key), each.runs) for each in self.processes if each.touches]
        return speaking + [(f"silent {number}", runs) for number, runs in enumerate(self.silent, 1)]


@dataclass(frozen=True, slots=True)
class Log:
    """The events that led from one state to another."""

    initial: State
    events: tuple[Event, ...]
    final: State


@dataclass(frozen=True, slots=True)
class Reach:
    """Whether a level can be reached without an operator, from a state where nothing should be in its way."""

    ladder: str
    level: int
    reached: bool
    described: str
