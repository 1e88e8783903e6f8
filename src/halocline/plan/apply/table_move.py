"""One table of a plan, from the question whether it may move to the proof that it has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from halocline.compat.breaks import Client, breaks
from halocline.compat.terms import ProtocolChange, Terms
from halocline.errors import ConflictError, HaloclineError, IncompatibleError, NotYetError
from halocline.fleet.member.gatekeeper import level_of
from halocline.formats.log.fence import fenced
from halocline.plan.action import TableAction
from halocline.plan.apply.as_planned import AsPlanned
from halocline.plan.apply.fleetwatch import FleetWatch, SeenMembers
from halocline.plan.apply.journal import MOVED, MOVING, NOT_COMPARED, VERIFIED, Journal
from halocline.plan.apply.levels import raise_level
from halocline.plan.apply.moving import carry_out
from halocline.plan.apply.verify import Checkup, Verify, check_same, checkup, cost
from halocline.plan.apply.walk import ApplyOptions, Paused, Reporter
from halocline.plan.core.plan import PlannedMove
from halocline.plan.file import SavedPlan
from halocline.plan.tables import terms_now
from halocline.spark.session.session import tagged
from halocline.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FATAL: Final = ("MOVE_UNVERIFIED", "PLAN_STALE", "ROLLOUT_RUNNING")
"""Conflicts that trying again does not end."""


@dataclass(frozen=True)
class TableMover:
    """Moves the tables of a plan, each by itself.

    Attributes:
        seen: The members that are there now.
    """

    saved: SavedPlan
    watch: FleetWatch
    reporter: Reporter
    journal: Journal
    spark: SparkSession | None
    options: ApplyOptions
    seen: Callable[[], SeenMembers]

    def move(self, number: int, move: PlannedMove) -> None:
        """Moves a table and verifies it, from wherever the journal says that it stands; raises `Paused` to wait."""
        action = TableAction.parse(move.action)
        self._check_as_planned(number, move)
        now, _ = terms_now(self.saved.store(move.table))
        begun = self.journal.has(MOVING, number, move.table)
        if not action.is_done(now):
            self._check_gate(move)
        if not begun:
            before = self._checkup(move)
            self.journal.write(MOVING, number, move.table, "" if before is None else _encoded(before))
        if not action.is_done(now) or begun:
            with fenced(lambda: self._check_as_planned(number, move)):
                self._carry_out(action, move)
        if not self.journal.has(MOVED, number, move.table):
            self._check_as_planned(number, move)
            _, made = terms_now(self.saved.store(move.table))
            self.journal.write(MOVED, number, move.table, move.action, made)
        told = self._verified(number, move)
        self._check_verdicts(move)
        self.journal.write(VERIFIED, number, move.table, told)
        self.reporter.step(number, move.table, told)

    def _check_as_planned(self, number: int, move: PlannedMove) -> None:
        """What others have changed of the table is not carried into a protocol that the plan never showed."""
        AsPlanned(self.saved, self.journal).check(number, [move.table])

    def _check_gate(self, move: PlannedMove) -> None:
        """Nobody who is known to use the table now would break."""
        if broken := self._broken(move, move.after):
            raise Paused((move.table,), f"the gate is closed, {', '.join(broken[:5])} would break")

    def _check_verdicts(self, move: PlannedMove) -> None:
        """Everybody who is known to use the table can, as it has really become."""
        now, _ = terms_now(self.saved.store(move.table))
        if broken := self._broken(move, now):
            raise ConflictError(
                f"{move.table} has become something that {len(broken)} of its users cannot use",
                condition="MOVE_UNVERIFIED",
                sides={"planned": str(move.after.protocol), "is": str(now.protocol), "broken": ", ".join(broken[:5])},
                next_step="Go back: halocline rollback FILE",
            )

    def _broken(self, move: PlannedMove, after: Terms) -> list[str]:
        clients = [
            Client(each.release, use.operations, each.known_from, name=each.name, provides=each.provides)
            for each in self.seen().members
            for use in each.uses
            if use.table == move.table
        ]
        accepted = self.saved.plan.accepted
        return [
            f"{each.client.name} ({each.client.release}, {each.verdict.answer})"
            for each in breaks(move.before, after, clients)
            if not (each.verdict.unknown and each.client.name in accepted)
        ]

    def _carry_out(self, action: TableAction, move: PlannedMove) -> None:
        try:
            with self._marked(move.action, move):
                carry_out(action, self.saved.places[move.table], self.spark, self.saved.options)
        except NotYetError as error:
            raise Paused((move.table,), error.message, error.until_ms) from None
        except IncompatibleError as error:
            if error.condition == "GATE_CLOSED" and self.watch.fleet:
                self._raise_level(move)
            raise Paused((move.table,), f"the gate is closed, {error.message}") from None
        except ConflictError as error:
            if error.condition in _FATAL:
                raise
            raise Paused((move.table,), f"another writer was at work, {error.message}") from None

    def _raise_level(self, move: PlannedMove) -> None:
        """Raises the fleet to the level that a move needs, if nothing is in the way of that."""
        ladder = move.after.protocol.format
        needed = level_of(ladder, ProtocolChange(move.table, move.before, move.after).gained)
        try:
            raise_level(self.watch.fleet, ladder, needed, f"plan {self.saved.plan.id}", self.reporter.note)
        except HaloclineError as error:
            raise Paused((move.table,), f"the gate is closed, {error.message}") from None

    def _marked(self, work: str, move: PlannedMove) -> AbstractContextManager[None]:
        """Has the Spark jobs of a piece of work say which plan they belong to."""
        plan = self.saved.plan.id
        if self.spark is None:
            return nullcontext()
        return tagged(self.spark, f"halocline-plan-{plan}", f"halocline plan {plan}: {work}, {move.table}")

    def _checkup(self, move: PlannedMove) -> Checkup | None:
        if self.options.verify is Verify.NONE or self.spark is None:
            return None
        table = Table.for_path(self.saved.places[move.table], self.spark, options=self.saved.options)
        self.reporter.note(f"verification of {move.table} {cost(table, self.options.verify)}")
        with self._marked("count and hash rows before", move):
            return checkup(table, self.options.verify)

    def _verified(self, number: int, move: PlannedMove) -> str:
        begun = self.journal.last_of(MOVING, number, move.table)
        if begun is None or not begun.detail or self.spark is None:
            return NOT_COMPARED
        before = msgspec.json.decode(begun.detail, type=Checkup)
        table = Table.for_path(self.saved.places[move.table], self.spark, options=self.saved.options)
        with self._marked("count and hash rows after", move):
            return check_same(table, before, self.options.verify)


def _encoded(checkup: Checkup) -> str:
    return msgspec.json.encode(checkup).decode()
