"""Whether tables still require what the plan has them require, asked before every step and immediately before a commit.

Before its move a table must be exactly what it was when the plan was made, and after it exactly what the move has made
of it, as the journal keeps it. In the middle of its move it may be anything between the two, and nothing besides: what
neither side has was added by somebody else, and would be carried into a protocol that the plan never showed. A table
that writers move up by themselves may also be what they make of it.

Rows do not matter, nor does a comment.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from halocline.compat.terms import Terms
from halocline.errors import ConflictError
from halocline.formats.base import TableFormat
from halocline.plan.apply.journal import MOVED, MOVING, Journal
from halocline.plan.core.plan import PlannedMove, terms_text
from halocline.plan.file import SavedPlan
from halocline.plan.tables import state_now

_AT_ONCE: Final = 16


@dataclass(frozen=True)
class AsPlanned:
    """What the tables of a plan may require, by the plan and its journal.

    Attributes:
        saved: The plan.
        journal: What has been done of it.
    """

    saved: SavedPlan
    journal: Journal

    def changes(self, number: int, names: Iterable[str] | None = None) -> dict[str, str]:
        """The tables that require something else at a stage, and what.

        Args:
            number: The stage.
            names: Which tables to look at; all of the plan if not given.
        """
        wanted = list(dict(self.saved.plan.tables) if names is None else names)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="halocline-apply") as pool:
            told = dict(zip(wanted, pool.map(lambda name: self._change(number, name), wanted), strict=True))
        return {name: change for name, change in told.items() if change}

    def check(self, number: int, names: Iterable[str] | None = None) -> None:
        """Refuses a step when tables require something else than the plan has them require.

        Raises:
            ConflictError: They do; each is named, with what it was and is.
        """
        if changed := self.changes(number, names):
            sides = {f"table {name}": change for name, change in list(changed.items())[:5]}
            raise stale(f"{len(changed)} tables have changed since the plan was made", sides)

    def _change(self, number: int, name: str) -> str:
        """What is wrong with a table; empty if it is as planned."""
        planned = dict(self.saved.plan.tables)[name]
        now, fingerprint = state_now(self.saved.store(name))
        move, done = self._newest_move(name)
        expected = planned if move is None else done
        if fingerprint == expected:
            return ""
        if now is not None and planned.startswith(fingerprint.removesuffix(terms_text(now))):  # it is the same table
            if move is not None and not done and _is_between(now, move.before, move.after):
                return ""
            rising = (each for stage in self.saved.plan.stages[:number] for each in stage.rising)
            if any(table == name and now.protocol == terms.protocol for table, terms in rising):
                return ""
        was = expected or (f"between {terms_text(move.before)} and {terms_text(move.after)}" if move else planned)
        return f"was {was}, is {fingerprint}"

    def _newest_move(self, name: str) -> tuple[PlannedMove | None, str]:
        """The newest move of a table that was begun, and what it has made of the table if it is done."""
        for number in range(len(self.saved.plan.stages), 0, -1):
            for move in self.saved.plan.stages[number - 1].moves:
                entry = self.journal.last_of(MOVED, number, name)
                if move.table == name and (entry or self.journal.has(MOVING, number, name)):
                    return move, "" if entry is None else entry.fingerprint
        return None, ""


def stale(message: str, sides: dict[str, str]) -> ConflictError:
    """What is said of a plan that does not fit tables or members any more."""
    step = "Plan again: halocline plan LAKE --out FILE"
    return ConflictError(message, condition="PLAN_STALE", sides=sides, next_step=step)


def _is_between(now: Terms, before: Terms, after: Terms) -> bool:
    """Whether terms lie on the way from one to the other.

    Example:
        >>> off, on = Terms.using("delta", []), Terms.using("delta", ["deletionVectors"])
        >>> _is_between(on, off, on), _is_between(Terms.using("delta", ["changeDataFeed"]), off, on)
        (True, False)
    """
    if {now.protocol.format, before.protocol.format, after.protocol.format} == {TableFormat.HUDI}:
        low, high = sorted((before.protocol.reader, after.protocol.reader))
        return low <= now.protocol.reader <= high
    return (
        now.protocol.format == before.protocol.format
        and _holds(now.protocol.features, before.protocol.features, after.protocol.features)
        and _holds(now.features_in_use, before.features_in_use, after.features_in_use)
    )


def _holds(now: frozenset[str], before: frozenset[str], after: frozenset[str]) -> bool:
    return before & after <= now <= before | after
