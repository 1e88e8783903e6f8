"""Routes: the releases that each member passes, from the one it has to the one it is to have.

A member goes to the release that its product is to have. One whose product has no goal stays where it is, unless it
could not use its tables as they will be; then it goes to the lowest release that can be had and that can, if possible
one that can use them as they are as well, and need not wait for anybody.

A *bridge* stands between the two. Which releases can be one is told by what they get along with: of releases that
answer every question of the rollout alike, the newest stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from halocline.compat.release import Release
from halocline.plan.core.judge import Judge, MemberPosition
from halocline.plan.core.rollout import RolloutMember
from halocline.plan.core.waves import Board, Route

Bridges = Mapping[str, tuple[Release, ...]]
"""The releases that members of a product pass on their way, lowest first."""

_MOST_ROUNDS = 5


class Router:
    """Finds routes.

    Args:
        judge: Who is asked.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._rollout = judge.rollout
        self._tables = {each.name: each for each in judge.rollout.tables}
        self._numbers = {each.name: at for at, each in enumerate(judge.rollout.members)}
        numbered = self._judge.terms
        self._terms_of = [
            tuple(numbered(each) for each in (table.terms, *(move.after for move in table.moves)))
            for table in judge.rollout.tables
        ]
        self._raised_of = [tuple(map(numbered, table.raised.values())) for table in judge.rollout.tables]
        self._formats = [table.terms.protocol.format for table in judge.rollout.tables]
        self._lowest = {
            table.name: min(judge.terms_of(each).protocol.reader for each in terms)
            for table, terms in zip(judge.rollout.tables, self._terms_of, strict=True)
        }
        self._pins: dict[tuple[str, Release], MemberPosition] = {}
        self._available: dict[str, tuple[Release, ...]] = {}
        self._goals: dict[str, Release] = {}
        self._find_goals()

    def routes(
        self, bridges: Bridges | None = None, stopping: Iterable[str] = (), leaving: Iterable[str] = ()
    ) -> tuple[Route, ...]:
        """The positions of every member.

        Args:
            bridges: The releases to pass on the way, by product.
            stopping: Members that stand still on their way.
            leaving: Members that stop for good.
        """
        stops, leaves = set(stopping), set(leaving)
        return tuple(
            self._route(each, bridges or {}, each.name in stops, each.name in leaves) for each in self._rollout.members
        )

    def candidates(self) -> dict[str, list[Release]]:
        """For each product that moves, the releases that could be a bridge, lowest first."""
        found: dict[str, list[Release]] = {}
        moving = [each for each in self._rollout.members if self._goals[each.name] != each.release]
        for product in sorted({each.release.product for each in moving}):
            own = [each for each in moving if each.release.product == product]
            low = min(each.release for each in own)
            high = max(self._goals[each.name] for each in own)
            asked = self._signature_questions(own)
            between = [each for each in self._releases_of(product) if low < each < high]
            ends = {self._signature(each, asked) for each in (low, high)}
            kinds = {self._signature(each, asked): each for each in between}
            if chosen := sorted(each for signature, each in kinds.items() if signature not in ends):
                found[product] = chosen
        return found

    def _route(self, member: RolloutMember, bridges: Bridges, stops: bool, leaves: bool) -> Route:
        start, goal = MemberPosition(member.release), self._goals[member.name]
        if leaves:
            return start, MemberPosition(None)
        passed = [each for each in bridges.get(member.release.product, ()) if member.release < each < goal]
        found = [start, *(self._pinned(member, each) for each in passed)]
        end = self._pinned(member, goal)
        if stops:
            found.append(MemberPosition(None))
        if stops or end != start:
            found.append(end)
        return tuple(found)

    def _pinned(self, member: RolloutMember, release: Release) -> MemberPosition:
        """A release, with the switch thrown where it would move a table up that is not meant to be there yet."""
        key = (member.name, release)
        if key not in self._pins:
            self._pins[key] = MemberPosition(release, pinned=self._needs_pin(member, release))
        return self._pins[key]

    def _needs_pin(self, member: RolloutMember, release: Release) -> bool:
        for use in member.uses:
            if not use.writes:
                continue
            now = self._tables[use.table].terms.protocol
            upgrade = self._judge.own_upgrade(release, now.format)
            if upgrade is None:
                continue
            evident = release == member.release and upgrade[0] > now.reader
            if upgrade[0] > self._lowest[use.table] and not evident and self._judge.rules.pinned(member, upgrade[1]):
                return True
        return False

    # ------------------------------------------------------------------ goals

    def _find_goals(self) -> None:
        wanted = {each.product: each for each in self._rollout.goals}
        goals = {each.name: wanted.get(each.release.product, each.release) for each in self._rollout.members}
        free = {each.name: each for each in self._rollout.members if each.release.product not in wanted}
        self._goals = goals
        # A release that is chosen may itself move tables up, and others must follow then.
        for _ in range(_MOST_ROUNDS):
            board = Board(self._judge, self.routes())
            short = {self._rollout.members[each.member].name for each in board.clashes_at_the_end()} & free.keys()
            changed = False
            for name in sorted(short):
                better = self._lowest_that_can(free[name], board)
                if better is not None and better != goals[name]:
                    goals[name], changed = better, True
            if not changed:
                break

    def _lowest_that_can(self, member: RolloutMember, board: Board) -> Release | None:
        """The lowest release that can use the tables all along, or else once they are what they are to be."""
        at = self._numbers[member.name]
        able = [
            (release, position)
            for release in self._releases_of(member.release.product)
            if release > member.release
            and board.can_end_at(at, position := self._judge.position(self._pinned(member, release)))
        ]
        all_along = (release for release, position in able if self._fine_all_along(member, position))
        return next(all_along, able[0][0] if able else None)

    def _fine_all_along(self, member: RolloutMember, position: int) -> bool:
        for table, question in self._judge.links.of_member[self._numbers[member.name]]:
            for terms in self._terms_of[table]:
                if not self._judge.fine(question, position, terms):
                    return False
        return True

    def _releases_of(self, product: str) -> tuple[Release, ...]:
        if product not in self._available:
            self._available[product] = self._rollout.releases_of(product)
        return self._available[product]

    # ------------------------------------------------------------------ bridges

    def _signature_questions(self, members: Sequence[RolloutMember]) -> list[tuple[int, int, str]]:
        asked: dict[tuple[int, int, str], None] = {}
        for member in members:
            for table, question in self._judge.links.of_member[self._numbers[member.name]]:
                for terms in (*self._terms_of[table], *self._raised_of[table]):
                    asked[question, terms, self._formats[table]] = None
        return list(asked)

    def _signature(self, release: Release, asked: list[tuple[int, int, str]]) -> tuple[object, ...]:
        position = self._judge.position(MemberPosition(release))
        answers = (self._judge.fine(question, position, terms) for question, terms, _ in asked)
        formats = sorted({format for *_, format in asked})
        return (*answers, *(self._judge.own_upgrade(release, each) for each in formats))


def chains(candidates: Mapping[str, Sequence[Release]]) -> Iterator[Bridges]:
    """Ways over bridges, the shortest first: one bridge for one product, one for each, then two."""
    for product, releases in candidates.items():
        yield from ({product: (each,)} for each in releases)
    if len(candidates) > 1:
        yield {product: (releases[-1],) for product, releases in candidates.items()}
    for product, releases in candidates.items():
        yield from ({product: (one, other)} for at, one in enumerate(releases) for other in releases[at + 1 :])
