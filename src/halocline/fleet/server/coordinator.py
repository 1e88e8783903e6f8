"""A coordinator: the pure core, joined to a store and a clock.

`decide` works out what follows from some events, `carry_out` writes it, and only then is the new state kept and may a
caller be answered. Events that arrive together share one transaction; each still sees the state that the one before it
left. If the store says that another has taken over, or does not say what became of a write, the coordinator *steps
down*: it forgets its state, answers no caller, and has to take over again from what the store holds.

Heartbeats write nothing. They need to know that no other has taken over since they arrived, which the coordinator's
lease on the store tells without asking. So they are answered beside a batch that is being written, if it leaves their
leases alone; see `halocline.fleet.core.meanwhile`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Final

from halocline.errors import ConflictError, HaloclineError, InternalError, UnavailableError
from halocline.fleet.core.clock import Clock
from halocline.fleet.core.effects import Audit, CommitRecords, Effect
from halocline.fleet.core.events import Cause, DeclareLadder, Event, Heartbeat, SetTerms, TakeOver
from halocline.fleet.core.ladder import Ladder
from halocline.fleet.core.meanwhile import Writing
from halocline.fleet.core.state import Fleet, FleetTerms, RecordChange, State
from halocline.fleet.core.step import loaded, step
from halocline.fleet.store import FleetStore, Holder, Write

_log = logging.getLogger(__name__)
CLOCK_TOLERANCE_MS: Final = 30_000
"""By how much our clock may differ from the store's: holds end by it, and members compare theirs with it."""

LONGEST_S: Final = 0.02
"""Seconds of the processor for which events are decided together, so that heartbeats are not kept waiting."""

Outcome = tuple[Effect, ...] | HaloclineError
"""What follows from an event, or why it cannot be taken up."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What follows from some events, not yet written.

    Args:
        effects: For each event that was decided what follows from it; or the error, if it cannot be taken up.
        confirm: Whether a member is told yes, so that the store must agree even if there is nothing to write.
    """

    before: State
    after: State
    effects: tuple[Outcome, ...]
    write: Write
    confirm: bool


class Coordinator:
    """One process's claim to coordinate a fleet.

    Args:
        name: Tells this process from any other.
        ladders: Those that every fleet has; declared when it takes over, if the fleet does not have them yet.
        terms: What a new fleet agrees on.

    Attributes:
        state: What it knows; None while it is not active.
    """

    def __init__(
        self,
        store: FleetStore,
        clock: Clock,
        *,
        name: str,
        address: str,
        ladders: Sequence[DeclareLadder] = (),
        provides: frozenset[str] = frozenset(),
        terms: FleetTerms | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.name = name
        self.address = address
        self.state: State | None = None
        self.since = 0
        self._writing: Writing | None = None
        self._ladders = tuple(ladders)
        self._provides = provides
        self._terms = terms or FleetTerms()

    @property
    def active(self) -> bool:
        """Whether it has taken over and does not know of a successor."""
        return self.state is not None

    @property
    def epoch(self) -> int:
        """Under which it acts; 0 while it is not active."""
        return self.state.epoch if self.state else 0

    def take_over(self) -> Holder | None:
        """Becomes the coordinator; otherwise says who is.

        Raises:
            UnavailableError: The store is not reached, or our clock is too far from the store's to end holds by it.
        """
        if self.state is None:
            self.clock.anchor()
        if skew := self._skew():
            raise UnavailableError(skew, condition="CLOCK_SKEW", next_step="Set the clock, for example with NTP.")
        taken = self.store.take_over(self.name, self.address, self._begin)
        if isinstance(taken, Holder):
            return taken
        self.state = taken
        self.since = self.clock.now()
        return None

    def renew(self) -> None:
        """Prolongs the lease on the store; gives it back if our clock has gone astray."""
        epoch = self.epoch
        self.store.renew(epoch)
        if skew := self._skew():
            self.store.resign(epoch)
            raise ConflictError(skew, condition="CLOCK_SKEW", next_step="Set the clock, for example with NTP.")

    def _skew(self) -> str:
        """How far we are from the store's clock: by what we count with, or by our date, which may have been set."""
        theirs = self.store.clock_ms()
        for ours in (self.clock.now(), self.clock.wall()):
            if theirs is not None and abs(ours - theirs) > CLOCK_TOLERANCE_MS:
                way = "ahead of" if ours > theirs else "behind"
                return f"the clock of {self.name} is {abs(ours - theirs) / 1000:,.0f} s {way} the store's"
        return ""

    def step_down(self) -> None:
        """Forgets everything; what counts is in the store."""
        self.state = self._writing = None

    def decide(self, causes: Sequence[Cause]) -> Batch:
        """Works out what follows from events that are taken up now, in this order. Changes nothing.

        If they take long, those that are left have to wait: a batch has effects for the first events only. An event
        that cannot be taken up, because it makes no sense or because of a bug, leaves the others alone.
        """
        before = state = self._known()
        at = self.clock.now()
        told: list[Outcome] = []
        end = time.thread_time() + LONGEST_S
        for cause in causes:
            if told and time.thread_time() > end:
                break
            try:
                state, effects = step(state, Event(at, cause))
                told.append(effects)
            except HaloclineError as error:
                told.append(error)
            except Exception:
                _log.exception("an event could not be taken up: %s", cause)
                told.append(InternalError("an event could not be taken up; the coordinator's log says more"))
        return _batch(before, state, told)

    def answer(self, beat: Heartbeat) -> tuple[Effect, ...] | None:
        """What follows from a heartbeat that leaves everything durable as it is; None if it must wait for its turn.

        It waits if there is anything to write, if it depends on what is being written, or if the store has to be asked
        whether we still coordinate.
        """
        state = self._known()
        if not self.store.holds_lease(state.epoch):
            return None
        answered = (self._writing or Writing(state, state)).answered(Event(self.clock.now(), beat))
        if answered is None:
            return None
        writing, effects = answered
        self.state = writing.before
        self._writing = writing if self._writing else None
        return effects

    def _known(self) -> State:
        if self.state is None:
            raise InternalError(f"{self.name} is not active and cannot decide anything")
        return self.state

    @property
    def writing(self) -> bool:
        """Whether a batch is being written."""
        return self._writing is not None

    def begin(self, batch: Batch) -> None:
        """From here on a batch is being written: heartbeats are answered only as far as it leaves them alone."""
        self._writing = Writing(batch.before, batch.after)

    def carry_out(self, batch: Batch) -> None:
        """Writes a batch, or asks the store whether we still coordinate. Blocks; if it fails, we have to step down."""
        if batch.write:
            self.store.write(batch.before.epoch, batch.write)
        elif batch.confirm and not self.store.holds_lease(batch.before.epoch):
            self.store.renew(batch.before.epoch)

    def keep(self, batch: Batch) -> None:
        """Keeps the state of a batch that was carried out, with the leases that were renewed meanwhile."""
        writing, self._writing = self._writing or Writing(batch.before, batch.after), None
        if self.state is not writing.before:
            raise ConflictError("the coordinator has stepped down meanwhile", condition="STALE_EPOCH")
        self.state = writing.after

    def restore(self, changes: Sequence[RecordChange], audit: Audit) -> None:
        """Puts a backup in the place of everything, in a new generation and epoch, unless a member holds a lease.

        To be called while no event is taken up: a member that joined between the question and the answer would act
        without a record.
        """
        assert self.state is not None
        epoch, fleet = self.state.epoch, self.state.fleet
        speaking = sorted(str(key) for key, _ in fleet.speaking())
        if speaking:
            raise ConflictError(
                f"{len(speaking)} members hold a lease and may be acting",
                sides={"members": ", ".join(speaking[:10])},
                next_step="Stop them, wait for one lease, then import.",
            )
        try:
            self.store.replace(epoch, _brought_forward(changes, fleet), Write(audits=(audit,)))
        finally:
            self.step_down()
        self.take_over()

    def _begin(self, fleet: Fleet, belief: int) -> tuple[State, int, Write]:
        """The first steps under a new epoch. The time is taken here, with every other coordinator locked out."""
        state, at = loaded(fleet), self.clock.now()
        told: list[Outcome] = []
        first: list[Cause] = [TakeOver(belief, token_hex(8), token_hex(32))]
        terms = replace(fleet.terms if fleet.epoch else self._terms, provides=self._provides)
        if fleet.terms != terms:
            first.append(SetTerms(terms, actor="fleet"))
        first += [each for each in self._ladders if _grows(fleet.ladders.get(each.ladder.name), each.ladder)]
        for cause in first:
            state, effects = step(state, Event(at, cause))
            told.append(effects)
        return state, state.epoch, _batch(state, state, told).write


def _brought_forward(changes: Iterable[RecordChange], fleet: Fleet) -> list[RecordChange]:
    """Return a backup as the next generation of a fleet.

    The incarnations that were used since stay used, so that an old life does not come back through it, and revisions
    are newer than those that members have heard.
    """
    newest: dict[Any, int] = dict(fleet.incarnations)
    floor, generation, kept = fleet.floor, fleet.generation, []
    for change in changes:
        match change.kind:
            case "incarnations":
                newest[change.key] = max(change.value, newest.get(change.key, 0))
            case "floor":
                floor = max(floor, change.value)
            case "generation":
                generation = max(generation, change.value)
            case "ladder_states":
                known = fleet.ladder_states.get(str(change.key))
                revision = max(change.value.revision, known.revision if known else 0) + 1
                kept.append(replace(change, value=replace(change.value, revision=revision, marks=(), proof="")))
            case "seal_key":
                continue
            case _:
                kept.append(change)
    lives = (RecordChange("incarnations", name, value) for name, value in newest.items())
    single = {"floor": floor, "generation": generation + 1, "seal_key": fleet.seal_key}
    return [*kept, *lives, *(RecordChange(kind, (), value) for kind, value in single.items())]


def _grows(known: Ladder | None, ladder: Ladder) -> bool:
    """Whether a shipped ladder brings anything new; what a user declared under its name is left alone."""
    return known is None or (known != ladder and ladder.extends(known))


def _batch(before: State, after: State, told: Sequence[Outcome]) -> Batch:
    changes: dict[tuple[str, Any], RecordChange] = {}
    audits = []
    confirm = False
    for effects in told:
        for effect in () if isinstance(effects, HaloclineError) else effects:
            if isinstance(effect, CommitRecords):
                confirm = True
                for change in effect.changes:
                    changes.pop((change.kind, change.key), None)
                    changes[change.kind, change.key] = change
            elif isinstance(effect, Audit):
                audits.append(effect)
    return Batch(before, after, tuple(told), Write(tuple(changes.values()), tuple(audits)), confirm)
