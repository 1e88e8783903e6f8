"""The member's half of the protocol as one pure function.

A member joins, sends heartbeats, and asks its gates. It counts its lease from the time it *sent* what was answered, by
its own clock, so its lease is over before the coordinator considers it over. While the lease runs the member is
*active* and its gates are open up to the level it has heard. It hears nothing before it was admitted, and forgets
everything when an incarnation ends.

An operation begins by taking one `LevelSnapshot` and asks only that. The member reports the oldest snapshot in use, so
that the fleet knows when no member acts under an older level. Before it commits, an operation must ask `may_commit`:
its incarnation must still be the same, and the lease must be running. A process that stalls after asking is beyond the
reach of any lease; the table's own commit stops it.

Without a lease, after losing the fleet or before finding it, a member has a closed snapshot: it may do what the table's
protocol allows any client, and nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from halocline.fleet.core.effects import Admit, Announce, Refusal, Refuse, Renew, Reply
from halocline.fleet.core.events import Heartbeat, Join, Leave, Message
from halocline.fleet.core.ladder_state import UNHEARD, Announcement, View
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.core.state import LevelRange, Report, TableUse


class Status(StrEnum):
    """Where a member is with its fleet."""

    OUTSIDE = "outside"
    JOINING = "joining"
    JOINED = "joined"


@dataclass(frozen=True, slots=True)
class LevelSnapshot:
    """What one operation may use, fixed when it began."""

    levels: Mapping[str, View] = field(default_factory=dict)

    def gate(self, ladder: str, level: int) -> bool:
        """Whether the operation may use that level."""
        return level <= self.levels.get(ladder, UNHEARD).level

    def level(self, ladder: str) -> int | None:
        """The level that the operation may use up to; None if the ladder is closed."""
        view = self.levels.get(ladder)
        return None if view is None else view.level


@dataclass(frozen=True, slots=True)
class MemberState:
    """What a member knows.

    Args:
        until: When its lease ends, by its own clock; None if it has none.
        heard: The newest announcement per ladder.
        operations: The snapshots of the operations in flight, by name.
    """

    report: Report
    status: Status = Status.OUTSIDE
    until: int | None = None
    seq: int = 0
    heard: Mapping[str, Announcement] = field(default_factory=dict)
    operations: Mapping[str, LevelSnapshot] = field(default_factory=dict)
    refusal: Refusal | None = None

    def active(self, now: int) -> bool:
        """Whether it may touch tables as a member of the fleet."""
        return self.status is Status.JOINED and self.until is not None and now < self.until


@dataclass(frozen=True, slots=True)
class AskToJoin:
    """Send a join; the same incarnation again if there was no answer, a higher one after a refusal or a restart."""

    now: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Beat:
    """Send a heartbeat, with the tables in use if they have changed."""

    now: int
    tables: frozenset[TableUse] | None = None


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Stop acting and leave."""

    now: int


@dataclass(frozen=True, slots=True)
class Hear:
    """Something arrived from a coordinator."""

    now: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Begin:
    """An operation begins and takes its snapshot."""

    now: int
    operation: str


@dataclass(frozen=True, slots=True)
class End:
    """An operation has ended, one way or the other."""

    operation: str


MemberEvent = AskToJoin | Beat | Goodbye | Hear | Begin | End


def member_step(
    state: MemberState, event: MemberEvent, rules: FleetRules = RULES
) -> tuple[MemberState, tuple[Message, ...]]:
    """What follows for a member, and what it sends.

    Example:
        >>> state = MemberState(Report("etl", 0, "deltalake@1.6.6", supported={"delta": LevelRange(1, 3)}))
        >>> state, sent = member_step(state, AskToJoin(now=10, incarnation=1))
        >>> admitted = Admit("etl", 1, sent=10, epoch=1, lease=5, announcements=(Announcement("delta", 4, 3, 3),))
        >>> state, _ = member_step(state, Hear(12, admitted))
        >>> state.until, snapshot(state, 14).gate("delta", 3), snapshot(state, 15).gate("delta", 3)
        (15, True, False)
    """
    match event:
        case AskToJoin() if event.incarnation > state.report.incarnation or _asks_again(state, event):
            report = replace(state.report, incarnation=event.incarnation)
            return MemberState(report, Status.JOINING), (Join(report, event.now),)
        case AskToJoin() if state.status is Status.JOINED and event.incarnation == state.report.incarnation:
            # Another coordinator may not know this life yet, or not what it has heard.
            heard = {ladder: each.view for ladder, each in state.heard.items()}
            return state, (Join(state.report, event.now, views=heard),)
        case Beat() if state.status is Status.JOINED:
            after = replace(state, seq=state.seq + 1)
            return after, (_heartbeat(after, event, rules),)
        case Goodbye() if state.status is not Status.OUTSIDE:
            return _outside(state, None), (Leave(state.report.identity, state.report.incarnation),)
        case Hear():
            return _heard(state, event.now, event.reply, rules), ()
        case Begin() if state.active(event.now):
            begun = {**state.operations, event.operation: snapshot(state, event.now)}
            return replace(state, operations=begun), ()
        case End():
            left = {name: each for name, each in state.operations.items() if name != event.operation}
            return replace(state, operations=left), ()
        case _:
            return state, ()


def snapshot(state: MemberState, now: int) -> LevelSnapshot:
    """What an operation that begins now may use. Take one per operation and ask nothing else."""
    if not state.active(now):
        return LevelSnapshot()
    supported = state.report.supported
    return LevelSnapshot({name: each.view for name, each in state.heard.items() if _usable(each, supported.get(name))})


def may_commit(state: MemberState, operation: str, now: int) -> bool:
    """Whether an operation that began under a snapshot may still make its change visible."""
    return operation in state.operations and state.active(now)


def _asks_again(state: MemberState, event: AskToJoin) -> bool:
    return state.status is Status.JOINING and event.incarnation == state.report.incarnation


def _usable(announcement: Announcement, supported: LevelRange | None) -> bool:
    return supported is not None and announcement.limit in supported


def _heartbeat(state: MemberState, event: Beat, rules: FleetRules) -> Heartbeat:
    views = {
        ladder: rules.in_use(
            each.view, (begun.levels[ladder] for begun in state.operations.values() if ladder in begun.levels)
        )
        for ladder, each in state.heard.items()
    }
    report = state.report
    return Heartbeat(report.identity, report.incarnation, state.seq, event.now, views, event.tables)


def _heard(state: MemberState, now: int, reply: Reply, rules: FleetRules) -> MemberState:
    """What a member makes of a message; one for another life of it, or that comes too early, is nothing to it."""
    report = state.report
    match reply:
        case Announce():
            return _informed(state, reply.announcements, rules) if state.status is Status.JOINED else state
        case Refuse():
            mine = (reply.to, reply.incarnation) == (report.identity, report.incarnation)
            return _outside(state, reply.refusal) if mine else state
        case Admit() | Renew() if (reply.identity, reply.incarnation) != (report.identity, report.incarnation):
            return state
        case Renew() if state.status is not Status.JOINED:
            return state
        case Admit() if state.status is Status.OUTSIDE:
            return state
        case Admit() | Renew():
            until = rules.member_lease(reply.sent, now, reply.lease)
            longer = until if state.until is None else max(until, state.until)
            return _informed(replace(state, status=Status.JOINED, until=longer), reply.announcements, rules)


def _informed(state: MemberState, announcements: tuple[Announcement, ...], rules: FleetRules) -> MemberState:
    heard = dict(state.heard)
    for each in announcements:
        known = heard[each.ladder].view if each.ladder in heard else UNHEARD
        if rules.believes(known, each):
            heard[each.ladder] = each
    return replace(state, heard=heard)


def _outside(state: MemberState, refusal: Refusal | None) -> MemberState:
    """Everything closes at once; operations in flight belong to a life that is over."""
    return MemberState(state.report, refusal=refusal)
