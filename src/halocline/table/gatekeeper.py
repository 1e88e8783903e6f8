"""Who is asked before a table changes what it requires of others.

A *gatekeeper* stands between a table and everybody else who uses it. Before a table gains a feature, the gatekeeper is
asked; if somebody known would break, it refuses and says who. It also learns which tables this process reads and
writes, and knows the level of each ladder.

Tables do not know of fleets. Whatever makes members of processes registers here what does it, and the opener asks for
it when a table is opened whose settings name a fleet.

Alone, without a fleet, nobody else is known: `Alone` refuses nothing and knows no level, so gates are decided by the
table only. A fleet's member is a gatekeeper too; `install` puts it in front of every table of the process, `acting` in
front of the tables of one thread, for a process that speaks for several members. The limit: a gatekeeper judges by what
it knows. Who never joined, was never declared and never left a trace in a table is unknown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.compat.terms import ProtocolChange
    from halocline.formats.base import TableVersion
    from halocline.spark.session.settings import Settings

    Join = Callable[[Settings, str, SparkSession | None, bool], "Gatekeeper | None"]


class Operation(Protocol):
    """One operation under one snapshot of the fleet's levels."""

    def gate(self, ladder: str, level: int) -> bool:
        """Whether the operation may use that level."""

    def level(self, ladder: str) -> int | None:
        """The level that gates were open up to when it began; None if there is no fleet, or none was heard."""

    def may_commit(self) -> bool:
        """Whether its change may still become visible. Ask just before."""


class Gatekeeper(ABC):
    """Decides whether a table may change what it requires, on behalf of everybody else who uses it."""

    @abstractmethod
    def approve_change(self, change: ProtocolChange) -> str:
        """Agrees to a change and says who was checked; raises if somebody known would break, or none can be asked."""

    @abstractmethod
    def operation(self, name: str) -> AbstractContextManager[Operation]:
        """Begins an operation; a fleet waits for its end before a level counts as settled, or a gate as closed."""

    @abstractmethod
    def note_use(self, table: str, operation: str) -> None:
        """Learns that this process reads or writes a table. Never fails and never waits."""

    @abstractmethod
    def level(self, ladder: str) -> int | None:
        """The level of a ladder that this process has heard of; None if there is no fleet."""

    def opened(self, snapshot: TableVersion, operation: str, *, newest: bool) -> int | None:
        """Learns that this process has opened a table, and says at which level the table may be used.

        The level goes with the snapshot for as long as it is used; None if there is no fleet. The newest version alone
        tells what the table requires now.
        """
        self.note_use(snapshot.store.root, operation)
        return None


class _AloneOperation:
    def gate(self, ladder: str, level: int) -> bool:
        return True

    def level(self, ladder: str) -> int | None:
        return None

    def may_commit(self) -> bool:
        return True


class Alone(Gatekeeper):
    """The gatekeeper of a process that belongs to no fleet.

    Example:
        >>> from halocline.compat.terms import ProtocolChange, Terms
        >>> ALONE.approve_change(ProtocolChange("lake/orders", None, Terms.using("delta", ["changeDataFeed"])))
        'no fleet was asked: this process belongs to none'
    """

    def approve_change(self, change: ProtocolChange) -> str:
        """Agrees, since no other client is known."""
        return "no fleet was asked: this process belongs to none"

    def operation(self, name: str) -> AbstractContextManager[Operation]:
        """Begins an operation that only the table has a say in."""
        return nullcontext(_AloneOperation())

    def note_use(self, table: str, operation: str) -> None:
        """Forgets it at once."""

    def level(self, ladder: str) -> int | None:
        """Knows none."""
        return None


ALONE: Final = Alone()
_lock = Lock()
_installed: Gatekeeper = ALONE
_join: Join | None = None
_acting: ContextVar[Gatekeeper | None] = ContextVar("halocline_gatekeeper", default=None)


def current() -> Gatekeeper:
    """The gatekeeper in front of this thread's tables, or else of this process's."""
    return _acting.get() or _installed


@contextmanager
def acting(gatekeeper: Gatekeeper) -> Iterator[Gatekeeper]:
    """Puts a gatekeeper in front of the tables that this thread uses within the block, and no others.

    Example:
        >>> with acting(ALONE):
        ...     current() is ALONE
        True
    """
    token = _acting.set(gatekeeper)
    try:
        yield gatekeeper
    finally:
        _acting.reset(token)


def is_alone() -> bool:
    """Whether neither this thread nor this process has a gatekeeper."""
    return _acting.get() is None and _installed is ALONE


def installed() -> Gatekeeper:
    """The gatekeeper in front of every table of this process that no thread has put another before."""
    return _installed


def install(gatekeeper: Gatekeeper) -> Gatekeeper:
    """Puts a gatekeeper in front of every table of this process and returns the one before."""
    global _installed
    with _lock:
        before, _installed = _installed, gatekeeper
    return before


def register_fleet(join: Join) -> None:
    """Notes what makes this process a member.

    It is called with the settings that name the fleet, the release that acts, the session if there is one, and whether
    the process lives only for as long as a data source needs it.
    """
    global _join
    _join = join


def join(
    settings: Settings, release: str, spark: SparkSession | None, *, short_lived: bool = False
) -> Gatekeeper | None:
    """Makes this process a member of the fleet that the settings name, unless it is one already.

    Returns who stands in front of the table that is opened; None if it is who stands in front of all.
    """
    return None if _join is None else _join(settings, release, spark, short_lived)
