"""Walks through every state that a scenario can reach, and shows the shortest way to one that should not be.

The search is breadth first, so the first violation that turns up has the fewest steps. It ends when there is nothing
new, and then the invariants hold for *all* interleavings of the scenario; or at a limit, and then only for those seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.model.invariants import Violation
from halocline.fleet.model.liveness import Helper
from halocline.fleet.model.member import LIFE
from halocline.fleet.model.scenario import Scenario
from halocline.fleet.model.transitions import GlobalState, Model

Progress = Callable[[int, int, float], None]
"""Told, now and then, how many states were seen, how deep the search is, and how many seconds it has taken."""


_OFTEN = 1000
"""After so many states limits are looked at."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The fewest steps that lead to a violation."""

    steps: tuple[str, ...]
    violations: tuple[Violation, ...]

    def __str__(self) -> str:
        lines = [f"{number:3}. {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([*lines, *(f"     violates {violation}" for violation in self.violations)])


@dataclass(frozen=True, slots=True)
class Exploration:
    """What a search has found.

    Args:
        depth: The number of steps to the farthest.
        complete: Whether there is nothing more to see.
    """

    scenario: Scenario
    states: int
    transitions: int
    depth: int
    complete: bool
    seconds: float
    counterexample: Counterexample | None

    @property
    def holds(self) -> bool:
        """Whether everything was seen and nothing is wrong."""
        return self.complete and self.counterexample is None


def explore(
    scenario: Scenario,
    rules: FleetRules = RULES,
    *,
    watch: Sequence[int] = (),
    max_states: int | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    lively: bool = False,
) -> Exploration:
    """Searches for a violation of the invariants in `watch`, or of any, until everything was seen or a limit is met.

    With `lively` it asks in every state, too, whether a level that should be reachable is.
    """
    return _Search(Model(scenario, rules), frozenset(watch), lively).run(max_states, seconds, progress)


def _by_name(message: str) -> str:
    """Lives have no numbers of their own here: there is the one that runs, and former ones."""
    return message.replace(f"#{LIFE - 1}", " in its former life").replace(f"#{LIFE}", "")


class _Search:
    def __init__(self, model: Model, watch: frozenset[int], lively: bool) -> None:
        self.model = model
        self.helper = Helper(model) if lively else None
        self.watch = watch
        self.first = model.normal(model.first)
        self.parents: dict[GlobalState, GlobalState | None] = {self.first: None}
        self.transitions = 0
        self.depth = 0
        self.began = time.monotonic()

    def run(self, max_states: int | None, seconds: float | None, progress: Progress | None) -> Exploration:
        model, parents = self.model, self.parents
        normal, successors, violations = model.normal, model.successors, self._violations
        most = max_states or float("inf")
        latest = self.began + seconds if seconds else float("inf")
        frontier = [self.first]
        while frontier:
            following: list[GlobalState] = []
            for count, state in enumerate(frontier):
                if count % _OFTEN == 0:
                    if progress is not None:
                        progress(len(parents), self.depth, self._elapsed())
                    if len(parents) > most or time.monotonic() > latest:
                        return self._result(None, complete=False)
                for step, reached in successors(state):
                    self.transitions += 1
                    if step.violations and self._watched(step.violations):
                        return self._found(self._way_to(state), None)
                    after = normal(reached)
                    if after in parents:
                        continue
                    parents[after] = state
                    following.append(after)
                    if (found := violations(after)) and self._watched(found):
                        return self._found(self._way_to(state), after)
            if following:
                self.depth += 1
            frontier = following
        return self._result(None, complete=True)

    def _violations(self, state: GlobalState) -> tuple[Violation, ...]:
        wrong = self.model.violations(state)
        return wrong if self.helper is None else (*wrong, *self.helper.violations(state))

    def _watched(self, violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
        return tuple(each for each in violations if not self.watch or each.number in self.watch)

    def _way_to(self, state: GlobalState) -> list[GlobalState]:
        way = [state]
        while (before := self.parents[way[-1]]) is not None:
            way.append(before)
        return way[::-1]

    def _found(self, way: list[GlobalState], last: GlobalState | None) -> Exploration:
        """The way in the words of one run: states were seen up to the order of members, who keep their names here."""
        model = self.model
        state = model.raised(model.first)
        steps = []
        for target in way[1:] + ([last] if last else []):
            step, after = next(each for each in model.successors(state) if model.normal(each[1]) == target)
            state = model.raised(after)
            steps.append(f"{step}{self._written(after, state)}")
        wrong = self._watched(self._violations(state))
        if last is None:
            bad = next(step for step, _ in model.successors(state) if self._watched(step.violations))
            steps.append(str(bad))
            wrong = self._watched(bad.violations)
        named = tuple(replace(each, message=_by_name(each.message)) for each in wrong)
        return self._result(Counterexample(tuple(steps), named), complete=False)

    def _written(self, before: GlobalState, after: GlobalState) -> str:
        level = self.model.coordinators.values[after[0]].used
        return f"; the table is raised to level {level}" if before != after else ""

    def _result(self, found: Counterexample | None, *, complete: bool) -> Exploration:
        return Exploration(
            self.model.scenario, len(self.parents), self.transitions, self.depth, complete, self._elapsed(), found
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self.began
