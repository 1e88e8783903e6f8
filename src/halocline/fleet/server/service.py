"""The fleet's service: takes up what members and operators send, and answers once it is written.

What they send is decided by a `Decider`, one batch after the other. What is here is everything else: who is active,
what follows from time alone, who may come in, and what is asked of the store.

A service is *active* while its coordinator holds the lease on the store. A standby knows who is active, tells callers,
and takes over when that one's lease has run out. `FleetService` knows nothing of gRPC's server or of HTTP: tests drive
it directly.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from halocline.errors import DeniedError, HaloclineError, NotFoundError, UnavailableError
from halocline.fleet.answers import AuditQuery
from halocline.fleet.core.clock import steady_ms
from halocline.fleet.core.effects import Audit, Effect, Refusal
from halocline.fleet.core.events import Cause, Tick
from halocline.fleet.core.state import Fleet, State
from halocline.fleet.server.audit import StrangerLog
from halocline.fleet.server.auth import Access, Claims, Right, Tokens
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.dates import CallerDates
from halocline.fleet.server.decider import Decider, RejectedError
from halocline.fleet.server.metrics import Metrics
from halocline.fleet.server.sessions import Sessions
from halocline.fleet.store import AuditArchive, FleetStore
from halocline.fleet.wire.handshake import Wire
from halocline.fleet.wire.status import Rejection

_log = logging.getLogger(__name__)
_TICK_S: Final = 0.5
_RETRY_S: Final = 1.0
_SWEEP_S: Final = 5.0
_KEYS_S: Final = 60.0
_SILENT_MS: Final = 15_000

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How a service behaves.

    Args:
        skew_ms: By how much a caller's date may differ from ours.
        token_ms: How long a token is good for.
        tick_s: How often time is looked at.
        archive: What takes entries of the audit log before they are forgotten; nothing for a store that does not last.
    """

    skew_ms: int = 10 * 60_000
    token_ms: int = 15 * 60_000
    tick_s: float = _TICK_S
    archive: AuditArchive | None = None


class FleetService:
    """A fleet's coordinator as a service, active or standing by.

    Attributes:
        over: Set once it gives up for good, because its store is lost.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        access: Access,
        wire: Wire | None = None,
        settings: ServiceSettings | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.access = access
        self.wire = wire or Wire.current()
        self.settings = settings or ServiceSettings()
        self.clock = coordinator.clock
        self.sessions = Sessions()
        self.metrics = Metrics(self)
        self.strangers = StrangerLog(self.clock)
        self.dates = CallerDates(self.settings.skew_ms)
        self.on_active: list[Callable[[bool], None]] = []
        self.active_address = ""
        self._tokens: Tokens | None = None
        self._keys_read = 0.0
        self._reached = 0
        self._trouble = "it has not reached its store yet"
        self.over = asyncio.Event()
        self.decider = Decider(
            coordinator,
            self.sessions,
            in_store=self._in_store,
            on_write=self.metrics.writes.observe,
            lost=self._lose,
            elsewhere=self.elsewhere,
            take_refusals=self.strangers.take,
        )
        self._store_thread = ThreadPoolExecutor(1, thread_name_prefix="halocline-store")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="halocline-read")
        self._tasks: list[asyncio.Task[None]] = []

    # Its life.

    async def start(self) -> None:
        """Begins to work, and to try to become active."""
        if await self._try_to_take_over():
            self._announce_active(True)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(each()) for each in (self.decider.work_off, self._watch, self._tick)]

    async def stop(self) -> None:
        """Stops, and lets another take over at once."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        epoch = self.coordinator.epoch
        if epoch:
            with suppress(HaloclineError):
                await self.decider.remember_now()
                await self._in_store(lambda: self.store.resign(epoch))
            self._let_go()
        self._store_thread.shutdown()
        self._readers.shutdown()

    @property
    def active(self) -> bool:
        """Whether this is the coordinator that decides."""
        return self.coordinator.active

    def unready(self) -> str:
        """Why it neither leads nor follows: nothing if it has just reached its store and nothing is the matter."""
        silent = steady_ms() - self._reached
        if not self._trouble and silent > _SILENT_MS:
            return f"it has not reached its store for {silent // 1000} s"
        return self._trouble or self.dates.complaint()

    @property
    def store(self) -> FleetStore:
        """Where the truth lives."""
        return self.coordinator.store

    def state(self) -> State:
        """What is known now."""
        state = self.coordinator.state
        if state is None:
            raise self.elsewhere()
        return state

    def tokens(self) -> Tokens:
        """What makes and checks tokens."""
        if self._tokens is None:
            raise self.elsewhere()
        return self._tokens

    def authorised(self, claims: Claims) -> Claims:
        """What a token allows now; see `Access.authorised`."""
        return self.access.authorised(claims)

    def change_access(self, access: Access) -> None:
        """Lets in whom this names, from now on; sessions end of those whom it does not."""
        self.access = access
        self.sessions.end_all(lambda claims: not self._may_stay(claims))

    def _may_stay(self, claims: Claims) -> bool:
        try:
            return Right.JOIN in self.authorised(claims).rights
        except DeniedError:
            return False

    def elsewhere(self) -> RejectedError:
        """What callers of a standby are told."""
        where = self.active_address
        refusal = Refusal(
            "UNAVAILABLE",
            "this coordinator is standing by" if where else "no coordinator is active at the moment",
            sides=(("active", where or "none"), ("asked", self.coordinator.address)),
            next_step=f"Ask {where} instead." if where else "Try again in a few seconds.",
        )
        return RejectedError(Rejection(refusal, hints=(("active", where),) if where else ()))

    # What callers use.

    async def submit(self, cause: Cause) -> tuple[Effect, ...]:
        """Has an event decided and written, and returns what followed from it."""
        if not self.active:
            raise self.elsewhere()
        return await self.decider.decided(cause)

    def count_refusal(self, who: str, action: str, refusal: Refusal) -> None:
        """Counts a refusal that the core was not asked about; it is written within a second, apart from decisions."""
        self.metrics.refusals.labels(action, refusal.condition).inc()
        self.strangers.note(who, action, refusal)

    async def read(self, question: Callable[[FleetStore], _T]) -> _T:
        """Asks the store something, off the main thread."""
        store = self.store
        return await asyncio.get_running_loop().run_in_executor(self._readers, lambda: question(store))

    async def drop_key(self, key: str, actor: str, reason: str) -> None:
        """Accepts no token any more that this key signed; every member shows its credential again.

        If the same one did that before, the answer was lost, and it is given again.

        Raises:
            NotFoundError: There is no such key.
        """
        epoch, audit = self.state().epoch, Audit(self.clock.now(), actor, "drop-key", key, reason)
        if not await self._in_store(lambda: self.store.drop_key(epoch, key, audit)):
            asked = AuditQuery(actor=actor, action=audit.action, subject=key, limit=1)
            if any(entry.detail == reason for entry in await self.read(lambda store: store.audit(asked))):
                return
            raise NotFoundError(f"there is no key {key}", next_step="See them: halocline fleet keys")
        await self._read_keys(anew=True)
        self.sessions.end_all()

    async def exclusively(self, work: Callable[[Coordinator], _T]) -> _T:
        """Does something with the coordinator while everything else waits; sessions end if its epoch does."""
        async with self.decider.turn:
            epoch = self.coordinator.epoch
            try:
                return await self._in_store(lambda: work(self.coordinator))
            finally:
                if self.coordinator.epoch != epoch:
                    self.sessions.end_all()

    # Time, and who is active.

    async def _tick(self) -> None:
        swept = time.monotonic()
        while True:
            await asyncio.sleep(self.settings.tick_s)
            if not self.active:
                continue
            tick = Tick(sweep=time.monotonic() - swept > _SWEEP_S)
            with suppress(RejectedError):
                if not self.decider.at_once(tick):
                    await self.decider.decided(tick)
            try:
                await self.decider.remember_now()
                if tick.sweep and (state := self.coordinator.state) is not None:
                    swept, fleet = time.monotonic(), state.fleet
                    await self._in_store(partial(self._prune, state.epoch, fleet))
                    await self._read_keys()
            except HaloclineError as error:
                self._lose(error.message)

    def _prune(self, epoch: int, fleet: Fleet) -> None:
        here = {key.identity for key in fleet.members if 0 < key.incarnation <= fleet.floor}
        self.store.prune(epoch, fleet.floor, here)
        try:
            self.store.prune_audit(epoch, self.clock.now(), self.settings.archive)
        except UnavailableError as error:
            _log.error("the log of decisions grows beyond its bounds: %s", error)

    async def _watch(self) -> None:
        """Prolongs the lease while active, and tries to become active while not."""
        while True:
            await asyncio.sleep(self.store.renew_every_s if self.active else _RETRY_S)
            if self.store.lost is not None:
                self._give_up(self.store.lost)
                return
            try:
                if self.active:
                    await self._prolong()
                elif await self._try_to_take_over():
                    self._announce_active(True)
            except HaloclineError as error:
                self._trouble = error.message
                _log.warning("the store cannot be used: %s", error)

    async def _prolong(self) -> None:
        try:
            await self._in_store(self.coordinator.renew)
            self._reached, self._trouble = steady_ms(), ""
        except UnavailableError as error:
            self._trouble = error.message
            # Until the lease has run out no other coordinator is active, so there is time to try again.
            _log.warning("the lease on the store was not prolonged: %s", error.message)
        except HaloclineError as error:
            self._lose(error.message)

    async def _try_to_take_over(self) -> bool:
        async with self.decider.turn:
            try:
                former = await self._in_store(self.store.holder)
                # Before we lead: a key that was dropped meanwhile must not be good for anything here.
                await self._read_keys(anew=former.left_ms == 0)
                holder = await self._in_store(self.coordinator.take_over)
                self._reached, self._trouble = steady_ms(), ""
            except UnavailableError as error:
                self._trouble = error.message
                _log.warning("cannot take over: %s", error.message)
                return False
        self.active_address = holder.address if holder else self.coordinator.address
        return holder is None

    async def _read_keys(self, *, anew: bool = False) -> None:
        """Reads the keys for tokens, if that was long ago; the store makes a new one now and then."""
        if not anew and self._tokens is not None and time.monotonic() - self._keys_read < _KEYS_S:
            return
        self._keys_read = time.monotonic()
        self._tokens = Tokens(await self._in_store(lambda: self.store.signing_keys(self.clock.now())))

    def _announce_active(self, active: bool) -> None:
        if active:
            _log.info("active under epoch %s", self.coordinator.epoch)
        for listener in self.on_active:
            listener(active)

    def _lose(self, why: str) -> None:
        """Lets go of every member: what was known is not certain any more."""
        if not (self.active or self.active_address):
            # The first reason counts; whatever was under way fails because of it.
            return
        _log.warning("no longer active: %s", why)
        self._trouble = why
        self._let_go()

    def _give_up(self, error: HaloclineError) -> None:
        """Never leads again: the store is not the one that it was."""
        self._lose(error.message)
        self._trouble = error.message
        _log.error("the coordinator stops: %s", error)
        self.over.set()

    def _let_go(self) -> None:
        self.coordinator.step_down()
        self.active_address = ""
        self.sessions.end_all()
        self._announce_active(False)

    async def _in_store(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, work)
