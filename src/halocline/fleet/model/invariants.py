"""What must always hold, each as a check that can be run.

Seventeen invariants, numbered as in docs/fleet-model.md. A check looks at one kind of evidence from
`halocline.fleet.model.ground_truth`: a step of a coordinator or of a member, a world, a log, a history, or whether a
level can be reached. `check(evidence)` runs those that apply and gives back what is violated, with the values that
violate it.

The checks do not ask the core whether it is right; each recomputes what it needs from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from halocline.compat.history import History, HistoryRule
from halocline.fleet.core.effects import Admit, Announce, CommitRecords, Renew
from halocline.fleet.core.events import FinishDowngrade, Join, ReleaseHold, SetPolicy, TakeOver
from halocline.fleet.core.ladder_state import Phase, Policy
from halocline.fleet.core.member_step import Status
from halocline.fleet.core.state import MemberKey, applied, known_release
from halocline.fleet.core.step import step
from halocline.fleet.model.ground_truth import CoordinatorStep, GroundTruth, Log, MemberStep, Reach

INVARIANTS: Final[dict[int, tuple[str, str]]] = {
    1: ("Monotone", "a level falls only by a completed downgrade; within one life a member's view never gets older"),
    2: ("Cover", "the fleet's level is in the range of every member that holds a lease"),
    3: ("No early use", "if a process acts under a level, every active process supports it, then and later"),
    4: ("Format safety", "every active process can use every table as it is"),
    5: ("Settled", "no active process acts under a level below the settled one, which is not above the level"),
    6: ("Admission", "a member is admitted only if it fits, and its record is written under the level it fits"),
    7: ("Lease order", "a member's own lease is over before the coordinator stops counting it"),
    8: ("No resurrection", "a life that has ended is never renewed or admitted again"),
    9: ("One writer of truth", "whatever changes or grants something is committed first, under the newest epoch"),
    10: ("Restart", "what was acknowledged is in the store; a member that starts has closed gates"),
    11: ("Unknown is old", "a member whose version is unknown is not admitted and keeps levels from rising"),
    12: ("Hold", "a level does not rise above a hold in force, which ends only by its release or its stated end"),
    13: (
        "Downgrade",
        "gates close everywhere, then data is cleaned, then the level falls; once cleaning, only on; policy is manual",
    ),
    14: ("Dependencies", "every level in use has the levels of other ladders that it requires"),
    15: ("Determinism", "the same events lead to the same state"),
    16: ("Spec", "servers provide a feature before clients require it, and keep it until they have stopped"),
    17: ("Liveness", "a level that every live member supports can be reached without an operator"),
}
"""Name and statement of each, by number."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, and the values that show it."""

    number: int
    message: str

    @property
    def name(self) -> str:
        """The invariant's name."""
        return INVARIANTS[self.number][0]

    def __str__(self) -> str:
        return f"{self.number} {self.name}: {self.message}"


Evidence = CoordinatorStep | MemberStep | GroundTruth | Log | History | Reach
_CHECKS: dict[type, list[tuple[int, Callable[[Any], Iterator[str]]]]] = {}


def check(evidence: Evidence, *numbers: int) -> list[Violation]:
    """What the evidence violates; all that apply to it, or only those with the given numbers."""
    return [
        Violation(number, message)
        for number, applies in _CHECKS[type(evidence)]
        if not numbers or number in numbers
        for message in applies(evidence)
    ]


def checked() -> frozenset[int]:
    """The numbers that have a check."""
    return frozenset(number for checks in _CHECKS.values() for number, _ in checks)


_E = TypeVar("_E")
_Check = Callable[[_E], Iterator[str]]


def _looks_at(number: int, evidence: type[_E]) -> Callable[[_Check[_E]], _Check[_E]]:
    def register(function: _Check[_E]) -> _Check[_E]:
        _CHECKS.setdefault(evidence, []).append((number, function))
        return function

    return register


@_looks_at(1, CoordinatorStep)
def _levels_fall_by_downgrade_only(change: CoordinatorStep) -> Iterator[str]:
    cause = change.event.cause
    for ladder, before in change.before.fleet.ladder_states.items():
        after = change.after.fleet.ladder_states[ladder]
        finished = isinstance(cause, FinishDowngrade) and cause.ladder == ladder and before.downgrade is not None
        if after.level < before.level and not finished:
            yield f"{ladder} fell from {before.level} to {after.level} by {cause}"
        if after.revision < before.revision:
            yield f"{ladder} went back from revision {before.revision} to {after.revision}"
    for key, presence in change.before.presences.items():
        later = change.after.presences.get(key, presence)
        if later is not presence:
            for ladder, view in presence.views.items():
                if later.views[ladder].revision < view.revision:
                    yield f"the view of {key} on {ladder} went from {view} back to {later.views[ladder]}"


@_looks_at(1, MemberStep)
def _views_never_get_older(change: MemberStep) -> Iterator[str]:
    before, after = change.before, change.after
    if before.report.incarnation == after.report.incarnation and after.status is Status.JOINED:
        for ladder, heard in before.heard.items():
            if after.heard[ladder].revision < heard.revision:
                yield f"{after.report.key} heard {heard} and then believed {after.heard[ladder]}"


@_looks_at(2, CoordinatorStep)
def _levels_are_covered(change: CoordinatorStep) -> Iterator[str]:
    fleet = change.after.fleet
    if fleet is change.before.fleet:
        return
    for key, member in fleet.speaking():
        for ladder, supported in member.report.supported.items():
            ladder_state = fleet.ladder_states.get(ladder)
            if ladder_state and not (supported.lo <= ladder_state.limit and ladder_state.level <= supported.hi):
                yield f"{key} supports {ladder} {supported}, the fleet stands at {ladder_state.level}"


@_looks_at(3, GroundTruth)
def _no_member_acts_too_early(truth: GroundTruth) -> Iterator[str]:
    acting = {ladder: (level, "an earlier process") for ladder, level in truth.used.items()}
    for process in truth.processes:
        for ladder in process.member.heard:
            level = process.acting(ladder)
            if level and level >= acting.get(ladder, (0, ""))[0]:
                acting[ladder] = level, str(process.member.report.key)
    for ladder, (level, by) in acting.items():
        for who, runs in truth.acting():
            if ladder in runs and runs[ladder].hi < level:
                yield f"level {level} of {ladder} is used by {by} while {who} is active and runs {runs[ladder]}"


@_looks_at(4, GroundTruth)
def _members_can_use_the_tables(truth: GroundTruth) -> Iterator[str]:
    for (table, ladder), level in truth.formats.items():
        for who, runs in truth.acting():
            if ladder in runs and level not in runs[ladder]:
                yield f"{table} requires level {level} of {ladder} while {who} is active and runs {runs[ladder]}"


@_looks_at(5, CoordinatorStep)
def _settled_is_what_all_have_said(change: CoordinatorStep) -> Iterator[str]:
    for ladder, ladder_state in change.after.fleet.ladder_states.items():
        if ladder_state.settled > ladder_state.level:
            yield f"{ladder} is settled at {ladder_state.settled}, above its level {ladder_state.level}"
        before = change.before.fleet.ladder_states.get(ladder)
        if before is not None and ladder_state.settled > before.settled:
            for key, view in change.after.views(ladder):
                if view.level < ladder_state.settled:
                    yield f"{ladder} is settled at {ladder_state.settled} while {key} last said {view}"


@_looks_at(5, GroundTruth)
def _no_member_acts_below_settled(truth: GroundTruth) -> Iterator[str]:
    for ladder, ladder_state in truth.store.ladder_states.items():
        for process in truth.processes:
            if process.active and ladder in process.member.report.supported:
                lowest = process.lowest(ladder)
                if lowest < ladder_state.settled:
                    who = process.member.report.key
                    yield f"{ladder} is settled at {ladder_state.settled} while {who} acts under level {lowest}"


@_looks_at(6, CoordinatorStep)
def _admitted_fits(change: CoordinatorStep) -> Iterator[str]:
    fleet, cause = change.before.fleet, change.event.cause
    admitted = [effect for effect in change.effects if isinstance(effect, Admit)]
    if not admitted or not isinstance(cause, Join):
        yield from (f"{effect} answers {cause}" for effect in admitted)
        return
    report = cause.report
    first = change.effects[0]
    written = isinstance(first, CommitRecords) and any(each.key == report.key for each in first.changes)
    if report.key not in fleet.members and not written:
        yield f"{report.key} was admitted without a record"
    if change.after.fleet.ladder_states is not fleet.ladder_states:
        yield f"{report.key} was admitted while levels changed"
    for ladder, supported in report.supported.items():
        ladder_state = fleet.ladder_states.get(ladder)
        if ladder_state is None:
            continue
        missing = fleet.ladders[ladder].features_at(ladder_state.level) - report.features
        if ladder_state.level not in supported or missing:
            missed = f" and lacks {', '.join(sorted(missing))}" if missing else ""
            yield f"{report.key} supports {ladder} {supported}{missed}, was admitted at level {ladder_state.level}"
    if unmet := report.needs - fleet.terms.provides:
        yield f"{report.key} needs {', '.join(sorted(unmet))}, which the fleet does not provide"


@_looks_at(7, GroundTruth)
def _member_leases_end_first(truth: GroundTruth) -> Iterator[str]:
    for process in truth.processes:
        key = process.member.report.key
        presence = truth.coordinator.presences.get(key)
        if process.active and (presence is None or presence.until <= truth.now):
            left = (process.member.until or 0) - process.now
            waits = "no longer counts it" if presence is None else f"waits only until {presence.until}"
            yield f"{key} acts for another {left} by its own clock, the coordinator {waits} at {truth.now}"


@_looks_at(8, CoordinatorStep)
def _ended_lives_stay_ended(change: CoordinatorStep) -> Iterator[str]:
    before, after = change.before.fleet, change.after.fleet
    if before.members is not after.members:
        for key in after.members.keys() - before.members.keys():
            latest = before.incarnations.get(key.identity, 0)
            if after.members[key].speaks and key.incarnation <= latest:
                yield f"{key} was registered although incarnation {latest} was here before"
    for effect in change.effects:
        if isinstance(effect, Renew):
            member = before.members.get(MemberKey(effect.identity, effect.incarnation))
            if member is None or not member.speaks or member.removed:
                yield f"{effect.identity}#{effect.incarnation} was renewed, though it is {member or 'not registered'}"


@_looks_at(9, CoordinatorStep)
def _committed_first(change: CoordinatorStep) -> Iterator[str]:
    before, effects = change.before, change.effects
    grants = [effect for effect in effects if isinstance(effect, Admit | Renew | Announce)]
    if not grants and change.after.fleet is before.fleet:
        return
    epoch = before.fleet.epoch if isinstance(change.event.cause, TakeOver) else before.epoch
    first = effects[0] if effects else None
    if not isinstance(first, CommitRecords) or first.epoch != epoch:
        yield f"{grants or 'a change'} was not preceded by a commit under epoch {epoch} but by {first}"


@_looks_at(9, GroundTruth)
def _newest_epoch_leads(truth: GroundTruth) -> Iterator[str]:
    if truth.store.epoch != truth.coordinator.epoch:
        yield f"the store is at epoch {truth.store.epoch}, the newest coordinator at {truth.coordinator.epoch}"


@_looks_at(10, CoordinatorStep)
def _changes_are_the_difference(change: CoordinatorStep) -> Iterator[str]:
    changes = next((effect.changes for effect in change.effects if isinstance(effect, CommitRecords)), ())
    if change.after.fleet is change.before.fleet and not changes:
        return
    stored = applied(change.before.fleet, changes)
    if stored != change.after.fleet:
        yield f"a store would have {stored}, the coordinator has {change.after.fleet}"


@_looks_at(10, GroundTruth)
def _acknowledged_is_stored(truth: GroundTruth) -> Iterator[str]:
    if truth.store is not truth.coordinator.fleet and truth.store != truth.coordinator.fleet:
        yield f"the store has {truth.store}, the coordinator has {truth.coordinator.fleet}"


@_looks_at(10, MemberStep)
def _outsiders_have_closed_gates(change: MemberStep) -> Iterator[str]:
    member = change.after
    if member.status is not Status.JOINED and (member.heard or member.operations or member.until is not None):
        yield f"{member.report.key} is {member.status} and has {member.heard}, {member.operations}, {member.until}"


@_looks_at(11, CoordinatorStep)
def _unknown_never_passes(change: CoordinatorStep) -> Iterator[str]:
    cause, before, fleet = change.event.cause, change.before.fleet, change.after.fleet
    admitted = any(isinstance(effect, Admit) for effect in change.effects)
    if admitted and isinstance(cause, Join) and not known_release(cause.report.release):
        yield f"{cause.report.key} was admitted as {cause.report.release!r}"
    for ladder, ladder_state in before.ladder_states.items():
        level = fleet.ladder_states[ladder].level
        if level <= ladder_state.level:
            continue
        for member in fleet.live(change.event.at):
            report = member.report
            known = known_release(report.release) and ladder in report.supported
            if member.uses(ladder) and not known and member.excused.get(ladder, 0) < level:
                yield f"{ladder} rose to {level} past {report.key}, which is {report.release!r}"


@_looks_at(12, CoordinatorStep)
def _holds_hold(change: CoordinatorStep) -> Iterator[str]:
    cause, at = change.event.cause, change.event.at
    for key, hold in change.before.fleet.holds.items():
        released = isinstance(cause, ReleaseHold) and (cause.ladder, cause.name) == key
        if released or hold.expired(at):
            continue
        level = change.after.fleet.ladder_states[hold.ladder].level
        if level > hold.level:
            yield f"{hold.ladder} stands at {level} at {at}, above {hold}"
        if key not in change.after.fleet.holds:
            yield f"{hold} ended at {at} by {cause}"


@_looks_at(12, GroundTruth)
def _holds_hold_whoever_coordinates(truth: GroundTruth) -> Iterator[str]:
    for hold in truth.store.holds.values():
        level = truth.store.ladder_states[hold.ladder].level
        if level > hold.level and not hold.expired(truth.now):
            yield f"the store has {hold.ladder} at {level}, above {hold}"


@_looks_at(13, CoordinatorStep)
def _downgrades_keep_their_order(change: CoordinatorStep) -> Iterator[str]:
    after_fleet = change.after.fleet
    if after_fleet.ladder_states is change.before.fleet.ladder_states:
        return
    for ladder, before in change.before.fleet.ladder_states.items():
        after = after_fleet.ladder_states[ladder]
        was, now = before.downgrade, after.downgrade
        if was is None:
            if now is not None and now.phase is not Phase.CLOSING:
                yield f"{ladder} began with {now.phase}"
            if now is not None and after.policy is not Policy.MANUAL:
                yield f"{ladder} is on its way down to {now.target} and rises by {after.policy}"
            continue
        if after.policy is not before.policy and not isinstance(change.event.cause, SetPolicy):
            yield f"{ladder} rises by {after.policy} after {change.event.cause}"
        if after.level > before.level:
            yield f"{ladder} rose to {after.level} on its way down to {was.target}"
        fallen = after.level < before.level
        if fallen and not (was.phase is Phase.CLEANING or (was.phase is Phase.CLOSED and was.free)):
            yield f"{ladder} fell to {after.level} while it was {was.phase}"
        if fallen:
            left = [each for each in after_fleet.tables.values() if each.ladder == ladder and each.level > after.level]
            yield from (f"{ladder} fell to {after.level} while {each.table} requires {each.level}" for each in left)
        if was.past_return and not fallen and (now is None or now.phase is not Phase.CLEANING):
            yield f"{ladder} turned back to {now} after the point of no return"
        if was.phase is Phase.CLOSING and now is not None and now.phase is not Phase.CLOSING:
            for key, view in change.after.views(ladder):
                if view.revision < was.revision:
                    yield f"{ladder} is {now.phase} while {key} last said {view}, before revision {was.revision}"


@_looks_at(14, CoordinatorStep)
def _dependencies_are_met(change: CoordinatorStep) -> Iterator[str]:
    fleet = change.after.fleet
    if fleet.ladder_states is change.before.fleet.ladder_states:
        return
    for ladder, ladder_state in fleet.ladder_states.items():
        for rung in fleet.ladders[ladder].up_to(ladder_state.limit):
            for other, needed in rung.requires:
                if other not in fleet.ladder_states or fleet.ladder_states[other].limit < needed:
                    yield f"level {rung.level} of {ladder} is in use without level {needed} of {other}"


@_looks_at(15, Log)
def _replays_to_the_same(log: Log) -> Iterator[str]:
    state = log.initial
    for event in log.events:
        state, _ = step(state, event)
    if state != log.final:
        yield f"{len(log.events)} events lead to {state}, not to {log.final}"


@_looks_at(16, History)
def _histories_are_in_order(history: History) -> Iterator[str]:
    for finding in history.lint():
        if finding.rule not in (HistoryRule.CONSTANT_TOO_LOW, HistoryRule.CONSTANT_TOO_HIGH):
            yield f"{history.name}: {finding.text}"


@_looks_at(17, Reach)
def _levels_can_be_reached(reach: Reach) -> Iterator[str]:
    if not reach.reached:
        yield f"level {reach.level} of {reach.ladder} cannot be reached although {reach.described}"
