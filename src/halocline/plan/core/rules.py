"""The decisions that the safety of a plan rests on, each by name.

The planner asks a `PlanRules` value wherever the promise hangs on one small decision. `RULES` is the design. Tests
replace one rule at a time by what a reasonable person might have built instead, and show what breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from halocline.compat.verdict import Verdict
from halocline.plan.core.rollout import RolloutMember, TableAccess


def all_operations(access: TableAccess) -> tuple[str, ...]:
    """What is judged of a member: everything it does to the table."""
    return access.operations


def unless_accepted(verdict: Verdict | None, accepted: bool) -> bool:
    """Whether a member may be where it loses this: only if it loses nothing, or the unknown was accepted by name."""
    return verdict is None or (accepted and verdict.unknown)


def old_and_new(before: int, after: int) -> tuple[int, ...]:
    """What a member may run within its wave: nobody knows whose turn it was already."""
    return (before, after)


def every_user(users: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Who is asked when a table changes."""
    return users


def every_table(tables: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Which tables are looked at when a member changes."""
    return tables


def may_rise(raised: Iterable[int]) -> tuple[int, ...]:
    """The terms that writers may bring about by themselves."""
    return tuple(raised)


def still_possible(possible: Sequence[int]) -> tuple[int, ...]:
    """The terms of a table after a wave: that a writer may have moved it up does not mean that it has."""
    return tuple(possible)


def where_it_can_be(member: RolloutMember, switch: str) -> bool:
    """Whether a member is kept from moving tables up by itself."""
    return member.pinnable and bool(switch)


@dataclass(frozen=True, slots=True)
class PlanRules:
    """One function for each decision."""

    judged: Callable[[TableAccess], tuple[str, ...]] = all_operations
    acceptable: Callable[[Verdict | None, bool], bool] = unless_accepted
    in_its_wave: Callable[[int, int], tuple[int, ...]] = old_and_new
    asked_of_table: Callable[[Sequence[tuple[int, int]]], Sequence[tuple[int, int]]] = every_user
    asked_of_member: Callable[[Sequence[tuple[int, int]]], Sequence[tuple[int, int]]] = every_table
    rising: Callable[[Iterable[int]], tuple[int, ...]] = may_rise
    at_rest: Callable[[Sequence[int]], tuple[int, ...]] = still_possible
    pinned: Callable[[RolloutMember, str], bool] = where_it_can_be


RULES: Final = PlanRules()
"""The design."""
