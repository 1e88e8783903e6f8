"""A fleet as the gatekeeper of this process's tables.

Before a table requires more of others, three questions are put, in this order:

1. *Is the fleet there?* Without a lease no member can be asked, so nothing new is switched on; the error says since
   when. Everything else goes on.
2. *Who would break?* Every user of the table is judged: members that speak, members that were declared, and those
   observed in the table's own history, which is read at that moment. If any would break, the change is refused and
   the error names each, and what to upgrade to.
3. *Is the gate open?* The features that the table gains belong to a level of the format's ladder, and the fleet must
   stand at it.

The level of a table is what the table itself requires, as its protocol says. It is told to the fleet after a table was
opened at its newest version, so that it follows every migration, whichever client did it. What goes with a snapshot is
that level, but never more than the gate allows at that moment.

Limits: who begins to use a table between the questions and the commit is not asked. A writer is stopped by the commit
itself, which changes the protocol; a reader by the protocol, which it must check.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final

from halocline.compat.breaks import Break, breaks, next_step
from halocline.compat.protocol import Protocol
from halocline.compat.terms import ProtocolChange
from halocline.errors import DeniedError, HaloclineError, IncompatibleError, InputError, UnavailableError, shortened
from halocline.fleet.core.events import MoveTable
from halocline.fleet.core.ladders import shipped
from halocline.fleet.core.state import MOST_USES, Provenance, TableUse
from halocline.fleet.member.contact import moment
from halocline.fleet.member.handle import operating
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.usage import observers
from halocline.fleet.usage.traces import UsageTrace
from halocline.fleet.usage.users import User, known_users
from halocline.fleet.wire import calls
from halocline.formats.base import TableVersion
from halocline.storage.base import Store
from halocline.storage.location import Location
from halocline.table.gatekeeper import Gatekeeper, Operation

_log = logging.getLogger(__name__)
_MOST_SHOWN: Final = 10
_RETRY_S: Final = 10.0


@dataclass(slots=True)
class _KnownTable:
    """A table that was opened: the level it requires, the one that the fleet was told, and when that was refused."""

    store: Store
    level: int | None = None
    told: int | None = None
    refused_at: float | None = None


class FleetGatekeeper(Gatekeeper):
    """Asks a fleet on behalf of a member of it.

    Args:
        trace: The name under which uses of tables are noted beyond the life of this process; none if empty.
    """

    def __init__(self, member: MemberLoop, address: str, trace: str = "") -> None:
        self.member = member
        self.address = address
        self._trace = trace
        self._traced: set[TableUse] = set()
        self._self = User(member.identity, member.state.report.release, ("write",), Provenance.REPORTED)
        self._lock = Lock()
        self._tables: OrderedDict[str, _KnownTable] = OrderedDict()
        self._errands: SimpleQueue[tuple[str, str, int] | None] = SimpleQueue()
        self._runner: Thread | None = None

    # What tables ask.

    def approve_change(self, change: ProtocolChange) -> str:
        """Agrees to a change if no user of the table would break and the gate is open; see the module."""
        table, ladder = Location.parse(change.table).url, change.after.protocol.format
        gained = shortened(sorted(change.gained), 5) or "no feature"
        open_up_to = self._heard(ladder, table, gained)
        users = self._users(table)
        broken = breaks(change.before, change.after, [each.client for each in users])
        if broken:
            raise _would_break(change, gained, users, broken)
        needed = level_of(ladder, change.gained)
        if needed > open_up_to:
            raise IncompatibleError(
                f"{change.table} cannot gain {gained} yet: the fleet does not allow level {needed} of {ladder}",
                condition="GATE_CLOSED",
                sides={
                    "table": f"would require level {needed} of {ladder}",
                    "fleet": f"gates are open up to level {open_up_to}",
                    "checked": _listed(users),
                },
                next_step=f"See who is in the way: halocline fleet raise {ladder}={needed} --dry-run",
                data={"gained": sorted(change.gained)},
            )
        return f"{_listed(users)}; {ladder} is at level {open_up_to}"

    def operation(self, name: str) -> AbstractContextManager[Operation]:
        """Begins an operation of the member."""
        return operating(self.member, name)

    def note_use(self, table: str, operation: str, ladder: str = "delta") -> None:
        """Tells the fleet with the next heartbeat; refuses a table that is one too many to be told."""
        try:
            self.member.use(Location.parse(table).url, ladder, operation)
        except HaloclineError as error:
            if error.condition == "TOO_MANY":
                # A table that is used without the fleet's knowing could be changed under our hands.
                raise
            _log.info("the fleet is not told of %s: %s", table, error.message)

    def level(self, ladder: str) -> int | None:
        """The level that gates are open up to; None before it was heard, and without a lease."""
        return self.member.snapshot().level(ladder)

    def opened(self, snapshot: TableVersion, operation: str, *, newest: bool) -> int | None:
        """Learns of the table, has the fleet told its level, and gives the level to use it at."""
        url, ladder = snapshot.store.root, snapshot.protocol.format
        self.note_use(url, operation, ladder)
        table = Location.parse(url).url
        if self._trace:
            self._leave_trace(TableUse(table, ladder, operation))
        own = table_level(snapshot.protocol)
        with self._lock:
            known = self._tables.setdefault(table, _KnownTable(snapshot.store))
            known.store = snapshot.store
            self._tables.move_to_end(table)
            while len(self._tables) > MOST_USES:
                self._tables.popitem(last=False)
            if newest:
                known.level = own
            level = own if known.level is None else known.level
            due = known.refused_at is not None and time.monotonic() - known.refused_at > _RETRY_S
            news = newest and (due or known.told != own)
            if news:
                known.told, known.refused_at = own, None
        if news:
            self._send(table, ladder, own)
        return min(level, self.level(ladder) or 0)

    def observe(self, table: str) -> tuple[UsageTrace, ...]:
        """Read who wrote a table that this process has opened, and tell the fleet.

        Returns:
            The traces of those that our credential may say nothing of, so that the fleet does not know of them.
        """
        with self._lock:
            known = self._tables.get(Location.parse(table).url)
        untold = []
        for trace in observers.observed(known.store).traces if known is not None else ():
            try:
                self.member.call(calls.OBSERVE, trace.event())
            except DeniedError as error:
                _log.info("the fleet is not told of %s: %s", trace.identity, error.message)
                untold.append(trace)
        return tuple(untold)

    def _leave_trace(self, use: TableUse) -> None:
        """Tells the fleet at once of a use that goes on when this process is gone; once for each."""
        if use in self._traced:
            return
        role = "writer" if use.operation.startswith("write") else "reader"
        now = time.time_ns() // 1_000_000
        trace = UsageTrace(self._trace, self._self.release, Provenance.OBSERVED, now, frozenset({use}), role)
        try:
            self.member.call(calls.OBSERVE, trace.event())
            self._traced.add(use)
        except HaloclineError as error:
            _log.info("the fleet is not told of %s: %s", use.table, error.message)

    def forget_refusals(self) -> None:
        """Tells levels again that the fleet did not take: it stands elsewhere now."""
        with self._lock:
            for each in self._tables.values():
                if each.refused_at is not None:
                    each.told = each.refused_at = None

    def close(self) -> None:
        """Stops telling levels, and leaves the fleet."""
        self._errands.put(None)
        if self._runner is not None:
            self._runner.join(timeout=2)
        self.member.stop()

    # Asking.

    def _heard(self, ladder: str, table: str, gained: str) -> int:
        level = self.level(ladder)
        if level is not None:
            return level
        contact = self.member.contact
        if ladder in self.member.state.heard and contact.error is None and contact.status == "joined":
            raise InputError(f"{self.member.identity} reports no range for {ladder}, so it cannot change {table}")
        raise self._unreached(table, gained, contact.error)

    def _unreached(self, table: str, gained: str, error: HaloclineError | None) -> UnavailableError:
        since = (error.sides.get("since") if error else None) or moment(self.member.contact.since)
        return UnavailableError(
            f"the fleet cannot be asked, so {table} does not gain {gained}",
            sides={
                "fleet": f"{self.address}, not reached since {since}",
                "why": error.message if error else "the lease has run out",
            },
            next_step="Reads and writes go on. Try again when the fleet is back: halocline fleet describe",
        )

    def _users(self, table: str) -> tuple[User, ...]:
        try:
            # The fleet is told of those in the history first, and then tells which of them still count.
            untold = self.observe(table)
            known = known_users(self.member.call(calls.TABLE_USERS, table).members, untold, table)
        except UnavailableError as error:
            raise self._unreached(table, "anything new", error) from None
        # The fleet may not have heard yet that the one who asks uses the table.
        heard = any(each.name == self._self.name for each in known)
        return known if heard else (*known, self._self)

    # Telling the fleet, in the background.

    def _send(self, table: str, ladder: str, level: int) -> None:
        with self._lock:
            if self._runner is None:
                self._runner = Thread(target=self._run_errands, name="halocline-tables", daemon=True)
                self._runner.start()
        self._errands.put((table, ladder, level))

    def _run_errands(self) -> None:
        while (errand := self._errands.get()) is not None:
            table, ladder, level = errand
            with self._lock:
                current = self._tables.get(table)
            if current is None or current.level != level:
                continue
            try:
                # The fleet writes nothing if it knows.
                self.member.call(calls.MOVE_TABLE, MoveTable(table, ladder, level, self.member.identity))
            except HaloclineError as error:
                # The fleet has not got there yet, or is not reached: a change of level, or time, brings another try.
                _log.info("%s stays where the fleet knows it: %s", table, error.message)
                with self._lock:
                    current.refused_at = time.monotonic()


def level_of(ladder: str, features: Iterable[str]) -> int:
    """The level of a format that these features belong to: the highest that any of them comes with.

    Features that come with no level do not count; whether others have them is asked of each user.
    """
    known = shipped().get(ladder)
    if known is None:
        return 0
    wanted = frozenset(features)
    lowest = known.ladder.levels[0]
    return max((level for level, names in known.features.items() if names & wanted), default=lowest)


def table_level(protocol: Protocol) -> int:
    """The level that a table requires by its own protocol."""
    return level_of(protocol.format, protocol.features)


def _would_break(
    change: ProtocolChange, gained: str, users: tuple[User, ...], broken: tuple[Break, ...]
) -> IncompatibleError:
    table = change.table
    known = {each.name: each for each in users}
    sides = {
        user.name: f"{user.release} {user.verbs} it ({user.provenance}): {each.verdict}"
        for each in broken[:_MOST_SHOWN]
        if (user := known[each.client.name])
    }
    if len(broken) > _MOST_SHOWN:
        sides["and"] = f"{len(broken) - _MOST_SHOWN} more"
    advice = next_step(each.verdict for each in broken)
    return IncompatibleError(
        f"{table} cannot gain {gained}: {len(broken)} of {len(users)} who use it would break",
        condition="WOULD_BREAK_USERS",
        sides=sides,
        next_step=f"{advice[:1].upper()}{advice[1:]}, in an order that breaks nobody: {_planned(change)}",
        data={"gained": sorted(change.gained)},
    )


def _planned(change: ProtocolChange) -> str:
    """The command that plans a change."""
    after = change.after.protocol
    if after.format != "delta":
        return f"halocline plan {change.table} --table-version {after.reader}"
    names = sorted(each for each in change.gained if change.before is None or each in after.features)
    return f"halocline plan {change.table} " + " ".join(f"--enable {each}" for each in names)


def _listed(users: tuple[User, ...]) -> str:
    if not users:
        return "no other user of the table is known"
    return f"{len(users)} who use it: {shortened([f'{each.name} ({each.release})' for each in users], _MOST_SHOWN)}"
