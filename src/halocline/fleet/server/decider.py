"""Deciding: takes what waits out of the inbox, has the coordinator decide it, writes it, and tells.

Whatever has gathered while the last transaction was running is decided together and written in the next one. Heartbeats
are gathered for a moment; as they write nothing, they wait for no transaction, except for one that is about the member
itself. No caller is told anything before it is written. If the store does not say what became of a write, the
coordinator is *lost*.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from halocline.errors import HaloclineError
from halocline.fleet.core.effects import Announce, Effect, Refusal, Refuse
from halocline.fleet.core.events import Cause, Heartbeat
from halocline.fleet.core.state import MemberKey
from halocline.fleet.server.coordinator import LONGEST_S, Batch, Coordinator
from halocline.fleet.server.inbox import Inbox, Item
from halocline.fleet.server.sessions import Sessions
from halocline.fleet.store import RefusedCalls, Sighting, Write
from halocline.fleet.wire.status import Rejection

_log = logging.getLogger(__name__)
_MOST_WAITING: Final = 10_000
_MOST_SIGHTINGS: Final = 5_000
_GATHER_S: Final = 0.02


class RejectedError(Exception):
    """Something was refused; carries what to tell the caller. Never leaves this package."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.refusal.message)
        self.rejection = rejection


OnDecided = Callable[[tuple[Effect, ...] | None], None]
"""Called with the effects of an event; with None if it could not be decided here."""


class Decider:
    """Decides for a coordinator, one batch after the other.

    Args:
        in_store: Does something in the thread of the store.
        on_write: Called with the seconds that a transaction took.
        lost: Called with the reason when it is not certain any more what was written.
        elsewhere: What callers are told while the coordinator is not active.
        take_refusals: Gives the refusals that wait to be written.

    Attributes:
        turn: Held while something is decided and written.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        sessions: Sessions,
        *,
        in_store: Callable[[Callable[[], Any]], Awaitable[Any]],
        on_write: Callable[[float], None],
        lost: Callable[[str], None],
        elsewhere: Callable[[], RejectedError],
        take_refusals: Callable[[], tuple[RefusedCalls, ...]] = tuple,
    ) -> None:
        self.turn = asyncio.Lock()
        self._coordinator = coordinator
        self._sessions = sessions
        self._in_store = in_store
        self._on_write = on_write
        self._lost = lost
        self._elsewhere = elsewhere
        self._inbox = Inbox()
        self._beats: list[tuple[Heartbeat, OnDecided]] = []
        self._sightings: list[Sighting] = []
        self._take_refusals = take_refusals

    async def decided(self, cause: Cause) -> tuple[Effect, ...]:
        """Has an event decided and written, and returns what followed."""
        if len(self._inbox) >= _MOST_WAITING:
            refusal = Refusal("TOO_MANY", "too much is waiting already", next_step="Try again in a few seconds.")
            raise RejectedError(Rejection(refusal))
        future: asyncio.Future[tuple[Effect, ...]] = asyncio.get_running_loop().create_future()

        def done(effects: tuple[Effect, ...] | None, problem: Exception | None) -> None:
            if future.done():
                return
            if problem is not None:
                future.set_exception(problem)
            else:
                future.set_result(effects or ())

        self._inbox.put(cause, done)
        return await future

    def beat(self, heartbeat: Heartbeat, on_decided: OnDecided) -> None:
        """Takes up a heartbeat with others that arrive in the same moment; `on_decided` gets what followed."""
        if not self._beats:
            asyncio.get_running_loop().call_later(_GATHER_S, self._answer_beats)
        self._beats.append((heartbeat, on_decided))

    def _answer_beats(self) -> None:
        beats, self._beats = self._beats, []
        end = time.thread_time() + LONGEST_S
        for number, (beat, on_decided) in enumerate(beats):
            if time.thread_time() > end:
                self._beats = beats[number:]
                asyncio.get_running_loop().call_soon(self._answer_beats)
                break
            effects = self._answer_now(beat)
            if effects is None:
                # It has something to write, or hangs on what is being written: in the queue.
                self._inbox.put(beat, lambda found, _, call=on_decided: call(found))  # type: ignore[misc]
            else:
                on_decided(effects)

    def _answer_now(self, beat: Heartbeat) -> tuple[Effect, ...] | None:
        coordinator = self._coordinator
        alone = self.turn.locked() and not coordinator.writing
        if alone or not coordinator.active or self._inbox.has_heartbeat_of(beat.key):
            return None
        try:
            return coordinator.answer(beat)
        except Exception:
            # It fails again when it has its turn, and that is dealt with there.
            return None

    def at_once(self, cause: Cause) -> bool:
        """Takes up an event that changes nothing durable, if nothing is in its way; otherwise it must be `decided`."""
        state = self._coordinator.state
        if state is None or self.turn.locked() or self._inbox:
            return False
        batch = self._coordinator.decide((cause,))
        if batch.write or (batch.confirm and not self._coordinator.store.holds_lease(state.epoch)):
            return False
        self._coordinator.keep(batch)
        return True

    def remember(self, sighting: Sighting) -> None:
        """Remembers a handshake; it is written with the next transaction, or within a second."""
        if len(self._sightings) < _MOST_SIGHTINGS:
            self._sightings.append(sighting)

    async def remember_now(self) -> None:
        """Writes the handshakes and refusals that wait to be remembered."""
        epoch = self._coordinator.epoch
        if not epoch:
            return
        sightings, self._sightings = tuple(self._sightings), []
        write = Write(sightings=sightings, refusals=self._take_refusals())
        if write:
            await self._in_store(lambda: self._coordinator.store.write(epoch, write))

    async def work_off(self) -> None:
        """Decides and writes what comes, for ever."""
        while True:
            items = await self._inbox.take()
            try:
                async with self.turn:
                    await self._process(items)
                # Without a transaction nothing else has had its turn.
                await asyncio.sleep(0)
            except RejectedError as error:
                _fail(items, error)
            except HaloclineError as error:
                self._lost(str(error))
                _fail(items, self._elsewhere())
            except Exception as error:
                _log.exception("an event failed, which is a bug; stepping down to be safe")
                self._lost(str(error))
                _fail(items, self._elsewhere())

    async def _process(self, items: list[Item]) -> None:
        """Decides and writes; what there is no time for goes back."""
        if not self._coordinator.active:
            raise self._elsewhere()
        batch = self._coordinator.decide([item.cause for item in items])
        self._inbox.put_back(items[len(batch.effects) :])
        del items[len(batch.effects) :]
        batch = self._with_notes(batch)
        began = time.perf_counter()
        if batch.write or (batch.confirm and not self._coordinator.store.holds_lease(batch.before.epoch)):
            self._coordinator.begin(batch)
            await self._in_store(lambda: self._coordinator.carry_out(batch))
            self._on_write(time.perf_counter() - began)
        self._coordinator.keep(batch)
        self._deliver(items, batch)

    def _with_notes(self, batch: Batch) -> Batch:
        """Adds the handshakes that wait to be remembered, if something is written anyway."""
        if not batch.write:
            return batch
        sightings, self._sightings = self._sightings, []
        return replace(batch, write=replace(batch.write, sightings=tuple(sightings)))

    def _deliver(self, items: Sequence[Item], batch: Batch) -> None:
        for item, mine in zip(items, batch.effects, strict=True):
            if isinstance(mine, HaloclineError):
                item.done(None, mine)
                continue
            for effect in mine:
                self._tell(item.cause, effect)
            item.done(mine, None)

    def _tell(self, cause: Cause | None, effect: Effect) -> None:
        """Tells members what does not answer a message of their own."""
        if isinstance(effect, Announce):
            self._sessions.push(effect)
        elif isinstance(effect, Refuse) and effect.incarnation is not None:
            sender = getattr(cause, "report", cause)
            if getattr(sender, "incarnation", None) != effect.incarnation:
                self._sessions.finish(MemberKey(effect.to, effect.incarnation), effect.refusal)


def _fail(items: Iterable[Item], error: Exception) -> None:
    for item in items:
        item.done(None, error)
