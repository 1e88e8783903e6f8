"""An impasse: who is in the way, and the compromise that disturbs the fewest.

Two things can be in the way. A member and a table may not get along *at the end*, whatever the order: no release that
can be had uses the table as it is to be. Then one of the two must be left out, and the smallest set of members and
tables that covers all such pairs is told. Or they may not get along *on the way*: the member must have moved before the
table, and the table before the member. Then a member stops, the table moves, and the member starts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from halocline.plan.core.judge import Judge
from halocline.plan.core.plan import Impasse, Plan, Trouble
from halocline.plan.core.routes import Router, chains
from halocline.plan.core.summary import finished
from halocline.plan.core.waves import Board, StageLayout

_MOST_TRIED: Final = 60
_MOST_WORK: Final = 30_000
"""How many members may be laid out in all tries together, so that a large fleet gets its answer in time."""


def find_way_out(judge: Judge, router: Router, stuck: StageLayout | None, at_end: Sequence[Trouble]) -> Plan | Impasse:
    """The plan, if all who must stop may stop; else the impasse with the best compromise."""
    rollout = judge.rollout
    leaving, staying = smallest_cover({(each.member, each.table) for each in at_end})
    if staying:
        tables = tuple(replace(each, moves=()) if each.name in staying else each for each in rollout.tables)
        judge = Judge(replace(rollout, tables=tables), judge.rules)
        router = Router(judge)
    layout = _laid_out(judge, router, (), leaving) if at_end or stuck is None else stuck
    stopping: tuple[str, ...] = ()
    if not layout.complete:
        stopping, layout = _fewest_stops(judge, router, layout, leaving)
    compromise = finished(judge, layout) if layout.complete else None
    if compromise is not None and not staying and {*leaving, *stopping} <= rollout.may_stop:
        return compromise
    blockers = tuple(at_end) or (stuck.left if stuck else ())
    return Impasse(blockers, tuple(sorted({*leaving, *stopping})), tuple(sorted(staying)), compromise)


def _fewest_stops(
    judge: Judge, router: Router, stuck: StageLayout, leaving: Iterable[str]
) -> tuple[tuple[str, ...], StageLayout]:
    """The fewest members that must stand still for a while, and the layout that is left then."""
    named = Counter(each.member for each in stuck.left)
    named.update(each.step.partition(" to ")[0] for each in stuck.left if " to " in each.step)
    members = [each for each, _ in sorted(named.items(), key=lambda item: (-item[1], item[0])) if each in _names(judge)]
    most = max(3, min(_MOST_TRIED, _MOST_WORK // max(len(judge.rollout.members), 1)))
    tried = 0
    for size in range(1, len(members) + 1):
        for chosen in combinations(members, size):
            tried += 1
            if tried > most:
                # One by one, those that are in the way most: few enough, and found in time.
                return _one_by_one(judge, router, stuck, leaving)
            layout = _laid_out(judge, router, chosen, leaving)
            if layout.complete:
                return tuple(sorted(chosen)), layout
    return _one_by_one(judge, router, stuck, leaving)


def _one_by_one(
    judge: Judge, router: Router, stuck: StageLayout, leaving: Iterable[str]
) -> tuple[tuple[str, ...], StageLayout]:
    chosen: list[str] = []
    layout = stuck
    while not layout.complete:
        named = Counter(each.member for each in layout.left if each.member not in chosen)
        if not named:
            break
        most = max(named.values())
        # Nobody of those who stand in the way just as much is better than another, so they stop together.
        chosen += sorted(each for each, count in named.items() if count == most)
        layout = _laid_out(judge, router, chosen, leaving)
    return tuple(sorted(chosen)), layout


def _laid_out(judge: Judge, router: Router, stopping: Iterable[str], leaving: Iterable[str]) -> StageLayout:
    names, gone = tuple(stopping), tuple(leaving)
    direct = Board(judge, router.routes({}, names, gone)).lay_out()
    if direct.complete or names:
        return direct
    for bridges in chains(router.candidates()):
        found = Board(judge, router.routes(bridges, names, gone)).lay_out()
        if found.complete:
            return found
    return direct


def _names(judge: Judge) -> set[str]:
    return {each.name for each in judge.rollout.members}


def smallest_cover(pairs: Iterable[tuple[str, str]]) -> tuple[frozenset[str], frozenset[str]]:
    """The smallest set of members and tables such that each pair has one of its two in it.

    That is as many as pairs can be chosen with nobody twice among them, which augmenting paths find.

    Example:
        >>> smallest_cover([("old", "a"), ("old", "b"), ("one", "c"), ("other", "c")])
        (frozenset({'old'}), frozenset({'c'}))
    """
    tables: dict[str, list[str]] = {}
    for member, table in sorted(set(pairs)):
        tables.setdefault(member, []).append(table)
    partner, own = dict[str, str](), dict[str, str]()
    for member in tables:
        _paired(member, tables, partner, own)
    matched = set(partner.values())
    reached_members, reached_tables = {each for each in tables if each not in matched}, set[str]()
    pending = sorted(reached_members)
    while pending:
        for table in tables[pending.pop()]:
            if table not in reached_tables:
                reached_tables.add(table)
                if (other := partner[table]) not in reached_members:
                    reached_members.add(other)
                    pending.append(other)
    return frozenset(tables.keys() - reached_members), frozenset(reached_tables)


def _paired(member: str, tables: dict[str, list[str]], partner: dict[str, str], own: dict[str, str]) -> None:
    """Finds a table for a member, by breadth first search over those who could take another one instead."""
    came_from: dict[str, str] = {}
    pending = [member]
    while pending:
        following: list[str] = []
        for each in pending:
            for table in tables[each]:
                if table in came_from:
                    continue
                came_from[table] = each
                if table in partner:
                    following.append(partner[table])
                    continue
                free: str | None = table
                while free is not None:
                    owner = came_from[free]
                    partner[free], own[owner], free = owner, free, own.get(owner)
                return
        pending = following
