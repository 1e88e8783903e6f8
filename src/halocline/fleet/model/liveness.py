"""Whether a level can be reached without an operator.

From a world in which everybody who runs supports the level, a *helper* does only what a well-meaning network would:
messages arrive, members send heartbeats, timers go off, time passes, nobody crashes or starts anew. If the level is not
reached that way within a few leases, it never will be.
"""

from __future__ import annotations

from halocline.fleet.model.ground_truth import Reach
from halocline.fleet.model.invariants import Violation, check
from halocline.fleet.model.member import Act
from halocline.fleet.model.scenario import LADDER, NEW
from halocline.fleet.model.worlds import Model, ModelWorld, Step

_PATIENCE = 200


class Helper:
    """Looks for the way from a world to the new level."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._good: set[ModelWorld] = set()

    def expected(self, world: ModelWorld) -> bool:
        """Whether the level should be within reach: somebody runs, and everybody who runs supports it."""
        members = [self.model.sides.values[side].member for side in world[1:]]
        running = [member for member in members if member is not None]
        return bool(running) and all(member.report.supported[LADDER] == NEW for member in running)

    def violations(self, world: ModelWorld) -> list[Violation]:
        """What is wrong if the level should be within reach and is not."""
        if not self.expected(world):
            return []
        described = "everybody who runs supports it, and whoever does not has stopped"
        return check(Reach(LADDER, NEW.hi, self._reaches(world), described))

    def _reaches(self, world: ModelWorld) -> bool:
        way: list[ModelWorld] = []
        while world not in self._good:
            if self.model.centers.ladder_state(world[0]).level >= NEW.hi:
                break
            if len(way) > _PATIENCE:
                return False
            way.append(world)
            world = self.model.normal(self._help(world))
        self._good.update(way)
        return True

    def _help(self, world: ModelWorld) -> ModelWorld:
        """The world after the most helpful of the things that can happen."""
        return min(self.model.successors(world), key=lambda each: self._trouble(world, each[0]))[1]

    def _trouble(self, world: ModelWorld, step: Step) -> int:
        if step.act is Act.SEND and not self._worth_sending(world, world[step.who + 1]):
            return len(_ORDER)
        if step.act is Act.START and (self.expected(world) or not step.text.startswith("starts the new")):
            return len(_ORDER)
        return _ORDER.index(step.act) if step.act in _ORDER else len(_ORDER)

    def _worth_sending(self, world: ModelWorld, number: int) -> bool:
        """Whether nothing is on its way, and the lease or the news are not fresh."""
        side = self.model.sides.values[number]
        if side.message is not None or side.member is None:
            return False
        tired = (side.member.until or 0) < self.model.scenario.lease
        return tired or self.model.sides.revision(number) < self.model.centers.ladder_state(world[0]).revision


_ORDER = (Act.HEAR, Act.ARRIVE, Act.TIMER, Act.SEND, Act.START, Act.TIME)
"""The most helpful first; nothing else helps."""
