"""A survey as one page that stands alone.

The page holds the facts as data and a small script that shows them: it loads nothing, sends nothing, and puts every
text on the page as text. Tables of the same terms share their part of the matrix, so a lake of ten thousand tables is a
page of a few megabytes.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import msgspec

from halocline.compat.breaks import Client, forecast
from halocline.lake.facts import TermsText
from halocline.lake.judging import TableSurvey, why

if TYPE_CHECKING:
    from halocline.lake.survey import LakeSurvey

_UNSAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_PLACE: Final = "/*data*/"


def page_of(survey: LakeSurvey) -> str:
    """The page of a survey."""
    template = resources.files("halocline.lake").joinpath("page.html").read_text(encoding="utf-8")
    data = msgspec.json.encode(_data(survey)).decode()
    for unsafe, safe in _UNSAFE.items():  # so that no text ends the script, whatever a table is called
        data = data.replace(unsafe, safe)
    before, after = template.split(_PLACE)
    return before + data + after


def _data(survey: LakeSurvey) -> dict[str, Any]:
    kinds: dict[TermsText, int] = {}
    for each in survey.tables:
        if each.facts.terms is not None:
            kinds.setdefault(each.facts.terms, len(kinds))
    return {
        "lake": survey.place,
        "made": survey.made_ms,
        "target": str(survey.target),
        "after": survey.after,
        "unsearched": [[path, reason] for path, reason in survey.unsearched.items()],
        "releases": [str(each) for each in survey.releases],
        "kinds": [_cells(survey, each) for each in kinds],
        "tables": [_table(each, kinds) for each in survey.tables],
    }


def _cells(survey: LakeSurvey, terms: TermsText) -> list[list[str]]:
    """What every release may do to tables of these terms: the answer for reading, for writing, and why not."""
    cells = []
    for release in survey.releases:
        asked = [forecast([Client(release, (each,))], terms.terms).outlooks[0].now for each in ("read", "write")]
        reasons = [f"{verdict.operation}: {why(verdict)}" for verdict in asked if not verdict.ok]
        cells.append([str(asked[0].answer), str(asked[1].answer), "\n".join(reasons)])
    return cells


def _table(each: TableSurvey, kinds: dict[TermsText, int]) -> dict[str, Any]:
    facts = each.facts
    last = facts.writers[0] if facts.writers else None
    return {
        **facts.to_dict(),
        "protocol": facts.terms.protocol if facts.terms else "",
        "kind": kinds[facts.terms] if facts.terms else None,
        "writer": last.release if last else "",
        "written": last.last_ms if last else None,
        "users": [
            [
                user.client.name,
                str(user.client.release),
                " and ".join(f"{operation}s" for operation in user.client.operations),
                f"{user.source}, {user.client.known_from}",
                user.client.last_ms,
                str(user.outlook.now.answer),
                why(user.outlook.now),
                [[str(verdict.answer), why(verdict)] for verdict in user.outlook.after],
            ]
            for user in each.users
        ],
        "ways": list(facts.ways),
        "flaws": [[flaw.code, flaw.text, flaw.hurts, flaw.safe] for flaw in facts.flaws],
        "way": each.in_the_way,
    }
