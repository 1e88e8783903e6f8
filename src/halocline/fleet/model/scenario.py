"""Scenarios: which small fleet is explored, and what may happen to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from halocline.fleet.core import events
from halocline.fleet.core.events import Command
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.state import LevelRange

LADDER: Final = "ladder"
TABLE: Final = "table"
NAMES: Final = ("a", "b", "c", "d")
"""Members; at most four can be explored."""

OLD: Final = LevelRange(1, 1)
NEW: Final = LevelRange(1, 2)
NEWER: Final = LevelRange(1, 3)
NEWEST: Final = LevelRange(2, 2)
"""What the binaries support."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A small fleet.

    Args:
        margin: In ticks; also by how much a clock may fall behind.
        lag: Whether clocks fall behind.
        late_allowance: Whether a clock may lose the margin twice: until the answer arrives, and again afterwards.
        take_over: Whether another coordinator takes over, while the former one may go on.
        belief: For how many ticks a coordinator that was replaced goes on renewing leases without asking the store.
        suspends: Whether it counts them by a clock that stands still while the machine does.
        writes: Whether it may take time until what is decided is written, while heartbeats arrive.
        stalls: Whether a process with an operation in flight may stall until its lease is over, and then go on.
        fenced: Whether a table refuses the commit of an operation that began before the table was raised or lowered.
        late_news: Whether what is pushed to a member may be overtaken by what is pushed later.
        zombies: Whether a process may go on after its successor was started.
        strays: Whether what a life sent may arrive when the next one has begun.
        lives: How many former lives, of all members together, may be registered when one starts again.
        revisions: Commands are given up to this revision of the ladder, so that there is an end.
        restores: Whether the store, and the table with it, may be put back once to what they were before the first
            command, after all leases are over and with another coordinator.
        silent: Whether a client that never speaks, and whose release is unknown, reads the table with the old binary.
    """

    name: str
    summary: str
    members: int = 2
    lease: int = 2
    margin: int = 1
    level: int = 1
    policy: Policy = Policy.AUTO
    binaries: tuple[LevelRange, ...] = (OLD, NEW)
    lag: bool = False
    late_allowance: bool = False
    take_over: bool = False
    belief: int = 0
    suspends: bool = False
    writes: bool = False
    leave: bool = False
    operations: bool = False
    stalls: bool = False
    fenced: bool = True
    late_news: bool = False
    zombies: bool = False
    strays: bool = False
    lives: int = 0
    commands: tuple[Command, ...] = ()
    revisions: int = 99
    silent: bool = False
    restores: bool = False


_DOWNGRADE: Final = (
    events.StartDowngrade(LADDER, 1, "operator", "a bad release"),
    events.CancelDowngrade(LADDER, "operator"),
    events.CleanDowngrade(LADDER, "operator"),
    events.FinishDowngrade(LADDER, "operator"),
)

ROLL: Final = Scenario(
    "roll",
    "binaries are rolled up and back while processes crash, messages are lost or late, clocks fall behind and "
    "coordinators replace each other",
    lag=True,
    take_over=True,
)
BRIEF: Final = replace(ROLL, lease=1, margin=0, lag=False, take_over=False)
"""The shortest lease there is, for scenarios that are about something else than time."""

LEASE: Final = replace(
    BRIEF,
    name="lease",
    summary="a coordinator that was replaced, because the database's clock was set, relies on its lease and goes on",
    take_over=True,
    belief=2,
)
WRITING: Final = replace(
    BRIEF,
    name="writing",
    summary="heartbeats arrive while something is being written, and coordinators replace each other before or after",
    take_over=True,
    writes=True,
)
LIVES: Final = replace(
    BRIEF,
    name="lives",
    summary="members leave, and start again while a former life is registered and may still act",
    leave=True,
    zombies=True,
    lives=1,
)
REMOVED: Final = replace(
    BRIEF,
    name="removed",
    summary="an operator removes a member that may still act",
    commands=(events.RemoveMember("a", "operator", "gone"),),
)
STRAYS: Final = replace(
    BRIEF, name="strays", summary="what a former life sent arrives in a later one", strays=True, leave=True
)
DOWN: Final = replace(
    BRIEF,
    name="down",
    summary="a downgrade is started, cancelled and finished while members come and go with operations in flight",
    level=2,
    policy=Policy.MANUAL,
    operations=True,
    commands=_DOWNGRADE,
    revisions=2,
)
HANDOVER: Final = replace(
    DOWN,
    name="handover",
    summary="coordinators replace each other during a downgrade",
    margin=1,
    operations=False,
    take_over=True,
)
NARROW: Final = replace(
    DOWN,
    name="narrow",
    summary="a binary that no longer supports the lower level comes and goes during a downgrade",
    operations=False,
    binaries=(NEW, NEWEST),
)
CLIMB: Final = replace(
    DOWN,
    name="climb",
    summary="a downgrade of a ladder whose level rises by itself",
    operations=False,
    policy=Policy.AUTO,
)
NEWS: Final = replace(
    DOWN,
    name="news",
    summary="news overtake each other during a downgrade",
    operations=False,
    late_news=True,
    commands=tuple(each for each in _DOWNGRADE if not isinstance(each, events.CancelDowngrade)),
)
HELD: Final = replace(
    BRIEF,
    name="held",
    summary="a hold is placed and released while the level may rise and coordinators replace each other",
    take_over=True,
    commands=(
        events.PlaceHold(LADDER, "freeze", "year-end close", "operator"),
        events.ReleaseHold(LADDER, "freeze", "operator"),
        events.Raise(LADDER, 2, "operator"),
    ),
)
SILENT: Final = replace(
    BRIEF,
    name="silent",
    summary="a client that never speaks, and runs an unknown release, reads the table",
    silent=True,
)
RESTORED: Final = replace(
    BRIEF,
    name="restored",
    summary="the store is put back to an earlier state, and members come back that know what it has lost",
    policy=Policy.MANUAL,
    binaries=(NEW, NEWER),
    commands=(events.Raise(LADDER, 2, "operator"), events.Raise(LADDER, 3, "operator")),
    restores=True,
)
STALL: Final = replace(
    BRIEF,
    name="stall",
    summary="a writer stalls until its lease is over and then goes on; the table's own commit stops it",
    operations=True,
    stalls=True,
)

SCENARIOS: Final = {
    each.name: each
    for each in (
        *(ROLL, LEASE, WRITING, LIVES, REMOVED, DOWN, NARROW, CLIMB, HANDOVER, NEWS, HELD, SILENT, STALL),
        *(RESTORED, STRAYS),
    )
}
"""The shipped ones, by name."""

LARGE: Final = frozenset({RESTORED.name, STRAYS.name})
"""Those that are too large to be seen through within a minute."""
