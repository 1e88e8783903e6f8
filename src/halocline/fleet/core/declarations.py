"""What is declared to a fleet: its ladders, its terms, and the levels of its tables.

A table's level is what the table itself requires on its ladder. It rises after its migration, never above what gates
allow, and falls as long as every user of the table still supports the lower level.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Refusal, RefusedError
from halocline.fleet.core.events import DeclareLadder, MoveTable, SetTerms
from halocline.fleet.core.ladder import Ladder
from halocline.fleet.core.ladder_state import LadderState, Policy
from halocline.fleet.core.level import ladder_state_of, unmet
from halocline.fleet.core.state import MOST_TABLES, TableLevel


def declare(draft: Draft, command: DeclareLadder) -> None:
    """Adds a ladder, or rungs on top of one."""
    ladder = command.ladder
    name = ladder.name
    known = draft.fleet.ladders.get(name)
    level = command.level if command.level is not None else ladder.levels[0]
    problem = _cannot_grow(known, ladder) if known else next(_cannot_begin(draft, ladder, level, command.policy), None)
    if problem:
        raise RefusedError(Refusal("ARGUMENT_INVALID", f"ladder {name} cannot be declared: {problem}", subject=name))
    if known == ladder:
        return
    draft.put("ladders", name, ladder)
    if known is None:
        # Members that are here already have not heard of it, so nothing is settled yet.
        draft.put("ladder_states", name, LadderState(level, 0, 0, command.policy))
        draft.change_ladder(name)
    draft.audit(command.actor, "declare", name, f"levels {', '.join(map(str, ladder.levels))}")


def _cannot_grow(known: Ladder, ladder: Ladder) -> str:
    return "" if ladder.extends(known) else "rungs that were declared before never change; add new ones on top"


def _cannot_begin(draft: Draft, ladder: Ladder, level: int, policy: Policy) -> Iterator[str]:
    if policy is Policy.HOLD:
        yield "a hold has a name, a reason and an end: place one afterwards"
    if ladder.rung(level) is None:
        yield f"it has no level {level} to begin at"
    for rung, other, needed in unmet(draft.fleet, ladder.up_to(level)):
        yield f"level {rung.level} requires level {needed} of {other}"
    features = ladder.features_at(level)
    for key, member in draft.fleet.speaking():
        supported = member.report.supported.get(ladder.name)
        if supported is not None and (level not in supported or not features <= member.report.features):
            yield f"{key} ({member.report.release}) does not support level {level}"


def set_terms(draft: Draft, command: SetTerms) -> None:
    """Changes what the fleet agrees on.

    A lease that becomes shorter is refused while members hold longer ones, since a coordinator that takes over would
    wait too little.
    """
    before, after = draft.fleet.terms, command.terms
    shorter = after.lease < before.lease or after.margin < before.margin
    needs = {feature for _, member in draft.fleet.speaking() for feature in member.report.needs}
    needed = sorted(needs - after.provides)
    if needed:
        message = f"members need {', '.join(needed)}"
        raise RefusedError(Refusal("INCOMPATIBLE_VERSION", message, subject=needed[0]))
    if shorter and next(draft.fleet.speaking(), None) is not None:
        message = f"members hold leases of {before.lease} with margin {before.margin}; they cannot become shorter"
        raise RefusedError(Refusal("ARGUMENT_INVALID", message))
    if after != before:
        draft.put("terms", (), after)
        draft.audit(command.actor, "terms", "fleet", command.reason)


def move_table(draft: Draft, command: MoveTable) -> None:
    """Records the level that a table now requires."""
    table, ladder, level = command.table, command.ladder, command.level
    before = draft.fleet.tables.get((table, ladder))
    if before is not None and before.level == level:
        return
    _check_move(draft, command)
    if before is None and len(draft.fleet.tables) >= MOST_TABLES:
        message = f"the fleet has recorded the levels of {MOST_TABLES:,} tables already, and counts no more"
        raise RefusedError(Refusal("TOO_MANY", message, table, next_step="Make another fleet for some of them."))
    draft.put("tables", (table, ladder), TableLevel(table, ladder, level, draft.at))
    draft.audit(command.actor, "table", table, f"{ladder} {before.level if before else 'none'} to {level}")


def _check_move(draft: Draft, command: MoveTable) -> None:
    table, ladder, level = command.table, command.ladder, command.level
    ladder_state, subject = ladder_state_of(draft.fleet, ladder), f"{ladder}={level}"
    if draft.fleet.ladders[ladder].rung(level) is None:
        levels = ", ".join(map(str, draft.fleet.ladders[ladder].levels))
        raise RefusedError(Refusal("ARGUMENT_INVALID", f"{ladder} has levels {levels}", subject))
    if level > ladder_state.limit:
        message = f"{table} cannot require level {level} of {ladder}: gates are open up to {ladder_state.limit}"
        stands = f"level {ladder_state.level}, gates up to {ladder_state.limit}"
        sides = (("table", f"level {level}"), ("fleet", stands))
        raise RefusedError(
            Refusal("GATE_CLOSED", message, subject, sides, next_step=f"halocline fleet raise {ladder}={level}")
        )
    for key, member in draft.fleet.speaking():
        supported = member.report.supported.get(ladder)
        if supported is not None and level in supported:
            continue
        if any(use.table == table and use.ladder == ladder for use in member.report.tables):
            message = f"{key} uses {table} and does not support level {level} of {ladder}"
            sides = (("table", f"level {level}"), (str(key), f"{member.report.release}, {ladder} {supported}"))
            raise RefusedError(Refusal("INCOMPATIBLE_VERSION", message, subject, sides))
