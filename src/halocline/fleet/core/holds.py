"""Holds: keeping the way back open.

A hold keeps a ladder's level from rising above the one it names, by policy or by hand, until it is released or its
stated end has come. Several may be in force at once; each has a name, so that placing one never ends another. A hold
cannot push a level down: that is a downgrade.
"""

from __future__ import annotations

from halocline.fleet.core.clock import LATEST_MS
from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Refusal, RefusedError
from halocline.fleet.core.events import PlaceHold, ReleaseHold
from halocline.fleet.core.ladder_state import Hold
from halocline.fleet.core.level import ladder_state_of


def place(draft: Draft, command: PlaceHold) -> None:
    """Places a hold."""
    ladder, name, until = command.ladder, command.name, command.until
    standing = ladder_state_of(draft.fleet, ladder).level
    level = standing if command.level is None else command.level
    if not command.reason or not name:
        raise RefusedError(Refusal("ARGUMENT_INVALID", f"a hold on {ladder} needs a name and a reason", subject=ladder))
    if (ladder, name) in draft.fleet.holds:
        step = f"Choose another name, or: halocline fleet release {ladder} {name}"
        message = f"a hold {name} is on {ladder} already"
        raise RefusedError(Refusal("ALREADY_EXISTS", message, subject=ladder, next_step=step))
    if level < standing:
        message = f"{ladder} stands at level {standing}, which a hold at {level} cannot undo"
        step = f"halocline fleet downgrade validate {ladder}={level}"
        raise RefusedError(Refusal("ARGUMENT_INVALID", message, subject=f"{ladder}={level}", next_step=step))
    if until is not None and not draft.at < until <= LATEST_MS:
        when = "before it begins" if until <= draft.at else "at no date"
        raise RefusedError(Refusal("ARGUMENT_INVALID", f"the hold {name} on {ladder} would end {when}"))
    draft.put("holds", (ladder, name), Hold(ladder, name, level, until, command.reason, command.actor))
    end = "until released" if until is None else f"until {until}"
    draft.audit(command.actor, "hold", f"{ladder}={level}", f"{name} {end}: {command.reason}")


def release(draft: Draft, command: ReleaseHold) -> None:
    """Ends a hold."""
    key = (command.ladder, command.name)
    if key not in draft.fleet.holds:
        known = ", ".join(name for ladder, name in sorted(draft.fleet.holds) if ladder == command.ladder)
        message = f"there is no hold {command.name} on {command.ladder}"
        sides = (("in force", known or "none"),)
        raise RefusedError(Refusal("NOT_FOUND", message, subject=command.ladder, sides=sides))
    draft.put("holds", key, None)
    draft.audit(command.actor, "release", command.ladder, f"{command.name} {command.reason}".rstrip())


def end_expired(draft: Draft) -> None:
    """Ends the holds whose stated end has come."""
    for key, hold in list(draft.fleet.holds.items()):
        if hold.expired(draft.at):
            draft.put("holds", key, None)
            draft.audit("fleet", "release", hold.ladder, f"{hold.name}: its end has come")
