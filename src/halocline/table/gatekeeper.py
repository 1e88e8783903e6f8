"""Who is asked before a table changes what it requires of others.

A *gatekeeper* stands between a table and everybody else who uses it. Before a table gains a feature, the gatekeeper is
asked; if somebody known would break, it refuses and says who. It also learns which tables this process reads and
writes, and knows the level of each ladder.

Alone, without a fleet, nobody else is known: `Alone` refuses nothing and knows no level, so gates are decided by the
table only. A fleet's member is a gatekeeper too; `install` puts it in front of every table of the process, `acting` in
front of the tables of one thread, for a process that speaks for several members. The limit: a gatekeeper judges by what
it knows. Who never joined, was never declared and never left a trace in a table is unknown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Final

from halocline.compat.terms import ProtocolChange, Terms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.formats.delta.snapshot.snapshot import Snapshot


class Gatekeeper(ABC):
    """Decides whether a table may change what it requires, on behalf of everybody else who uses it."""

    @abstractmethod
    def approve_change(self, change: ProtocolChange) -> str:
        """Agrees to a change and says who was checked.

        Raises:
            IncompatibleError: Somebody known would break; the error lists who, and what each must upgrade to.
            UnavailableError: Nobody can be asked right now, so nothing new is switched on.
        """

    @abstractmethod
    def note_use(self, table: str, operation: str) -> None:
        """Learns that this process reads or writes a table. Never fails and never waits."""

    @abstractmethod
    def level(self, ladder: str) -> int | None:
        """The level of a ladder that this process has heard of; None if there is no fleet."""

    def opened(self, snapshot: Snapshot, operation: str, *, newest: bool) -> int | None:
        """Learns that this process has opened a table, and says at which level the table may be used.

        Args:
            snapshot: The table as it was opened.
            operation: What for.
            newest: Whether it is the newest version, which alone tells what the table requires now.

        Returns:
            The level that goes with the snapshot for as long as it is used; None if there is no fleet.
        """
        self.note_use(snapshot.store.root, operation)
        return None


class Alone(Gatekeeper):
    """The gatekeeper of a process that belongs to no fleet.

    Example:
        >>> ALONE.approve_change(ProtocolChange("lake/orders", None, Terms.using("delta", ["changeDataFeed"])))
        'nobody was asked: this process belongs to no fleet'
    """

    def approve_change(self, change: ProtocolChange) -> str:
        """Agrees, since nobody else is known."""
        return "nobody was asked: this process belongs to no fleet"

    def note_use(self, table: str, operation: str) -> None:
        """Forgets it at once."""

    def level(self, ladder: str) -> int | None:
        """Knows none."""
        return None


ALONE: Final = Alone()
_FLEET: Final = "halocline.fleet.member.connect"
"""The part above that makes gatekeepers. It is found by name, because tables do not depend on it."""

_lock = Lock()
_installed: Gatekeeper = ALONE
_acting: ContextVar[Gatekeeper | None] = ContextVar("halocline_gatekeeper", default=None)


def current() -> Gatekeeper:
    """The gatekeeper in front of this thread's tables, or else of this process's."""
    return _acting.get() or _installed


def approval_for(table: str) -> Callable[[Terms | None, Terms], str]:
    """Asks the gatekeeper that is current whenever this table would ask more of others."""
    return lambda before, after: current().approve_change(ProtocolChange(table, before, after))


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


def join(address: str, release: str, spark: SparkSession | None) -> None:
    """Joins the fleet at an address and installs its gatekeeper, unless this process has one already.

    Raises:
        IncompatibleError: The fleet does not admit this release.
        MissingExtraError: The part that speaks to fleets is not installed.
    """
    if _acting.get() is None and _installed is ALONE:
        import_module(_FLEET).join_once(address, release, spark)


def installed() -> Gatekeeper:
    """The gatekeeper in front of every table of this process that no thread has put another before."""
    return _installed


def install(gatekeeper: Gatekeeper) -> Gatekeeper:
    """Puts a gatekeeper in front of every table of this process and returns the one before."""
    global _installed
    with _lock:
        before, _installed = _installed, gatekeeper
    return before
