"""A member's client: joins a fleet, keeps the lease alive in the background, and answers gates.

`FleetClient` is what a program holds. Its membership (`halocline.fleet.member.loop`) is kept alive by threads of its
own; the caller's threads only read what those have learnt. Nothing here knows of Spark or tables.

Promise: a gate is open only while the lease runs and only up to a level that was heard. When the fleet is not reached,
gates close as the lease ends, everything else goes on, and `contact` says since when. A refusal ends it: the client
sends nothing more and says why. If the lease was lost (a stall, a long partition), the client joins again in a new
life; operations that began in the old one must not commit.

Limits: callbacks run on the background thread and must be quick. A process that forks must make its own client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import grpc

from halocline.errors import HaloclineError, InputError, UnavailableError
from halocline.fleet.core.clock import Clock, SystemClock
from halocline.fleet.core.ladder_state import Announcement
from halocline.fleet.core.member_step import Begin, End, LevelSnapshot, MemberState, Status, may_commit, snapshot
from halocline.fleet.core.state import Report, TableUse
from halocline.fleet.member.link import DEADLINE, Link
from halocline.fleet.member.loop import Contact, Membership
from halocline.fleet.wire import messages
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Wire
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.status import failed_call

__all__ = ["Contact", "FleetClient", "Operation", "TableUsers"]


@dataclass(frozen=True, slots=True)
class TableUsers:
    """Who uses a table, as the fleet knows it, and the level the table requires per ladder."""

    members: tuple[pb.Member, ...]
    levels: Mapping[str, int]


class Operation:
    """One operation of a member: a snapshot taken when it began, and the right to make its change visible.

    Attributes:
        snapshot: What it may use. Ask this and nothing else while the operation lasts.
    """

    def __init__(self, client: FleetClient, name: str, taken: LevelSnapshot) -> None:
        self._client = client
        self._name = name
        self.snapshot = taken

    def gate(self, ladder: str, level: int) -> bool:
        """Whether the operation may use that level."""
        return self.snapshot.gate(ladder, level)

    def may_commit(self) -> bool:
        """Whether the life it began in still holds its lease. Ask just before the change becomes visible."""
        return self._client._may_commit(self._name)


class FleetClient:
    """A member of a fleet.

    Args:
        endpoint: The fleet's address, e.g. `grpc://host:7470`, or an `Endpoint` with credentials.
        report: What the member is; its incarnation is chosen by the client.
        on_change: Called with every announcement that is news.
        on_lost: Called once with the error when the client gives up.
        wire: What we speak; another release's to emulate it.
        clock: Where the time comes from.
        deadline: Seconds that a call may take.

    Example:
        >>> from halocline.fleet.core.state import LevelRange
        >>> report = Report("etl-nightly", 0, "deltalake@1.6.6", supported={"delta": LevelRange(1, 4)})
        >>> client = FleetClient("grpc://127.0.0.1:1", report, deadline=0.5)
        >>> client.gate("delta", 4), client.contact.status
        (False, <Status.OUTSIDE: 'outside'>)
    """

    def __init__(
        self,
        endpoint: Endpoint | str,
        report: Report,
        *,
        on_change: Callable[[Announcement], None] | None = None,
        on_lost: Callable[[HaloclineError], None] | None = None,
        wire: Wire | None = None,
        clock: Clock | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        where = Endpoint.parse(endpoint) if isinstance(endpoint, str) else endpoint
        self._clock = clock or SystemClock()
        self._link = Link(where, report.identity, report.role, wire=wire, clock=self._clock, deadline=deadline)
        self._names = count()
        self._membership = Membership(self._link, report, self._clock, on_change, on_lost)

    def start(self, wait: float = 10.0) -> bool:
        """Joins, and keeps the membership alive in the background from now on.

        Args:
            wait: Seconds to wait for the answer.

        Returns:
            Whether it is joined. If not, the fleet was not reached yet; the client goes on trying.

        Raises:
            HaloclineError: The fleet refused, or we refuse the fleet: `IncompatibleError` names the feature and the
                release that would do, `DeniedError` says that the secret or certificate was not accepted.
        """
        membership = self._membership
        membership.start()
        with membership.changed:
            membership.changed.wait_for(
                lambda: membership.contact.status is Status.JOINED or membership.contact.final, wait
            )
            contact = membership.contact
        if contact.final and contact.error is not None:
            raise contact.error
        return contact.status is Status.JOINED

    def close(self) -> None:
        """Stops acting and leaves. A client that was closed cannot be started again."""
        self._membership.stop()

    def __enter__(self) -> FleetClient:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What the caller's threads ask.

    @property
    def _state(self) -> MemberState:
        return self._membership.state

    @property
    def identity(self) -> str:
        """Who this member is."""
        return self._state.report.identity

    @property
    def incarnation(self) -> int:
        """In which life it is; 0 before the first."""
        return self._state.report.incarnation

    @property
    def contact(self) -> Contact:
        """Whether it is in touch with the fleet, and since when."""
        return self._membership.contact

    def snapshot(self) -> LevelSnapshot:
        """What an operation that begins now may use; without a lease, nothing new."""
        return snapshot(self._state, self._clock.now())

    def gate(self, ladder: str, level: int) -> bool:
        """Whether that level may be used now. For more than one question, take a `snapshot` or an `operation`."""
        return self.snapshot().gate(ladder, level)

    def level(self, ladder: str) -> int | None:
        """The level that gates are open up to; None without a lease, or if the ladder is not one we use."""
        view = self.snapshot().levels.get(ladder)
        return None if view is None else view.level

    def heard(self) -> Mapping[str, Announcement]:
        """The newest announcement per ladder, whether or not the lease still runs."""
        return self._state.heard

    @contextmanager
    def operation(self, name: str = "operation") -> Iterator[Operation]:
        """Begins an operation under one snapshot; the fleet waits for it before a level counts as settled."""
        unique = f"{name}#{next(self._names)}"
        with self._membership.changed:
            self._membership.advance(Begin(self._clock.now(), unique))
            taken = self._state.operations.get(unique)
        begun = Operation(self, unique, taken if taken is not None else self.snapshot())
        try:
            yield begun
        finally:
            with self._membership.changed:
                self._membership.advance(End(unique))
            held = begun.snapshot.levels.items()
            heard = self._state.heard
            if any(ladder in heard and heard[ladder].view != view for ladder, view in held):
                self._membership.beat_soon()

    def note_use(self, table: str, ladder: str, operation: str = "read") -> None:
        """Tells the fleet, with the next heartbeat, that this member uses a table. Never waits.

        Raises:
            InputError: The member reports no range for the ladder.
        """
        if ladder not in self._state.report.supported:
            raise InputError(f"{self.identity} reports no range for {ladder}, so it cannot use {table}")
        use = TableUse(messages.bounded("table", table, messages.LONGEST_TABLE), ladder, operation)
        self._membership.use(use)

    # What goes to the fleet in the caller's own thread.

    def table_users(self, table: str) -> TableUsers:
        """Who uses a table, and the levels it requires.

        Raises:
            UnavailableError: The fleet was not reached; the message says since when.
        """
        answer = self._asked(lambda fleet, options: fleet.TableUsers(pb.TableUsersRequest(table=table), **options))
        return TableUsers(tuple(answer.members), {each.ladder: each.level for each in answer.levels})

    def move_table(self, table: str, ladder: str, level: int) -> None:
        """Tells the fleet the level that a table requires after its migration.

        Raises:
            HaloclineError: The fleet's gates are not open up to that level, or somebody who uses it would break.
            UnavailableError: The fleet was not reached.
        """
        request = pb.MoveTableRequest(table=table, ladder=ladder, level=level)
        self._asked(lambda fleet, options: fleet.MoveTable(request, **options))

    def observe(self, request: pb.ObserveRequest) -> None:
        """Tells the fleet of somebody who does not speak.

        Raises:
            HaloclineError: The fleet refused it.
            UnavailableError: The fleet was not reached.
        """
        self._asked(lambda _, options: self._link.stubs()[1].Observe(request, **options))

    def _asked(self, call: Callable[[Any, dict[str, Any]], Any]) -> Any:
        contact = self._membership.contact
        if contact.status is not Status.JOINED:
            raise contact.error or UnavailableError(f"{self.identity} has not joined {self._link.endpoint} yet")
        try:
            fleet, _ = self._link.stubs()
            return call(fleet, self._link.options())
        except grpc.RpcError as error:
            raise failed_call(error, self._link.address).error from None

    def _may_commit(self, operation: str) -> bool:
        return may_commit(self._state, operation, self._clock.now())
