"""The coordinator's half of the protocol as one pure function.

`step(state, event)` gives the next state and what is to be done about it. It reads no clock and touches nothing: time
arrives in events, and writes, answers and audit entries leave as effects. A service carries the effects out in order
(see `halocline.fleet.core.effects`) and keeps the new state only if its commit was accepted.

A coordinator begins by reading the fleet from the store and taking over, which makes a new epoch and gives every
registered member a full lease: none is considered gone before it, because the former coordinator may have renewed
leases just before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from halocline.errors import InternalError
from halocline.fleet.core import declarations, downgrade, holds, level, members
from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Effect
from halocline.fleet.core.events import (
    CancelDowngrade,
    CleanDowngrade,
    DeclareLadder,
    Event,
    FinishDowngrade,
    Heartbeat,
    Join,
    Leave,
    MoveTable,
    Observe,
    PlaceHold,
    Raise,
    ReleaseHold,
    RemoveMember,
    SetPolicy,
    SetTerms,
    StartDowngrade,
    TakeOver,
    Tick,
)
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.core.state import Fleet, Presence, State


def step(state: State, event: Event, rules: FleetRules = RULES) -> tuple[State, tuple[Effect, ...]]:
    """What follows from an event.

    Args:
        state: What this coordinator knows.
        event: What happens, and when.
        rules: The decisions to follow; anything but the design is for showing what breaks.

    Returns:
        The next state, to be kept only if the commit among the effects is accepted; and the effects, in order.

    Example:
        >>> state, effects = step(loaded(Fleet()), Event(0, TakeOver()))
        >>> state.epoch, effects[0]
        (1, CommitRecords(epoch=0, changes=(RecordChange(kind='epoch', key=(), value=1),)))
    """
    if state.epoch == 0 and not isinstance(event.cause, TakeOver):
        raise InternalError(f"a coordinator must take over before anything else, but began with {event.cause}")
    draft = Draft(state, event.at, rules)
    _HANDLERS[type(event.cause)](draft, event.cause)
    return draft.finish()


def loaded(fleet: Fleet) -> State:
    """The state of a coordinator that has read the fleet from the store and not yet taken over."""
    return State(0, fleet, {})


def take_over(draft: Draft, _: TakeOver) -> None:
    """Begins a new epoch, with a full lease for every registered member."""
    draft.take_over(draft.fleet.epoch + 1)
    until = draft.rules.grace(draft.at, draft.fleet.terms)
    for key, member in draft.fleet.speaking():
        draft.remember(key, Presence(until, 0, member.admitted))
    draft.audit("fleet", "take-over", f"epoch {draft.fleet.epoch}")


def tick(draft: Draft, _: Tick) -> None:
    """Does everything that follows from time alone."""
    members.expire(draft)
    holds.end_expired(draft)
    downgrade.advance(draft)
    level.settle(draft)
    level.raise_by_policy(draft)


_HANDLERS: Final[dict[type, Callable[[Draft, Any], None]]] = {
    Join: members.join,
    Heartbeat: members.heartbeat,
    Leave: members.leave,
    Tick: tick,
    TakeOver: take_over,
    Raise: level.raise_level,
    SetPolicy: level.set_policy,
    PlaceHold: holds.place,
    ReleaseHold: holds.release,
    StartDowngrade: downgrade.start,
    CleanDowngrade: downgrade.clean,
    FinishDowngrade: downgrade.finish,
    CancelDowngrade: downgrade.cancel,
    DeclareLadder: declarations.declare,
    Observe: members.observe,
    RemoveMember: members.remove,
    MoveTable: declarations.move_table,
    SetTerms: declarations.set_terms,
}
