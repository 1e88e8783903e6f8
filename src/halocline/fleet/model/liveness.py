"""Whether a level can be reached without an operator.

From a state in which every member that runs supports the level, a *helper* does only what a well-meaning network would:
messages arrive, members send heartbeats, timers go off, time passes, no process crashes or starts anew. If the level is
not reached that way within a few leases, it never will be.
"""

from __future__ import annotations

from halocline.fleet.model.ground_truth import Reach
from halocline.fleet.model.invariants import Violation, check
from halocline.fleet.model.member import Act
from halocline.fleet.model.scenario import LADDER, NEW
from halocline.fleet.model.transitions import GlobalState, Model, Transition

_PATIENCE = 200


class Helper:
    """Looks for the way from a state to the new level."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._good: set[GlobalState] = set()

    def expected(self, state: GlobalState) -> bool:
        """Whether the level should be within reach: a member runs, and all that run support it."""
        members = [self.model.members.values[node].member for node in state[1:]]
        running = [member for member in members if member is not None]
        return bool(running) and all(member.report.supported[LADDER] == NEW for member in running)

    def violations(self, state: GlobalState) -> list[Violation]:
        """What is wrong if the level should be within reach and is not."""
        if not self.expected(state):
            return []
        described = "every member that runs supports it, and those that do not have stopped"
        return check(Reach(LADDER, NEW.hi, self._reaches(state), described))

    def _reaches(self, state: GlobalState) -> bool:
        way: list[GlobalState] = []
        while state not in self._good:
            if self.model.coordinators.ladder_state(state[0]).level >= NEW.hi:
                break
            if len(way) > _PATIENCE:
                return False
            way.append(state)
            state = self.model.normal(self._help(state))
        self._good.update(way)
        return True

    def _help(self, state: GlobalState) -> GlobalState:
        """The state after the most helpful of the things that can happen."""
        return min(self.model.successors(state), key=lambda each: self._trouble(state, each[0]))[1]

    def _trouble(self, state: GlobalState, step: Transition) -> int:
        if step.act is Act.SEND and not self._worth_sending(state, state[step.who + 1]):
            return len(_ORDER)
        if step.act is Act.START and (self.expected(state) or not step.text.startswith("starts the new")):
            return len(_ORDER)
        return _ORDER.index(step.act) if step.act in _ORDER else len(_ORDER)

    def _worth_sending(self, state: GlobalState, number: int) -> bool:
        """Whether nothing is on its way, and the lease or the news are not fresh."""
        node = self.model.members.values[number]
        if node.message is not None or node.member is None:
            return False
        tired = (node.member.until or 0) < self.model.scenario.lease
        return tired or self.model.members.revision(number) < self.model.coordinators.ladder_state(state[0]).revision


_ORDER = (Act.HEAR, Act.ARRIVE, Act.TIMER, Act.SEND, Act.START, Act.TIME)
"""The most helpful first; nothing else helps."""
