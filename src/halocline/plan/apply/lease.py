"""The lease of a rollout: one process applies plans to a lake at a time, and another is told who.

The lease is an object in the lake. It is taken by creating or replacing it, kept by replacing it, and each of these
succeeds for one process only. While a process holds it, a thread renews it beside the work, however long that takes. A
process that ended without giving it back holds it until it runs out; on the same machine, where it can be seen that the
process is gone, it is taken over at once.

A process that is stopped cannot renew it, and may wake up when somebody else has taken over. So each holder has a
*token*, greater than those of all before it, and behind an entry with a greater token the journal refuses it.
`RolloutLease.check` looks into the lake, and is asked immediately before each commit. Plans whose holders may still
live when their lease is taken over are *overtaken*; the lease names them until somebody has fenced them off
(`halocline.plan.apply.takeover`).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Final

import msgspec

from halocline.errors import AlreadyExistsError, ConflictError, HaloclineError, MalformedError, NotFoundError
from halocline.plan.apply.journal import FOLDER
from halocline.storage.base import Store
from halocline.storage.process import is_gone, process_space

LEASE_S: Final = 60.0
_PATH: Final = f"{FOLDER}/lease.json"
_SHORTEST_PAUSE_S: Final = 0.01
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that goes on while the machine sleeps, where there is one."""


class LeaseHolder(msgspec.Struct, frozen=True, rename="camel"):
    """Who applies which plan.

    Attributes:
        by: Who.
        plan: Which plan.
        host: In which space of processes; see `halocline.storage.process`.
        process: In which process of it.
        since_ms: Since when.
        until_ms: Until when, unless it is renewed; 0 once it was given back.
        token: A number greater than that of every holder before.
        overtaken: Plans whose holders may still live, and which nobody has fenced off yet.
    """

    by: str
    plan: str
    host: str
    process: int
    since_ms: int
    until_ms: int
    token: int = 0
    overtaken: tuple[str, ...] = ()

    @property
    def is_given_back(self) -> bool:
        """Whether its holder has given it back."""
        return self.until_ms == 0

    @property
    def is_gone(self) -> bool:
        """Whether its process can be seen to be gone."""
        return is_gone(self.host, self.process)

    @property
    def is_over(self) -> bool:
        """Whether it has run out, or its process can be seen to be gone."""
        return self.until_ms <= _now() or self.is_gone


@dataclass
class RolloutLease:
    """The lease, as one process holds it.

    Attributes:
        store: Where the lake lies.
        by: Who applies.
        plan: Which plan.
        token: The number of this holder; 0 before it holds the lease.
        overtaken: Plans whose holders may still live, and which are to be fenced off.
    """

    store: Store
    by: str
    plan: str
    token: int = 0
    overtaken: tuple[str, ...] = ()
    _etag: str = ""
    _since_ms: int = 0
    _renewed_s: float = 0.0
    _lost: ConflictError | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)
    _given_back: Event = field(default_factory=Event, repr=False)
    _renewing: Thread | None = None

    def __enter__(self) -> RolloutLease:
        self._since_ms = self.token = _now()
        began_s = _clock_s()
        try:
            self._etag = self.store.put_if_absent(_PATH, self._encoded())
        except AlreadyExistsError:
            self._take_over()
        self._renewed_s = began_s
        self._renewing = Thread(target=self._keep, name="halocline-rollout-lease", daemon=True)
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._given_back.set()
        if self._renewing is not None:
            self._renewing.join()
        with self._lock:
            try:
                self._etag = self.store.put_if_match(_PATH, self._encoded(until_ms=0), self._etag)
            except HaloclineError:
                return  # somebody else has it, or it runs out by itself

    def check(self) -> None:
        """Makes sure that nobody else has taken over, as the lake says at this moment.

        Raises:
            ConflictError: It ran out, and somebody else has taken it.
            UnavailableError: The lake cannot be asked.
        """
        with self._lock:
            if self._lost is None and _clock_s() - self._renewed_s < LEASE_S / 2:
                holder = holder_of(self.store)
                if holder is not None and holder.token == self.token:
                    return
                self._lost = _taken(holder, self.by)
            if self._lost is None:
                self._renew()
            if self._lost is not None:
                raise self._lost

    def forget_overtaken(self) -> None:
        """Notes in the lake that the plans that were overtaken have been fenced off."""
        with self._lock:
            self.overtaken = ()
            self._renew()
            if self._lost is not None:
                raise self._lost

    def _keep(self) -> None:
        """Renews the lease beside the work, for as long as the process lives and holds it."""
        while not self._given_back.wait(max(LEASE_S / 4, _SHORTEST_PAUSE_S)):
            with self._lock:
                if self._lost is not None:
                    return
                try:
                    self._renew()
                except HaloclineError:
                    continue  # the lake may answer the next time; before each commit it is asked anyway

    def _renew(self) -> None:
        began_s = _clock_s()
        try:
            self._etag = self.store.put_if_match(_PATH, self._encoded(), self._etag)
        except ConflictError:
            try:
                data, meta = self.store.fetch(_PATH)
            except NotFoundError:
                self._lost = _taken(None, self.by)
                return
            holder = _decoded(data)
            if holder.token != self.token or holder.is_given_back:
                self._lost = _taken(None if holder.is_given_back else holder, self.by)
                return
            # The answer to an earlier renewal was lost on its way.
            self._etag = self.store.put_if_match(_PATH, self._encoded(), meta.etag or "")
        self._renewed_s = began_s

    def _take_over(self) -> None:
        try:
            data, meta = self.store.fetch(_PATH)
        except NotFoundError:
            self._create()
            return
        holder = _decoded(data)
        if not holder.is_over or meta.etag is None:
            raise _taken(holder, self.by)
        self.token = max(self.token, holder.token + 1)
        left = () if holder.is_given_back or holder.is_gone else (holder.plan,)
        self.overtaken = tuple(dict.fromkeys((*holder.overtaken, *left)))
        try:
            self._etag = self.store.put_if_match(_PATH, self._encoded(), meta.etag)
        except ConflictError:
            raise _taken(holder_of(self.store), self.by) from None

    def _create(self) -> None:
        try:
            self._etag = self.store.put_if_absent(_PATH, self._encoded())
        except AlreadyExistsError:
            raise _taken(holder_of(self.store), self.by) from None

    def _encoded(self, until_ms: int | None = None) -> bytes:
        until = _now() + int(LEASE_S * 1000) if until_ms is None else until_ms
        host, process = process_space(), os.getpid()
        return msgspec.json.encode(
            LeaseHolder(self.by, self.plan, host, process, self._since_ms, until, self.token, self.overtaken)
        )


def holder_of(store: Store) -> LeaseHolder | None:
    """Who applies a plan to a lake; None if nobody does."""
    try:
        holder = _decoded(store.get(_PATH))
    except NotFoundError:
        return None
    return None if holder.is_given_back else holder


def _decoded(data: bytes) -> LeaseHolder:
    try:
        return msgspec.json.decode(data, type=LeaseHolder)
    except msgspec.DecodeError as error:
        raise MalformedError(
            f"the lease of the lake, {_PATH}, cannot be read",
            sides={"found": f"{len(data):,} bytes", "problem": str(error)[:200]},
            next_step=f"Make sure that nobody applies a plan to this lake, then delete {_PATH}.",
        ) from error


def _taken(holder: LeaseHolder | None, by: str) -> ConflictError:
    who = holder.by if holder else "somebody else"
    return ConflictError(
        f"{who} is applying plan {holder.plan} to this lake" if holder else f"{who} has taken the lease of this lake",
        condition="ROLLOUT_RUNNING",
        sides={
            "you are": f"{by}, process {os.getpid()}",
            "at work": f"{who}, process {holder.process} on {holder.host}" if holder else who,
        },
        next_step="See how far it is: halocline status LAKE --watch",
    )


def _clock_s() -> float:
    return time.clock_gettime(_CLOCK)


def _now() -> int:
    return time.time_ns() // 1_000_000
