"""The coordinator node: the store, the coordinators, and how far the table has been raised.

Times are by the coordinators' clock and relative to now. The newest epoch is always `NEWEST`, an older one `STALE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from halocline.fleet.core import events
from halocline.fleet.core.effects import Admit, Announce, CommitRecords, Effect, Refuse, Renew, Reply
from halocline.fleet.core.events import Cause, Command, Event, Heartbeat, Join, Leave, Message, TakeOver, Tick
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import LadderState
from halocline.fleet.core.rules import FleetRules
from halocline.fleet.core.state import (
    Fleet,
    FleetTerms,
    Member,
    MemberKey,
    Presence,
    Provenance,
    State,
    TableLevel,
    TableUse,
    applied,
)
from halocline.fleet.core.step import loaded, step
from halocline.fleet.model.ground_truth import CoordinatorStep
from halocline.fleet.model.invariants import Violation, check
from halocline.fleet.model.member import ANY_MEMBER, FAR, LIFE, REFUSED, Act, Memory, message_key, report_of
from halocline.fleet.model.scenario import LADDER, NAMES, TABLE, Scenario

STALE: Final = 1
NEWEST: Final = 2
_T = TypeVar("_T")


class CoordinatorNode(NamedTuple):
    """The coordinator node, by the numbers of its parts; `stale` is -1 if there is none.

    Until `belief` is over the stale one relies on its lease: it renews others without asking the store.
    """

    store: int
    leader: int
    stale: int
    used: int
    belief: int = 0


class Reaction(NamedTuple):
    """What follows from an event at a coordinator: the number of the node afterwards, and the answer."""

    coordinator: int
    reply: Reply | None = None
    violations: tuple[Violation, ...] = ()


class _Stepped(NamedTuple):
    """What a coordinator makes of an event, before its effects are carried out."""

    state: int
    commit: CommitRecords | None
    reply: Reply | None
    violations: tuple[Violation, ...]


class CoordinatorNodes(Memory):
    """The coordinator nodes that have turned up, by number, and what follows from each."""

    def __init__(self, scenario: Scenario, rules: FleetRules) -> None:
        super().__init__()
        self.scenario = scenario
        self.rules = rules
        self.values: list[CoordinatorNode] = []
        self.states: list[State] = []
        self.fleets: list[Fleet] = []
        self._node_numbers: dict[CoordinatorNode, int] = {}
        self._state_numbers: dict[object, int] = {}
        self._fleet_numbers: dict[object, int] = {}
        self.first = self._begin()

    def _begin(self) -> int:
        scenario = self.scenario
        terms = FleetTerms(scenario.lease, scenario.margin, window=0)
        ladder = Ladder(LADDER, (Rung(1), Rung(2, changes_data=True)))
        causes: list[Cause] = [TakeOver(), events.DeclareLadder(ladder, "operator", scenario.level, scenario.policy)]
        if scenario.silent:
            use = frozenset({TableUse(TABLE, LADDER)})
            causes.append(events.Observe("silent", "mystery@?", Provenance.DECLARED, "operator", tables=use))
        state = loaded(Fleet(NEWEST - 1, terms))
        for cause in (*causes, Tick()):
            state, _ = step(state, Event(0, cause), self.rules)
        leader = self._state(state)
        return self._number(CoordinatorNode(self._fleet_of(leader), leader, -1, scenario.level))

    # What follows from an event. Each is computed once.

    def deliver(self, number: int, who: int, message: Message, *, stale: bool = False) -> Reaction:
        """A message arrives at a coordinator."""
        key = ("deliver", number, who, message_key(message), stale)
        return self._once(key, lambda: self._happens(number, stale, _from(NAMES[who], message)))

    def timer(self, number: int, *, stale: bool = False) -> Reaction:
        """A coordinator's timer goes off."""
        return self._once(("timer", number, stale), lambda: self._happens(number, stale, Tick()))

    def moves(self, number: int) -> tuple[tuple[Act, str, Reaction], ...]:
        """What coordinators and operators may do by themselves, without what changes nothing."""
        return self._once(("moves", number), lambda: tuple(self._find_moves(number)))

    def _find_moves(self, number: int) -> Iterator[tuple[Act, str, Reaction]]:
        moves = [(Act.TIMER, "the coordinator's timer goes off", self.timer(number))]
        moves += [(Act.OPERATOR, text, outcome) for text, outcome in self._commands(number)]
        if self.values[number].stale >= 0:
            moves.append((Act.ARRIVE_LATE, "the stale coordinator's timer goes off", self.timer(number, stale=True)))
        if self.scenario.take_over:
            moves.append((Act.TAKE_OVER, "another coordinator takes over", self._take_over(number)))
        return (move for move in moves if move[2].coordinator != number or move[2].violations)

    def tick(self, number: int) -> int:
        """Time passes."""
        return self._once(("tick", number), lambda: self._ticked(number))

    def _ticked(self, number: int) -> int:
        later = self._each_state(number, _later)
        node = self.values[later]
        if node.belief == 0 or self.scenario.suspends:
            return later
        believes = node.belief - 1
        gone = node.stale < 0 or self._inert(node.stale, believes)
        return self._number(node._replace(stale=-1, belief=0) if gone else node._replace(belief=believes))

    def restart(self, number: int, who: int) -> int:
        """A new life of a member begins, so its former ones count down."""
        name, strays = NAMES[who], self.scenario.strays
        return self._once(
            ("restart", number, who), lambda: self._each_state(number, lambda s: _outlived(s, name, strays))
        )

    def write(self, number: int, level: int) -> int:
        """A member acts under a level and so raises the table."""
        node = self.values[number]
        return number if level <= node.used else self._number(node._replace(used=level))

    def permute(self, number: int, order: tuple[int, ...]) -> int:
        """The same node with members called differently: the one at `order[i]` is called by the i-th name."""
        return self._once((number, order), lambda: self._permuted(number, order))

    def _permuted(self, number: int, order: tuple[int, ...]) -> int:
        names = {NAMES[old]: NAMES[new] for new, old in enumerate(order)}
        return self._each_state(number, lambda state: _called(state, names))

    # What the model asks.

    def ladder_state(self, number: int) -> LadderState:
        """Where the fleet stands."""
        return self.states[self.values[number].leader].fleet.ladder_states[LADDER]

    def news(self, number: int) -> Announce:
        """What the coordinator keeps pushing."""
        return self._once(("news", number), lambda: Announce((self.ladder_state(number).announced(LADDER),)))

    def former_lives(self, number: int, who: int) -> int:
        """How many former lives, of all members together, will be registered if a new one of this member begins."""
        return self._once(("former", number, who), lambda: self._former_lives(number, NAMES[who]))

    def _former_lives(self, number: int, name: str) -> int:
        speaking = self.states[self.values[number].leader].fleet.speaking()
        return sum(key.identity == name or key.incarnation < LIFE for key, _ in speaking)

    def _happens(self, number: int, stale: bool, cause: Cause) -> Reaction:
        node = self.values[number]
        stepped = self._step(node.stale if stale else node.leader, cause, node.used)
        store = node.store
        relies = stale and node.belief > 0 and stepped.commit is not None and not stepped.commit.changes
        if stepped.commit is not None and not relies:
            if not self.rules.accepts(self.fleets[store].epoch, stepped.commit.epoch):
                # Refused by the store: the coordinator has learnt that it was replaced, and stops.
                return Reaction(self._number(node._replace(stale=-1, belief=0)))
            in_step = not stale and store == self._fleet_of(node.leader)
            after = self._fleet_of(stepped.state) if in_step else None
            store = after if after is not None else self._fleet(applied(self.fleets[store], stepped.commit.changes))
        part = {"stale" if stale else "leader": stepped.state}
        moved = node._replace(store=store, **part)
        return Reaction(self._number(moved), stepped.reply, stepped.violations)

    def _step(self, state: int, cause: Cause, used: int) -> _Stepped:
        # Members and operators tell the level of the table, which matters to what is decided by it.
        recorded = used if isinstance(cause, Join | events.FinishDowngrade) else 0
        key = ("step", state, _cause_key(cause), recorded)
        return self._once(key, lambda: self._find_step(state, cause, recorded))

    def _find_step(self, state: int, cause: Cause, recorded: int) -> _Stepped:
        before, event = self.states[state], Event(0, cause)
        if recorded:
            tables = {(TABLE, LADDER): TableLevel(TABLE, LADDER, recorded, 0)}
            before = replace(before, fleet=replace(before.fleet, tables=tables))
        after, effects = step(before, event, self.rules)
        violations = tuple(check(CoordinatorStep(before, event, after, effects)))
        if recorded:
            after = replace(after, fleet=replace(after.fleet, tables={}))
        commit = next((effect for effect in effects if isinstance(effect, CommitRecords)), None)
        return _Stepped(self._state(after), commit, _reply(cause, effects), violations)

    def _commands(self, number: int) -> Iterator[tuple[str, Reaction]]:
        ladder_state, used = self.ladder_state(number), self.values[number].used
        if ladder_state.downgrade and ladder_state.downgrade.past_return and used > ladder_state.downgrade.target:
            cleaned = self.values[number]._replace(used=ladder_state.downgrade.target)
            yield "the table is cleaned", Reaction(self._number(cleaned))
        for command in self.scenario.commands:
            if ladder_state.revision > self.scenario.revisions:
                continue
            yield _spoken(command), self._happens(number, False, command)

    def _take_over(self, number: int) -> Reaction:
        node = self.values[number]
        event, before = Event(0, TakeOver(self.scenario.belief)), loaded(self.fleets[node.store])
        after, effects = step(before, event, self.rules)
        violations = tuple(check(CoordinatorStep(before, event, after, effects)))
        fleet = replace(after.fleet, epoch=NEWEST)
        leader = self._state(replace(after, epoch=NEWEST, fleet=fleet))
        former = self.states[node.leader]
        stale = self._state(replace(former, epoch=STALE, fleet=replace(former.fleet, epoch=STALE)))
        belief = self.scenario.belief
        goes_on = not self._inert(stale, belief)
        moved = CoordinatorNode(
            self._fleet(fleet), leader, stale if goes_on else -1, node.used, belief if goes_on else 0
        )
        return Reaction(self._number(moved), violations=violations)

    def _inert(self, stale: int, belief: int) -> bool:
        """Whether nothing that a stale coordinator could do gets past the store."""
        return self._once(
            ("inert", stale, belief > 0),
            lambda: all(self._refused_or_idle(*tried, belief) for tried in self._possible_causes(stale)),
        )

    def _refused_or_idle(self, state: int, cause: Cause, belief: int) -> bool:
        _, effects = step(self.states[state], Event(0, cause), self.rules)
        first = effects[0] if effects else None
        asks = isinstance(first, CommitRecords) and (bool(first.changes) or belief == 0)
        refused = asks and isinstance(first, CommitRecords) and not self.rules.accepts(NEWEST, first.epoch)
        return refused or not any(isinstance(effect, CommitRecords | Admit | Renew | Announce) for effect in effects)

    def _possible_causes(self, stale: int) -> Iterator[tuple[int, Cause]]:
        state = self.states[stale]
        over = {key: replace(presence, until=0) for key, presence in state.presences.items()}
        yield stale, Tick()
        yield self._state(replace(state, presences=over)), Tick()
        yield from ((stale, command) for command in self.scenario.commands)
        for name in NAMES[: self.scenario.members]:
            lives = {key.incarnation for key in state.fleet.members if key.identity == name} | {LIFE, LIFE - 1}
            for life in lives:
                yield stale, Heartbeat(name, life, 1, 0)
                yield stale, Leave(name, life)
                for binary in self.scenario.binaries:
                    yield stale, Join(replace(report_of(binary), identity=name, incarnation=life), 0)

    # Numbers of parts.

    def _each_state(self, number: int, change: Callable[[State], State]) -> int:
        node = self.values[number]
        leader = self._state(change(self.states[node.leader]))
        stale = node.stale if node.stale < 0 else self._state(change(self.states[node.stale]))
        if node.store == self._fleet_of(node.leader):
            store = self._fleet_of(leader)
        else:
            store = self._fleet(change(State(NEWEST, self.fleets[node.store])).fleet)
        return self._number(CoordinatorNode(store, leader, stale, node.used, node.belief))

    def _number(self, node: CoordinatorNode) -> int:
        return _number(self._node_numbers, self.values, node, node)

    def _state(self, state: State) -> int:
        presences = {
            key: replace(presence, until=max(presence.until, 0), seq=0) for key, presence in state.presences.items()
        }
        key = (_fleet_key(state.fleet), state.epoch, tuple(sorted(map(_presence_key, presences.items()))))
        return _number(self._state_numbers, self.states, key, replace(state, presences=presences))

    def _fleet(self, fleet: Fleet) -> int:
        return _number(self._fleet_numbers, self.fleets, _fleet_key(fleet), fleet)

    def _fleet_of(self, state: int) -> int:
        return self._once(("fleet", state), lambda: self._fleet(self.states[state].fleet))


def _number(numbers: dict[Any, int], values: list[_T], key: object, value: _T) -> int:
    known = numbers.get(key)
    if known is None:
        known = numbers[key] = len(values)
        values.append(value)
    return known


def _fleet_key(fleet: Fleet) -> object:
    members = tuple(sorted(map(_record_key, fleet.members.items())))
    return (
        fleet.epoch,
        fleet.ladder_states[LADDER],
        members,
        tuple(sorted(fleet.incarnations.items())),
        tuple(fleet.holds),
    )


def _record_key(item: tuple[MemberKey, Member]) -> tuple[Any, ...]:
    key, member = item
    supported, admitted = member.report.supported.get(LADDER), member.admitted.get(LADDER)
    levels = (supported.lo, supported.hi) if supported else ()
    view = (admitted.revision, admitted.level) if admitted else ()
    return *key, levels, view, member.removed, member.provenance


def _presence_key(item: tuple[MemberKey, Presence]) -> tuple[Any, ...]:
    key, presence = item
    view = presence.views.get(LADDER)
    return *key, presence.until, (view.revision, view.level) if view else ()


def _cause_key(cause: Cause) -> object:
    if isinstance(cause, Join):
        return cause.report.identity, message_key(cause)
    return (cause.identity, message_key(cause)) if isinstance(cause, Heartbeat) else cause


def _from(name: str, message: Message) -> Message:
    """The message under the sender's real name."""
    if isinstance(message, Join):
        return replace(message, report=replace(message.report, identity=name))
    return replace(message, identity=name)


def _reply(cause: Cause, effects: tuple[Effect, ...]) -> Reply | None:
    """What the sender of a message is told; what it does not look at is made equal."""
    if not isinstance(cause, Message):
        return None
    for effect in effects:
        if isinstance(effect, Admit):
            return replace(effect, identity=ANY_MEMBER, epoch=0)
        if isinstance(effect, Renew):
            return replace(effect, identity=ANY_MEMBER, epoch=0, seq=0)
        if isinstance(effect, Refuse):
            return replace(REFUSED, incarnation=effect.incarnation)
    return None


def _later(state: State) -> State:
    presences = {
        key: presence if presence.until > FAR else replace(presence, until=presence.until - 1)
        for key, presence in state.presences.items()
    }
    return replace(state, presences=presences)


def _renamed(state: State, keys: dict[MemberKey, MemberKey], incarnations: dict[str, int]) -> State:
    members = {}
    for key, member in state.fleet.members.items():
        new = keys.get(key, key)
        report = replace(member.report, identity=new.identity, incarnation=new.incarnation)
        members[new] = replace(member, report=report)
    fleet = replace(state.fleet, members=members, incarnations=incarnations)
    return replace(state, fleet=fleet, presences={keys.get(key, key): each for key, each in state.presences.items()})


def _called(state: State, names: dict[str, str]) -> State:
    """Members are called differently."""
    keys = {
        key: MemberKey(names[key.identity], key.incarnation) for key in state.fleet.members if key.identity in names
    }
    return _renamed(state, keys, {names.get(name, name): life for name, life in state.fleet.incarnations.items()})


def _outlived(state: State, name: str, strays: bool) -> State:
    """A new life of one member begins: what was its life is now its last one, and others lie before that.

    Of those before, only the order matters; and of the highest that was ever admitted, only whether a life that can
    still speak is higher.
    """
    lives = sorted((key for key in state.fleet.members if key.identity == name), reverse=True)
    before = [key for key in lives if key.incarnation < LIFE]
    keys = {key: MemberKey(name, LIFE - 2 - rank) for rank, key in enumerate(before)}
    if len(before) < len(lives):
        keys[MemberKey(name, LIFE)] = MemberKey(name, LIFE - 1)
    incarnations = {**state.fleet.incarnations}
    highest = max(incarnations.pop(name, 0) - 1, LIFE - 2)
    if lives or (strays and highest == LIFE - 1):
        incarnations[name] = highest
    return _renamed(state, keys, incarnations)


_SPOKEN: Final = {
    events.CancelDowngrade: "an operator cancels the downgrade, and gates may open again",
    events.CleanDowngrade: "an operator passes the point of no return",
    events.FinishDowngrade: "an operator lets the level fall",
    events.PlaceHold: "an operator places a hold",
    events.Raise: "an operator raises the level",
    events.ReleaseHold: "an operator releases the hold",
    events.StartDowngrade: "an operator starts a downgrade, and gates are to close",
}


def _spoken(command: Command) -> str:
    if isinstance(command, events.RemoveMember):
        return f"an operator removes {command.identity}"
    return _SPOKEN.get(type(command), f"an operator gives {command}")
