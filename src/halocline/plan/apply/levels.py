"""Levels of the fleet on the way: raised before a table requires more, lowered before members go back.

A member whose release does not reach the fleet's level is not admitted. So a wave that brings older releases waits
until the level has fallen to what they support, in the phases of a downgrade: gates close, everybody finishes what is
under way, and the level falls once no table needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from halocline.errors import HaloclineError
from halocline.fleet.answers import LadderStatus
from halocline.fleet.core.ladders import supported_by
from halocline.fleet.member.admin import AdminClient
from halocline.plan.core.plan import MemberUpgrade

Note = Callable[[str], None]
Uses = Mapping[str, Mapping[str, Sequence[str]]]
"""What each member does to which tables."""


def raise_level(fleet: str, ladder: str, needed: int, reason: str, note: Note) -> None:
    """Raises a level, rung by rung.

    Raises:
        HaloclineError: Something is in the way; it is named.
    """
    with AdminClient(fleet) as admin:
        status = admin.describe().ladder(ladder)
        for level in status.levels:
            if status.level < level <= needed:
                admin.raise_level(ladder, level, reason=reason)
                note(f"the fleet is at level {level} of {ladder} now")


def make_room(
    fleet: str,
    upgrades: Iterable[MemberUpgrade],
    uses: Mapping[str, Mapping[str, Sequence[str]]],
    reason: str,
    note: Note,
) -> str:
    """Lets levels fall to what members are to run; what is waited for, or nothing once they are low enough."""
    highest: dict[str, int] = {}
    for each in upgrades:
        if each.after is not None:
            done = {operation.partition(".")[0] for found in uses.get(each.member, {}).values() for operation in found}
            for ladder, reach in supported_by(str(each.after), sorted(done) or ["read"]).items():
                highest[ladder] = min(reach.hi, highest.get(ladder, reach.hi))
    with AdminClient(fleet) as admin:
        for status in admin.describe().ladders:
            if status.level > highest.get(status.ladder, status.level):
                return _fallen(admin, status, highest[status.ladder], reason, note)
    return ""


def _fallen(admin: AdminClient, status: LadderStatus, level: int, reason: str, note: Note) -> str:
    """Takes the next step of a downgrade; what is waited for."""
    ladder, running = status.ladder, status.downgrade
    try:
        if running is None:
            admin.start_downgrade(ladder, level, reason)
            note(f"the fleet falls to level {level} of {ladder}: gates close")
        elif running.phase == "closed":
            admin.clean_downgrade(ladder, reason=reason)
        elif running.phase == "cleaning":
            admin.finish_downgrade(ladder, reason=reason)
            note(f"the fleet is at level {level} of {ladder} now")
        elif running.waiting:
            return f"gates of {ladder} close, for {', '.join(running.waiting[:5])}"
    except HaloclineError as error:
        return f"level {level} of {ladder} is not reached yet, {error.message}"
    return f"the fleet falls to level {level} of {ladder}"
