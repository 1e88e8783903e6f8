"""Downgrades: the only way for a level to fall.

Three phases, and none is skipped:

    closing    gates above the target are closed; every live member must say that nothing of it acts above any more
    closed     all have. Until here it can be cancelled, which opens the gates again
    cleaning   tables are rewritten for the target level: past the point of no return, the only way is on

and then the level falls. If no level in between changes stored data the downgrade is *free*: there is nothing to clean,
and it can be cancelled until the level has fallen. A member that joins meanwhile must support both the level and the
target.

A downgrade turns the policy to manual, or the fleet would climb up again at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final

from halocline.errors import shortened
from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Refusal, RefusedError
from halocline.fleet.core.events import CancelDowngrade, CleanDowngrade, DowngradeStep, FinishDowngrade, StartDowngrade
from halocline.fleet.core.ladder_state import Downgrade, LadderState, Phase
from halocline.fleet.core.level import Blocker, BlockerKind, ladder_state_of, no_such_ladder
from halocline.fleet.core.rules import tables_above
from halocline.fleet.core.state import Fleet, State, TableLevel

_MOST_TOLD: Final = 100
_FEW: Final = 10


@dataclass(frozen=True, slots=True)
class DowngradePlan:
    """What a downgrade would take.

    Args:
        tables: The tables that are above the target and need cleaning.
        waiting: The members that have not closed their gates yet, of very many the first; all before it has started.
        awaited: How many these are.
    """

    level: int
    blockers: tuple[Blocker, ...]
    free: bool
    tables: tuple[TableLevel, ...]
    waiting: tuple[str, ...]
    awaited: int


def plan_downgrade(state: State, ladder: str, target: int, at: int) -> DowngradePlan:
    """Whether a level could fall to `target`, what would have to be cleaned and who is waited for; changes nothing."""
    fleet = state.fleet
    ladder_state = fleet.ladder_states.get(ladder)
    level = ladder_state.level if ladder_state else 0
    running = ladder_state.downgrade if ladder_state else None
    if running is not None and running.target != target:
        running = None
    waiting = [key for key, view in state.views(ladder) if running is None or view.revision < running.revision]
    return DowngradePlan(
        level,
        () if running else tuple(_blockers(fleet, ladder, target, at)),
        ladder in fleet.ladders and fleet.ladders[ladder].free(level, target),
        tables_above(fleet, ladder, target),
        tuple(str(key) for key in nsmallest(_MOST_TOLD, waiting)),
        len(waiting),
    )


def start(draft: Draft, command: StartDowngrade) -> None:
    """Closes the gates."""
    ladder, target = command.ladder, command.target
    blockers = list(_blockers(draft.fleet, ladder, target, draft.at))
    if not command.reason:
        blockers.append(Blocker(BlockerKind.UNKNOWN, command.actor, "a downgrade needs a reason"))
    if blockers:
        message = f"{ladder} cannot go down to level {target}: {len(blockers)} in the way"
        sides = tuple((blocker.who, blocker.text) for blocker in blockers)
        raise RefusedError(_blocked(ladder, target, message, sides, blockers[0].fix))
    ladder_state = draft.fleet.ladder_states[ladder]
    free = draft.fleet.ladders[ladder].free(ladder_state.level, target)
    revision = ladder_state.revision + 1
    downgrade = Downgrade(target, Phase.CLOSING, revision, free, draft.at, command.actor, command.reason)
    settled, policy = min(ladder_state.settled, target), draft.rules.policy_below(ladder_state.policy)
    draft.change_ladder(ladder, downgrade=downgrade, closed=revision, settled=settled, policy=policy)
    way = "free" if free else "data needs cleaning"
    draft.audit(command.actor, "downgrade", f"{ladder}={target}", f"gates are closing, {way}: {command.reason}")


def advance(draft: Draft) -> None:
    """Notes, per ladder on its way down, that every member has closed the gates."""
    for ladder, ladder_state in sorted(draft.fleet.ladder_states.items()):
        downgrade = ladder_state.downgrade
        if downgrade is None or downgrade.phase is not Phase.CLOSING:
            continue
        if draft.rules.acknowledged(downgrade, (view for _, view in draft.state.views(ladder))):
            draft.put("ladder_states", ladder, _in_phase(ladder_state, downgrade, Phase.CLOSED))
            draft.audit("fleet", "downgrade", f"{ladder}={downgrade.target}", "every member has closed the gates")


def clean(draft: Draft, command: CleanDowngrade) -> None:
    """Passes the point of no return."""
    ladder_state, downgrade = _expect(draft, command, Phase.CLOSED)
    draft.put("ladder_states", command.ladder, _in_phase(ladder_state, downgrade, Phase.CLEANING))
    detail = f"past the point of no return {command.reason}".rstrip()
    draft.audit(command.actor, "downgrade", f"{command.ladder}={downgrade.target}", detail)


def finish(draft: Draft, command: FinishDowngrade) -> None:
    """Lets the level fall."""
    ladder = command.ladder
    known = draft.fleet.ladder_states.get(ladder)
    free = known is not None and known.downgrade is not None and known.downgrade.free
    phases = (Phase.CLOSED, Phase.CLEANING) if free else (Phase.CLEANING,)
    ladder_state, downgrade = _expect(draft, command, *phases)
    target = downgrade.target
    left = draft.rules.above(draft.fleet, ladder, target)
    if left:
        message = f"{len(left)} tables are still above level {target} of {ladder}"
        sides = tuple((each.table, f"level {each.level}") for each in left)
        raise RefusedError(_blocked(ladder, target, message, sides, "Move them down, then finish."))
    draft.change_ladder(ladder, level=target, settled=min(ladder_state.settled, target), downgrade=None)
    detail = f"{ladder} {ladder_state.level} to {target} {command.reason}".rstrip()
    draft.audit(command.actor, "downgrade", f"{ladder}={target}", f"done: {detail}")


def cancel(draft: Draft, command: CancelDowngrade) -> None:
    """Opens the gates again, unless the point of no return is past."""
    _, downgrade = _expect(draft, command, Phase.CLOSING, Phase.CLOSED)
    draft.change_ladder(command.ladder, downgrade=None)
    detail = f"cancelled {command.reason}".rstrip()
    draft.audit(command.actor, "downgrade", f"{command.ladder}={downgrade.target}", detail)


def _expect(draft: Draft, command: DowngradeStep, *phases: Phase) -> tuple[LadderState, Downgrade]:
    """Where the fleet stands, and its downgrade; refuses the command unless that is in one of the phases."""
    ladder = command.ladder
    ladder_state = ladder_state_of(draft.fleet, ladder)
    downgrade = ladder_state.downgrade
    if downgrade is None:
        step = f"halocline fleet downgrade validate {ladder}=…"
        raise RefusedError(Refusal("NOT_FOUND", f"{ladder} is not on its way down", subject=ladder, next_step=step))
    if downgrade.phase in phases:
        return ladder_state, downgrade
    wanted, target = " or ".join(phases), downgrade.target
    sides: tuple[tuple[str, str], ...] = (("phase", downgrade.phase), ("needed", wanted))
    if downgrade.past_return:
        message = f"{ladder} is past the point of no return on its way down to level {target}"
        step = f"halocline fleet downgrade finish {ladder}"
        raise RefusedError(Refusal("POINT_OF_NO_RETURN", message, f"{ladder}={target}", sides, next_step=step))
    awaited = [key for key, view in draft.state.views(ladder) if view.revision < downgrade.revision]
    if awaited:
        named = [key.identity for key in nsmallest(_FEW, awaited)]
        sides = (*sides, ("awaited", shortened(named, total=len(awaited))))
    step = "Wait until they have closed their gates, or see them: halocline fleet downgrade status"
    raise RefusedError(_blocked(ladder, target, f"{ladder} is {downgrade.phase}, not {wanted}", sides, step))


def _blocked(ladder: str, target: int, message: str, sides: tuple[tuple[str, str], ...], step: str) -> Refusal:
    return Refusal("DOWNGRADE_BLOCKED", message, f"{ladder}={target}", sides, next_step=step)


def _blockers(fleet: Fleet, ladder: str, target: int, at: int) -> Iterator[Blocker]:
    ladder_state = fleet.ladder_states.get(ladder)
    if ladder_state is None:
        yield Blocker(BlockerKind.NO_SUCH_LEVEL, ladder, no_such_ladder(fleet, ladder).message)
        return
    steps = fleet.ladders[ladder]
    if steps.rung(target) is None or target >= ladder_state.level:
        below = ", ".join(str(level) for level in steps.levels if level < ladder_state.level) or "none"
        yield Blocker(BlockerKind.NO_SUCH_LEVEL, ladder, f"levels of {ladder} below {ladder_state.level}: {below}")
        return
    if ladder_state.downgrade:
        running = ladder_state.downgrade.target
        fix = f"halocline fleet downgrade cancel {ladder}"
        yield Blocker(BlockerKind.DOWNGRADE, ladder, f"{ladder} is on its way down to level {running} already", fix)
    for name, other in sorted(fleet.ladder_states.items()):
        for rung in fleet.ladders[name].up_to(other.level):
            if name != ladder and any(needs == ladder and level > target for needs, level in rung.requires):
                text = f"level {rung.level} of {name} requires a higher level of {ladder}"
                yield Blocker(BlockerKind.DEPENDENCY, name, text, f"bring {name} below level {rung.level} first")
    for member in fleet.live(at):
        supported = member.report.supported.get(ladder)
        if supported is not None and supported.lo > target:
            text = f"{member.report.release} supports {ladder} only from {supported.lo}"
            fix = "replace it by an older release first"
            yield Blocker(BlockerKind.TOO_NEW, str(member.report.key), text, fix, member.speaks)


def _in_phase(ladder_state: LadderState, downgrade: Downgrade, phase: Phase) -> LadderState:
    return replace(ladder_state, downgrade=replace(downgrade, phase=phase))
