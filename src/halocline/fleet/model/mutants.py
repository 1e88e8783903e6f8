"""The design with one rule taken out at a time.

Each mutant replaces one decision of `halocline.fleet.core.rules`, or one assumption about the world, by what a
reasonable person might have built instead. The explorer must find the harm: a mutant that survives means that a rule
is not needed, or that the explorer does not look closely enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from halocline.fleet.core.admission import admissible, renewable
from halocline.fleet.core.effects import Effect, Refusal, Renew
from halocline.fleet.core.ladder_state import View
from halocline.fleet.core.rules import RULES, FleetRules, grants_anything, with_margin
from halocline.fleet.core.state import Fleet, LevelRange, Member, MemberKey, Provenance, Report
from halocline.fleet.model.scenario import (
    BRIEF,
    CLIMB,
    DOWN,
    HELD,
    LEASE,
    LIVES,
    NARROW,
    NEWS,
    REMOVED,
    RESTORED,
    SILENT,
    STALL,
    WRITING,
    Scenario,
)

EARLY_USE: Final = (3, 4)
"""The harm itself: a member that is active cannot work with what others do."""


SLOW_CLOCKS: Final = replace(BRIEF, margin=1, lag=True)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Args:
        watch: The invariants among which it must violate one.
        stuck: Whether it is safe, but can be stuck for ever.
    """

    name: str
    fault: str
    scenario: Scenario
    rules: FleetRules = RULES
    watch: tuple[int, ...] = EARLY_USE
    stuck: bool = False


def _level_is_not_checked_again(fleet: Fleet, report: Report) -> Refusal | None:
    refusal = admissible(fleet, report)
    known = any(key.identity == report.identity for key in fleet.members)
    return None if refusal and known and refusal.condition == "INCOMPATIBLE_VERSION" else refusal


def _only_the_level_counts(fleet: Fleet, report: Report) -> Refusal | None:
    states = {name: replace(each, downgrade=None) for name, each in fleet.ladder_states.items()}
    return admissible(replace(fleet, ladder_states=states), report)


def _keep_as_observed(member: Member) -> Member | None:
    return replace(member, provenance=Provenance.OBSERVED, last_seen=None)


def _any_registered_life(fleet: Fleet, key: MemberKey) -> Refusal | None:
    return None if key in fleet.members else renewable(fleet, key)


def _its_former_lives(fleet: Fleet, report: Report) -> tuple[MemberKey, ...]:
    return tuple(key for key in fleet.members if key.identity == report.identity)


def _all_but_heartbeats(effects: Sequence[Effect]) -> bool:
    return grants_anything([effect for effect in effects if not isinstance(effect, Renew)])


def _as_durable(now: Sequence[Effect], later: Sequence[Effect]) -> bool:
    return any(isinstance(effect, Renew) for effect in now)


def _nothing_is_foreign(fleet: Fleet, views: Mapping[str, View]) -> bool:
    return False


def _only_newer_is_foreign(fleet: Fleet, views: Mapping[str, View]) -> bool:
    return any(view.revision > fleet.ladder_states[ladder].revision for ladder, view in views.items())


def _assume_every_level(report: Report, ladder: str) -> LevelRange | None:
    return report.supported.get(ladder, LevelRange(1, 99))


MUTANTS: Final = (
    Mutant(
        "no-member-lease",
        "a member acts until it is told to stop, while the coordinator stops waiting for it",
        BRIEF,
        replace(RULES, member_lease=lambda sent, heard, lease: 1_000_000),
    ),
    Mutant(
        "no-epoch-fence",
        "the store accepts what a coordinator writes that was replaced",
        replace(BRIEF, take_over=True),
        replace(RULES, accepts=lambda store, commit: True),
    ),
    Mutant(
        "heartbeats-unconfirmed",
        "a coordinator renews leases without asking the store whether it still leads",
        replace(BRIEF, take_over=True),
        replace(RULES, confirms=_all_but_heartbeats),
    ),
    Mutant(
        "lease-from-reply",
        "a member counts its lease from the arrival of the answer",
        BRIEF,
        replace(RULES, member_lease=lambda sent, heard, lease: heard + lease),
    ),
    Mutant(
        "no-margin",
        "the coordinator waits for the lease only, while clocks may fall behind",
        SLOW_CLOCKS,
        replace(RULES, coordinator_lease=lambda at, terms: at + terms.lease),
    ),
    Mutant(
        "margin-anew",
        "the margin is thought to begin when an answer arrives, so a clock can lose it twice within one lease",
        replace(SLOW_CLOCKS, late_allowance=True),
    ),
    Mutant(
        "no-grace",
        "a coordinator that takes over considers members gone that it has not heard itself",
        replace(BRIEF, take_over=True),
        replace(RULES, grace=lambda at, terms, belief: at),
    ),
    Mutant(
        "belief-ignored",
        "a coordinator that takes over waits for what was renewed before, not for what the former one renews meanwhile",
        LEASE,
        replace(RULES, grace=lambda at, terms, belief: with_margin(at, terms)),
    ),
    Mutant(
        "belief-suspended",
        "a coordinator counts its lease on the store by a clock that stands still while the machine is suspended",
        replace(LEASE, belief=1, suspends=True),
    ),
    Mutant(
        "renewed-while-ending",
        "a heartbeat is answered while it is being written that its member is gone",
        replace(WRITING, take_over=False),
        replace(RULES, same_lease=_as_durable),
    ),
    Mutant(
        "renewal-lost",
        "a lease that is renewed while something is being written is as before once that is written",
        replace(WRITING, take_over=False),
        replace(RULES, taken_along=lambda decided, renewed: decided),
    ),
    Mutant(
        "told-before-written",
        "a member is told of a level while it is being written, which another coordinator prevents",
        WRITING,
        replace(RULES, told=lambda now, later: tuple(later)),
    ),
    Mutant(
        "no-check-at-rejoin",
        "a member that was here before is admitted whatever it runs now",
        replace(BRIEF, lives=1),
        replace(RULES, admissible=_level_is_not_checked_again),
    ),
    Mutant(
        "resurrection",
        "a heartbeat brings back a life that had expired",
        BRIEF,
        replace(RULES, remains=_keep_as_observed, renewable=_any_registered_life),
    ),
    Mutant(
        "life-replaced",
        "a member that starts again takes the place of its former life at once",
        LIVES,
        replace(RULES, replaces=_its_former_lives),
    ),
    Mutant(
        "removed-at-once",
        "a member that an operator removes no longer counts, though it may still act",
        REMOVED,
        replace(RULES, forgets=lambda command: True),
    ),
    Mutant(
        "unknown-passes",
        "a client of which nothing is known does not keep the level from rising",
        SILENT,
        replace(RULES, supports=_assume_every_level),
    ),
    Mutant(
        "settled-by-level",
        "a level is settled when it is raised, not when every member has seen it",
        BRIEF,
        replace(RULES, settled=lambda ladder_state, views: ladder_state.level),
        watch=(5,),
    ),
    Mutant(
        "settled-by-old-views",
        "what a member said before gates were closed still counts after they were opened again",
        DOWN,
        replace(
            RULES, settled=lambda ladder_state, views: min((view.level for view in views), default=ladder_state.level)
        ),
        watch=(5,),
    ),
    Mutant(
        "hold-ignored",
        "a hold is recorded and not obeyed",
        HELD,
        replace(RULES, in_force=lambda hold, at: False),
        watch=(12,),
    ),
    Mutant(
        "hold-unfenced",
        "a coordinator that was replaced raises a level, not knowing of the hold that its successor has placed",
        HELD,
        replace(RULES, accepts=lambda store, commit: True),
        watch=(12,),
    ),
    Mutant(
        "no-acknowledgement",
        "a downgrade goes on without waiting for gates to close",
        DOWN,
        replace(RULES, acknowledged=lambda downgrade, views: True),
    ),
    Mutant(
        "finish-uncleaned",
        "a level falls while a table still is above it",
        replace(DOWN, operations=False),
        replace(RULES, above=lambda fleet, ladder, target: ()),
        watch=(13,),
    ),
    Mutant(
        "joins-above-target",
        "a member is admitted during a downgrade that supports the level, and not the one it will fall to",
        NARROW,
        replace(RULES, admissible=_only_the_level_counts),
    ),
    Mutant(
        "climbs-again",
        "a ladder that an operator lets fall goes on rising by itself",
        CLIMB,
        replace(RULES, policy_below=lambda policy: policy),
        watch=(13,),
    ),
    Mutant(
        "operations-forgotten",
        "a member says that its gates are closed while an operation in flight still acts above them",
        replace(DOWN, commands=NEWS.commands),
        replace(RULES, in_use=lambda heard, operations: heard),
    ),
    Mutant(
        "last-word-counts",
        "a member believes what it hears last, not what is newest",
        NEWS,
        replace(RULES, believes=lambda heard, announcement: True),
    ),
    Mutant(
        "no-table-fence",
        "a table takes the commit of a writer that stalled while the table was raised",
        replace(STALL, fenced=False),
    ),
    Mutant(
        "restore-unnoticed",
        "a member goes on with what it heard after the store was put back to before that",
        RESTORED,
        replace(RULES, foreign=_nothing_is_foreign),
    ),
    Mutant(
        "restore-by-revision",
        "a restore is noticed by a newer revision only, and not once the fleet has come as far again",
        RESTORED,
        replace(RULES, foreign=_only_newer_is_foreign),
    ),
    Mutant(
        "no-leases",
        "there are no leases: a member that ever joined counts until an operator removes it",
        BRIEF,
        replace(RULES, run_out=lambda until, at: False),
        watch=(17,),
        stuck=True,
    ),
)
"""Faults seen in the field or in earlier designs. All but the last are unsafe; the last can be stuck for ever."""
