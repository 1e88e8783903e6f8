"""What happens to a fleet: messages of members, commands of operators, and the passing of time.

An `Event` is one of these together with the time at which the coordinator takes it up, by the coordinator's own clock.
The core has no other clock, so a log of events replays to the same state. Times inside a message are the sender's; they
are sent back to it and never compared with the coordinator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from halocline.fleet.core.ladder import Ladder
from halocline.fleet.core.ladder_state import Policy, View
from halocline.fleet.core.state import FleetTerms, LevelRange, MemberKey, Provenance, Report, TableUse


@dataclass(frozen=True, slots=True)
class Join:
    """A member wants to be admitted. Sending it again with the same report and credential is harmless.

    Args:
        views: Per ladder, what this life has heard already.
    """

    report: Report
    sent: int
    credential: str = ""
    views: Mapping[str, View] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A member is alive.

    Args:
        seq: Grows with every heartbeat of that life.
        views: Per ladder, the oldest view that any of its operations still acts under.
        tables: The tables it uses now; None if they are as before.
    """

    identity: str
    incarnation: int
    seq: int
    sent: int
    views: Mapping[str, View] = field(default_factory=dict)
    tables: frozenset[TableUse] | None = None

    @property
    def key(self) -> MemberKey:
        """Which member this is."""
        return MemberKey(self.identity, self.incarnation)


@dataclass(frozen=True, slots=True)
class Leave:
    """A member has stopped acting and goes."""

    identity: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: leases and holds end, downgrades advance, levels settle and rise.

    Args:
        sweep: Whether to forget, too, what no longer counts; often enough if now and then.
    """

    sweep: bool = False


@dataclass(frozen=True, slots=True)
class TakeOver:
    """This coordinator takes over. The fleet it takes over is the one in its state, just read from the store.

    Args:
        belief: For how long a former coordinator may go on renewing leases, relying on its lease on the store.
        mark: This coordinator's own, which none had before it.
        seal_key: For a fleet that has none yet.
    """

    belief: int = 0
    mark: str = ""
    seal_key: str = field(default="", repr=False)


class Command:
    """What an operator or an observer, the `actor`, asks for; `action` names it in the audit log."""

    __slots__ = ()
    action: ClassVar[str]
    actor: str

    def by(self, actor: str) -> Self:
        """The same, asked for by another."""
        return replace(self, actor=actor)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Once:
    """A command that is not done again if it arrives again, because its sender did not hear what became of it.

    Args:
        key: The sender's own; the same for the same command.
        digest: Tells the command from another that comes under the same key.
    """

    key: str
    digest: str
    command: Command


@dataclass(frozen=True, slots=True)
class Raise(Command):
    """Raises a level; with `force` and a reason over the heads of members that do not speak, never of those that do."""

    action = "raise"
    ladder: str
    level: int
    actor: str
    reason: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True)
class SetPolicy(Command):
    """Decides whether a level rises by itself."""

    action = "policy"
    ladder: str
    policy: Policy
    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlaceHold(Command):
    """Keeps a level from rising; without `level`, above where it stands now."""

    action = "hold"
    ladder: str
    name: str
    reason: str
    actor: str
    level: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class ReleaseHold(Command):
    """Ends a hold."""

    action = "release"
    ladder: str
    name: str
    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StartDowngrade(Command):
    """Closes the gates above `target` and waits for every member to follow."""

    action = "downgrade"
    ladder: str
    target: int
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class DowngradeStep(Command):
    """Takes a downgrade further that is under way, or back."""

    action = "downgrade"
    ladder: str
    actor: str
    reason: str = ""


class CleanDowngrade(DowngradeStep):
    """Passes the point of no return: data is rewritten for the lower level."""


class FinishDowngrade(DowngradeStep):
    """Lets the level fall, everything having been cleaned."""


class CancelDowngrade(DowngradeStep):
    """Opens the gates again."""


@dataclass(frozen=True, slots=True)
class DeclareLadder(Command):
    """Adds a ladder, which begins at `level` or its lowest rung, or rungs on top of one."""

    action = "declare"
    ladder: Ladder
    actor: str
    level: int | None = None
    policy: Policy = Policy.MANUAL


@dataclass(frozen=True, slots=True)
class Observe(Command):
    """A member that does not speak was declared, or was seen using tables.

    Args:
        actor: An operator, or the observer of a table's history.
        seen: When it was seen; None for a declaration.
        supported: The ranges that its release is known to support.
        unlisted: Whether an operator says that its release exists, though it is newer than those that are known.
    """

    action = "observe"
    identity: str
    release: str
    provenance: Provenance
    actor: str
    seen: int | None = None
    supported: Mapping[str, LevelRange] = field(default_factory=dict)
    tables: frozenset[TableUse] = frozenset()
    role: str = "reader"
    unlisted: bool = False


@dataclass(frozen=True, slots=True)
class RemoveMember(Command):
    """Takes a member out.

    One that speaks counts until its lease has run out, because it may still be acting. With `force` the operator
    vouches that it is not.
    """

    action = "remove"
    identity: str
    actor: str
    reason: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class MoveTable(Command):
    """A table's migration is done, and from now on it requires this level."""

    action = "table"
    table: str
    ladder: str
    level: int
    actor: str


@dataclass(frozen=True, slots=True)
class SetTerms(Command):
    """Changes what the fleet agrees on."""

    action = "terms"
    terms: FleetTerms
    actor: str
    reason: str = ""


Message = Join | Heartbeat | Leave
"""What members send."""

Cause = Message | Command | Once | Tick | TakeOver


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens, and when the coordinator takes it up."""

    at: int
    cause: Cause
