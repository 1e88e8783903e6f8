"""A member's client: joins a fleet, keeps the lease alive in the background, and answers gates.

`FleetClient` drives the pure half of a member (`halocline.fleet.member_side`) over a link. One background thread
greets, joins and listens, another sends heartbeats; the caller's threads only read what they have learnt. Nothing here
knows of Spark or tables.

Promise: a gate is open only while the lease runs and only up to a level that was heard. When the fleet is not reached,
gates close as the lease ends, everything else goes on, and `contact` says since when. A refusal ends it: the client
sends nothing more and says why. If the lease was lost (a stall, a long partition), the client joins again in a new
life; operations that began in the old one must not commit.

Limits: callbacks run on the background thread and must be quick. A process that forks must make its own client.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from threading import Condition, Event, Thread
from typing import Any, Final

import grpc

from halocline.errors import HaloclineError, InputError, UnavailableError
from halocline.fleet import messages
from halocline.fleet.clock import Clock, SystemClock
from halocline.fleet.effects import Admit, Announce, Refusal, Refuse, Renew
from halocline.fleet.endpoint import Endpoint
from halocline.fleet.events import Heartbeat, Join
from halocline.fleet.handshake import Wire
from halocline.fleet.link import DEADLINE, Link, LinkError
from halocline.fleet.member_side import (
    AskToJoin,
    Beat,
    Begin,
    End,
    Goodbye,
    Hear,
    MemberEvent,
    MemberState,
    Snapshot,
    Status,
    may_commit,
    member_step,
    snapshot,
)
from halocline.fleet.proto.v1 import fleet_pb2 as pb
from halocline.fleet.standing import Announcement
from halocline.fleet.state import Report, TableUse
from halocline.fleet.status import Told, told

_log = logging.getLogger(__name__)
_SESSION: Final = 3600.0
"""Seconds after which a session ends by itself and both ends are checked again."""
_SOONEST: Final = 0.05
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_MOST_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Contact:
    """Whether a member is in touch with its fleet.

    Args:
        status: `joined`, `joining` or `outside`.
        since: Since when it has been so, in milliseconds since 1970.
        server: The coordinator's release, once heard.
        epoch: Its epoch.
        error: Why it is not joined, if it is not.
        final: Whether the client has given up: it was refused, displaced, removed or closed.
    """

    status: Status
    since: int
    server: str = ""
    epoch: int = 0
    error: HaloclineError | None = None
    final: bool = False


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

    def __init__(self, client: FleetClient, name: str, taken: Snapshot) -> None:
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
        >>> from halocline.fleet.state import Range
        >>> report = Report("etl-nightly", 0, "deltalake@1.6.6", supported={"delta": Range(1, 4)})
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
        self._state = MemberState(replace(report, incarnation=0))
        self._contact = Contact(Status.OUTSIDE, self._clock.wall())
        self._tables: dict[TableUse, None] = dict.fromkeys(sorted(report.tables))
        self._tables_told = True
        self._on_change = on_change
        self._on_lost = on_lost
        self._changed = Condition()
        self._beat_soon = Event()
        self._closed = Event()
        self._heartbeat = 5.0
        self._names = count()
        self._heard_at = 0
        self._latest = 0
        self._joined_as = 0
        self._thread: Thread | None = None

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
        if self._thread is None:
            self._thread = Thread(target=self._run, name="halocline-fleet", daemon=True)
            self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._contact.status is Status.JOINED or self._contact.final, wait)
            contact = self._contact
        if contact.final and contact.error is not None:
            raise contact.error
        return contact.status is Status.JOINED

    def close(self) -> None:
        """Stops acting and leaves. A client that was closed cannot be started again."""
        with self._changed:
            farewell = self._advance(Goodbye(self._clock.now()))
            self._closed.set()
            self._beat_soon.set()
            self._note(Status.OUTSIDE, error=self._contact.error, final=True)
        if farewell and self._link.refused is None:
            try:
                fleet, _ = self._link.stubs()
                fleet.Leave(pb.LeaveRequest(), **{**self._link.options(), "timeout": min(2.0, self._link.deadline)})
            except grpc.RpcError as error:
                _log.info("left the fleet without saying goodbye: %s", told(error, self._link.address).error.message)
        self._link.close()
        if self._thread is not None:
            self._thread.join(timeout=self._link.deadline)

    def __enter__(self) -> FleetClient:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What the caller's threads ask.

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
        return self._contact

    def snapshot(self) -> Snapshot:
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
        with self._changed:
            self._advance(Begin(self._clock.now(), unique))
            taken = self._state.operations.get(unique)
        begun = Operation(self, unique, taken if taken is not None else self.snapshot())
        try:
            yield begun
        finally:
            with self._changed:
                self._advance(End(unique))
            held = begun.snapshot.levels.items()
            if any(name in self._state.heard and self._state.heard[name].view != view for name, view in held):
                self._beat_soon.set()

    def note_use(self, table: str, ladder: str, operation: str = "read") -> None:
        """Tells the fleet, with the next heartbeat, that this member uses a table. Never waits.

        Raises:
            InputError: The member reports no range for the ladder.
        """
        if ladder not in self._state.report.supported:
            raise InputError(f"{self.identity} reports no range for {ladder}, so it cannot use {table}")
        use = TableUse(messages.bounded("table", table, messages.LONGEST_TABLE), ladder, operation)
        with self._changed:
            if use in self._tables:
                return
            while len(self._tables) >= messages.MOST_TABLES:
                del self._tables[next(iter(self._tables))]
            self._tables[use] = None
            self._tables_told = False
            self._state = replace(self._state, report=replace(self._state.report, tables=frozenset(self._tables)))
        self._beat_soon.set()

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
        contact = self._contact
        if contact.status is not Status.JOINED:
            raise contact.error or UnavailableError(f"{self.identity} has not joined {self._link.endpoint} yet")
        try:
            fleet, _ = self._link.stubs()
            return call(fleet, self._link.options())
        except grpc.RpcError as error:
            raise told(error, self._link.address).error from None

    def _may_commit(self, operation: str) -> bool:
        return may_commit(self._state, operation, self._clock.now())

    # The background thread.

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closed.is_set():
            began = self._clock.now()
            try:
                self._join()
                self._listen()
            except LinkError as failed:
                if not self._survives(failed):
                    return
                if self._clock.now() - began > 1000 * _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE
                # Everybody loses a coordinator at the same time; they must not all come back at the same time.
                self._closed.wait(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _join(self) -> None:
        tries = 0
        while True:
            join = self._next_join()
            try:
                agreed = self._link.handshake(join)
                break
            except LinkError as failed:
                latest = int(failed.told.error.sides.get("latest", "0") or 0)
                ours = failed.told.error.condition == "INCARNATION_REPLAYED" and self._may_live_again(latest)
                tries += 1
                if not ours or tries > _MOST_TRIES:
                    raise
                self._end(Refusal("INCARNATION_REPLAYED", failed.told.error.message))
                self._latest = latest
        granted = agreed.admission
        if granted is None:
            raise LinkError(_odd("the fleet answered a join without admitting or refusing", self._link.address))
        self._heartbeat = max(granted.heartbeat_ms / 1000, _SOONEST)
        report = join.report
        announced = messages.announcements(granted.announcements)
        admitted = Admit(report.identity, report.incarnation, granted.sent, agreed.epoch, granted.lease_ms, announced)
        self._hear(admitted)
        with self._changed:
            self._joined_as = report.incarnation
            self._tables_told = report.tables == frozenset(self._tables)
            self._note(Status.JOINED, agreed.server.release, agreed.epoch)

    def _may_live_again(self, latest: int) -> bool:
        """Whether the incarnation that is in our way is our own former one, or we have not been here yet."""
        mine = self._state.report.incarnation
        return latest == mine or self._joined_as != mine

    def _next_join(self) -> Join:
        """The same join again if it may not have been answered; otherwise one in a new life."""
        with self._changed:
            now, report = self._clock.now(), self._state.report
            if self._state.status is Status.OUTSIDE:
                incarnation = max(self._clock.wall(), report.incarnation + 1, self._latest + 1)
                (join,) = self._advance(AskToJoin(now, incarnation))
                assert isinstance(join, Join)
                return join
            return Join(report, now)

    def _listen(self) -> None:
        """Keeps a session going until it breaks."""
        over = Event()
        fleet, _ = self._link.stubs()
        self._beat_soon.clear()
        self._heard_at = self._clock.now()
        call = fleet.Session(self._beats(over), **{**self._link.options(), "timeout": _SESSION})
        try:
            for down in call:
                self._take(down)
                if self._closed.is_set():
                    return
            raise LinkError(_odd("the fleet ended the session", self._link.address))
        except grpc.RpcError as error:
            raise LinkError(told(error, self._link.address)) from None
        finally:
            over.set()
            self._beat_soon.set()
            call.cancel()

    def _beats(self, over: Event) -> Iterator[pb.Up]:
        """Heartbeats until the session is over; ends the session itself if answers stay out."""
        while not over.is_set() and not self._closed.is_set():
            if self._clock.now() - self._heard_at > 1000 * (2 * self._heartbeat + self._link.deadline):
                return
            with self._changed:
                tables = None if self._tables_told else frozenset(self._tables)
                sent = self._advance(Beat(self._clock.now(), tables))
                self._tables_told = True
            for beat in sent:
                assert isinstance(beat, Heartbeat)
                yield pb.Up(heartbeat=messages.to_heartbeat(beat))
            over.wait(_SOONEST)
            self._beat_soon.wait(self._heartbeat * random.uniform(0.9, 1.0))
            self._beat_soon.clear()

    def _take(self, down: pb.Down) -> None:
        report = self._state.report
        kind = down.WhichOneof("what")
        if kind == "renewal":
            self._heard_at = self._clock.now()
            renewal = down.renewal
            news = messages.announcements(renewal.announcements)
            self._hear(
                Renew(
                    report.identity,
                    report.incarnation,
                    renewal.seq,
                    renewal.sent,
                    renewal.epoch,
                    renewal.lease_ms,
                    news,
                )
            )
        elif kind == "standing":
            self._hear(Announce(messages.announcements(down.standing.announcements)))
        elif kind == "token":
            self._link.renew_token(down.token.token)
        elif kind == "ended":
            refusal = messages.ended(down.ended)
            self._end(refusal)
            raise LinkError(_refused(refusal))

    def _hear(self, reply: Admit | Renew | Announce) -> None:
        with self._changed:
            before = self._state.heard
            self._advance(Hear(self._clock.now(), reply))
            news = [each for name, each in self._state.heard.items() if before.get(name) != each]
        if news:
            # Tell the fleet at once that it was heard: others wait for that.
            self._beat_soon.set()
        for each in news if self._on_change else ():
            try:
                assert self._on_change is not None
                self._on_change(each)
            except Exception:
                _log.exception("the callback for %s failed", each)

    def _end(self, refusal: Refusal) -> None:
        with self._changed:
            report = self._state.report
            self._advance(Hear(self._clock.now(), Refuse(report.identity, refusal, report.incarnation)))
            self._note(Status.OUTSIDE, error=refusal.error())

    def _survives(self, failed: LinkError) -> bool:
        """Whether to go on after a failure; notes it either way."""
        error, condition = failed.told.error, failed.told.error.condition
        lost_lease = condition == "INCARNATION_ENDED" and error.sides.get("latest") == str(self.incarnation)
        expired = failed.told.code is grpc.StatusCode.UNAUTHENTICATED and self._link.refused is None
        if self._closed.is_set():
            return False
        if failed.told.transient or lost_lease or expired:
            with self._changed:
                status = Status.OUTSIDE if self._state.status is Status.OUTSIDE else Status.JOINING
                self._note(status, error=self._unreached(error) if failed.told.transient else error)
            _log.info("lost touch with the fleet, trying again: %s", error.message)
            return True
        self._end(Refusal(condition, error.message, sides=tuple(error.sides.items())))
        with self._changed:
            self._note(Status.OUTSIDE, error=error, final=True)
        _log.warning("the fleet refused %s: %s", self.identity, error)
        if self._on_lost is not None:
            self._on_lost(error)
        self._link.close()
        return False

    def _unreached(self, error: HaloclineError) -> HaloclineError:
        """The error, with the time since which the fleet has not been reached."""
        known = self._contact.error
        if known is not None and self._contact.status is not Status.JOINED and "since" in known.sides:
            return known
        return UnavailableError(
            error.message, sides={**error.sides, "since": _moment(self._clock.wall())}, next_step=error.next_step
        )

    def _advance(self, event: MemberEvent) -> tuple[Any, ...]:
        self._state, sent = member_step(self._state, event)
        return sent

    def _note(
        self, status: Status, server: str = "", epoch: int = 0, error: HaloclineError | None = None, final: bool = False
    ) -> None:
        before = self._contact
        since = before.since if before.status is status else self._clock.wall()
        self._contact = Contact(status, since, server or before.server, epoch or before.epoch, error, final)
        self._changed.notify_all()


def _odd(message: str, address: str) -> Told:
    error = UnavailableError(message, sides={"asked": address})
    return Told(error, grpc.StatusCode.UNAVAILABLE)


def _refused(refusal: Refusal) -> Told:
    return Told(refusal.error(), grpc.StatusCode.FAILED_PRECONDITION, refusal.subject, refusal.fix)


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
