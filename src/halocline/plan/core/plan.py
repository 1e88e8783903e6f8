"""A plan: stages one after the other, each of them in any order.

What a stage does is either to give members another release or to move tables. A plan knows what it was made for, by
the *fingerprints* of the rollout: a plan for other tables or members than there are is not applied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import Verdict


@dataclass(frozen=True, slots=True)
class MemberUpgrade:
    """A member gets another release, stops, or starts again.

    Args:
        member: Its name.
        before: What it runs; None if it stands still.
        after: What it is to run; None if it stops.
        switch: The setting that keeps it from moving tables up by itself; empty if none is needed.
        bridge: Whether it only passes this release on its way.
    """

    member: str
    before: Release | None
    after: Release | None
    switch: str = ""
    bridge: bool = False


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A table moves.

    Args:
        table: Its name.
        action: What is done.
        before: The terms it has, if nobody has moved it up meanwhile.
        after: The terms it will have.
        reversible: Whether the way back is open.
        note: What to know about it.
    """

    table: str
    action: str
    before: Terms
    after: Terms
    reversible: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """What may be done in any order, before the next stage.

    Args:
        upgrades: Members that get another release.
        moves: Tables that move.
        rising: Tables that writers may move up by themselves from here on, with the terms they then have.
    """

    upgrades: tuple[MemberUpgrade, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    rising: tuple[tuple[str, Terms], ...] = ()

    @property
    def reversible(self) -> bool:
        """Whether all of it can be taken back without stopping anybody.

        A table that writers move up by themselves comes back only while they stand still.
        """
        return not self.rising and all(each.reversible for each in self.moves)

    @property
    def stops(self) -> tuple[str, ...]:
        """The members that stop in it."""
        return tuple(each.member for each in self.upgrades if each.after is None)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a member cannot do.

    Args:
        member: Which member.
        table: To which table.
        verdict: Why not.
        step: What cannot be done because of it, for people; empty if it is so already.
    """

    member: str
    table: str
    verdict: Verdict
    step: str = ""


@dataclass(frozen=True)
class Plan:
    """A frozen list of stages.

    Args:
        stages: What is done.
        already: What members could not do when the plan was made, and cannot at its end.
        mended: What members could not do when the plan was made, and can at its end.
        tables: The fingerprint of each table that the plan was made for.
        members: The release of each member that the plan was made for.
        accepted: The members of which `unknown` was accepted.
    """

    stages: tuple[Stage, ...]
    already: tuple[Trouble, ...] = ()
    mended: tuple[Trouble, ...] = ()
    tables: tuple[tuple[str, str], ...] = ()
    members: tuple[tuple[str, str], ...] = ()
    accepted: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        """A short name that differs wherever anything differs: what is done, and what it was made for.

        Example:
            >>> Plan(()).id == Plan((Stage(),)).id
            False
        """
        told = "\n".join(_told(self))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.stages

    @property
    def upgrades(self) -> Iterator[MemberUpgrade]:
        """What members get, in order."""
        return (each for stage in self.stages for each in stage.upgrades)

    @property
    def moves(self) -> Iterator[PlannedMove]:
        """What happens to tables, in order."""
        return (each for stage in self.stages for each in stage.moves)

    @property
    def restarts(self) -> int:
        """How often a member gets another release."""
        return sum(1 for each in self.upgrades if each.after is not None)

    @property
    def stops(self) -> tuple[str, ...]:
        """The members that stop on the way."""
        return tuple(name for stage in self.stages for name in stage.stops)

    @property
    def point_of_no_return(self) -> int | None:
        """The number of the first stage from which there is no way back; None if there is one from everywhere."""
        return next((number for number, each in enumerate(self.stages, 1) if not each.reversible), None)


def terms_text(terms: Terms) -> str:
    """Terms as one line that is the same in every process.

    Example:
        >>> terms_text(Terms.using("delta", ["deletionVectors"]))
        '(3,7|R: deletionVectors|W: deletionVectors) using deletionVectors'
    """
    return f"{terms.protocol}" + ("" if terms.in_use is None else f" using {','.join(sorted(terms.in_use))}")


def _told(plan: Plan) -> Iterator[str]:
    for stage in plan.stages:
        yield "stage"
        yield from (f"{each.member} {each.before} {each.after} {each.switch} {each.bridge}" for each in stage.upgrades)
        for move in stage.moves:
            yield f"{move.table} {move.action} {terms_text(move.before)} {terms_text(move.after)}"
        yield from (f"{table} {terms_text(terms)}" for table, terms in stage.rising)
    yield from map(str, (plan.tables, plan.members, plan.accepted))


@dataclass(frozen=True)
class Impasse:
    """There is no safe plan.

    Args:
        blockers: What cannot be done, and because of whom.
        members: The smallest set of members in the way, together with the tables.
        tables: The tables in it.
        compromise: The plan that is left if these members stop and these tables stay as they are; None if there is
            none even then.
    """

    blockers: tuple[Trouble, ...]
    members: tuple[str, ...]
    tables: tuple[str, ...]
    compromise: Plan | None
