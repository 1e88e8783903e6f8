"""A member's loop: joins a fleet and keeps the membership alive in the background.

One thread greets, joins and listens, gRPC's own sends the heartbeats; between them they drive the pure half of a
member (`halocline.fleet.core.member_step`). The caller's threads only read what those have learnt: what the member
knows is in `state`, whether it is in touch in `contact`, and both are immutable values. Nothing here knows of Spark or
tables.

Promise: a gate is open only while the lease runs and only up to a level that was heard. When the fleet is not reached,
gates close as the lease ends, everything else goes on, and `contact` says since when. A connection that breaks is made
again after a pause that grows and is never the same for two members. A lease that was lost makes the member join again
in a new life; operations that began in the old one must not commit. A refusal, or another process of the same name,
ends it for good: the member sends nothing more and says why.

Limits: callbacks run on the background thread and must be quick. A process that forks must make its own loop.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Condition, Event, Thread
from typing import Any, Final, TypeVar

from halocline.errors import ConflictError, HaloclineError, InputError, UnavailableError
from halocline.fleet.core.clock import Clock, SystemClock
from halocline.fleet.core.effects import Admit, Announce, Refusal, Refuse, Renew
from halocline.fleet.core.events import Heartbeat, Join, Message
from halocline.fleet.core.ladder_state import Announcement
from halocline.fleet.core.member_step import (
    AskToJoin,
    Beat,
    Begin,
    End,
    Goodbye,
    Hear,
    LevelSnapshot,
    MemberEvent,
    MemberState,
    Status,
    may_commit,
    member_step,
    snapshot,
)
from halocline.fleet.core.state import MOST_USES, Report, TableUse
from halocline.fleet.member.contact import Contact
from halocline.fleet.member.link import DEADLINE, Link, LinkError, MemberSession
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import Call
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Wire
from halocline.fleet.wire.messages import table_url
from halocline.fleet.wire.session import FreshToken, SessionMessage
from halocline.fleet.wire.status import FailedCall

_log = logging.getLogger(__name__)
_SOONEST: Final = 0.05
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_LEAVE_S: Final = 2.0
_MOST_TRIES: Final = 5
_MANY_TABLES: Final = 256
_Q = TypeVar("_Q")
_A = TypeVar("_A")


class MemberLoop:
    """A member of a fleet, kept alive in the background.

    Args:
        endpoint: Where the fleet is; to an address the environment adds secret and certificates.
        on_change: Called with every announcement that is news.
        on_lost: Called once with the error when it is over for good.

    Attributes:
        state: What the member knows.
        contact: Whether it is in touch with the fleet, and since when.
    """

    def __init__(
        self,
        endpoint: Endpoint | str | None,
        report: Report,
        *,
        on_change: Callable[[Announcement], None] | None = None,
        on_lost: Callable[[HaloclineError], None] | None = None,
        wire: Wire | None = None,
        clock: Clock | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        where = Endpoint.of(endpoint)
        self._clock = clock or SystemClock()
        self._link = Link(where, report.identity, report.role, wire=wire, clock=self._clock, deadline=deadline)
        self.state = MemberState(replace(report, incarnation=0))
        self.contact = Contact(Status.OUTSIDE, self._clock.wall())
        self._changed = Condition()
        # The program's own random numbers, which it may have seeded, are not ours to draw.
        self._dice = random.Random()
        self._on_change = on_change
        self._on_lost = on_lost
        self._tables: dict[TableUse, None] = dict.fromkeys(sorted(report.tables))
        self._tables_told = True
        self._beat_soon = Event()
        self._closed = Event()
        self._heartbeat_s = 5.0
        self._heard_at = 0
        self._latest = 0
        self._joined_as = 0
        self._thread: Thread | None = None
        self._session: MemberSession | None = None

    def start(self, wait: float = 10.0) -> bool:
        """Joins, and keeps the membership alive in the background from now on.

        Raises:
            HaloclineError: The fleet refused, or we refuse the fleet: `IncompatibleError` names the feature and the
                release that would do, `DeniedError` says that the secret or certificate was not accepted.
        """
        if self._thread is None:
            self._thread = Thread(target=self._run, name="halocline-fleet", daemon=True)
            self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self.contact.status is Status.JOINED or self.contact.final, wait)
            contact = self.contact
        if contact.final and contact.error is not None:
            raise contact.error
        return contact.status is Status.JOINED

    def stop(self) -> None:
        """Stops acting, leaves, and waits for the thread to end. It cannot be started again."""
        with self._changed:
            farewell = self._advance(Goodbye(self._clock.now()))
            self._closed.set()
            self._beat_soon.set()
            self._note(Status.OUTSIDE, error=self.contact.error, final=True)
        if farewell and self._link.refused is None:
            try:
                self._link.call(calls.LEAVE, None, min(_LEAVE_S, self._link.deadline))
            except LinkError as failed:
                _log.info("left the fleet without saying goodbye: %s", failed.failure.error.message)
        self._link.close()
        if self._thread is not None:
            self._thread.join(timeout=self._link.deadline)

    def __enter__(self) -> MemberLoop:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # What the caller's threads ask.

    @property
    def identity(self) -> str:
        """Who this member is."""
        return self.state.report.identity

    @property
    def incarnation(self) -> int:
        """In which life it is; 0 before the first."""
        return self.state.report.incarnation

    def snapshot(self) -> LevelSnapshot:
        """What an operation that begins now may use; without a lease, nothing new."""
        return snapshot(self.state, self._clock.now())

    def begin(self, operation: str) -> LevelSnapshot:
        """Begins an operation of that name, for which the fleet waits until `end`, and fixes what it may use."""
        with self._changed:
            self._advance(Begin(self._clock.now(), operation))
            return self.state.operations.get(operation) or self.snapshot()

    def may_commit(self, operation: str) -> bool:
        """Whether the life that the operation began in still holds its lease."""
        return may_commit(self.state, operation, self._clock.now())

    def end(self, operation: str) -> None:
        """Ends an operation; the fleet is told at once if it acted under an older view than the newest."""
        with self._changed:
            begun = self.state.operations.get(operation)
            self._advance(End(operation))
        heard = self.state.heard
        if begun and any(ladder in heard and heard[ladder].view != view for ladder, view in begun.levels.items()):
            self._beat_soon.set()

    def use(self, table: str, ladder: str, operation: str = "read") -> None:
        """Tells the fleet, with the next heartbeat, of a table that is used.

        Raises:
            ConflictError: The fleet cannot be told of so many, so this one must not be used.
        """
        if ladder not in self.state.report.supported:
            raise InputError(f"{self.identity} reports no range for {ladder}, so it cannot use {table}")
        use = TableUse(table_url(table), ladder, operation)
        with self._changed:
            if use in self._tables:
                return
            if len(self._tables) >= MOST_USES:
                raise ConflictError(
                    f"{self.identity} uses {MOST_USES:,} tables already, and the fleet counts no more of one member",
                    condition="TOO_MANY",
                    sides={"table": table, "allowed": f"{MOST_USES:,}, counted once for each operation"},
                    next_step="Give part of the tables to another process with a name of its own.",
                )
            self._tables[use] = None
            self._tables_told = False
            self.state = replace(self.state, report=replace(self.state.report, tables=frozenset(self._tables)))
            many = len(self._tables) > _MANY_TABLES
        # All of them are told each time, so of many not at every single one.
        if not many:
            self._beat_soon.set()

    def call(self, call: Call[_Q, _A], request: _Q) -> _A:
        """Asks the fleet something as this member, in the caller's own thread."""
        contact = self.contact
        if contact.status is not Status.JOINED:
            raise contact.error or UnavailableError(f"{self.identity} has not joined {self._link.endpoint} yet")
        try:
            return self._link.call(call, request)
        except LinkError as failed:
            raise failed.failure.error from None

    # The thread.

    def _advance(self, event: MemberEvent) -> tuple[Message, ...]:
        """A step of the member, by a thread that holds `_changed`; returns what is to be sent."""
        self.state, sent = member_step(self.state, event)
        return sent

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
            except Exception:
                # `stop` closes the channel under our hands, for which gRPC has no error of its own.
                if not self._closed.is_set():
                    _log.exception("the membership of %s failed, which is a bug", self.state.report.identity)
            if self._clock.now() - began > 1000 * _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            # All members lose a coordinator at the same time; they must not all come back at the same time.
            self._closed.wait(pause * self._dice.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _join(self) -> None:
        tries = 0
        while True:
            join = self._next_join()
            try:
                welcome = self._link.handshake(join)
                break
            except LinkError as failed:
                error, tries = failed.failure.error, tries + 1
                replayed = error.condition == "INCARNATION_REPLAYED"
                latest = int(error.sides.get("latest", "0")) if replayed else 0
                if not replayed or not self._may_live_again(latest) or tries > _MOST_TRIES:
                    raise
                self._end(Refusal(error.condition, error.message))
                self._latest = max(latest, int(error.sides.get("lowest", "1")) - 1)
        granted, report = welcome.admission, join.report
        if granted is None:
            raise LinkError(self._broken("the fleet answered a join without admitting or refusing"))
        self._heartbeat_s = max(granted.heartbeat_ms / 1000, _SOONEST)
        self._hear(Admit(*report.key, granted.sent, welcome.epoch, granted.lease_ms, granted.announcements))
        with self._changed:
            self._joined_as = report.incarnation
            self._tables_told = report.tables == frozenset(self._tables)
            self._note(Status.JOINED, server=welcome.server.release, epoch=welcome.epoch)

    def _may_live_again(self, latest: int) -> bool:
        """Whether the incarnation that is in our way is our own former one, or we have not been here yet."""
        mine = self.state.report.incarnation
        return latest == mine or self._joined_as != mine

    def _next_join(self) -> Join:
        """The same join again if it may not have been answered; otherwise one in a new life."""
        with self._changed:
            now, report = self._clock.now(), self.state.report
            incarnation = report.incarnation
            if self.state.status is Status.OUTSIDE:
                incarnation = max(self._clock.wall(), incarnation + 1, self._latest + 1)
            (join,) = self._advance(AskToJoin(now, incarnation))
            assert isinstance(join, Join)
            return join

    def _listen(self) -> None:
        """Keeps a session going until it breaks."""
        over = Event()
        self._beat_soon.clear()
        self._heard_at = self._clock.now()
        self._session = session = self._link.session(self.state.report.key, self._beats(over))
        try:
            for message in session:
                self._take(message)
                if self._closed.is_set():
                    return
            raise LinkError(self._broken("the fleet ended the session"))
        finally:
            over.set()
            self._beat_soon.set()
            session.cancel()

    def _beats(self, over: Event) -> Iterator[Heartbeat]:
        """Heartbeats until the session is over; breaks it off if answers stay out, since a stalled peer never would."""
        while not over.is_set() and not self._closed.is_set():
            if self._clock.now() - self._heard_at > 1000 * (2 * self._heartbeat_s + self._link.deadline):
                assert self._session is not None
                self._session.cancel()
                return
            with self._changed:
                tables = None if self._tables_told else frozenset(self._tables)
                sent = self._advance(Beat(self._clock.now(), tables))
                self._tables_told = True
            for beat in sent:
                assert isinstance(beat, Heartbeat)
                yield beat
            over.wait(_SOONEST)
            self._beat_soon.wait(self._heartbeat_s * self._dice.uniform(0.9, 1.0))
            self._beat_soon.clear()

    def _take(self, message: SessionMessage) -> None:
        match message:
            case Renew():
                self._heard_at = self._clock.now()
                self._hear(message)
            case Announce():
                self._hear(message)
            case FreshToken():
                self._link.renew_token(message.token)
            case Refusal():
                self._end(message)
                raise LinkError(FailedCall.of(message))

    def _hear(self, reply: Admit | Renew | Announce) -> None:
        with self._changed:
            before = self.state.heard
            self._advance(Hear(self._clock.now(), reply))
            news = [each for name, each in self.state.heard.items() if before.get(name) != each]
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
            report = self.state.report
            self._advance(Hear(self._clock.now(), Refuse(report.identity, refusal, report.incarnation)))
            self._note(Status.OUTSIDE, error=refusal.error())

    def _survives(self, failed: LinkError) -> bool:
        """Whether to go on after a failure; notes it either way."""
        error, condition = failed.failure.error, failed.failure.error.condition
        # A life that the fleet does not know ended so long ago that its number was forgotten.
        ours = (str(self.state.report.incarnation), "none")
        lost_lease = condition == "INCARNATION_ENDED" and error.sides.get("latest") in ours
        expired = failed.failure.needs_handshake and self._link.refused is None
        if self._closed.is_set():
            return False
        if failed.failure.later or lost_lease or expired:
            with self._changed:
                status = Status.OUTSIDE if self.state.status is Status.OUTSIDE else Status.JOINING
                unreached = self.contact.unreached(error, self._clock.wall()) if failed.failure.transient else error
                self._note(status, error=unreached)
            _log.info("lost touch with the fleet, trying again: %s", error.message)
            return True
        self._end(Refusal(condition, error.message, sides=tuple(error.sides.items())))
        with self._changed:
            self._note(Status.OUTSIDE, error=error, final=True)
        _log.warning("the fleet refused %s: %s", self.state.report.identity, error)
        if self._on_lost is not None:
            self._on_lost(error)
        self._link.close()
        return False

    def _note(self, status: Status, **facts: Any) -> None:
        self.contact = self.contact.changed(self._clock.wall(), status, **facts)
        self._changed.notify_all()

    def _broken(self, message: str) -> FailedCall:
        return FailedCall.of(Refusal("UNAVAILABLE", message, sides=(("asked", self._link.address),)))
