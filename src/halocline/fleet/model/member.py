"""A member node: its process, its messages and its clock.

Times are by the member's own clock and relative to now, so a lease that ends at 1 has one tick left. The process that
runs lives in life `LIFE`, whatever came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from halocline.fleet.core.effects import Admit, Announce, Refusal, Refuse, Renew, Reply
from halocline.fleet.core.events import Heartbeat, Join, Leave, Message
from halocline.fleet.core.ladder_state import Announcement
from halocline.fleet.core.member_step import (
    AskToJoin,
    Beat,
    Begin,
    End,
    Goodbye,
    Hear,
    MemberEvent,
    MemberState,
    Status,
    member_step,
)
from halocline.fleet.core.rules import FleetRules
from halocline.fleet.core.state import LevelRange, Report, TableUse
from halocline.fleet.model.ground_truth import MemberStep, Process
from halocline.fleet.model.invariants import Violation, check
from halocline.fleet.model.scenario import LADDER, TABLE, Scenario

LIFE: Final = 9
"""The life of the process that runs; former ones count down from it."""

FAR: Final = 1000
"""A lease that ends so late never ends."""

ANY_MEMBER: Final = "member"
REFUSED: Final = Refuse(ANY_MEMBER, Refusal("INCARNATION_ENDED", "refused"), LIFE)
_USES: Final = frozenset({TableUse(TABLE, LADDER)})
_T = TypeVar("_T")
_Timed = Join | Heartbeat | Admit | Renew


@dataclass(frozen=True, slots=True)
class MemberNode:
    """One member.

    Args:
        member: Its process; None if nothing runs.
        message: What is on its way between it and the coordinator node.
        stray: What its last life sent and has not arrived; what lives before that sent is lost.
        zombie: The process of its last life, which goes on until its lease is over.
        news: What was pushed to it and may be overtaken.
        base: How far the table was raised when its operation in flight began.
        lag: How much its clock has lost since it asked for the lease it has.
        message_lag: How much it has lost since it sent the message, or what the message answers.
    """

    member: MemberState | None = None
    message: Message | Reply | None = None
    stray: Message | None = None
    zombie: MemberState | None = None
    news: Announce | None = None
    base: int = 0
    lag: int = 0
    message_lag: int = 0


class Act(Enum):
    """What kind of thing happens."""

    START = auto()
    CRASH = auto()
    SEND = auto()
    LEAVE = auto()
    BEGIN = auto()
    END = auto()
    HEAR = auto()
    ARRIVE = auto()
    ARRIVE_LATE = auto()
    TIMER = auto()
    OPERATOR = auto()
    TAKE_OVER = auto()
    RESTORE = auto()
    TIME = auto()
    LAG = auto()


class Move(NamedTuple):
    """Something that a member does by itself."""

    act: Act
    text: str
    node: int
    violations: tuple[Violation, ...] = ()


class Memory:
    """What was computed once, by what it was computed from."""

    def __init__(self) -> None:
        self._memory: dict[object, Any] = {}

    def _once(self, key: object, compute: Callable[[], _T]) -> _T:
        memory = self._memory
        if key not in memory:
            memory[key] = compute()
        known: _T = memory[key]
        return known


class MemberNodes(Memory):
    """The nodes that have turned up, by number, and what follows from each."""

    def __init__(self, scenario: Scenario, rules: FleetRules) -> None:
        super().__init__()
        self.scenario = scenario
        self.rules = rules
        self.values: list[MemberNode] = []
        self.levels: list[int] = []
        """The highest level that each may be acting under."""
        self._numbers: dict[object, int] = {}
        self.empty = self.number(MemberNode())

    def number(self, node: MemberNode) -> int:
        """The number of a node, in its normal form."""
        node = self._normal(node)
        messages = message_key(node.message), message_key(node.stray), node.news
        key = (_member_key(node.member), _member_key(node.zombie), messages, node.base, node.lag, node.message_lag)
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self.values)
            self.values.append(node)
            self.levels.append(
                max((each.acting(LADDER) for each in self._processes(node, ANY_MEMBER, True)), default=0)
            )
        return known

    def _normal(self, node: MemberNode) -> MemberNode:
        """Makes equal what no longer makes a difference."""
        lease, member, message, zombie, news = self.scenario.lease, node.member, node.message, node.zombie, node.news
        if member is not None and member.status is Status.OUTSIDE:
            member = None
        if member is None:
            news = None
            keeps = isinstance(message, Leave) or (self.scenario.strays and isinstance(message, Message))
            message = message if keeps else None
        elif member.until is not None and member.until < 0:
            member = replace(member, until=0)
        if isinstance(message, _Timed):
            message = replace(message, sent=max(message.sent, -lease))
        if zombie is not None and not zombie.active(0):
            zombie = None
        base = node.base if member is not None and member.operations else 0
        lag = node.lag if member is not None and member.active(0) else 0
        message_lag = node.message_lag if self._fresh(message) else 0
        return MemberNode(member, message, node.stray, zombie, news, base, lag, message_lag)

    def _fresh(self, message: Message | Reply | None) -> bool:
        """Whether a lease counted from this message would still run, so that the clock matters to it."""
        return isinstance(message, _Timed) and message.sent > -self.scenario.lease

    def moves(self, number: int) -> tuple[Move, ...]:
        """What this member may do by itself."""
        return self._once(("moves", number), lambda: tuple(self._find_moves(self.values[number])))

    def _find_moves(self, node: MemberNode) -> Iterator[Move]:
        member, message = node.member, node.message
        if member is None:
            yield from self._starts(node, None)
            return
        if self.scenario.zombies and member.active(0):
            yield from self._starts(node, replace(member, report=replace(member.report, incarnation=LIFE - 1)))
        yield Move(Act.CRASH, "crashes", self.number(replace(node, member=None)))
        if isinstance(message, Reply):
            yield self._hears(replace(node, message=None, message_lag=0), message, node.message_lag)
        if node.news is not None:
            yield self._hears(replace(node, news=None), node.news, 0)
        if member.status is Status.JOINING:
            yield self._sends(Act.SEND, node, AskToJoin(0, LIFE), "asks to join again")
            return
        yield self._sends(Act.SEND, node, Beat(0), "sends a heartbeat")
        if self.scenario.restores:
            yield self._sends(Act.SEND, node, AskToJoin(0, LIFE), "asks to join again")
        if self.scenario.leave:
            yield self._sends(Act.LEAVE, node, Goodbye(0), "leaves")
        if member.operations:
            yield self._stepped(Act.END, node, End("job"), "ends its operation")[0]

    def _starts(self, node: MemberNode, zombie: MemberState | None) -> Iterator[Move]:
        if node.zombie is not None:
            return
        message = node.message
        stray = _of_former_life(message) if self.scenario.strays and isinstance(message, Message) else None
        goes_on = ", while the former process goes on" if zombie else ""
        for binary in self.scenario.binaries:
            fresh = MemberNode(MemberState(report_of(binary)), stray=stray, zombie=zombie)
            text = f"starts the {_called(binary)} binary and asks to join{goes_on}"
            yield self._sends(Act.START, fresh, AskToJoin(0, LIFE), text)

    def begins(self, number: int, base: int) -> Move | None:
        """What follows if an operation begins while the table stands at `base`."""
        node = self.values[number]
        if not self.scenario.operations or node.member is None or node.member.operations or not node.member.active(0):
            return None
        moved = replace(node, base=base if self.scenario.stalls else 0)
        return self._stepped(Act.BEGIN, moved, Begin(0, "job"), "begins an operation")[0]

    def _sends(self, act: Act, node: MemberNode, event: MemberEvent, text: str) -> Move:
        move, sent = self._stepped(act, node, event, text)
        message = replace(sent, seq=1) if isinstance(sent, Heartbeat) else sent
        return move._replace(node=self.number(replace(self.values[move.node], message=message, message_lag=0)))

    def _hears(self, node: MemberNode, reply: Reply, lost: int) -> Move:
        before = node.member.until if node.member else None
        move, _ = self._stepped(Act.HEAR, node, Hear(0, reply), f"hears {_told(reply)}")
        after = self.values[move.node].member
        longer = after is not None and (after.until or 0) > (before or 0)
        if not longer or not isinstance(reply, Admit | Renew):
            return move
        lag = 0 if self.scenario.late_allowance else lost
        return move._replace(node=self.number(replace(self.values[move.node], lag=lag)))

    def _stepped(self, act: Act, node: MemberNode, event: MemberEvent, text: str) -> tuple[Move, Message | None]:
        """What the member's half of the protocol makes of an event."""
        assert node.member is not None
        after, sent = member_step(node.member, event, self.rules)
        violations = tuple(check(MemberStep(node.member, after)))
        return Move(act, text, self.number(replace(node, member=after)), violations), sent[0] if sent else None

    def ticks(self, number: int) -> tuple[tuple[int, bool], ...]:
        """The nodes after one tick of true time, and whether its own clock missed it."""
        return self._once(("ticks", number), lambda: tuple(self._find_ticks(self.values[number])))

    def _find_ticks(self, node: MemberNode) -> Iterator[tuple[int, bool]]:
        message, margin = node.message, self.scenario.margin
        aged = replace(message, sent=message.sent - 1) if isinstance(message, _Timed) else message
        later = replace(node, member=_later(node.member), zombie=_later(node.zombie), message=aged)
        yield self.number(later), False
        timed = node.member is not None and node.member.active(0)
        waits = self._fresh(message)
        if not self.scenario.lag or not (timed or waits):
            return
        if (not timed or node.lag < margin) and (not waits or node.message_lag < margin):
            missed = replace(node, lag=node.lag + timed, message_lag=node.message_lag + waits)
            yield self.number(replace(missed, zombie=later.zombie)), True

    def put(self, number: int, reply: Reply) -> int:
        """The node after an answer was sent to it, which takes the place of what it answers."""
        return self._with(number, "message", reply)

    def pushed(self, number: int, news: Announce) -> int:
        """The node after news were sent to it that may be overtaken."""
        return self._with(number, "news", news)

    def cut_off(self, number: int) -> int:
        """The node after all connections were lost, and with them what was on its way."""
        node = self.values[number]
        return self._once((number, "cut off"), lambda: self.number(replace(node, message=None, stray=None, news=None)))

    def taken(self, number: int, *, stray: bool) -> int:
        """The node after its message, or its stray one, has arrived."""
        return self._with(number, "stray" if stray else "message", None)

    def _with(self, number: int, part: str, message: Message | Reply | None) -> int:
        changed: Any = {part: message}
        key = (number, part, message_key(message))
        return self._once(key, lambda: self.number(replace(self.values[number], **changed)))

    def hears(self, number: int, reply: Reply) -> Move:
        """What follows if the member hears news or a refusal at once, whatever else is on its way."""
        return self._once((number, "hears", message_key(reply)), lambda: self._hears(self.values[number], reply, 0))

    def revision(self, number: int) -> int:
        """The newest revision that a member that is in has heard; -1 if it is not in."""
        member = self.values[number].member
        if member is None or member.status is not Status.JOINED:
            return -1
        return member.heard[LADDER].revision

    def acting(self, number: int, used: int) -> int:
        """The highest level that a process of this node can act under while the table stands at `used`."""
        processes = self.processes(number, ANY_MEMBER, used)
        return self._once(("acting", number, used), lambda: max((each.acting(LADDER) for each in processes), default=0))

    def processes(self, number: int, name: str, used: int) -> tuple[Process, ...]:
        """The processes that run, under their real name, while the table stands at `used`."""
        node = self.values[number]
        # The table refuses the commit of an operation that began before it was changed.
        goes_through = not self.scenario.fenced or node.base == used
        return self._once(("processes", number, name, used), lambda: self._processes(node, name, goes_through))

    def _processes(self, node: MemberNode, name: str, goes_through: bool) -> tuple[Process, ...]:
        stalls = self.scenario.stalls and goes_through
        return tuple(
            Process(
                replace(member, report=replace(member.report, identity=name)),
                member.report.supported,
                now=0,
                stalled=stalls and bool(member.operations),
            )
            for member in (node.member, node.zombie)
            if member is not None
        )

    def facet(self, number: int) -> object:
        """What tells nodes apart whose processes act differently now."""
        node = self.values[number]
        return tuple(
            (each.active(0), _member_key(replace(each, until=None)), node.base) if each else None
            for each in (node.member, node.zombie)
        )


def _called(binary: LevelRange) -> str:
    return "newest" if binary.lo > 1 else ("old", "new", "newer")[binary.hi - 1]


@cache
def report_of(binary: LevelRange) -> Report:
    """What a process that runs a binary says about itself."""
    return Report(ANY_MEMBER, 0, f"engine@{binary.hi}.0", supported={LADDER: binary}, tables=_USES)


def _told(reply: Reply) -> str:
    match reply:
        case Admit():
            return f"that it is admitted{_levels(reply.announcements)}"
        case Renew():
            return f"that its lease is renewed{_levels(reply.announcements)}"
        case Announce():
            return f"news{_levels(reply.announcements)}"
        case Refuse():
            return "that it is refused, and stops"


def _levels(announcements: tuple[Announcement, ...]) -> str:
    return "".join(f": level {each.level}, gates up to {each.limit}" for each in announcements)


def _later(member: MemberState | None) -> MemberState | None:
    if member is None or member.until is None or member.until > FAR:
        return member
    return replace(member, until=member.until - 1)


def _of_former_life(message: Message) -> Message:
    match message:
        case Join():
            return replace(message, report=replace(message.report, incarnation=LIFE - 1), sent=0)
        case Heartbeat():
            return replace(message, incarnation=LIFE - 1, sent=0)
        case Leave():
            return replace(message, incarnation=LIFE - 1)


def _member_key(member: MemberState | None) -> object:
    if member is None:
        return None
    operations = tuple((name, tuple(each.levels.items())) for name, each in member.operations.items())
    supported = member.report.supported[LADDER]
    return supported, member.status, member.until, tuple(member.heard.values()), operations


def message_key(message: Message | Reply | None) -> object:
    """What tells messages apart."""
    match message:
        case Join():
            views = tuple(message.views.items())
            return "join", message.report.incarnation, message.report.supported[LADDER], message.sent, views
        case Heartbeat():
            return "heartbeat", message.incarnation, message.sent, tuple(message.views.items())
        case Refuse():
            return "refuse"
        case _:
            return message
