"""Keeping a membership alive: the background half of a member's client.

One thread greets, joins and listens, gRPC's own sends the heartbeats; between them they drive the pure half of a
member (`halocline.fleet.core.member_step`). What a member knows is in `state`, whether it is in touch in `contact`;
both are values that any thread may read.

A link that breaks is made again after a pause that grows and is never the same for two members. A lease that was lost
makes the member join again in a new life. A refusal, or another process of the same name, ends it for good.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Condition, Event, Thread
from typing import Any, Final

import grpc

from halocline.errors import HaloclineError, UnavailableError
from halocline.fleet.core.clock import Clock
from halocline.fleet.core.effects import Admit, Announce, Refusal, Refuse, Renew
from halocline.fleet.core.events import Heartbeat, Join
from halocline.fleet.core.ladder_state import Announcement
from halocline.fleet.core.member_step import (
    AskToJoin,
    Beat,
    Goodbye,
    Hear,
    MemberEvent,
    MemberState,
    Status,
    member_step,
)
from halocline.fleet.core.state import Report, TableUse
from halocline.fleet.member.link import Link, LinkError
from halocline.fleet.wire import messages
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.status import FailedCall, failed_call

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


class Membership:
    """One member's membership, kept alive in the background.

    Args:
        link: The way to the fleet.
        report: What the member is; its incarnation is chosen here.
        clock: Where the time comes from.
        on_change: Called with every announcement that is news.
        on_lost: Called once with the error when it is over for good.

    Attributes:
        state: What the member knows.
        contact: Whether it is in touch with the fleet.
        changed: Guards both, and is notified when they change.
    """

    def __init__(
        self,
        link: Link,
        report: Report,
        clock: Clock,
        on_change: Callable[[Announcement], None] | None,
        on_lost: Callable[[HaloclineError], None] | None,
    ) -> None:
        self.state = MemberState(replace(report, incarnation=0))
        self.contact = Contact(Status.OUTSIDE, clock.wall())
        self.changed = Condition()
        self._link = link
        self._clock = clock
        # The program's own random numbers, which it may have seeded, are not ours to draw.
        self._dice = random.Random()
        self._on_change = on_change
        self._on_lost = on_lost
        self._tables: dict[TableUse, None] = dict.fromkeys(sorted(report.tables))
        self._tables_told = True
        self._beat_soon = Event()
        self._closed = Event()
        self._heartbeat = 5.0
        self._heard_at = 0
        self._latest = 0
        self._joined_as = 0
        self._thread: Thread | None = None
        self._call: grpc.Call

    def start(self) -> None:
        """Begins, if it has not begun."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="halocline-fleet", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stops acting, leaves, and waits for the thread to end."""
        with self.changed:
            farewell = self.advance(Goodbye(self._clock.now()))
            self._closed.set()
            self._beat_soon.set()
            self._note(Status.OUTSIDE, error=self.contact.error, final=True)
        if farewell and self._link.refused is None:
            try:
                fleet, _ = self._link.stubs()
                fleet.Leave(pb.LeaveRequest(), **{**self._link.options(), "timeout": min(2.0, self._link.deadline)})
            except grpc.RpcError as error:
                _log.info(
                    "left the fleet without saying goodbye: %s", failed_call(error, self._link.address).error.message
                )
        self._link.close()
        if self._thread is not None:
            self._thread.join(timeout=self._link.deadline)

    def advance(self, event: MemberEvent) -> tuple[Any, ...]:
        """A step of the member, by whoever holds `changed`; returns what is to be sent."""
        self.state, sent = member_step(self.state, event)
        return sent

    def beat_soon(self) -> None:
        """Has a heartbeat sent at once: somebody may be waiting for what it says."""
        self._beat_soon.set()

    def use(self, use: TableUse) -> None:
        """Tells the fleet, with the next heartbeat, of a table that is used. Of very many the oldest are dropped."""
        with self.changed:
            if use in self._tables:
                return
            while len(self._tables) >= messages.MOST_TABLES:
                del self._tables[next(iter(self._tables))]
            self._tables[use] = None
            self._tables_told = False
            self.state = replace(self.state, report=replace(self.state.report, tables=frozenset(self._tables)))
        self._beat_soon.set()

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
            # Everybody loses a coordinator at the same time; they must not all come back at the same time.
            self._closed.wait(pause * self._dice.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _join(self) -> None:
        tries = 0
        while True:
            join = self._next_join()
            try:
                agreed = self._link.handshake(join)
                break
            except LinkError as failed:
                latest = int(failed.failure.error.sides.get("latest", "0") or 0)
                ours = failed.failure.error.condition == "INCARNATION_REPLAYED" and self._may_live_again(latest)
                tries += 1
                if not ours or tries > _MOST_TRIES:
                    raise
                self._end(Refusal("INCARNATION_REPLAYED", failed.failure.error.message))
                self._latest = latest
        granted = agreed.admission
        if granted is None:
            raise LinkError(_odd("the fleet answered a join without admitting or refusing", self._link.address))
        self._heartbeat = max(granted.heartbeat_ms / 1000, _SOONEST)
        report = join.report
        announced = messages.announcements(granted.announcements)
        admitted = Admit(report.identity, report.incarnation, granted.sent, agreed.epoch, granted.lease_ms, announced)
        self._hear(admitted)
        with self.changed:
            self._joined_as = report.incarnation
            self._tables_told = report.tables == frozenset(self._tables)
            self._note(Status.JOINED, agreed.server.release, agreed.epoch)

    def _may_live_again(self, latest: int) -> bool:
        """Whether the incarnation that is in our way is our own former one, or we have not been here yet."""
        mine = self.state.report.incarnation
        return latest == mine or self._joined_as != mine

    def _next_join(self) -> Join:
        """The same join again if it may not have been answered; otherwise one in a new life."""
        with self.changed:
            now, report = self._clock.now(), self.state.report
            if self.state.status is Status.OUTSIDE:
                incarnation = max(self._clock.wall(), report.incarnation + 1, self._latest + 1)
                (join,) = self.advance(AskToJoin(now, incarnation))
                assert isinstance(join, Join)
                return join
            return Join(report, now)

    def _listen(self) -> None:
        """Keeps a session going until it breaks."""
        over = Event()
        fleet, _ = self._link.stubs()
        self._beat_soon.clear()
        self._heard_at = self._clock.now()
        self._call = call = fleet.Session(self._beats(over), **{**self._link.options(), "timeout": _SESSION})
        try:
            for down in call:
                self._take(down)
                if self._closed.is_set():
                    return
            raise LinkError(_odd("the fleet ended the session", self._link.address))
        except grpc.RpcError as error:
            raise LinkError(failed_call(error, self._link.address)) from None
        finally:
            over.set()
            self._beat_soon.set()
            call.cancel()

    def _beats(self, over: Event) -> Iterator[pb.Up]:
        """Heartbeats until the session is over; breaks it off if answers stay out, since a stalled peer never would."""
        while not over.is_set() and not self._closed.is_set():
            if self._clock.now() - self._heard_at > 1000 * (2 * self._heartbeat + self._link.deadline):
                self._call.cancel()
                return
            with self.changed:
                tables = None if self._tables_told else frozenset(self._tables)
                sent = self.advance(Beat(self._clock.now(), tables))
                self._tables_told = True
            for beat in sent:
                assert isinstance(beat, Heartbeat)
                yield pb.Up(heartbeat=messages.to_heartbeat(beat))
            over.wait(_SOONEST)
            self._beat_soon.wait(self._heartbeat * self._dice.uniform(0.9, 1.0))
            self._beat_soon.clear()

    def _take(self, down: pb.Down) -> None:
        report = self.state.report
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
        with self.changed:
            before = self.state.heard
            self.advance(Hear(self._clock.now(), reply))
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
        with self.changed:
            report = self.state.report
            self.advance(Hear(self._clock.now(), Refuse(report.identity, refusal, report.incarnation)))
            self._note(Status.OUTSIDE, error=refusal.error())

    def _survives(self, failed: LinkError) -> bool:
        """Whether to go on after a failure; notes it either way."""
        error, condition = failed.failure.error, failed.failure.error.condition
        lost_lease = condition == "INCARNATION_ENDED" and error.sides.get("latest") == str(
            self.state.report.incarnation
        )
        expired = failed.failure.code is grpc.StatusCode.UNAUTHENTICATED and self._link.refused is None
        if self._closed.is_set():
            return False
        if failed.failure.transient or lost_lease or expired:
            with self.changed:
                status = Status.OUTSIDE if self.state.status is Status.OUTSIDE else Status.JOINING
                self._note(status, error=self._unreached(error) if failed.failure.transient else error)
            _log.info("lost touch with the fleet, trying again: %s", error.message)
            return True
        self._end(Refusal(condition, error.message, sides=tuple(error.sides.items())))
        with self.changed:
            self._note(Status.OUTSIDE, error=error, final=True)
        _log.warning("the fleet refused %s: %s", self.state.report.identity, error)
        if self._on_lost is not None:
            self._on_lost(error)
        self._link.close()
        return False

    def _unreached(self, error: HaloclineError) -> HaloclineError:
        """The error, with the time since which the fleet has not been reached."""
        known = self.contact.error
        if known is not None and self.contact.status is not Status.JOINED and "since" in known.sides:
            return known
        return UnavailableError(
            error.message, sides={**error.sides, "since": _moment(self._clock.wall())}, next_step=error.next_step
        )

    def _note(
        self, status: Status, server: str = "", epoch: int = 0, error: HaloclineError | None = None, final: bool = False
    ) -> None:
        before = self.contact
        since = before.since if before.status is status else self._clock.wall()
        self.contact = Contact(status, since, server or before.server, epoch or before.epoch, error, final)
        self.changed.notify_all()


def _odd(message: str, address: str) -> FailedCall:
    error = UnavailableError(message, sides={"asked": address})
    return FailedCall(error, grpc.StatusCode.UNAVAILABLE)


def _refused(refusal: Refusal) -> FailedCall:
    return FailedCall(refusal.error(), grpc.StatusCode.FAILED_PRECONDITION, refusal.subject, refusal.fix)


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
