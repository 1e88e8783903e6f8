"""The lease of a rollout: one process applies plans to a lake at a time, and another is told who.

The lease is an object in the lake. It is taken by creating it, kept by replacing it, and both succeed for one process
only. A process that ended without giving it back holds it until it runs out; on the same machine, where it can be seen
that the process is gone, it is taken over at once.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import msgspec

from halocline.errors import AlreadyExistsError, ConflictError, NotFoundError
from halocline.plan.apply.journal import FOLDER
from halocline.storage.base import Store
from halocline.storage.process import is_process

LEASE_S: Final = 60.0
_PATH: Final = f"{FOLDER}/lease.json"


class LeaseHolder(msgspec.Struct, frozen=True, rename="camel"):
    """Who applies which plan."""

    by: str
    plan: str
    host: str
    process: int
    since_ms: int
    until_ms: int

    @property
    def is_over(self) -> bool:
        """Whether it has run out, or its process can be seen to be gone."""
        if self.until_ms <= _now():
            return True
        return self.host == socket.gethostname() and not is_process(self.process)


@dataclass
class RolloutLease:
    """The lease, as one process holds it.

    Attributes:
        store: Where the lake lies.
        by: Who applies.
        plan: Which plan.
    """

    store: Store
    by: str
    plan: str
    _etag: str = ""
    _since_ms: int = 0
    _renewed: float = 0.0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __enter__(self) -> RolloutLease:
        self._since_ms = _now()
        try:
            self._etag = self.store.put_if_absent(_PATH, self._told())
        except AlreadyExistsError:
            self._take_over()
        self._renewed = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        holder = holder_of(self.store)
        if holder is not None and (holder.process, holder.since_ms) == (os.getpid(), self._since_ms):
            self.store.delete(_PATH)

    def renew(self) -> None:
        """Keeps it; asks the store only as often as it takes.

        Raises:
            ConflictError: It ran out, and somebody else has it now.
        """
        with self._lock:
            if time.monotonic() - self._renewed < LEASE_S / 4:
                return
            try:
                self._etag = self.store.put_if_match(_PATH, self._told(), self._etag)
            except ConflictError:
                raise _taken(holder_of(self.store), self.by) from None
            self._renewed = time.monotonic()

    def _take_over(self) -> None:
        try:
            data, meta = self.store.fetch(_PATH)
        except NotFoundError:
            self._etag = self.store.put_if_absent(_PATH, self._told())
            return
        holder = msgspec.json.decode(data, type=LeaseHolder)
        if not holder.is_over or meta.etag is None:
            raise _taken(holder, self.by)
        try:
            self._etag = self.store.put_if_match(_PATH, self._told(), meta.etag)
        except ConflictError:
            raise _taken(holder_of(self.store), self.by) from None

    def _told(self) -> bytes:
        until = _now() + int(LEASE_S * 1000)
        return msgspec.json.encode(
            LeaseHolder(self.by, self.plan, socket.gethostname(), os.getpid(), self._since_ms, until)
        )


def holder_of(store: Store) -> LeaseHolder | None:
    """Who applies a plan to a lake; None if nobody does."""
    try:
        return msgspec.json.decode(store.get(_PATH), type=LeaseHolder)
    except NotFoundError:
        return None


def _taken(holder: LeaseHolder | None, by: str) -> ConflictError:
    who = holder.by if holder else "somebody else"
    return ConflictError(
        f"{who} is applying plan {holder.plan if holder else 'another plan'} to this lake",
        condition="ROLLOUT_RUNNING",
        sides={
            "you are": f"{by}, process {os.getpid()}",
            "at work": f"{who}, process {holder.process} on {holder.host}" if holder else who,
        },
        next_step="See how far it is: halocline status LAKE --watch",
    )


def _now() -> int:
    return time.time_ns() // 1_000_000
