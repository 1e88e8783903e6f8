"""Model worlds, and what can happen in each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import NamedTuple

from halocline.fleet.core.effects import Refuse
from halocline.fleet.core.events import Heartbeat, Join, Leave, Message
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.model.coordinator import Centers
from halocline.fleet.model.ground_truth import World
from halocline.fleet.model.invariants import Violation, check
from halocline.fleet.model.member import Act, Move, Sides
from halocline.fleet.model.scenario import LADDER, NAMES, OLD, TABLE, Scenario

ModelWorld = tuple[int, ...]
"""The number of a center, followed by those of the sides."""


class Step(NamedTuple):
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
        self.centers = Centers(scenario, rules)
        self.sides = Sides(scenario, rules)
        self._steps: dict[tuple[int, int, int], tuple[tuple[Step, int, int], ...]] = {}
        self._verdicts: dict[tuple[int, ...], tuple[Violation, ...]] = {}
        self._facets: dict[object, int] = {}
        self._facet_of: dict[int, int] = {}

    @property
    def first(self) -> ModelWorld:
        """The world in which nothing runs yet."""
        return (self.centers.first, *([self.sides.nothing] * self.scenario.members))

    def successors(self, world: ModelWorld) -> Iterator[tuple[Step, ModelWorld]]:
        """Everything that can happen next; the worlds are not in normal form."""
        center, steps = world[0], self._steps
        for who in range(1, len(world)):
            key = (center, who, world[who])
            known = steps.get(key)
            if known is None:
                known = steps[key] = tuple(self._steps_of(center, who - 1, world[who]))
            before, after = world[1:who], world[who + 1 :]
            for step, moved, side in known:
                yield step, (moved, *before, side, *after)
        for act, text, outcome in self.centers.moves(center):
            yield Step(act, -1, text, outcome.violations), (outcome.center, *world[1:])
        yield from self._time_passes(world)

    def _steps_of(self, center: int, who: int, side: int) -> Iterator[tuple[Step, int, int]]:
        """What one member can do, or have happen to it, with the center and its side afterwards."""
        for move in self._moves(center, side):
            moved = center
            if move.act is Act.START:
                if self.centers.former_lives(center, who) > self.scenario.lives:
                    continue
                moved = self.centers.restart(center, who)
            elif move.side == side:
                continue
            yield Step(move.act, who, move.text, move.violations), moved, move.side
        yield from self._arrivals(center, who, side)

    def _moves(self, center: int, side: int) -> Iterator[Move]:
        sides = self.sides
        yield from sides.moves(side)
        if begun := sides.begins(side, self.centers.values[center].used):
            yield begun
        news, revision = self.centers.news(center), sides.revision(side)
        if self.scenario.late_news and revision >= 0 and sides.values[side].news is None:
            yield Move(Act.SEND, "is sent news, which take their time", sides.pushed(side, news))
        if 0 <= revision < news.announcements[0].revision:
            yield sides.hears(side, news)

    def _arrivals(self, center: int, who: int, number: int) -> Iterator[tuple[Step, int, int]]:
        side = self.sides.values[number]
        stale = self.centers.values[center].stale >= 0
        for message, stray in ((side.message, False), (side.stray, True)):
            if not isinstance(message, Message):
                continue
            taken = self.sides.taken(number, stray=stray)
            for late in (False, True) if stale else (False,):
                after, reply, violations = self.centers.deliver(center, who, message, stale=late)
                act = Act.ARRIVE_LATE if stray or late else Act.ARRIVE
                text = _ARRIVES[type(message), stray, late]
                answer = None if stray else reply
                if isinstance(answer, Refuse) and side.member is not None:
                    heard = self.sides.hears(taken, answer)
                    yield Step(act, who, text + _REFUSED, violations + heard.violations), after, heard.side
                    answer = None
                yield Step(act, who, text, violations), after, self.sides.put(taken, answer) if answer else taken

    def _time_passes(self, world: ModelWorld) -> Iterator[tuple[Step, ModelWorld]]:
        center = self.centers.tick(world[0])
        for choice in product(*(self.sides.ticks(side) for side in world[1:])):
            step = _TIME[tuple(lagged for _, lagged in choice)]
            yield step, (center, *(side for side, _ in choice))

    def normal(self, world: ModelWorld) -> ModelWorld:
        """The world after tables were raised by whoever can, with members in a fixed order."""
        world = self.raised(world)
        if len(world) == 3:
            center, one, other = world
            if one < other:
                return world
            swapped = self.centers.permute(center, (1, 0))
            return (swapped, other, one) if one > other else (min(center, swapped), one, other)
        center, *sides = world
        order = tuple(sorted(range(len(sides)), key=sides.__getitem__))
        ordered = [sides[which] for which in order]
        if len(set(sides)) == len(sides):
            return (self.centers.permute(center, order), *ordered)
        orders = (each for each in permutations(order) if [sides[which] for which in each] == ordered)
        return (min(self.centers.permute(center, each) for each in orders), *ordered)

    def raised(self, world: ModelWorld) -> ModelWorld:
        """The world after tables were raised by whoever can."""
        center, levels = world[0], self.sides.levels
        used = self.centers.values[center].used
        for side in world[1:]:
            if levels[side] > used:
                break
        else:
            return world
        acting = max(self.sides.acting(side, used) for side in world[1:])
        return (self.centers.write(center, acting), *world[1:])

    def evidence(self, world: ModelWorld) -> World:
        """What there is to look at."""
        center = self.centers.values[world[0]]
        named = zip(world[1:], NAMES, strict=False)
        return World(
            now=0,
            store=self.centers.fleets[center.store],
            coordinator=self.centers.states[center.leader],
            processes=tuple(each for side, name in named for each in self.sides.processes(side, name, center.used)),
            silent=({LADDER: OLD},) if self.scenario.silent else (),
            formats={(TABLE, LADDER): center.used},
            used={LADDER: center.used},
        )

    def violations(self, world: ModelWorld) -> tuple[Violation, ...]:
        """What a world violates. What is on its way does not matter, so it is asked once for all such worlds."""
        key = (world[0], *map(self._facet, world[1:]))
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = tuple(check(self.evidence(world)))
        return known

    def _facet(self, side: int) -> int:
        known = self._facet_of.get(side)
        if known is None:
            known = self._facet_of[side] = self._facets.setdefault(self.sides.facet(side), len(self._facets))
        return known


_REFUSED = " and is refused, so that it stops"
_ARRIVES = {
    (kind, stray, stale): f"'s {'stray ' if stray else ''}{noun} arrives{' at the stale coordinator' if stale else ''}"
    for kind, noun in ((Join, "join"), (Heartbeat, "heartbeat"), (Leave, "farewell"))
    for stray in (False, True)
    for stale in (False, True)
}


def _missed(lags: tuple[bool, ...]) -> Step:
    names = [name for name, lagged in zip(NAMES, lags, strict=False) if lagged]
    if not names:
        return Step(Act.TIME, -1, "time passes")
    clocks = "the clock" if len(names) == 1 else "the clocks"
    verb = "misses" if len(names) == 1 else "miss"
    return Step(Act.LAG, -1, f"time passes, which {clocks} of {' and '.join(names)} {verb}")


_TIME = {lags: _missed(lags) for count in range(1, len(NAMES) + 1) for lags in product((False, True), repeat=count)}
