"""The decisions that safety rests on, each by name.

The core asks a `FleetRules` value wherever the promise of the package hangs on one small decision: from when a lease is
counted, who is admitted, what counts as an acknowledgement. `RULES` is the design. The explorer replaces one rule at a
time to show that each is needed: what breaks without it, in the fewest steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from halocline.fleet.core.admission import admissible, renewable
from halocline.fleet.core.effects import Audit, CommitRecords, Effect, Refusal, Refuse, Renew
from halocline.fleet.core.events import RemoveMember
from halocline.fleet.core.history import is_foreign
from halocline.fleet.core.ladder_state import Announcement, Downgrade, Hold, LadderState, Policy, View
from halocline.fleet.core.state import (
    Fleet,
    FleetTerms,
    LevelRange,
    Member,
    MemberKey,
    Report,
    State,
    TableLevel,
    known_release,
)


def counted_from_sending(sent: int, heard: int, lease: int) -> int:
    """When a member's lease ends: counted from when it sent what was answered, not from the answer's arrival."""
    return sent + lease


def with_margin(at: int, terms: FleetTerms) -> int:
    """When a coordinator may consider a lease over: the margin covers a slow clock from sending to the end."""
    return at + terms.lease + terms.margin


def with_belief(at: int, terms: FleetTerms, belief: int) -> int:
    """When a coordinator that takes over may consider a lease over that it has not renewed itself.

    The former one may have renewed it just before, and as long as it believes that it still leads.
    """
    return with_margin(at, terms) + belief


def at_its_end(until: int, at: int) -> bool:
    """Whether a member's lease has run out as the coordinator sees it."""
    return until <= at


def forget_expired_member(member: Member) -> Member | None:
    """What remains of a member whose lease has run out: no record, so that it cannot be renewed."""
    return None


def known_support(report: Report, ladder: str) -> LevelRange | None:
    """The levels that a member can be relied on to support; None if its release or its range is unknown."""
    return report.supported.get(ladder) if known_release(report.release) else None


def replaces_no_one(fleet: Fleet, report: Report) -> tuple[MemberKey, ...]:
    """The lives that a joining member replaces: none, its former one may still be acting until its lease is over."""
    return ()


def only_by_force(command: RemoveMember) -> bool:
    """Whether a removed member is forgotten at once: only if the operator vouches that it no longer acts."""
    return command.force


def lowest_view(ladder_state: LadderState, views: Iterable[View]) -> int:
    """The level that every member acts under, or above, judged by what each has said.

    What was said before gates were last closed says nothing: the member may have heard of it since, and not of what
    came after.
    """
    return min(
        (view.level if view.revision >= ladder_state.closed else 0 for view in views), default=ladder_state.level
    )


def until_its_end(hold: Hold, at: int) -> bool:
    """Whether a hold is in force."""
    return not hold.expired(at)


def all_acknowledged(downgrade: Downgrade, views: Iterable[View]) -> bool:
    """Whether the gates are closed everywhere: every member acts under the revision that closed them, or a newer."""
    return all(view.revision >= downgrade.revision for view in views)


def tables_above(fleet: Fleet, ladder: str, target: int) -> tuple[TableLevel, ...]:
    """The tables that must be brought down before the level may fall to `target`."""
    found = (table for _, table in sorted(fleet.tables.items()))
    return tuple(table for table in found if table.ladder == ladder and table.level > target)


def by_hand(policy: Policy) -> Policy:
    """What makes a level rise that an operator lets fall: an operator, or the fleet would climb again at once."""
    return Policy.MANUAL


def same_epoch(store: int, commit: int) -> bool:
    """Whether a store accepts a commit."""
    return store == commit


def grants_anything(effects: Sequence[Effect]) -> bool:
    """Whether a step needs the store's confirmation although it writes nothing: whenever it tells a member yes."""
    return any(not isinstance(effect, Refuse | Audit) for effect in effects)


def same_either_way(now: Sequence[Effect], later: Sequence[Effect]) -> bool:
    """Whether a heartbeat may be answered while a decision is being written: if the decision leaves its lease alone."""
    granted = _granted(now)
    return granted is not None and granted == _granted(later)


def _granted(effects: Sequence[Effect]) -> Renew | None:
    """The lease that is granted without anything to write, whatever else the member is told."""
    if any(isinstance(effect, CommitRecords) and effect.changes for effect in effects):
        return None
    return next((replace(effect, announcements=()) for effect in effects if isinstance(effect, Renew)), None)


def with_the_renewal(decided: State, renewed: State) -> State:
    """The state that a decision leads to if a heartbeat was answered before it was written: with its renewal."""
    return renewed


def what_is_durable(now: Sequence[Effect], later: Sequence[Effect]) -> tuple[Effect, ...]:
    """What a member is told while a decision is being written: nothing of the decision, which may never be."""
    return tuple(now)


def only_newer(heard: View, announcement: Announcement) -> bool:
    """Whether a member believes an announcement: only one that is newer than what it has heard."""
    return announcement.revision > heard.revision


def oldest_in_use(heard: View, operations: Iterable[View]) -> View:
    """What a member says it acts under: the oldest view that an operation in flight still has."""
    return min((heard, *operations), key=lambda view: view.revision)


@dataclass(frozen=True, slots=True)
class FleetRules:
    """One function per decision; see each function for what it decides and why."""

    member_lease: Callable[[int, int, int], int] = counted_from_sending
    coordinator_lease: Callable[[int, FleetTerms], int] = with_margin
    grace: Callable[[int, FleetTerms, int], int] = with_belief
    run_out: Callable[[int, int], bool] = at_its_end
    remains: Callable[[Member], Member | None] = forget_expired_member
    supports: Callable[[Report, str], LevelRange | None] = known_support
    admissible: Callable[[Fleet, Report], Refusal | None] = admissible
    renewable: Callable[[Fleet, MemberKey], Refusal | None] = renewable
    foreign: Callable[[Fleet, Mapping[str, View]], bool] = is_foreign
    replaces: Callable[[Fleet, Report], tuple[MemberKey, ...]] = replaces_no_one
    forgets: Callable[[RemoveMember], bool] = only_by_force
    settled: Callable[[LadderState, Iterable[View]], int] = lowest_view
    in_force: Callable[[Hold, int], bool] = until_its_end
    acknowledged: Callable[[Downgrade, Iterable[View]], bool] = all_acknowledged
    above: Callable[[Fleet, str, int], tuple[TableLevel, ...]] = tables_above
    policy_below: Callable[[Policy], Policy] = by_hand
    accepts: Callable[[int, int], bool] = same_epoch
    confirms: Callable[[Sequence[Effect]], bool] = grants_anything
    same_lease: Callable[[Sequence[Effect], Sequence[Effect]], bool] = same_either_way
    taken_along: Callable[[State, State], State] = with_the_renewal
    told: Callable[[Sequence[Effect], Sequence[Effect]], tuple[Effect, ...]] = what_is_durable
    believes: Callable[[View, Announcement], bool] = only_newer
    in_use: Callable[[View, Iterable[View]], View] = oldest_in_use


RULES: Final = FleetRules()
"""The design."""
