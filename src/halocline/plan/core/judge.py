"""The judge: may this member, at this release, use this table on these terms?

It asks `halocline.compat.breaks` and nothing else. A member may be where it loses nothing of what it could do when the
rollout began. Releases, terms and uses are numbered, because the same few questions are asked many times.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

from halocline.compat.breaks import Client, breaking
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import Verdict
from halocline.plan.core.rollout import Rollout
from halocline.plan.core.rules import PlanRules

STOPPED: Final = 0
"""The position of a member that stands still: it uses nothing."""

_T = TypeVar("_T", bound=Hashable)


class MemberPosition(NamedTuple):
    """What a member runs, and whether it is kept from moving tables up by itself."""

    release: Release | None
    pinned: bool = False


class _Question(NamedTuple):
    """What stays the same in all questions about one use of one table; the terms by their number."""

    was: Release
    operations: tuple[str, ...]
    provides: frozenset[str]
    before: int
    accepted: bool


class Links(NamedTuple):
    """Who uses what: for each member or table the numbers of the other side, each with the question to ask."""

    of_member: list[list[tuple[int, int]]]
    of_table: list[list[tuple[int, int]]]
    writes: list[list[tuple[int, int]]]


class Judge:
    """Answers, and remembers what it answered."""

    def __init__(self, rollout: Rollout, rules: PlanRules) -> None:
        self.rollout = rollout
        self.rules = rules
        self._positions: dict[MemberPosition, int] = {MemberPosition(None): STOPPED}
        self._terms: dict[Terms, int] = {}
        self._questions: dict[_Question, int] = {}
        self._by_number: tuple[list[MemberPosition], list[Terms], list[_Question]] = ([MemberPosition(None)], [], [])
        self._answers: dict[tuple[int, int, int], bool] = {}
        self._unable: dict[tuple[int, int, int], Verdict | None] = {}
        self._levels: dict[tuple[int, str], int] = {}
        self._own: dict[tuple[Release, str], tuple[int, str] | None] = {}

    @cached_property
    def links(self) -> Links:
        """Who uses what, by their numbers in the rollout."""
        tables = self.rollout.tables
        number = {table.name: at for at, table in enumerate(tables)}
        before = [self.terms(table.terms) for table in tables]
        links = Links([], [[] for _ in tables], [])
        for at, member in enumerate(self.rollout.members):
            accepted = member.name in self.rollout.accepted
            own, written = list[tuple[int, int]](), list[tuple[int, int]]()
            for use in member.uses:
                table = number[use.table]
                asked = _Question(member.release, self.rules.judged(use), member.provides, before[table], accepted)
                link = (table, _numbered(self._questions, self._by_number[2], asked))
                own.append(link)
                links.of_table[table].append((at, link[1]))
                if use.writes:
                    written.append(link)
            links.of_member.append(own)
            links.writes.append(written)
        return links

    # ------------------------------------------------------------------ numbers for values

    def position(self, position: MemberPosition) -> int:
        """The number of a position."""
        return _numbered(self._positions, self._by_number[0], position)

    def terms(self, terms: Terms) -> int:
        """The number of terms."""
        return _numbered(self._terms, self._by_number[1], terms)

    def position_of(self, number: int) -> MemberPosition:
        """The position of that number."""
        return self._by_number[0][number]

    def terms_of(self, number: int) -> Terms:
        """The terms of that number."""
        return self._by_number[1][number]

    # ------------------------------------------------------------------ answers

    def fine(self, question: int, position: int, terms: int) -> bool:
        """Whether a member may be at a position while the table is on these terms."""
        if position == STOPPED:
            return True
        key = (question, position, terms)
        found = self._answers.get(key)
        if found is None:
            accepted = self._by_number[2][question].accepted
            found = self._answers[key] = self.rules.acceptable(self.lost(question, position, terms), accepted)
        return found

    def lost(self, question: int, position: int, terms: int) -> Verdict | None:
        """What a member loses there; None if nothing."""
        asked, release = self._by_number[2][question], self._by_number[0][position].release
        if release is None:
            return None
        client = Client(release, asked.operations, provides=asked.provides)
        after = self._by_number[1][terms]
        before = self._by_number[1][asked.before]
        return breaking(client, before, after, was=asked.was, knowledge=self.rollout.knowledge)

    def cannot(self, question: int, position: int, terms: int) -> Verdict | None:
        """What a member cannot do there, whether it could before or not."""
        key = (question, position, terms)
        if key not in self._unable:
            asked, release = self._by_number[2][question], self._by_number[0][position].release
            unable = None
            if release is not None:
                client = Client(release, asked.operations, provides=asked.provides)
                unable = breaking(client, None, self._by_number[1][terms], knowledge=self.rollout.knowledge)
            self._unable[key] = unable
        return self._unable[key]

    def level(self, position: int, format: str) -> int:
        """The table version that a writer at this position moves lower tables to by itself; 0 if it leaves them."""
        key = (position, format)
        found = self._levels.get(key)
        if found is None:
            where = self._by_number[0][position]
            upgrade = None if where.release is None or where.pinned else self.own_upgrade(where.release, format)
            found = self._levels[key] = 0 if upgrade is None else upgrade[0]
        return found

    def own_upgrade(self, release: Release, format: str) -> tuple[int, str] | None:
        """The version that a release moves lower tables to by itself, and the switch against it."""
        key = (release, format)
        if key not in self._own:
            product = self.rollout.known.find(release.product)
            found = None if product is None else product.own_upgrade(format, release.version)
            self._own[key] = None if found is None else (found.version, found.switch)
        return self._own[key]


def _numbered(numbers: dict[_T, int], values: list[_T], value: _T) -> int:
    found = numbers.get(value)
    if found is None:
        found = numbers[value] = len(values)
        values.append(value)
    return found
