"""Holds: keeping the way back open.

A hold keeps a ladder's level from rising above the one it names, by policy or by hand, until it is released or its
stated end has come. Several may be in force at once; each has a name, so that placing one never ends another. A hold
cannot push a level down: that is a downgrade.
"""

from __future__ import annotations

from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Refusal
from halocline.fleet.core.events import PlaceHold, ReleaseHold
from halocline.fleet.core.ladder_state import Hold
from halocline.fleet.core.level import no_such_ladder


def place(draft: Draft, command: PlaceHold) -> None:
    """Places a hold."""
    refusal = _objection(draft, command)
    if refusal is not None:
        draft.refuse(command.actor, "hold", refusal)
        return
    ladder, name = command.ladder, command.name
    level = command.level if command.level is not None else draft.fleet.ladder_states[ladder].level
    hold = Hold(ladder, name, level, command.until, command.reason, command.actor)
    draft.put("holds", (ladder, name), hold)
    end = "until released" if command.until is None else f"until {command.until}"
    draft.audit(command.actor, "hold", f"{ladder}={level}", f"{name} {end}: {command.reason}")


def release(draft: Draft, command: ReleaseHold) -> None:
    """Ends a hold."""
    key = (command.ladder, command.name)
    if key not in draft.fleet.holds:
        known = ", ".join(name for ladder, name in sorted(draft.fleet.holds) if ladder == command.ladder)
        message = f"there is no hold {command.name} on {command.ladder}"
        refusal = Refusal("NOT_FOUND", message, subject=command.ladder, sides=(("in force", known or "none"),))
        draft.refuse(command.actor, "release", refusal)
        return
    draft.put("holds", key, None)
    draft.audit(command.actor, "release", command.ladder, f"{command.name} {command.reason}".rstrip())


def end_expired(draft: Draft) -> None:
    """Ends the holds whose stated end has come."""
    for key, hold in list(draft.fleet.holds.items()):
        if hold.expired(draft.at):
            draft.put("holds", key, None)
            draft.audit("fleet", "release", hold.ladder, f"{hold.name}: its end has come")


def _objection(draft: Draft, command: PlaceHold) -> Refusal | None:
    ladder = command.ladder
    ladder_state = draft.fleet.ladder_states.get(ladder)
    if ladder_state is None:
        return no_such_ladder(draft.fleet, ladder)
    if not command.reason or not command.name:
        return Refusal("ARGUMENT_INVALID", f"a hold on {ladder} needs a name and a reason", subject=ladder)
    if (ladder, command.name) in draft.fleet.holds:
        return Refusal(
            "ALREADY_EXISTS",
            f"a hold {command.name} is on {ladder} already",
            subject=ladder,
            next_step=f"Choose another name, or: halocline fleet release {ladder} {command.name}",
        )
    if command.level is not None and command.level < ladder_state.level:
        return Refusal(
            "ARGUMENT_INVALID",
            f"{ladder} stands at level {ladder_state.level}, which a hold at {command.level} cannot undo",
            subject=f"{ladder}={command.level}",
            next_step=f"halocline fleet downgrade validate {ladder}={command.level}",
        )
    if command.until is not None and command.until <= draft.at:
        return Refusal("ARGUMENT_INVALID", f"the hold {command.name} on {ladder} would end before it begins")
    return None
