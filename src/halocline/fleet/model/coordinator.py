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
from halocline.fleet.core.meanwhile import Writing
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
from halocline.fleet.model.member import ANY_MEMBER, LIFE, REFUSED, Act, Memory, message_key, report_of
from halocline.fleet.model.relative import called, later, outlived
from halocline.fleet.model.scenario import LADDER, NAMES, NEW, TABLE, Scenario

STALE: Final = 1
NEWEST: Final = 2
WRITTEN_SOON: Final = ", and what follows is being written"
_T = TypeVar("_T")


class CoordinatorNode(NamedTuple):
    """The coordinator node, by the numbers of its parts; `stale` is -1 if there is none.

    Until `belief` is over the stale one relies on its lease: it renews others without asking the store. While something
    is being written, `writing` is the state that the leader will go on from, and `written` whether the store has it
    already. `behind` is that state of a stale one whose decision the store had before another took over. `copy` is the
    fleet that the store may be put back to, `copied` how far the table was raised then, until it is `restored`.
    """

    store: int
    leader: int
    stale: int
    used: int
    belief: int = 0
    writing: int = -1
    written: bool = False
    behind: int = -1
    copy: int = -1
    copied: int = 0
    restored: bool = False


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
        highest = max(binary.hi for binary in (*scenario.binaries, NEW))
        ladder = Ladder(LADDER, (Rung(1), *(Rung(level, changes_data=True) for level in range(2, highest + 1))))
        causes: list[Cause] = [
            self._taking_over("first"),
            events.DeclareLadder(ladder, "operator", scenario.level, scenario.policy),
        ]
        if scenario.silent:
            use = frozenset({TableUse(TABLE, LADDER)})
            causes.append(events.Observe("silent", "mystery@?", Provenance.DECLARED, "operator", tables=use))
        state = loaded(Fleet(NEWEST - 1, terms))
        for cause in (*causes, Tick()):
            state, _ = step(state, Event(0, cause), self.rules)
        leader = self._state(state)
        return self._number(CoordinatorNode(self._fleet_of(leader), leader, -1, scenario.level))

    def _taking_over(self, mark: str) -> TakeOver:
        """A take-over; marks matter only where the store may be put back."""
        belief, restores = self.scenario.belief, self.scenario.restores
        return TakeOver(belief, mark, "key") if restores else TakeOver(belief)

    # What follows from an event. Each is computed once.

    def deliver(self, number: int, who: int, message: Message, *, stale: bool = False) -> Reaction | None:
        """A message arrives at a coordinator; None if it waits until something is written."""
        key = ("deliver", number, who, message_key(message), stale)
        return self._once(key, lambda: self._happens(number, stale, _from(NAMES[who], message)))

    def begin(self, number: int, who: int, message: Message) -> int | None:
        """A message arrives at the coordinator, which begins to write what follows; None if there is nothing to."""
        key = ("begin", number, who, message_key(message))
        return self._once(key, lambda: self._begins(number, _from(NAMES[who], message)))

    def moves(self, number: int) -> tuple[tuple[Act, str, Reaction], ...]:
        """What coordinators and operators may do by themselves, without what changes nothing."""
        return self._once(("moves", number), lambda: tuple(self._find_moves(number)))

    def _find_moves(self, number: int) -> Iterator[tuple[Act, str, Reaction]]:
        moves = [*self._decisions(number), *self._writes(number)]
        if self.values[number].stale >= 0 and (late := self._happens(number, True, Tick())):
            moves.append((Act.ARRIVE_LATE, "the stale coordinator's timer goes off", late))
        if self.scenario.take_over:
            moves.append((Act.TAKE_OVER, "another coordinator takes over", self._take_over(number)))
        if self.scenario.restores:
            moves = [*(self._copied(number, move) for move in moves), *self._restores(number)]
        return (move for move in moves if move[2].coordinator != number or move[2].violations)

    def _copied(self, number: int, move: tuple[Act, str, Reaction]) -> tuple[Act, str, Reaction]:
        """A move, with a copy of the store as it was before if this is the operators' first command."""
        node, (act, text, reaction) = self.values[number], move
        if act is not Act.OPERATOR or node.copy >= 0 or node.restored:
            return move
        after = self.values[reaction.coordinator]._replace(copy=node.store, copied=node.used)
        return act, text, reaction._replace(coordinator=self._number(after))

    def _restores(self, number: int) -> Iterator[tuple[Act, str, Reaction]]:
        """How the store is put back to its copy, once no member has a lease any more."""
        node = self.values[number]
        leases = self.states[node.leader].presences.values()
        if node.copy >= 0 and all(presence.until <= 0 for presence in leases):
            former = replace(self.fleets[node.copy], epoch=NEWEST - 1)
            before, event = loaded(former), Event(0, self._taking_over("second"))
            after, effects = step(before, event, self.rules)
            violations = tuple(check(CoordinatorStep(before, event, after, effects)))
            leader = self._state(after)
            moved = CoordinatorNode(self._fleet_of(leader), leader, -1, node.copied, restored=True)
            text = "the store is put back to before the first command, and another coordinator takes over"
            yield Act.RESTORE, text, Reaction(self._number(moved), violations=violations)

    def _decisions(self, number: int) -> Iterator[tuple[Act, str, Reaction]]:
        """What the leader's timer and operators lead to, at once or after it took its time to be written."""
        causes: list[tuple[Act, str, Cause]] = [(Act.TIMER, "the coordinator's timer goes off", Tick())]
        causes += [(Act.OPERATOR, _spoken(command), command) for command in self._commands(number)]
        for act, text, cause in causes:
            if outcome := self._happens(number, False, cause):
                yield act, text, outcome
            if (begun := self._begins(number, cause)) is not None:
                yield act, f"{text}{WRITTEN_SOON}", Reaction(begun)
        node = self.values[number]
        downgrade = self.ladder_state(number).downgrade
        if downgrade and downgrade.past_return and node.used > downgrade.target:
            cleaned = self._number(node._replace(used=downgrade.target))
            yield Act.OPERATOR, "the table is cleaned", Reaction(cleaned)

    def _writes(self, number: int) -> Iterator[tuple[Act, str, Reaction]]:
        """How what is being written gets on."""
        node = self.values[number]
        if node.written:
            kept = node._replace(leader=node.writing, writing=-1, written=False)
            yield Act.TIMER, "the coordinator hears that it is written", Reaction(self._number(kept))
        elif node.writing >= 0:
            stored = node._replace(store=self._fleet_of(node.writing), written=True)
            yield Act.TIMER, "it is written", Reaction(self._number(stored))
        if node.behind >= 0:
            kept = node._replace(stale=node.behind, behind=-1)
            yield Act.ARRIVE_LATE, "the stale coordinator hears that it is written", Reaction(self._number(kept))

    def tick(self, number: int) -> int:
        """Time passes."""
        return self._once(("tick", number), lambda: self._ticked(number))

    def _ticked(self, number: int) -> int:
        after = self._each_state(number, later)
        node = self.values[after]
        if node.belief == 0 or self.scenario.suspends:
            return after
        believes = node.belief - 1
        gone = node.stale < 0 or self._inert(node.stale, node.behind, believes)
        return self._number(node._replace(stale=-1, belief=0, behind=-1) if gone else node._replace(belief=believes))

    def restart(self, number: int, who: int) -> int:
        """A new life of a member begins, so its former ones count down."""
        name, strays = NAMES[who], self.scenario.strays
        return self._once(
            ("restart", number, who), lambda: self._each_state(number, lambda s: outlived(s, name, strays))
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
        return self._each_state(number, lambda state: called(state, names))

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

    def _happens(self, number: int, stale: bool, cause: Cause) -> Reaction | None:
        node = self.values[number]
        if (node.behind if stale else node.writing) >= 0:
            return self._meanwhile(node, stale, cause)
        stepped = self._step(node.stale if stale else node.leader, cause, node.used)
        store = node.store
        relies = stale and node.belief > 0 and stepped.commit is not None and not stepped.commit.changes
        if stepped.commit is not None and not relies:
            if not self.rules.accepts(self.fleets[store].epoch, stepped.commit.epoch):
                # Refused by the store: the coordinator has learnt that it was replaced, and stops.
                return Reaction(self._number(node._replace(stale=-1, belief=0, behind=-1)))
            in_step = not stale and store == self._fleet_of(node.leader)
            after = self._fleet_of(stepped.state) if in_step else None
            store = after if after is not None else self._fleet(applied(self.fleets[store], stepped.commit.changes))
        part: dict[str, Any] = {"stale" if stale else "leader": stepped.state}
        moved = node._replace(store=store, **part)
        return Reaction(self._number(moved), stepped.reply, stepped.violations)

    def _meanwhile(self, node: CoordinatorNode, stale: bool, cause: Cause) -> Reaction | None:
        """What follows while a decision is being written: heartbeats may be answered, everything else waits."""
        if not isinstance(cause, Heartbeat) or (stale and node.belief == 0):
            return None
        known, following = ("stale", "behind") if stale else ("leader", "writing")
        before, event = self.states[getattr(node, known)], Event(0, cause)
        answered = Writing(before, self.states[getattr(node, following)]).answered(event, self.rules)
        if answered is None:
            return None
        writing, effects = answered
        violations = tuple(check(CoordinatorStep(before, event, writing.before, effects)))
        parts: dict[str, Any] = {known: self._state(writing.before), following: self._state(writing.after)}
        return Reaction(self._number(node._replace(**parts)), _reply(cause, effects), violations)

    def _begins(self, number: int, cause: Cause) -> int | None:
        """The node after the leader has begun to write what follows from an event; its sender will ask again."""
        node = self.values[number]
        if not self.scenario.writes or node.writing >= 0:
            return None
        stepped = self._step(node.leader, cause, node.used)
        if stepped.commit is None or not stepped.commit.changes:
            return None
        return self._number(node._replace(writing=stepped.state))

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

    def _commands(self, number: int) -> tuple[Command, ...]:
        spent = self.ladder_state(number).revision > self.scenario.revisions
        return () if spent else self.scenario.commands

    def _take_over(self, number: int) -> Reaction:
        node = self.values[number]
        event, before = Event(0, self._taking_over("first")), loaded(self.fleets[node.store])
        after, effects = step(before, event, self.rules)
        violations = tuple(check(CoordinatorStep(before, event, after, effects)))
        fleet = replace(after.fleet, epoch=NEWEST)
        leader = self._state(replace(after, epoch=NEWEST, fleet=fleet))
        stale, belief = self._replaced(node.leader), self.scenario.belief
        # What the store does not have yet it will refuse, so that the former one goes on from where it is until then.
        behind = self._replaced(node.writing) if node.written else -1
        moved = CoordinatorNode(self._fleet(fleet), leader, -1, node.used)
        if not self._inert(stale, behind, belief):
            moved = moved._replace(stale=stale, belief=belief, behind=behind)
        return Reaction(self._number(moved), violations=violations)

    def _replaced(self, state: int) -> int:
        former = self.states[state]
        return self._state(replace(former, epoch=STALE, fleet=replace(former.fleet, epoch=STALE)))

    def _inert(self, stale: int, behind: int, belief: int) -> bool:
        """Whether nothing that a stale coordinator could do gets past the store, now or from where it goes on."""
        return self._once(
            ("inert", stale, belief > 0),
            lambda: all(self._refused_or_idle(*tried, belief) for tried in self._possible_causes(stale)),
        ) and (behind < 0 or self._inert(behind, -1, belief))

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
        leader, stale, writing, behind = (
            each if each < 0 else self._state(change(self.states[each]))
            for each in (node.leader, node.stale, node.writing, node.behind)
        )
        if node.store == self._fleet_of(node.leader):
            store = self._fleet_of(leader)
        else:
            store = self._fleet(change(State(NEWEST, self.fleets[node.store])).fleet)
        parts: dict[str, Any] = {"store": store, "leader": leader, "stale": stale, "writing": writing, "behind": behind}
        if node.copy >= 0:
            parts["copy"] = self._fleet(change(State(NEWEST, self.fleets[node.copy])).fleet)
        return self._number(node._replace(**parts))

    def _number(self, node: CoordinatorNode) -> int:
        return _number(self._node_numbers, self.values, node, node)

    def _state(self, state: State) -> int:
        presences = {
            key: replace(presence, until=max(presence.until, 0), seq=0) for key, presence in state.presences.items()
        }
        key = (_fleet_key(state.fleet), state.epoch, state.mark, tuple(sorted(map(_presence_key, presences.items()))))
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
        fleet.generation,
    )


def _record_key(item: tuple[MemberKey, Member]) -> tuple[Any, ...]:
    key, member = item
    supported, admitted = member.report.supported.get(LADDER), member.admitted.get(LADDER)
    levels = (supported.lo, supported.hi) if supported else ()
    view = (admitted.revision, admitted.level, admitted.proof) if admitted else ()
    return *key, levels, view, member.removed, member.provenance, member.generation


def _presence_key(item: tuple[MemberKey, Presence]) -> tuple[Any, ...]:
    key, presence = item
    view = presence.views.get(LADDER)
    return *key, presence.until, (view.revision, view.level, view.proof) if view else ()


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
