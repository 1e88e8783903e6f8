"""What a coordinator needs of a store.

One coordinator at a time holds the *lease* on a store, under an *epoch* that grows with every take-over. Every write
carries the epoch in its own transaction, so a coordinator that was replaced without noticing writes nothing. Between
writes it may rely on its lease: as long as it runs no other has taken over, so heartbeats cost no transaction.

Taking over reads the fleet, decides and writes in one transaction, with the former coordinator locked out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from halocline.fleet.answers import AuditEntry, AuditQuery, SeenClient
from halocline.fleet.core.effects import Audit
from halocline.fleet.core.state import Fleet, RecordChange

State = TypeVar("State")

MOST_AUDIT: Final = 1_000_000
MOST_SIGHTINGS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Who coordinates.

    Args:
        name: The coordinator.
        address: Where members reach it.
        epoch: Under which it acts.
        since_ms: When it took over.
        left_ms: How much of its lease is left; 0 if it has run out.
    """

    name: str
    address: str
    epoch: int
    since_ms: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """One handshake, let in or not; its fields are those of `halocline.fleet.answers.SeenClient`."""

    identity: str
    client: str
    release: str
    role: str
    outcome: str
    requires: tuple[str, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Write:
    """What one transaction writes.

    Args:
        changes: Records of the fleet.
        audits: Decisions.
        sightings: Handshakes.
    """

    changes: Sequence[RecordChange] = ()
    audits: Sequence[Audit] = ()
    sightings: Sequence[Sighting] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.audits or self.sightings)


class FleetStore(ABC):
    """Where the durable truth of a fleet lives.

    All methods block; a service calls them from a thread of their own. A store that cannot be reached raises
    `UnavailableError`, and then it is not known whether the last write was done.
    """

    @property
    @abstractmethod
    def description(self) -> str:
        """What and where it is, without secrets."""

    @property
    @abstractmethod
    def renew_every_s(self) -> float | None:
        """How often the lease must be prolonged; None if it needs no prolonging."""

    @abstractmethod
    def take_over(self, name: str, address: str, decide: Callable[[Fleet], tuple[State, int, Write]]) -> State | Holder:
        """Becomes the coordinator, unless another holds the lease.

        Args:
            name: Who takes over; a lease that is held under the same name is no obstacle.
            address: Where members reach us.
            decide: Gets the fleet as it stands, with every other coordinator locked out, and returns what to hand back,
                the new epoch, and what to write.

        Returns:
            What `decide` handed back; or who holds the lease, in which case nothing was changed.
        """

    @abstractmethod
    def write(self, epoch: int, write: Write) -> None:
        """Writes all of it or nothing.

        Raises:
            StaleEpochError: The epoch is no longer the newest.
        """

    @abstractmethod
    def holds_lease(self, epoch: int) -> bool:
        """Whether no other can have taken over since that epoch began, as far as can be told without asking."""

    @abstractmethod
    def renew(self, epoch: int) -> None:
        """Prolongs the lease.

        Raises:
            StaleEpochError: Another coordinator has taken over.
        """

    @abstractmethod
    def resign(self, epoch: int) -> None:
        """Gives the lease back, so that another need not wait for its end."""

    @abstractmethod
    def holder(self) -> Holder:
        """Who coordinates now, or did last."""

    @abstractmethod
    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Entries of the audit log, newest first."""

    @abstractmethod
    def seen(self) -> list[SeenClient]:
        """The clients that made a handshake, latest first."""

    @abstractmethod
    def signing_keys(self, made_ms: int) -> dict[str, bytes]:
        """The keys for tokens, newest first; makes one if there is none."""

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """Everything durable except keys, as plain values."""

    @abstractmethod
    def replace(self, epoch: int, changes: Iterable[RecordChange], write: Write) -> None:
        """Puts these records in the place of all others."""

    @abstractmethod
    def prune(self, epoch: int) -> None:
        """Forgets the oldest audit entries and sightings beyond what is kept."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of connections and locks."""
