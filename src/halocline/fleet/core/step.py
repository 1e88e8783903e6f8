"""The coordinator's half of the protocol as one pure function.

`step(state, event)` gives the next state and what is to be done about it. It reads no clock and touches nothing: time
arrives in events, and writes, answers and audit entries leave as effects. A service carries the effects out in order
(see `halocline.fleet.core.effects`) and keeps the new state only if its commit was accepted.

A coordinator begins by reading the fleet from the store and taking over, which makes a new epoch and gives every
registered member a full lease: none is considered gone before it, because the former coordinator may have renewed
leases just before, and may go on for as long as it believes that it leads.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import Any, Final

from halocline.errors import InternalError
from halocline.fleet.core import declarations, downgrade, events, holds, level, members
from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Effect, Refusal, RefusedError, Repeat
from halocline.fleet.core.events import Command, Event, Once, TakeOver, Tick
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.core.state import ANSWERED_MS, MOST_ANSWERED, DoneCommand, Fleet, Presence, State


def step(state: State, event: Event, rules: FleetRules = RULES) -> tuple[State, tuple[Effect, ...]]:
    """What follows from an event: the next state, to be kept only if the commit among the effects is accepted.

    Example:
        >>> state, effects = step(loaded(Fleet()), Event(0, TakeOver()))
        >>> state.epoch, effects[0]
        (1, CommitRecords(epoch=0, changes=(RecordChange(kind='epoch', key=(), value=1),)))
    """
    if state.epoch == 0 and not isinstance(event.cause, TakeOver):
        raise InternalError(f"a coordinator must take over before anything else, but began with {event.cause}")
    draft, cause = Draft(state, event.at, rules), event.cause
    try:
        _HANDLERS[type(cause)](draft, cause)
    except RefusedError as refused:
        command = cause.command if isinstance(cause, Once) else cause
        assert isinstance(command, Command)
        draft = Draft(state, event.at, rules)
        draft.refuse(command.actor, command.action, refused.refusal)
    return draft.finish()


def loaded(fleet: Fleet) -> State:
    """The state of a coordinator that has read the fleet from the store and not yet taken over."""
    return State(0, fleet, {})


def take_over(draft: Draft, event: TakeOver) -> None:
    """Begins a new epoch, with a full lease for every registered member."""
    draft.take_over(draft.fleet.epoch + 1)
    draft.mark = event.mark
    if event.seal_key and not draft.fleet.seal_key:
        draft.put("seal_key", (), event.seal_key)
    until = draft.rules.grace(draft.at, draft.fleet.terms, event.belief)
    for key, member in draft.fleet.speaking():
        draft.remember(key, Presence(until, 0, member.admitted))
    draft.audit("fleet", "take-over", f"epoch {draft.fleet.epoch}")


def once(draft: Draft, event: Once) -> None:
    """Does a command, unless it was done before; then its sender is told what it led to."""
    known = draft.fleet.answered.get(event.key)
    if known is None:
        _HANDLERS[type(event.command)](draft, event.command)
        draft.put("answered", event.key, DoneCommand(draft.at, event.digest, draft.decisions))
    elif known.digest == event.digest:
        draft.add(Repeat(known.decisions))
    else:
        message = f"the key {event.key.rpartition('/')[2]} belongs to another command"
        step = "Use a new key for a new command."
        raise RefusedError(Refusal("ARGUMENT_INVALID", message, next_step=step))


def tick(draft: Draft, event: Tick) -> None:
    """Does everything that follows from time alone."""
    if event.sweep:
        members.sweep(draft)
        _forget_answered(draft)
    members.expire(draft)
    holds.end_expired(draft)
    downgrade.advance(draft)
    level.settle(draft)
    level.raise_by_policy(draft)


def _forget_answered(draft: Draft) -> None:
    """Forgets the commands that were done long ago, or too many ago."""
    known = draft.fleet.answered
    newest = dict(nlargest(MOST_ANSWERED, known.items(), key=lambda item: item[1].at))
    for key, answered in known.items():
        if key not in newest or answered.at + ANSWERED_MS <= draft.at:
            draft.put("answered", key, None)


_HANDLERS: Final[dict[type, Callable[[Draft, Any], None]]] = {
    events.Join: members.join,
    events.Heartbeat: members.heartbeat,
    events.Leave: members.leave,
    Once: once,
    Tick: tick,
    TakeOver: take_over,
    events.Raise: level.raise_level,
    events.SetPolicy: level.set_policy,
    events.PlaceHold: holds.place,
    events.ReleaseHold: holds.release,
    events.StartDowngrade: downgrade.start,
    events.CleanDowngrade: downgrade.clean,
    events.FinishDowngrade: downgrade.finish,
    events.CancelDowngrade: downgrade.cancel,
    events.DeclareLadder: declarations.declare,
    events.Observe: members.observe,
    events.RemoveMember: members.remove,
    events.MoveTable: declarations.move_table,
    events.SetTerms: declarations.set_terms,
}
