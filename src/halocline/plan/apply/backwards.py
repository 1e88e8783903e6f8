"""The way back: what was done of a plan, taken back in the opposite order.

Every state on the way back is one that the way forth allowed, so nobody is broken on it either. It ends where something
was done that cannot be taken back: old versions that were deleted, or a table that its writers moved up by themselves,
which comes back only while they stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from halocline.compat.breaks import Client, breaks
from halocline.compat.terms import Terms
from halocline.errors import InputError
from halocline.formats.base import formats_at
from halocline.plan.action import TableAction, Verb
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.journal import FINISHED, MOVED, MOVING, TAKEN_BACK, UPGRADED, Journal
from halocline.plan.apply.lease import RolloutLease
from halocline.plan.core.plan import MemberUpgrade, Plan, PlannedMove, Stage
from halocline.plan.file import SavedPlan
from halocline.plan.tables import state_now

AS_BEFORE: Final = "the settings it had before"
"""What a member that goes back runs with."""

Breaks = Callable[[str, Terms, Terms], bool]
"""Whether somebody would break if a table went from some terms to others."""


@dataclass(frozen=True)
class WayBack:
    """What there is to take back.

    Attributes:
        stages: What is done.
        from_stage: The stage of the plan that it begins in.
        to_stage: The stage of the plan that it ends before; 1 if all of it is taken back.
        why: Why it ends there; empty if all of it is taken back.
    """

    stages: tuple[Stage, ...]
    from_stage: int = 0
    to_stage: int = 1
    why: str = ""


def way_back(stages: Iterable[Stage], would_break: Breaks) -> WayBack:
    """The stages that take stages back, as far as that goes.

    Args:
        stages: What was done, in order; a stage without anything done in it is empty.
        would_break: Whether somebody would break if a table went from some terms to others.

    Example:
        >>> from halocline.compat.release import Release
        >>> done = Stage((MemberUpgrade("etl", Release.parse("hudi@0.15.0"), Release.parse("hudi@1.2.0")),))
        >>> str(way_back([done], lambda table, before, after: False).stages[0].upgrades[0].after)
        'hudi@0.15.0'
    """
    numbered = [(number, each) for number, each in enumerate(stages, 1) if each.upgrades or each.moves]
    found: list[Stage] = []
    for number, each in reversed(numbered):
        why = _why_not(each)
        if why:
            return WayBack(tuple(found), numbered[-1][0], number + 1, why)
        found.append(_reversed(each, would_break))
    return WayBack(tuple(found), numbered[-1][0] if numbered else 0)


def saved_way_back(saved: SavedPlan, watch: FleetWatch) -> tuple[SavedPlan, WayBack]:
    """The way back of what has been done of a plan so far, as a plan of its own.

    A table that was deleted meanwhile is left out of it.

    Raises:
        InputError: Nothing has been done, or nothing of it can be taken back.
    """
    journal = Journal.open(saved.lake, saved.plan.id)
    seen = watch.look()

    def would_break(table: str, before: Terms, after: Terms) -> bool:
        clients = [
            Client(each.release, use.operations, provides=each.provides, name=each.name)
            for each in seen.members
            for use in each.uses
            if use.table == table
        ]
        return bool(breaks(before, after, clients))

    gone = {each.table for each in saved.plan.moves if not formats_at(saved.store(each.table))}
    done = []
    for number, stage in enumerate(saved.plan.stages, 1):
        upgraded = journal.subjects(UPGRADED, number)
        touched = journal.subjects(MOVED, number) | journal.subjects(MOVING, number)
        upgrades = tuple(
            each
            for each in stage.upgrades
            if each.member in upgraded or (each.after is not None and seen.release_of(each.member) == each.after)
        )
        moves = tuple(each for each in stage.moves if each.table in touched - gone)
        done.append(Stage(upgrades, moves, stage.rising if upgrades or moves else ()))
    found = way_back(done, would_break)
    if not found.stages:
        raise InputError(
            f"nothing of plan {saved.plan.id} can be taken back" if found.why else "nothing has been done yet",
            condition="POINT_OF_NO_RETURN" if found.why else "ARGUMENT_INVALID",
            sides={"plan": saved.plan.id, "because": found.why or "its journal is empty"},
            next_step="See what was done: halocline status FILE",
        )
    releases = {name: str(seen.release_of(name) or was) for name, was in saved.plan.members}
    now = {name: state_now(saved.store(name))[1] for name in saved.places}
    plan = Plan(found.stages, tables=tuple(now.items()), members=tuple(releases.items()), accepted=saved.plan.accepted)
    return replace(saved, plan=plan), found


def note_taken_back(saved: SavedPlan, back: SavedPlan, lease: RolloutLease) -> None:
    """Notes in the journal of a plan that it is being taken back, so that nobody goes on with it."""
    journal = Journal.open(saved.lake, saved.plan.id, lease.by, lease.token)
    if not journal.has(TAKEN_BACK, 0, back.plan.id):
        journal.write(TAKEN_BACK, subject=back.plan.id, detail=FINISHED)


def _why_not(stage: Stage) -> str:
    if stage.rising:
        names = ", ".join(sorted({name for name, _ in stage.rising})[:5])
        return f"writers move {names} up by themselves, and would again"
    lasting = [each for each in stage.moves if not each.reversible]
    return f"{lasting[0].action} of {lasting[0].table} cannot be taken back" if lasting else ""


def _reversed(stage: Stage, would_break: Breaks) -> Stage:
    # A member that was kept from moving tables up before must be so again.
    upgrades = (MemberUpgrade(each.member, each.after, each.before, AS_BEFORE) for each in stage.upgrades)
    return Stage(tuple(upgrades), tuple(_reversed_move(each, would_break) for each in stage.moves))


def _reversed_move(move: PlannedMove, would_break: Breaks) -> PlannedMove:
    """A move back. A feature that came in is dropped with its history kept, if nobody minds what protects that."""
    action = TableAction.parse(move.action)
    back, after = action.back(move.before, truncate=True), move.before
    if back.verb is Verb.DROP and back.truncate:
        kept = move.after
        for name in back.names:
            kept = kept.without(name, protect_history=True)
        if not would_break(move.table, move.before, kept):
            back, after = action.back(move.before, truncate=False), kept
    return PlannedMove(move.table, str(back), move.after, after, back.truncate is not True)
