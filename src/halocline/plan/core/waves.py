"""Waves: as much as can be done at once, in any order, and then the next.

A *board* knows where every member and every table may stand at a moment. Within a stage a member may stand in two
places, since nobody knows whose turn it was already, and a table may be on several terms: those it had, those it moves
to, and those that writers may bring about by themselves. A step is taken into a stage if every combination that it
makes possible is fine.

Members go first, as long as one can; then tables. So a table moves as late as possible, and until then the way back
costs nothing but a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from halocline.compat.terms import Terms
from halocline.errors import InternalError
from halocline.plan.core.judge import STOPPED, Judge, MemberPosition
from halocline.plan.core.plan import MemberUpgrade, PlannedMove, Stage, Trouble

Route = tuple[MemberPosition, ...]
"""The positions of a member, from where it is to where it is to be."""


class Clash(NamedTuple):
    """A combination that is not fine: a member, where it stands, a table, and its terms."""

    member: int
    position: int
    table: int
    terms: int


@dataclass(frozen=True, slots=True)
class StageLayout:
    """The stages that were found, and what was left.

    Args:
        stages: What can be done.
        left: What cannot, and because of whom; empty if everything can.
    """

    stages: tuple[Stage, ...]
    left: tuple[Trouble, ...]

    @property
    def complete(self) -> bool:
        """Whether everything can be done."""
        return not self.left

    @property
    def cost(self) -> tuple[int, int]:
        """How many stages, and how many restarts."""
        return len(self.stages), sum(len(each.upgrades) for each in self.stages)


class Board:
    """Where everyone stands.

    Args:
        judge: Who is asked.
        routes: The positions that each member passes, in the order of the rollout.
    """

    def __init__(self, judge: Judge, routes: Sequence[Route]) -> None:
        rollout = self._rollout = judge.rollout
        self._judge, self._rules = judge, judge.rules
        self._routes = [tuple(judge.position(each) for each in route) for route in routes]
        self._at = [0] * len(routes)
        self._positions: list[tuple[int, ...]] = [route[:1] for route in self._routes]
        self._moves = [tuple(judge.terms(move.after) for move in table.moves) for table in rollout.tables]
        self._moved = [0] * len(rollout.tables)
        self._terms: list[tuple[int, ...]] = [(judge.terms(table.terms),) for table in rollout.tables]
        self._raised = [{at: judge.terms(each) for at, each in table.raised.items()} for table in rollout.tables]
        self._formats = [table.terms.protocol.format for table in rollout.tables]
        # The versions that writers move each table to by themselves from now on.
        self._rising: list[Counter[int]] = [Counter() for _ in rollout.tables]
        # Who alone brings terms about in this wave, with where it stood before: it never meets them there.
        self._bringing: dict[tuple[int, int], tuple[int, int]] = {}
        self._rising_at_the_end: list[set[int]] = [set() for _ in rollout.tables]
        self._links = judge.links
        for member, links in enumerate(self._links.writes):
            route = self._routes[member]
            for table, _ in links:
                self._rising[table][self._level(member, route[0], table)] += 1
                self._rising_at_the_end[table].add(self._level(member, route[-1], table))

    def lay_out(self) -> StageLayout:
        """Finds stages until everything is done, or nothing more can be."""
        stages: list[Stage] = []
        while stage := self._wave() or self._moving():
            stages.append(stage)
        return StageLayout(tuple(stages), tuple(self._left()))

    def clashes_at_the_end(self) -> Iterator[Clash]:
        """What is not fine once everybody is where they are to be, in whichever order they get there."""
        for table, links in enumerate(self._links.of_table):
            terms = self._terms_at_the_end(table)
            for member, question in self._rules.asked_of_table(links):
                end = self._routes[member][-1]
                for each in terms:
                    if not self._judge.fine(question, end, each):
                        yield Clash(member, end, table, each)

    def can_end_at(self, member: int, position: int) -> bool:
        """Whether a member could end at this position, with all others where they are to be."""
        for table, question in self._links.of_member[member]:
            terms = self._terms_at_the_end(table)
            level = self._level(member, position, table) if (table, question) in self._links.writes[member] else 0
            for each in (*terms, *self._rules.rising(self._risen(table, terms, {level} if level else set()))):
                if not self._judge.fine(question, position, each):
                    return False
        return True

    def _terms_at_the_end(self, table: int) -> tuple[int, ...]:
        last = self._moves[table][-1] if self._moves[table] else self._terms[table][0]
        return (last, *self._rules.rising(self._risen(table, (last,), self._rising_at_the_end[table])))

    # ------------------------------------------------------------------ stages

    def _wave(self) -> Stage | None:
        """As many members as can get their next release at once."""
        upgrades, rising = list[MemberUpgrade](), dict[int, set[int]]()
        began: list[tuple[int, int]] = []
        for member, route in enumerate(self._routes):
            at = self._at[member]
            if at + 1 == len(route) or self._clash_of_member(member, route[at + 1]):
                continue
            after = route[at + 1]
            for table, terms, _, _ in list(self._shared(member, after)):
                del self._bringing[table, terms]
            for table, new in self._rises(member, after):
                self._terms[table] += tuple(new)
                self._bringing |= {(table, each): (member, route[at]) for each in new}
                rising.setdefault(table, set()).update(new)
            self._positions[member] = self._rules.in_its_wave(route[at], after)
            began.append((member, after))
            upgrades.append(self._upgrade(member, route[at], after, bridge=at + 2 < len(route)))
        self._bringing.clear()
        for member, after in began:
            self._at[member] += 1
            self._positions[member] = (after,)
            for table, _ in self._links.writes[member]:
                self._rising[table][self._level(member, self._routes[member][self._at[member] - 1], table)] -= 1
                self._rising[table][self._level(member, after, table)] += 1
        for table in rising:
            self._terms[table] = self._rules.at_rest(self._terms[table])
        return Stage(tuple(upgrades), rising=self._told(rising)) if upgrades else None

    def _moving(self) -> Stage | None:
        """As many tables as can move at once; nobody stands in two places meanwhile."""
        moves, rising = list[PlannedMove](), dict[int, set[int]]()
        for table, route in enumerate(self._moves):
            at = self._moved[table]
            if at == len(route) or self._clash_of_table(table, route[at]):
                continue
            given = self._rollout.tables[table]
            before = given.terms if at == 0 else given.moves[at - 1].after
            step = given.moves[at]
            moves.append(PlannedMove(given.name, step.action, before, step.after, step.reversible, step.note))
            new = self._rules.rising(self._risen(table, route[at : at + 1], self._active(table)))
            if new:
                rising[table] = set(new)
            self._moved[table] += 1
            self._terms[table] = (route[at], *new)
        return Stage(moves=tuple(moves), rising=self._told(rising)) if moves else None

    # ------------------------------------------------------------------ what a step would make possible

    def _clash_of_member(self, member: int, after: int) -> Clash | None:
        """The first combination that is not fine if a member gets this release now."""
        if after == STOPPED:
            return None
        fine = self._judge.fine
        for table, question in self._rules.asked_of_member(self._links.of_member[member]):
            for terms in self._terms[table]:
                if not fine(question, after, terms):
                    return Clash(member, after, table, terms)
        for table, terms, other, position in self._shared(member, after):
            question = next(each for each_table, each in self._links.of_member[other] if each_table == table)
            if not fine(question, position, terms):
                return Clash(other, position, table, terms)
        for table, new in self._rises(member, after):
            for other, question in self._rules.asked_of_table(self._links.of_table[table]):
                # The member itself brings the new terms about, so it meets them only where it then is.
                for position in (after,) if other == member else self._positions[other]:
                    for terms in new:
                        if not fine(question, position, terms):
                            return Clash(other, position, table, terms)
        return None

    def _clash_of_table(self, table: int, after: int) -> Clash | None:
        """The first combination that is not fine if a table moves to these terms now."""
        new = (after, *self._rules.rising(self._risen(table, (after,), self._active(table))))
        for member, question in self._rules.asked_of_table(self._links.of_table[table]):
            for position in self._positions[member]:
                for terms in new:
                    if not self._judge.fine(question, position, terms):
                        return Clash(member, position, table, terms)
        return None

    def _rises(self, member: int, after: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The tables that a member at this position may move up by itself, and the terms that makes possible."""
        for table, _ in self._links.writes[member]:
            level = self._level(member, after, table)
            if level and (new := self._rules.rising(self._risen(table, self._terms[table], {level}))):
                yield table, new

    def _shared(self, member: int, after: int) -> Iterator[tuple[int, int, int, int]]:
        """The terms that another member alone brought about so far in this wave, and this one would as well.

        Then the other may meet them where it stood before, if this one is first.
        """
        if not self._bringing:
            return
        for table, _ in self._links.writes[member]:
            terms = self._raised[table].get(self._level(member, after, table))
            if terms is not None and (table, terms) in self._bringing:
                other, position = self._bringing[table, terms]
                if other != member:
                    yield table, terms, other, position

    def _risen(self, table: int, terms: Sequence[int], levels: set[int]) -> Iterator[int]:
        """The terms that a table may rise to, beyond those it may have."""
        lowest = min(self._judge.terms_of(each).protocol.reader for each in terms) if levels else 0
        for level in sorted(levels):
            found = self._raised[table].get(level)
            if level > lowest and found is not None and found not in terms:
                yield found

    def _active(self, table: int) -> set[int]:
        """The versions that its writers, where they now are, move a table to."""
        return {level for level, count in self._rising[table].items() if count}

    def _level(self, member: int, position: int, table: int) -> int:
        """The version that a member at a position moves a table to by itself; 0 if it leaves it.

        That a table is lower than what its writer would make of it says that this writer is kept from it.
        """
        level = self._judge.level(position, self._formats[table])
        begins = position == self._routes[member][0]
        return 0 if begins and level > self._rollout.tables[table].terms.protocol.reader else level

    # ------------------------------------------------------------------ in words

    def _upgrade(self, member: int, before: int, after: int, *, bridge: bool) -> MemberUpgrade:
        where, was = self._judge.position_of(after), self._judge.position_of(before)
        switch = ""
        if where.release is not None and where.pinned:
            found = (
                self._judge.own_upgrade(where.release, self._formats[table]) for table, _ in self._links.writes[member]
            )
            switch = next((each[1] for each in found if each is not None), "")
        passing = bridge and where.release is not None
        return MemberUpgrade(self._rollout.members[member].name, was.release, where.release, switch, passing)

    def _told(self, rising: dict[int, set[int]]) -> tuple[tuple[str, Terms], ...]:
        names = [each.name for each in self._rollout.tables]
        told = ((table, each) for table in sorted(rising) for each in sorted(rising[table]))
        return tuple((names[table], self._judge.terms_of(each)) for table, each in told)

    def _left(self) -> Iterator[Trouble]:
        """What cannot be done where everyone now stands, and because of whom."""
        for member, route in enumerate(self._routes):
            at = self._at[member]
            if at + 1 < len(route) and (clash := self._clash_of_member(member, route[at + 1])):
                yield self.trouble(
                    clash, f"{self._rollout.members[member].name} to {self._judge.position_of(route[at + 1]).release}"
                )
        for table, moves in enumerate(self._moves):
            at = self._moved[table]
            if at < len(moves) and (clash := self._clash_of_table(table, moves[at])):
                given = self._rollout.tables[table]
                yield self.trouble(clash, f"{given.name}: {given.moves[at].action}")

    def trouble(self, clash: Clash, step: str) -> Trouble:
        """A clash in words."""
        question = next(each for table, each in self._links.of_member[clash.member] if table == clash.table)
        verdict = self._judge.lost(question, clash.position, clash.terms)
        if verdict is None:
            raise InternalError(f"a clash without a verdict: {clash}")
        return Trouble(self._rollout.members[clash.member].name, self._rollout.tables[clash.table].name, verdict, step)
