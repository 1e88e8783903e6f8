"""When a level rises, and when it is settled.

A level may rise to one that every live member supports. Members that speak are asked by their range; those that do not
by what their release is known to support. One of which nothing is known keeps the level where it is, and so does one
that was seen to run something else than was declared. What a build that was not released supports counts against a rise
but never for it, except in a fleet that is marked so.

`plan_raise` lists everything in the way and what each must upgrade to; raising is planning and finding nothing in the
way, in one step, so a member that joins next is measured against the new level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import nsmallest
from typing import Final

from halocline.fleet.core.admission import fix_for
from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Refusal, RefusedError
from halocline.fleet.core.events import Raise, SetPolicy
from halocline.fleet.core.ladder import Rung
from halocline.fleet.core.ladder_state import Hold, LadderState, Policy
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.core.state import Fleet, Member, State

_MOST_TOLD: Final = 100


class BlockerKind(StrEnum):
    """What kind of thing is in the way."""

    NO_SUCH_LEVEL = "no-such-level"
    NOT_ABOVE = "not-above"
    DOWNGRADE = "downgrade"
    HELD = "held"
    DEPENDENCY = "dependency"
    TOO_OLD = "too-old"
    TOO_NEW = "too-new"
    UNKNOWN = "unknown"
    CONTRADICTED = "contradicted"
    LACKS_FEATURE = "lacks-feature"
    DEVELOPMENT = "development"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing in the way of a level.

    Args:
        fix: What it must upgrade to, or what to do.
        speaks: Whether it is a member that speaks, or not a member at all; force does not get past it.
    """

    kind: BlockerKind
    who: str
    text: str
    fix: str = ""
    speaks: bool = True


@dataclass(frozen=True, slots=True)
class RaisePlan:
    """What raising a level would do, and what is in its way.

    Args:
        blockers: What is in the way, of very much the first.
        blocking: How much is in the way.
        checked: The members that were asked, of very many the first.
        asked: How many were asked.
    """

    level: int
    blockers: tuple[Blocker, ...]
    blocking: int
    checked: tuple[str, ...]
    asked: int


def plan_raise(state: State, ladder: str, level: int, at: int) -> RaisePlan:
    """Everything in the way of a level, as of now; changes nothing."""
    fleet = state.fleet
    ladder_state = fleet.ladder_states.get(ladder)
    checked = [member.report.key for member in fleet.live(at) if member.uses(ladder)]
    blockers, blocking = _blockers(fleet, ladder, level, at, RULES)
    return RaisePlan(
        ladder_state.level if ladder_state else 0,
        blockers,
        blocking,
        tuple(str(key) for key in nsmallest(_MOST_TOLD, checked)),
        len(checked),
    )


def effective_policy(fleet: Fleet, ladder: str, at: int) -> Policy:
    """What makes the level rise now; `hold` while a hold keeps it where it stands."""
    ladder_state = fleet.ladder_states[ladder]
    held = any(hold.level <= ladder_state.level for hold in holds_on(fleet, ladder, at))
    return Policy.HOLD if held else ladder_state.policy


def holds_on(fleet: Fleet, ladder: str, at: int, rules: FleetRules = RULES) -> tuple[Hold, ...]:
    """The holds on a ladder that are in force."""
    return tuple(hold for hold in fleet.holds.values() if hold.ladder == ladder and rules.in_force(hold, at))


def raise_level(draft: Draft, command: Raise) -> None:
    """Raises a level as an operator asked, or says what is in the way."""
    ladder, level = command.ladder, command.level
    forced = command.force and bool(command.reason)
    blockers, number = _blockers(draft.fleet, ladder, level, draft.at, draft.rules, forced=forced)
    if blockers:
        raise RefusedError(_blocked(command, blockers, number))
    if command.force:
        _excuse(draft, ladder, level)
    detail = f"{ladder} {draft.fleet.ladder_states[ladder].level} to {level}"
    draft.change_ladder(ladder, level=level)
    draft.audit(command.actor, "raise", f"{ladder}={level}", f"{detail} {command.reason}".rstrip())


def raise_by_policy(draft: Draft) -> None:
    """Raises every level that rises by itself as far as it can; one rise may make room for the next.

    A fleet in which none did is not looked through again: what counts by time alone, a sweep or the end of a hold has
    changed before.
    """
    climbing = draft.weighed is not draft.fleet
    while climbing:
        climbing = False
        for ladder, ladder_state in sorted(draft.fleet.ladder_states.items()):
            if ladder_state.policy is not Policy.AUTO or ladder_state.downgrade:
                continue
            if not _has_released_member(draft.fleet, ladder, draft.at):
                continue
            above = [rung.level for rung in draft.fleet.ladders[ladder].rungs if rung.level > ladder_state.level]
            for level in reversed(above):
                if _free(draft.fleet, ladder, level, draft.at, draft.rules):
                    draft.change_ladder(ladder, level=level)
                    detail = f"{ladder} {ladder_state.level} to {level} by policy"
                    draft.audit("fleet", "raise", f"{ladder}={level}", detail)
                    climbing = True
                    break
    draft.weighed = draft.fleet


def settle(draft: Draft) -> None:
    """Notes, per ladder, the level that every live member is known to act under."""
    for ladder, ladder_state in sorted(draft.fleet.ladder_states.items()):
        if ladder_state.downgrade or ladder_state.settled == ladder_state.level:
            continue
        lowest = draft.rules.settled(ladder_state, (view for _, view in draft.state.views(ladder)))
        settled = min(ladder_state.level, lowest)
        if settled > ladder_state.settled:
            draft.put("ladder_states", ladder, replace(ladder_state, settled=settled))
            draft.audit("fleet", "settle", f"{ladder}={settled}", "every member acts under it")


def set_policy(draft: Draft, command: SetPolicy) -> None:
    """Decides whether a level rises by itself."""
    ladder_state = ladder_state_of(draft.fleet, command.ladder)
    if command.policy is Policy.HOLD:
        step = f"halocline fleet hold {command.ladder} --reason '…'"
        message = "a hold has a name, a reason and an end: place one"
        raise RefusedError(Refusal("ARGUMENT_INVALID", message, next_step=step))
    if ladder_state.policy is command.policy:
        return
    draft.put("ladder_states", command.ladder, replace(ladder_state, policy=command.policy))
    draft.audit(command.actor, "policy", command.ladder, f"{command.policy} {command.reason}".rstrip())


def ladder_state_of(fleet: Fleet, ladder: str) -> LadderState:
    """Where the fleet stands on a ladder; refuses one that was never declared."""
    if ladder not in fleet.ladder_states:
        raise RefusedError(no_such_ladder(fleet, ladder))
    return fleet.ladder_states[ladder]


def no_such_ladder(fleet: Fleet, ladder: str) -> Refusal:
    """The refusal for a ladder that was never declared."""
    known = ", ".join(sorted(fleet.ladder_states)) or "none"
    return Refusal("NOT_FOUND", f"there is no ladder {ladder}", subject=ladder, sides=(("known", known),))


def unmet(fleet: Fleet, rungs: Sequence[Rung]) -> Iterator[tuple[Rung, str, int]]:
    """The levels of other ladders that these rungs require and that are not reached, or about to be given up."""
    for rung in rungs:
        for ladder, level in rung.requires:
            ladder_state = fleet.ladder_states.get(ladder)
            if ladder_state is None or ladder_state.limit < level:
                yield rung, ladder, level


def objecting(
    fleet: Fleet, members: Iterable[Member], ladder: str, level: int, at: int, rules: FleetRules = RULES
) -> Iterator[Member]:
    """Those of the members that a level would leave behind. Most are not, and there are thousands."""
    features, window = fleet.ladders[ladder].features_at(level), fleet.terms.window
    for member in members:
        report, speaks = member.report, member.speaks
        if speaks:
            if ladder not in report.supported:
                continue
        elif level <= member.excused.get(ladder, 0) or not member.uses(ladder) or not member.live(at, window):
            continue
        known = None if member.seen_as else rules.supports(report, ladder)
        if known is None or not known.lo <= level <= known.hi or (speaks and not features <= report.features):
            yield member


def _blockers(
    fleet: Fleet, ladder: str, level: int, at: int, rules: FleetRules, *, forced: bool = False
) -> tuple[tuple[Blocker, ...], int]:
    """What is in the way, of very much the first, and how much that is; by force, members that do not speak are not."""
    found = list(_obstacles(fleet, ladder, level, at, rules))
    number = len(found)
    if not _sensible(fleet, ladder, level):
        return tuple(found), number
    for member in objecting(fleet, fleet.members.values(), ladder, level, at, rules):
        if member.speaks or not forced:
            number += 1
            if number <= _MOST_TOLD:
                found += objections(fleet, member, ladder, level, rules)
    return tuple(found), number


def _sensible(fleet: Fleet, ladder: str, level: int) -> bool:
    """Whether there is such a level above where the fleet stands."""
    known = fleet.ladders.get(ladder)
    return known is not None and known.rung(level) is not None and level > fleet.ladder_states[ladder].level


def _free(fleet: Fleet, ladder: str, level: int, at: int, rules: FleetRules) -> bool:
    """Whether nothing is in the way; looks no further than the first thing that is."""
    if next(_obstacles(fleet, ladder, level, at, rules), None) is not None:
        return False
    return next(objecting(fleet, fleet.members.values(), ladder, level, at, rules), None) is None


def _obstacles(fleet: Fleet, ladder: str, level: int, at: int, rules: FleetRules) -> Iterator[Blocker]:
    """What is in the way of a level, apart from members."""
    ladder_state = fleet.ladder_states.get(ladder)
    if ladder_state is None:
        yield Blocker(BlockerKind.NO_SUCH_LEVEL, ladder, no_such_ladder(fleet, ladder).message)
        return
    steps = fleet.ladders[ladder]
    if steps.rung(level) is None:
        yield Blocker(BlockerKind.NO_SUCH_LEVEL, ladder, f"{ladder} has levels {', '.join(map(str, steps.levels))}")
        return
    if level <= ladder_state.level:
        yield Blocker(BlockerKind.NOT_ABOVE, ladder, f"{ladder} stands at level {ladder_state.level} already")
        return
    if ladder_state.downgrade:
        target = ladder_state.downgrade.target
        yield Blocker(
            BlockerKind.DOWNGRADE, ladder, f"{ladder} is on its way down to level {target}", "finish or cancel it"
        )
    for hold in holds_on(fleet, ladder, at, rules):
        if level > hold.level:
            until = "it is released" if hold.until is None else f"{hold.until} or a release"
            text = f"held at {hold.level} until {until}: {hold.reason}"
            yield Blocker(BlockerKind.HELD, hold.name, text, f"halocline fleet release {ladder} {hold.name}")
    for rung, other, needed in unmet(fleet, steps.up_to(level)):
        text = f"level {rung.level} of {ladder} requires level {needed} of {other}"
        yield Blocker(BlockerKind.DEPENDENCY, other, text, f"halocline fleet raise {other}={needed}")
    present = any(member.speaks and member.uses(ladder) for member in fleet.members.values())
    if present and not _has_released_member(fleet, ladder, at):
        text = "only development builds are here, and the fleet is not marked so"
        fix = "let a released build join, or mark the fleet as development"
        yield Blocker(BlockerKind.DEVELOPMENT, ladder, text, fix)


def objections(fleet: Fleet, member: Member, ladder: str, level: int, rules: FleetRules = RULES) -> Iterator[Blocker]:
    """Why a level would leave a member behind, and what it must upgrade to."""
    supported, features = rules.supports(member.report, ladder), fleet.ladders[ladder].features_at(level)
    report = member.report
    who, speaks = str(report.key), member.speaks
    if member.seen_as:
        text = f"{who} was declared to run {report.release} and was seen to run {member.seen_as}"
        fix = f"declare what it runs: halocline fleet member declare {who} {member.seen_as}"
        yield Blocker(BlockerKind.CONTRADICTED, who, text, fix, speaks)
        return
    if supported is None:
        text = f"{report.release or 'its release'} says nothing about {ladder}"
        yield Blocker(BlockerKind.UNKNOWN, who, text, "find out what it runs, or remove it", speaks)
        return
    if supported.hi < level:
        text = f"{report.release} supports {ladder} {supported}"
        fix = fix_for(fleet, report, ladder, level) or f"a release that supports level {level}"
        yield Blocker(BlockerKind.TOO_OLD, who, text, fix, speaks)
    elif supported.lo > level:
        text = f"{report.release} supports {ladder} only from {supported.lo}"
        yield Blocker(
            BlockerKind.TOO_NEW, who, text, f"raise to {supported.lo} at once, or use an older release", speaks
        )
    for feature in sorted(features - report.features) if speaks else ():
        fix = fix_for(fleet, report, ladder, level) or f"a release with {feature}"
        yield Blocker(BlockerKind.LACKS_FEATURE, who, f"{report.release} does not provide {feature}", fix, speaks)


def _has_released_member(fleet: Fleet, ladder: str, at: int) -> bool:
    development = fleet.terms.development
    return any(
        member.speaks and member.uses(ladder) and (development or not member.report.development)
        for member in fleet.live(at)
    )


def _excuse(draft: Draft, ladder: str, level: int) -> None:
    for key, member in list(draft.fleet.members.items()):
        supported = None if member.seen_as else draft.rules.supports(member.report, ladder)
        if not member.speaks and member.uses(ladder) and (supported is None or level not in supported):
            draft.put("members", key, replace(member, excused={**member.excused, ladder: level}))


def _blocked(command: Raise, blockers: Sequence[Blocker], number: int) -> Refusal:
    held = next((blocker for blocker in blockers if blocker.kind is BlockerKind.HELD), None)
    sides = tuple((each.who, f"{each.text}; {each.fix}" if each.fix else each.text) for each in blockers)
    fix = next((blocker.fix for blocker in blockers if blocker.kind is BlockerKind.TOO_OLD), "")
    forced = command.force and not command.reason
    return Refusal(
        "HELD" if held else "LEVEL_BLOCKED",
        f"{command.ladder} cannot rise to level {command.level}: {number:,} in the way",
        subject=f"{command.ladder}={command.level}",
        sides=sides,
        fix=fix,
        next_step="Force needs a reason." if forced else _next_step(blockers[0]),
    )


def _next_step(blocker: Blocker) -> str:
    upgrade = blocker.fix and blocker.kind in (BlockerKind.TOO_OLD, BlockerKind.LACKS_FEATURE)
    return f"Upgrade {blocker.who} to {blocker.fix}." if upgrade else blocker.fix
