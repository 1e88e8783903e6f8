"""Global states of the model, and what can happen in each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import NamedTuple

from halocline.fleet.core.effects import Refuse
from halocline.fleet.core.events import Heartbeat, Join, Leave, Message
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.model.coordinator import WRITTEN_SOON, CoordinatorNodes
from halocline.fleet.model.ground_truth import GroundTruth
from halocline.fleet.model.invariants import Violation, check
from halocline.fleet.model.member import Act, MemberNodes, Move
from halocline.fleet.model.scenario import LADDER, NAMES, OLD, TABLE, Scenario

GlobalState = tuple[int, ...]
"""The number of the coordinator node, followed by those of the member nodes."""


class Transition(NamedTuple):
    """One thing that can happen: what it is, whose (-1 if no member's), and what it violates by itself."""

    act: Act
    who: int
    text: str
    violations: tuple[Violation, ...] = ()

    def __str__(self) -> str:
        space = "" if self.text.startswith("'") else " "
        return f"{NAMES[self.who]}{space}{self.text}" if self.who >= 0 else self.text


class Model:
    """The transition system of a scenario under some rules."""

    def __init__(self, scenario: Scenario, rules: FleetRules = RULES) -> None:
        self.scenario = scenario
        self.coordinators = CoordinatorNodes(scenario, rules)
        self.members = MemberNodes(scenario, rules)
        self._steps: dict[tuple[int, int, int], tuple[tuple[Transition, int, int], ...]] = {}
        self._verdicts: dict[tuple[int, ...], tuple[Violation, ...]] = {}
        self._facets: dict[object, int] = {}
        self._facet_of: dict[int, int] = {}

    @property
    def first(self) -> GlobalState:
        """The state in which nothing runs yet."""
        return (self.coordinators.first, *([self.members.empty] * self.scenario.members))

    def successors(self, state: GlobalState) -> Iterator[tuple[Transition, GlobalState]]:
        """Everything that can happen next; the states are not in normal form."""
        coordinator, steps = state[0], self._steps
        for who in range(1, len(state)):
            key = (coordinator, who, state[who])
            known = steps.get(key)
            if known is None:
                known = steps[key] = tuple(self._steps_of(coordinator, who - 1, state[who]))
            before, after = state[1:who], state[who + 1 :]
            for step, moved, node in known:
                yield step, (moved, *before, node, *after)
        for act, text, outcome in self.coordinators.moves(coordinator):
            nodes = map(self.members.cut_off, state[1:]) if act is Act.RESTORE else state[1:]
            yield Transition(act, -1, text, outcome.violations), (outcome.coordinator, *nodes)
        yield from self._time_passes(state)

    def _steps_of(self, coordinator: int, who: int, node: int) -> Iterator[tuple[Transition, int, int]]:
        """What one member can do, or have happen to it, with the coordinator and its node afterwards."""
        for move in self._moves(coordinator, node):
            moved = coordinator
            if move.act is Act.START:
                if self.coordinators.former_lives(coordinator, who) > self.scenario.lives:
                    continue
                moved = self.coordinators.restart(coordinator, who)
            elif move.node == node:
                continue
            yield Transition(move.act, who, move.text, move.violations), moved, move.node
        yield from self._arrivals(coordinator, who, node)

    def _moves(self, coordinator: int, node: int) -> Iterator[Move]:
        members = self.members
        yield from members.moves(node)
        if begun := members.begins(node, self.coordinators.values[coordinator].used):
            yield begun
        news, revision = self.coordinators.news(coordinator), members.revision(node)
        if self.scenario.late_news and revision >= 0 and members.values[node].news is None:
            yield Move(Act.SEND, "is sent news, which take their time", members.pushed(node, news))
        if 0 <= revision < news.announcements[0].revision:
            yield members.hears(node, news)

    def _arrivals(self, coordinator: int, who: int, number: int) -> Iterator[tuple[Transition, int, int]]:
        node = self.members.values[number]
        stale = self.coordinators.values[coordinator].stale >= 0
        for message, stray in ((node.message, False), (node.stray, True)):
            if not isinstance(message, Message):
                continue
            taken = self.members.taken(number, stray=stray)
            for late in (False, True) if stale else (False,):
                act = Act.ARRIVE_LATE if stray or late else Act.ARRIVE
                text = _ARRIVES[type(message), stray, late]
                reaction = self.coordinators.deliver(coordinator, who, message, stale=late)
                begun = None if late else self.coordinators.begin(coordinator, who, message)
                if begun is not None:
                    yield Transition(act, who, text + WRITTEN_SOON), begun, taken
                if reaction is None:
                    continue
                after, reply, violations = reaction
                answer = None if stray else reply
                if isinstance(answer, Refuse) and node.member is not None:
                    heard = self.members.hears(taken, answer)
                    yield Transition(act, who, text + _REFUSED, violations + heard.violations), after, heard.node
                    answer = None
                yield (
                    Transition(act, who, text, violations),
                    after,
                    self.members.put(taken, answer) if answer else taken,
                )

    def _time_passes(self, state: GlobalState) -> Iterator[tuple[Transition, GlobalState]]:
        coordinator = self.coordinators.tick(state[0])
        for choice in product(*(self.members.ticks(node) for node in state[1:])):
            step = _TIME[tuple(lagged for _, lagged in choice)]
            yield step, (coordinator, *(node for node, _ in choice))

    def normal(self, state: GlobalState) -> GlobalState:
        """The state after tables were raised by every member that can, with members in a fixed order."""
        state = self.raised(state)
        if len(state) == 3:
            coordinator, one, other = state
            if one < other:
                return state
            swapped = self.coordinators.permute(coordinator, (1, 0))
            return (swapped, other, one) if one > other else (min(coordinator, swapped), one, other)
        coordinator, *nodes = state
        order = tuple(sorted(range(len(nodes)), key=nodes.__getitem__))
        ordered = [nodes[which] for which in order]
        if len(set(nodes)) == len(nodes):
            return (self.coordinators.permute(coordinator, order), *ordered)
        orders = (each for each in permutations(order) if [nodes[which] for which in each] == ordered)
        return (min(self.coordinators.permute(coordinator, each) for each in orders), *ordered)

    def raised(self, state: GlobalState) -> GlobalState:
        """The state after tables were raised by every member that can."""
        coordinator, levels = state[0], self.members.levels
        used = self.coordinators.values[coordinator].used
        for node in state[1:]:
            if levels[node] > used:
                break
        else:
            return state
        acting = max(self.members.acting(node, used) for node in state[1:])
        return (self.coordinators.write(coordinator, acting), *state[1:])

    def evidence(self, state: GlobalState) -> GroundTruth:
        """What there is to look at."""
        coordinator = self.coordinators.values[state[0]]
        named = zip(state[1:], NAMES, strict=False)
        return GroundTruth(
            now=0,
            store=self.coordinators.fleets[coordinator.store],
            coordinator=self.coordinators.states[coordinator.writing if coordinator.written else coordinator.leader],
            processes=tuple(
                each for node, name in named for each in self.members.processes(node, name, coordinator.used)
            ),
            silent=({LADDER: OLD},) if self.scenario.silent else (),
            formats={(TABLE, LADDER): coordinator.used},
            used={LADDER: coordinator.used},
        )

    def violations(self, state: GlobalState) -> tuple[Violation, ...]:
        """What a state violates. What is on its way does not matter, so it is asked once for all such states."""
        key = (state[0], *map(self._facet, state[1:]))
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = tuple(check(self.evidence(state)))
        return known

    def _facet(self, node: int) -> int:
        known = self._facet_of.get(node)
        if known is None:
            known = self._facet_of[node] = self._facets.setdefault(self.members.facet(node), len(self._facets))
        return known


_REFUSED = " and is refused, so that it stops"
_ARRIVES = {
    (kind, stray, stale): f"'s {'stray ' if stray else ''}{noun} arrives{' at the stale coordinator' if stale else ''}"
    for kind, noun in ((Join, "join"), (Heartbeat, "heartbeat"), (Leave, "farewell"))
    for stray in (False, True)
    for stale in (False, True)
}


def _missed(lags: tuple[bool, ...]) -> Transition:
    names = [name for name, lagged in zip(NAMES, lags, strict=False) if lagged]
    if not names:
        return Transition(Act.TIME, -1, "time passes")
    clocks = "the clock" if len(names) == 1 else "the clocks"
    verb = "misses" if len(names) == 1 else "miss"
    return Transition(Act.LAG, -1, f"time passes, which {clocks} of {' and '.join(names)} {verb}")


_TIME = {lags: _missed(lags) for count in range(1, len(NAMES) + 1) for lags in product((False, True), repeat=count)}
