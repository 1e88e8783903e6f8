"""Heartbeats that arrive meanwhile: while a decision is being written that is not durable yet.

What is decided counts when the store has it, and nobody may see it before. A heartbeat writes nothing, so it need not
wait for that: it is answered from the state that is durable. But it must not be lost either, nor prolong a lease that
the decision ends. So it is taken up in both states, and answered only if a lease is granted in either, the same one:
then it does not matter which of the two came first, or whether the decision is ever written. Otherwise it waits.

What members are told of levels is that of the durable state. It may be older than what is being written, as news that
are late on their way are.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline.fleet.core.effects import Effect
from halocline.fleet.core.events import Event
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.core.state import State
from halocline.fleet.core.step import step


@dataclass(frozen=True, slots=True)
class Writing:
    """A decision that is being written: the state that is durable, and the one that will be.

    Where nothing is being written, both are the same.
    """

    before: State
    after: State

    def answered(self, event: Event, rules: FleetRules = RULES) -> tuple[Writing, tuple[Effect, ...]] | None:
        """What follows from a heartbeat meanwhile; None if it has to wait until the decision is written.

        Example:
            >>> from halocline.fleet.core.events import Heartbeat, TakeOver
            >>> state, _ = step(State(), Event(0, TakeOver()))
            >>> Writing(state, state).answered(Event(0, Heartbeat("stranger", 1, 1, 0))) is None
            True
        """
        before, now = step(self.before, event, rules)
        after, later = (before, now) if self.after is self.before else step(self.after, event, rules)
        if not rules.same_lease(now, later):
            return None
        return Writing(before, rules.taken_along(self.after, after)), rules.told(now, later)
