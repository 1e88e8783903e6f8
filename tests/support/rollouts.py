"""Rollouts for tests: the lakes of the seed documents, and a replay of every order that a plan allows.

The replay knows nothing of the planner. It walks states: which release each member runs, which terms each table is on.
From a state of a stage it goes to every state that one more step leads to, and to those that a writer brings about by
itself; in each of them every use of every table is judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from halocline.compat.breaks import Client, breaking
from halocline.compat.knowledge import Knowledge
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.plan.core.plan import Plan, Stage
from halocline.plan.core.rollout import Rollout, RolloutMember, RolloutTable, TableMove, at_version

RFC_76 = Path(__file__).parents[2] / "docs" / "examples" / "rfc-76"
LAYERS = ("bronze", "silver", "gold")


def hudi_table(name: str, version: int = 6, to: int | None = None, *moves: TableMove) -> RolloutTable:
    """A copy-on-write table that writers may move up, and that may be meant to move itself."""
    terms = Terms.of(Protocol.hudi(version), TableMetadata({"hoodie.table.type": "COPY_ON_WRITE"}))
    raised = {each: at_version(terms, each) for each in (6, 8, 9) if each > min(version, to or version)}
    own = (TableMove(f"move to table version {to}", at_version(terms, to)),) if to else ()
    return RolloutTable(name, terms, (*own, *moves), raised)


def delta_table(
    name: str, *features: str, enable: Iterable[str] = (), drop: str = "", keep_history: bool = False
) -> RolloutTable:
    """A table that uses these features, and is to gain or lose some."""
    terms = Terms.using("delta", ["appendOnly", "invariants", *features])
    moves = [
        TableMove(f"enable {each}", Terms.using("delta", ["appendOnly", "invariants", *features, each]))
        for each in enable
    ]
    if drop:
        way = "history kept" if keep_history else "history truncated"
        after = terms.without(drop, protect_history=keep_history)
        moves.append(TableMove(f"drop {drop} ({way})", after, reversible=keep_history))
    return RolloutTable(name, terms, tuple(moves))


def medallion(release: str, *, count: int = 2) -> tuple[RolloutMember, ...]:
    """Pipelines of three layers, several in each; each writes a table of its own and reads those below."""
    found = []
    for depth, layer in enumerate(LAYERS):
        for number in range(count):
            below = [f"{LAYERS[depth - 1]}-{each}" for each in range(count)] if depth else []
            found.append(RolloutMember.of(f"{layer}-job-{number}", release, reads=below, writes=[f"{layer}-{number}"]))
    return tuple(found)


def medallion_tables(
    *, count: int = 2, to: int | None = None, moves: tuple[TableMove, ...] = ()
) -> tuple[RolloutTable, ...]:
    return tuple(hudi_table(f"{layer}-{number}", 6, to, *moves) for layer in LAYERS for number in range(count))


def releases(*texts: str) -> tuple[Release, ...]:
    return tuple(map(Release.parse, texts))


def layers_of(stage: Stage) -> set[str]:
    return {each.member.partition("-")[0] for each in stage.upgrades}


# ---------------------------------------------------------------------- the replay


@dataclass(frozen=True)
class World:
    """A state: what each member runs (and whether it is pinned), and the terms of each table."""

    members: tuple[tuple[Release | None, bool], ...]
    tables: tuple[Terms, ...]


class Harm(AssertionError):
    """A state in which somebody cannot do what it could."""


def replay(rollout: Rollout, plan: Plan, *, pinned: Iterable[str] = (), most: int = 200_000) -> int:
    """Walks through every state that a plan allows; how many there were.

    Args:
        rollout: Where everybody begins.
        plan: What is done.
        pinned: Members that are kept from moving tables up by themselves when it begins.
        most: How many states to walk through at most.

    Raises:
        Harm: In one of them, a member loses something.
    """
    number = {each.name: at for at, each in enumerate(rollout.members)}
    place = {each.name: at for at, each in enumerate(rollout.tables)}
    start = World(
        tuple((each.release, each.name in set(pinned)) for each in rollout.members),
        tuple(each.terms for each in rollout.tables),
    )
    worlds, seen = {start}, 0
    for stage in plan.stages:
        pinnable = {each.name for each in rollout.members if each.pinnable}
        steps = [
            ("member", number[each.member], (each.after, bool(each.switch) and each.member in pinnable))
            for each in stage.upgrades
        ]
        steps += [("table", place[each.table], each.after) for each in stage.moves]
        reached: set[tuple[World, int]] = set()
        pending = [(world, 0) for world in worlds]
        while pending:
            world, done = pending.pop()
            if (world, done) in reached:
                continue
            reached.add((world, done))
            judge(rollout, world, done)
            for at, (kind, which, after) in enumerate(steps):
                if not done >> at & 1:
                    pending.append((_stepped(world, kind, which, after), done | 1 << at))
            pending += [(each, done) for each in risen(rollout, world)]
            assert len(reached) < most, "too many states to walk through"
        seen += len(reached)
        worlds = {world for world, done in reached if done == (1 << len(steps)) - 1}
    return seen


def judge(rollout: Rollout, world: World, done: int = 0) -> None:
    """Every use of every table, in one state."""
    place = {each.name: at for at, each in enumerate(rollout.tables)}
    for member, (release, _) in zip(rollout.members, world.members, strict=True):
        if release is None:
            continue
        for use in member.uses:
            table = rollout.tables[place[use.table]]
            client = Client(release, use.operations, provides=member.provides)
            terms = world.tables[place[use.table]]
            lost = breaking(client, table.terms, terms, was=member.release, knowledge=rollout.knowledge)
            if lost is not None and not (lost.unknown and member.name in rollout.accepted):
                raise Harm(f"{member.name} at {release} and {table.name} at {terms.protocol}: {lost}")


def risen(rollout: Rollout, world: World) -> Iterator[World]:
    """The states that a writer brings about by itself, when it writes a table that is lower than its own version."""
    place = {each.name: at for at, each in enumerate(rollout.tables)}
    known = rollout.knowledge or Knowledge.load()
    for member, (release, pinned) in zip(rollout.members, world.members, strict=True):
        product = None if release is None or pinned else known.find(release.product)
        for use in member.uses if product else ():
            table, at = rollout.tables[place[use.table]], place[use.table]
            upgrade = product.own_upgrade(table.terms.protocol.format, release.version) if use.writes else None
            if upgrade is None or upgrade.version <= world.tables[at].protocol.reader:
                continue
            # A writer that has not moved its table up so far is kept from it.
            kept = release == member.release and upgrade.version > table.terms.protocol.reader
            after = table.raised.get(upgrade.version)
            if not kept and after is not None:
                yield World(world.members, (*world.tables[:at], after, *world.tables[at + 1 :]))


def _stepped(world: World, kind: str, which: int, after: object) -> World:
    if kind == "member":
        return World((*world.members[:which], after, *world.members[which + 1 :]), world.tables)
    return World(world.members, (*world.tables[:which], after, *world.tables[which + 1 :]))


# ---------------------------------------------------------------------- is there a way at all?


def has_a_way(rollout: Rollout) -> bool:
    """Whether some order of single steps leads to the goals with nobody harmed, over any releases that can be had.

    A search without any cleverness: a place is what each member runs, how far each table is, and the terms that it may
    have by now. From each place every single step is tried.
    """
    goals = {each.product: each for each in rollout.goals}
    ladders = [_ladder(rollout, each, goals.get(each.release.product)) for each in rollout.members]
    start = (tuple(0 for _ in ladders), tuple((0, frozenset({each.terms})) for each in rollout.tables))
    seen, pending = {start}, [start]
    while pending:
        members, tables = pending.pop()
        arrived = all(at == len(table.moves) for (at, _), table in zip(tables, rollout.tables, strict=True))
        at_goal = all(
            each.release.product not in goals or ladder[at][0] == goals[each.release.product]
            for each, ladder, at in zip(rollout.members, ladders, members, strict=True)
        )
        if arrived and at_goal:
            return True
        for place in _next_places(rollout, ladders, members, tables):
            if place not in seen:
                seen.add(place)
                pending.append(place)
    return False


def _ladder(rollout: Rollout, member: RolloutMember, goal: Release | None) -> list[tuple[Release, bool]]:
    """What a member may run, lowest first: what it has, and what can be had above it, pinned where that goes."""
    known = rollout.knowledge or Knowledge.load()
    product = known.find(member.release.product)
    found = [(member.release, False)]
    for release in rollout.releases_of(member.release.product):
        if release <= member.release or (goal is not None and release > goal):
            continue
        upgrade = product.own_upgrade("hudi", release.version) if product else None
        found.append((release, bool(upgrade and upgrade.switch and member.pinnable)))
    if goal is not None and goal < member.release:
        found.append((goal, member.pinnable))
    own = product.own_upgrade("hudi", member.release.version) if product else None
    if own and own.switch and member.pinnable:
        found.insert(1, (member.release, True))
    return found


def _next_places(rollout, ladders, members, tables) -> Iterator[tuple]:
    for at, ladder in enumerate(ladders):
        for step in range(members[at] + 1, len(ladder)):
            place = _settled(rollout, ladders, (*members[:at], step, *members[at + 1 :]), tables)
            if place is not None:
                yield place
    for at, table in enumerate(rollout.tables):
        moved = tables[at][0]
        if moved < len(table.moves):
            after = (moved + 1, frozenset({table.moves[moved].after}))
            place = _settled(rollout, ladders, members, (*tables[:at], after, *tables[at + 1 :]))
            if place is not None:
                yield place


def _settled(rollout, ladders, members, tables) -> tuple | None:
    """The place with all that writers may do by themselves there; None if somebody is harmed in it."""
    running = tuple(ladder[at] for ladder, at in zip(ladders, members, strict=True))
    possible = [set(terms) for _, terms in tables]
    changed = True
    while changed:
        changed = False
        for choice in _choices(possible):
            for world in risen(rollout, World(running, choice)):
                for at, terms in enumerate(world.tables):
                    changed = changed or terms not in possible[at]
                    possible[at].add(terms)
    for choice in _choices(possible):
        try:
            judge(rollout, World(running, choice))
        except Harm:
            return None
    return members, tuple((at, frozenset(terms)) for (at, _), terms in zip(tables, possible, strict=True))


def _choices(possible: list[set[Terms]]) -> list[tuple[Terms, ...]]:
    """Enough combinations to meet each of the terms once; tables do not depend on each other."""
    orders = [sorted(each, key=str) for each in possible]
    return [tuple(each[at % len(each)] for each in orders) for at in range(max(map(len, orders)))]
