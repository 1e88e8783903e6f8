"""A survey: every table of a lake, what it requires, who uses it, and what stands in the way of a target.

Promise: one bad table never stops a survey; it is listed with its damage. With a journal, a survey that was ended goes
on behind the tables that it has looked at.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from halocline.compat.answer import Answer
from halocline.compat.breaks import Client, forecast
from halocline.compat.release import Release
from halocline.lake.facts import Job, SurveyTarget, TermsText
from halocline.lake.journal import journaled
from halocline.lake.judging import TableSurvey, UserJudge, members_by_table
from halocline.lake.page import page_of

if TYPE_CHECKING:
    from halocline.compat.verdict import Verdict
    from halocline.lake.lake import Lake


@dataclass(frozen=True)
class LakeSurvey:
    """What a survey found.

    Attributes:
        place: The lake.
        made_ms: When.
        target: What its tables are to become.
        tables: Every table, in the order of names.
        releases: Every release that is judged against every table: those known to use one, and those asked for.
        unsearched: Folders that could not be searched, and why.
        after: Where a lake that was not searched to its end goes on.
    """

    place: str
    made_ms: int
    target: SurveyTarget
    tables: tuple[TableSurvey, ...]
    releases: tuple[Release, ...]
    unsearched: Mapping[str, str] = field(default_factory=dict)
    after: str | None = None

    @property
    def damaged(self) -> tuple[TableSurvey, ...]:
        """The tables that could not be read."""
        return tuple(each for each in self.tables if each.damage is not None)

    @property
    def stuck(self) -> tuple[TableSurvey, ...]:
        """The tables that something stands in the way of."""
        return tuple(each for each in self.tables if each.in_the_way)

    @property
    def failing(self) -> tuple[TableSurvey, ...]:
        """The tables that somebody who uses them may not use, or not as they are used."""
        return tuple(each for each in self.tables if each.worst not in (None, Answer.OK))

    def refusals(self, release: Release, operation: str) -> dict[str, Verdict]:
        """The tables with which a release may not do an operation, or of which it is not known, and why."""
        known: dict[TermsText, Verdict] = {}
        found: dict[str, Verdict] = {}
        for each in self.tables:
            terms = each.facts.terms
            if terms is None:
                continue
            if terms not in known:
                known[terms] = forecast([Client(release, (operation,))], terms.terms).outlooks[0].now
            if not known[terms].ok:
                found[each.name] = known[terms]
        return found

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "lake": self.place,
            "surveyed": self.made_ms,
            "target": msgspec.to_builtins(self.target) if self.target else None,
            "tables": [each.to_dict() for each in self.tables],
            "releases": [str(each) for each in self.releases],
            "damaged": [each.name for each in self.damaged],
            "inTheWay": [each.name for each in self.stuck],
            "unsearched": dict(self.unsearched),
            "after": self.after,
        }

    def to_html(self) -> str:
        """One page that stands alone: sortable, searchable, with a matrix of clients and tables."""
        return page_of(self)

    def __repr__(self) -> str:
        return f"LakeSurvey({self.place!r}: {len(self.tables):,} tables, {len(self.damaged):,} damaged)"


def survey_lake(
    lake: Lake,
    *,
    target: SurveyTarget | None = None,
    clients: Sequence[str] = (),
    fleet: str = "",
    journal: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LakeSurvey:
    """Looks at every table of a lake; see `Lake.survey`."""
    job = Job(lake.options, target or SurveyTarget())
    members = members_by_table(fleet) if fleet else {}
    entries = list(lake)
    looked = journaled(entries, job, None if journal is None else Path(journal), lake.place, processes)
    judge = UserJudge()
    tables: list[TableSurvey] = []
    for facts in looked:
        tables.append(judge.table(facts, lake.declared(facts.name), members))
        if progress is not None:
            progress(len(tables), len(entries))
    asked = [Release.parse(each) for each in clients]
    used = sorted({user.client.release for each in tables for user in each.users}, key=str)
    releases = tuple(dict.fromkeys((*asked, *used)))
    now_ms = time.time_ns() // 1_000_000
    return LakeSurvey(lake.place, now_ms, job.target, tuple(tables), releases, lake.unsearched, lake.after)
