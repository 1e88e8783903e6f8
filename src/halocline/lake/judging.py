"""Judging those who use the tables of a lake.

A *user* of a table is a release together with what it does to the table and how that is known: from the `log` (the
commits name it, or the format tells the lowest that could have written it), from the `fleet` (it speaks, or was
reported or declared there), or from the `file` of the lake. Each is judged by the one rule, now and after every way the
change to a target could go. *In the way* is whoever would break, and what keeps a table from changing at all.

Limit: readers leave nothing in a log. Without a fleet or a file that tells of them, they are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from halocline.compat.answer import Answer, in_one_line
from halocline.compat.breaks import WRITING, Client, Outlook, forecast, next_step
from halocline.compat.release import Release
from halocline.compat.verdict import Verdict
from halocline.errors import needs_extra, shortened
from halocline.lake.facts import TableFacts, TermsText
from halocline.storage.location import Location

if TYPE_CHECKING:
    from halocline.fleet.answers import MemberStatus

Members = Mapping[str, Sequence["MemberStatus"]]
"""The members of a fleet by the tables that they use."""

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class SurveyedUser:
    """A user of a table, judged.

    Attributes:
        client: The user as it is judged.
        source: Where it is known from: `log`, `fleet` or `file`.
        outlook: The verdict now, and after each way of the change.
    """

    client: Client
    source: str
    outlook: Outlook

    def to_dict(self, ways: Sequence[str]) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "name": self.client.name,
            "release": str(self.client.release),
            "operations": list(self.client.operations),
            "source": self.source,
            "provenance": self.client.known_from,
            "lastSeen": self.client.last_ms,
            "now": {"answer": str(self.outlook.now.answer), "why": why(self.outlook.now)},
            "after": {
                way: {"answer": str(each.answer), "why": why(each), "breaks": breaking is not None}
                for way, each, breaking in zip(ways, self.outlook.after, self.outlook.breaking, strict=True)
            },
        }


@dataclass(frozen=True)
class TableSurvey:
    """One table, and those who use it.

    Attributes:
        facts: What was found.
        users: Who uses it, the loudest verdict first.
        in_the_way: What stands in the way of the target, a clause for each; empty if nothing does.
    """

    facts: TableFacts
    users: tuple[SurveyedUser, ...] = ()
    in_the_way: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in the lake."""
        return self.facts.name

    @property
    def damage(self) -> str | None:
        """Why nothing more is known of it."""
        return self.facts.damage

    @property
    def worst(self) -> Answer | None:
        """The loudest verdict on those who use it now; None if nobody is known."""
        return Answer.loudest(each.outlook.now.answer for each in self.users) if self.users else None

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        facts = self.facts
        last = facts.writers[0] if facts.writers else None
        return {
            **facts.to_dict(),
            "lastWriter": None if last is None else {"release": last.release, "seen": last.last_ms},
            "unnamedCommits": facts.unnamed,
            "users": [each.to_dict(list(facts.ways)) for each in self.users],
            "findings": [msgspec.to_builtins(each) for each in facts.flaws],
            "after": {way: each.protocol for way, each in facts.ways.items()},
            "inTheWay": list(self.in_the_way),
        }


def why(verdict: Verdict) -> str:
    """The reasons of a verdict, how they are known, and what would help, in one line; empty for `ok`."""
    reasons = in_one_line(verdict.reasons)
    reasons += f" ({verdict.evidence})" if reasons and verdict.evidence else ""
    return f"{reasons}: {verdict.fix}" if reasons and verdict.fix is not None else reasons


class UserJudge:
    """Judges clients; the terms of most tables of a lake are the same, and so are those who use them."""

    def __init__(self) -> None:
        self._known: dict[Any, Outlook] = {}

    def table(self, facts: TableFacts, declared: Iterable[Client], members: Members) -> TableSurvey:
        """A table with its users, judged."""
        if facts.terms is None:
            return TableSurvey(facts)
        ways = list(facts.ways.values())
        users = [
            SurveyedUser(client, source, self._outlook(client, facts.terms, ways))
            for client, source in users_of(facts, declared, members)
        ]
        users.sort(key=lambda each: (-each.outlook.now.answer.loudness, str(each.client.release), each.client.name))
        return TableSurvey(facts, tuple(users), tuple(_in_the_way(facts, users)))

    def _outlook(self, client: Client, now: TermsText, ways: Sequence[TermsText]) -> Outlook:
        key = client.release, client.operations, client.provides, now, *ways
        if key not in self._known:
            self._known[key] = forecast([client], now.terms, *(each.terms for each in ways)).outlooks[0]
        return self._known[key]


def _in_the_way(facts: TableFacts, users: Sequence[SurveyedUser]) -> Iterator[str]:
    if facts.obstacle is not None:
        yield facts.obstacle
    for at, way in enumerate(facts.ways):
        broken = [each for each in users if each.outlook.breaking[at] is not None]
        if broken:
            shown = [f"{each.client.release} ({each.outlook.after[at].answer})" for each in broken]
            verdicts = (verdict for each in broken if (verdict := each.outlook.breaking[at]) is not None)
            step = next_step(verdicts, present=broken[0].outlook.now.protocol.features)
            named = f"{way}: " if len(facts.ways) > 1 else ""
            yield f"{named}{shortened(shown, _MOST_NAMED)} would break: {step}"


def users_of(facts: TableFacts, declared: Iterable[Client], members: Members) -> Iterator[tuple[Client, str]]:
    """Everybody known to use a table, each with where that is known from."""
    place = Location.parse(facts.url).url
    told = {}
    for each in members.get(place, ()):
        from halocline.fleet.usage.users import User

        told[each.identity] = User.of_member(each, place).client
    yield from ((each, "fleet") for each in told.values())
    for writer in facts.writers:
        if writer.identity not in told:
            yield Client(Release.reported(writer.release), WRITING, writer.provenance, writer.last_ms), "log"
    yield from ((each, "file") for each in declared)


def members_by_table(fleet: str) -> Members:
    """Asks a fleet once who uses which table.

    Raises:
        UnavailableError: The coordinator cannot be reached.
    """
    with needs_extra("the fleet's client", "fleet"):
        from halocline.fleet.member.admin import AdminClient
    found: dict[str, list[MemberStatus]] = {}
    with AdminClient(fleet) as admin:
        for member in admin.members().members:
            if not member.removed:
                for table in {use.table for use in member.tables}:
                    found.setdefault(table, []).append(member)
    return found
