"""A store that fails on purpose, to prove that nothing above it is lost, torn or done twice.

Every call to a `FaultyStore` is an *operation* with a number, counted from 1. A *fault* says what happens at one of
them:

    crash before / after   the process ends there: `CrashError`, and every later operation fails the same way
    tear                   the process ends within: a plain put leaves only the first bytes, anything else nothing
    transient              `UnavailableError`, and nothing was done
    lost answer            it was done, and `UnavailableError` all the same
    delay                  it is done, later
    stale listing          a listing shows what was there when the fault was set

`CrashError` is not an `Exception`, so that no handler above can survive it. To walk through every crash of a
procedure, run it once to count its operations, then once for each number:

    counted = FaultyStore(store_with_a_table())
    commit(counted)
    for number in range(1, counted.count + 1):
        store = store_with_a_table()
        with contextlib.suppress(CrashError):
            commit(FaultyStore(store).crash_after(number))
        assert_as_before_or_as_after(store)
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeVar

from halocline.errors import UnavailableError
from halocline.storage.base import ObjectMeta, Store, checked_folder

T = TypeVar("T")

WRITES = frozenset({"put", "put_if_absent", "put_if_match", "delete"})
"""The operations that change something; a crash elsewhere leaves what the write before it left."""


class CrashError(BaseException):
    """The process would have ended here."""


class FaultKind(StrEnum):
    """What goes wrong."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    TEAR = "tear"
    TRANSIENT = "transient"
    LOST_ANSWER = "lost answer"
    DELAY = "delay"
    STALE_LISTING = "stale listing"


@dataclass(frozen=True, slots=True)
class StoreCall:
    """One call: its number, the method and the path or prefix."""

    number: int
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and where.

    Attributes:
        kind: What happens.
        at: The number of the operation, counted from 1; among those of `on` only, if given.
        times: How many operations in a row it happens to.
        on: Method names, such as `WRITES`; all if empty.
        keep: Tear: how many bytes are left.
        seconds: Delay: how long.
        listing: Stale listing: what to show.
    """

    kind: FaultKind
    at: int
    times: int = 1
    on: frozenset[str] = frozenset()
    keep: int = 0
    seconds: float = 0.0
    listing: tuple[ObjectMeta, ...] = ()


class FaultyStore(Store):
    """Another store, with faults.

    Attributes:
        operations: Every operation so far, in order.
    """

    def __init__(self, inner: Store, plan: Iterable[Fault] = ()) -> None:
        self.inner = inner
        self.root = inner.root
        self.operations: list[StoreCall] = []
        self._plan = [*plan]
        self._calls: Counter[str] = Counter()
        self._crash: str | None = None
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many operations there were."""
        return len(self.operations)

    def crash_before(self, number: int, *, on: Iterable[str] = ()) -> Self:
        """Ends the process before operation `number`."""
        return self._with(Fault(FaultKind.CRASH_BEFORE, number, on=frozenset(on)))

    def crash_after(self, number: int, *, on: Iterable[str] = ()) -> Self:
        """Ends the process after operation `number`."""
        return self._with(Fault(FaultKind.CRASH_AFTER, number, on=frozenset(on)))

    def tear(self, number: int, *, keep: int = 0) -> Self:
        """Leaves `keep` bytes of the plain put that is operation `number`, then ends the process."""
        return self._with(Fault(FaultKind.TEAR, number, keep=keep))

    def transient(self, number: int, *, times: int = 1, on: Iterable[str] = ()) -> Self:
        """Refuses operation `number`, and the ones after it if `times` says so."""
        return self._with(Fault(FaultKind.TRANSIENT, number, times, frozenset(on)))

    def lose_answer(self, number: int, *, on: Iterable[str] = ()) -> Self:
        """Does operation `number`, then fails as if the answer had been lost on the way."""
        return self._with(Fault(FaultKind.LOST_ANSWER, number, on=frozenset(on)))

    def delay(self, number: int, seconds: float, *, times: int = 1, on: Iterable[str] = ()) -> Self:
        """Waits before operation `number`."""
        return self._with(Fault(FaultKind.DELAY, number, times, frozenset(on), seconds=seconds))

    def stale_listing(self, number: int, *, times: int = 1, on: Iterable[str] = ("list",)) -> Self:
        """Lets listing `number` show what is in the store now, whatever happens in between."""
        now = tuple(self.inner.list())
        return self._with(Fault(FaultKind.STALE_LISTING, number, times, frozenset(on), listing=now))

    def fetch(self, path: str) -> tuple[bytes, ObjectMeta]:
        """See `Store.fetch`."""
        return self._do("fetch", path, lambda: self.inner.fetch(path))

    def get(self, path: str) -> bytes:
        """See `Store.get`."""
        return self._do("get", path, lambda: self.inner.get(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """See `Store.get_range`."""
        return self._do("get_range", path, lambda: self.inner.get_range(path, start, length))

    def head(self, path: str) -> ObjectMeta:
        """See `Store.head`."""
        return self._do("head", path, lambda: self.inner.head(path))

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        return self._do("exists", path, lambda: self.inner.exists(path))

    def list(
        self, prefix: str = "", *, start_after: str | None = None, follow_links: bool = True
    ) -> Iterator[ObjectMeta]:
        """See `Store.list`; one operation, when it is called."""
        return self._do("list", prefix, lambda: self._list(prefix, start_after, follow_links))

    def put(self, path: str, data: bytes) -> str:
        """See `Store.put`."""
        return self._do(
            "put", path, lambda: self.inner.put(path, data), torn=lambda keep: self.inner.put(path, data[:keep])
        )

    def put_if_absent(self, path: str, data: bytes) -> str:
        """See `Store.put_if_absent`."""
        return self._do("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def put_if_match(self, path: str, data: bytes, etag: str) -> str:
        """See `Store.put_if_match`."""
        return self._do("put_if_match", path, lambda: self.inner.put_if_match(path, data, etag))

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        return self._do("delete", path, lambda: self.inner.delete(path))

    def set_modified(self, path: str, modified_ms: int) -> bool:
        """See `Store.set_modified`."""
        return self._do("set_modified", path, lambda: self.inner.set_modified(path, modified_ms))

    def address(self, path: str = "") -> str:
        """See `Store.address`; not an operation."""
        return self.inner.address(path)

    def _list(self, prefix: str, start_after: str | None, follow_links: bool) -> Iterator[ObjectMeta]:
        stale = next((fault for fault in self._plan if self._is_stale(fault)), None)
        if stale is None:
            return self.inner.list(prefix, start_after=start_after, follow_links=follow_links)
        return _listed(stale.listing, prefix, start_after)

    def _is_stale(self, fault: Fault) -> bool:
        return fault.kind is FaultKind.STALE_LISTING and self._strikes(fault, "list")

    def _with(self, fault: Fault) -> Self:
        self._plan.append(fault)
        return self

    def _do(self, name: str, path: str, action: Callable[[], T], torn: Callable[[int], object] | None = None) -> T:
        number, faults = self._begin(name, path)
        where = f"operation {number}: {name} {path}".rstrip()
        if delay := faults.get(FaultKind.DELAY):
            time.sleep(delay.seconds)
        if FaultKind.CRASH_BEFORE in faults:
            raise self._crashed(f"before {where}")
        if FaultKind.TRANSIENT in faults:
            raise UnavailableError(f"nothing was done at {where}", next_step="Try again.")
        if tear := faults.get(FaultKind.TEAR):
            if torn is not None:
                torn(tear.keep)
            raise self._crashed(f"within {where}")
        try:
            return action()
        finally:  # whatever it returned or raised, nobody is there to see it
            if FaultKind.CRASH_AFTER in faults:
                raise self._crashed(f"after {where}")
            if FaultKind.LOST_ANSWER in faults:
                raise UnavailableError(f"no answer came to {where}", next_step="Look whether it was done.")

    def _begin(self, name: str, path: str) -> tuple[int, dict[FaultKind, Fault]]:
        with self._lock:
            if self._crash:
                raise CrashError(self._crash)
            self.operations.append(StoreCall(self.count + 1, name, path))
            self._calls[name] += 1
            return self.count, {fault.kind: fault for fault in self._plan if self._strikes(fault, name)}

    def _strikes(self, fault: Fault, name: str) -> bool:
        if fault.on and name not in fault.on:
            return False
        number = sum(self._calls[each] for each in fault.on) if fault.on else self.count
        return fault.at <= number < fault.at + fault.times

    def _crashed(self, where: str) -> CrashError:
        self._crash = where
        return CrashError(where)


def _listed(listing: Iterable[ObjectMeta], prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    folder = checked_folder(prefix)
    below = f"{folder}/" if folder else ""
    return (
        meta for meta in listing if meta.path.startswith(below) and (start_after is None or meta.path > start_after)
    )
