"""What releases did, beside what is said of them; kept as CSV: a row per table and operation, a column per release."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from halocline.compat.answer import Answer
from halocline.compat.knowledge import Knowledge
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.compat.verdict import can
from halocline.versions import Version

from .environments import clients

_GATES = Path(__file__).resolve().parent / "gates"
_HEAD = ("table", "operation", "asked", "protocol", "uses")
_NOTE = 200


@dataclass(frozen=True)
class Outcome:
    """One release, one table, one operation.

    Args:
        release: Who.
        case: The table's name in the report.
        terms: What the table asks of those who use it.
        operation: What was tried.
        observed: What happened.
        note: The error, or what was wrong.
        asked: What knowledge is asked instead of the operation; empty if it is that.
    """

    release: str
    case: str
    terms: Terms
    operation: str
    observed: Answer
    note: str = ""
    asked: str = ""

    @property
    def product(self) -> str:
        return self.release.partition("@")[0]

    @property
    def version(self) -> str:
        return self.release.partition("@")[2]

    @cached_property
    def predicted(self) -> Answer:
        """What knowledge says."""
        return can(self.release, self.terms, self.asked or self.operation).answer

    @cached_property
    def by_source(self) -> Answer | None:
        """What the lists in the client's own source say; None if there are none."""
        if not (_GATES / f"{self.product}.toml").exists():
            return None
        return can(self.release, self.terms, self.operation, knowledge=_gates()).answer

    @property
    def unseen(self) -> bool:
        """Whether knowledge was not made from this release."""
        return self.release in _unseen()

    @property
    def agrees(self) -> bool:
        return self.predicted is self.observed


def written(outcomes: Iterable[Outcome]) -> str:
    """All outcomes as CSV. A cell is what was observed, and after a colon what was wrong."""
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for each in outcomes:
        uses = "not known" if each.terms.in_use is None else " ".join(sorted(each.terms.in_use))
        row = (each.case, each.operation, each.asked or each.operation, str(each.terms.protocol), uses)
        told = f": {' '.join(each.note.split())[:_NOTE]}" if each.observed is Answer.WRONG else ""
        cells.setdefault(row, {})[each.release] = f"{each.observed}{told}"
    releases = sorted({release for row in cells.values() for release in row}, key=_in_order)
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow((*_HEAD, *releases))
    table.writerows((*row, *(found.get(release, "") for release in releases)) for row, found in cells.items())
    return out.getvalue()


def read(text: str) -> list[Outcome]:
    """What `written` wrote, release by release."""
    head, *rows = csv.reader(io.StringIO(text))
    found = []
    for at, release in enumerate(head[len(_HEAD) :], start=len(_HEAD)):
        for row in rows:
            if row[at]:
                case, operation, asked, protocol, uses = row[: len(_HEAD)]
                answer, _, note = row[at].partition(": ")
                terms = _terms(protocol, uses)
                found.append(Outcome(release, case, terms, operation, Answer(answer), note, asked))
    return found


def renewed(old: Sequence[Outcome], new: Sequence[Outcome], *, some_tables: bool = False) -> list[Outcome]:
    """The old ones, and in place of those of the same releases the new ones.

    Args:
        old: What was kept.
        new: What was tried now.
        some_tables: Whether only some tables were tried; then what was kept of others stays.
    """
    tried = {(each.release, each.case if some_tables else "") for each in new}
    kept = [each for each in old if (each.release, each.case if some_tables else "") not in tried]
    return sorted([*kept, *new], key=lambda each: _in_order(each.release))


def _in_order(release: str) -> tuple[str, Version]:
    product, _, version = release.partition("@")
    return product, Version.parse(version)


@lru_cache(maxsize=4096)
def _terms(protocol: str, uses: str) -> Terms:
    return Terms(Protocol.parse(protocol), None if uses == "not known" else frozenset(uses.split()))


@lru_cache(maxsize=1)
def _unseen() -> frozenset[str]:
    return frozenset(client.release for client in clients() if client.unseen)


@lru_cache(maxsize=1)
def _gates() -> Knowledge:
    return Knowledge.load(_GATES)
