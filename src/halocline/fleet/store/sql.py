"""What a coordinator needs of a store, in SQL for both databases.

One coordinator at a time holds the *lease* on a store, under an *epoch* that grows with every take-over. Every write
carries the epoch in its own transaction, so a coordinator that was replaced without noticing writes nothing. Between
writes it may rely on its lease: as long as it runs no other has taken over, so heartbeats cost no transaction.

What differs between databases is in `halocline.fleet.store.sqlite` and `halocline.fleet.store.postgresql`: how to
connect, whose clock counts, and what keeps a second coordinator out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, select, update
from sqlalchemy.exc import DBAPIError

from halocline._version import __version__
from halocline.errors import HaloclineError, StaleEpochError, UnavailableError
from halocline.fleet.answers import AuditEntry, AuditQuery, SeenClient, SigningKey
from halocline.fleet.core.clock import steady_ms
from halocline.fleet.core.effects import Audit
from halocline.fleet.core.state import Fleet, RecordChange
from halocline.fleet.store import audit_log, codec, migrations, records, refusals, schema, sightings, signing_keys
from halocline.fleet.store.archive import AuditArchive
from halocline.fleet.store.refusals import RefusedCalls
from halocline.fleet.store.sightings import Sighting

State = TypeVar("State")

_SHORTER: Final = 0.8
_PAGE: Final = 1_000
_MOST_PRUNED: Final = 5_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Who coordinates, where members reach it, under which epoch and since when, and what its lease has left."""

    name: str
    address: str
    epoch: int
    since_ms: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class Write:
    """What one transaction writes: records of the fleet, decisions, handshakes, refusals."""

    changes: Sequence[RecordChange] = ()
    audits: Sequence[Audit] = ()
    sightings: Sequence[Sighting] = ()
    refusals: Sequence[RefusedCalls] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.audits or self.sightings or self.refusals)


Decide = Callable[[Fleet, int], tuple[State, int, Write]]


class FleetStore(ABC):
    """Where the durable truth of a fleet lives.

    All methods block; a service calls them from a thread of their own. A store that cannot be reached raises
    `UnavailableError`, and then it is not known whether the last write was done. What is asked under an epoch that is
    no longer the newest raises `StaleEpochError` and changes nothing.

    Attributes:
        lost: Why this store cannot be used any more, ever; None as long as it can.
    """

    lost: HaloclineError | None = None

    def __init__(self, engine: Engine, lease_ms: int) -> None:
        self.engine = engine
        self.lease_ms = lease_ms
        self._epoch = 0
        self._until = 0
        self._writing = engine.execution_options(halocline_writes=True)
        try:
            with self._transaction() as connection:
                self._lock_out_migrations(connection)
                self.version = migrations.migrate(connection)
        except BaseException:
            self.close()
            raise

    @property
    @abstractmethod
    def description(self) -> str:
        """What and where it is, without secrets."""

    def archive_file(self) -> Path | None:
        """Where entries of the audit log go before they are forgotten; None if nothing of the store outlives it."""
        return Path("halocline-fleet-audit.jsonl")

    @property
    def renew_every_s(self) -> float:
        """How often the lease must be prolonged: a quarter of it, so that some may fail."""
        return self.lease_ms / 4000

    def holds_lease(self, epoch: int) -> bool:
        """Whether no other can have taken over since that epoch began, as far as can be told without asking."""
        return epoch == self._epoch and steady_ms() < self._until

    def _believe(self, epoch: int, asked: int) -> None:
        """Counts our own copy of the lease from before we asked, and shorter, so that it ends before the database's."""
        self._epoch, self._until = epoch, asked + round(_SHORTER * self.lease_ms)

    @abstractmethod
    def _now(self, connection: Connection) -> int:
        """Milliseconds by the clock that all coordinators of this store share."""

    def _be_patient(self, connection: Connection) -> None:
        """Lets a transaction take long that changes very much."""
        return

    @abstractmethod
    def _lock_out_migrations(self, connection: Connection) -> None:
        """Makes sure that no other process migrates at the same time."""

    def take_over(self, name: str, address: str, decide: Decide[State]) -> State | Holder:
        """Becomes the coordinator, unless another holds the lease; a lease under the same name is no obstacle.

        Args:
            name: Who takes over.
            address: Where members reach us.
            decide: Gets the fleet as it stands, with every other coordinator locked out, and for how long the former
                one may still believe that it leads: the database's clock may have been set. Returns what to hand back,
                the new epoch, and what to write.

        Returns:
            What `decide` handed back; or who holds the lease, in which case nothing was changed.
        """
        asked = steady_ms()
        with self._transaction() as connection:
            row = connection.execute(select(schema.coordinator).with_for_update()).one()
            migrations.check_usable(connection)
            now = self._now(connection)
            if row.holder not in ("", name) and row.until_ms > now:
                return Holder(row.holder, row.address, row.epoch, row.since_ms, row.until_ms - now)
            # One that gave its lease back, and our own former self, rely on nothing any more.
            belief = 0 if row.holder in ("", name) or not row.until_ms else self.lease_ms
            fleet = records.fleet(connection, row.epoch)
            state, epoch, write = decide(fleet, belief)
            # The lease begins here: a large fleet may have taken longer to read than it lasts.
            now = self._now(connection)
            held = {"holder": name, "address": address, "since_ms": now, "until_ms": now + self.lease_ms}
            connection.execute(update(schema.coordinator).values(epoch=epoch, **held))
            if fleet.floor:
                # Before what lies below is pruned.
                write = replace(write, changes=(*write.changes, RecordChange("floor", (), fleet.floor)))
            self._put(connection, epoch, write)
        self._believe(epoch, asked)
        return state

    def write(self, epoch: int, write: Write) -> None:
        """Writes all of it or nothing."""
        with self._transaction() as connection:
            self._fence(connection, epoch)
            self._put(connection, epoch, write)

    def clock_ms(self) -> int | None:
        """The time by a clock that all coordinators of this store share; None if it is only this machine's."""
        with self._reading() as connection:
            return self._now(connection)

    def renew(self, epoch: int) -> None:
        """Prolongs the lease."""
        asked = steady_ms()
        with self._transaction() as connection:
            self._fence(connection, epoch, for_update=True)
            until = self._now(connection) + self.lease_ms
            connection.execute(update(schema.coordinator).values(until_ms=until))
        self._believe(epoch, asked)

    def resign(self, epoch: int) -> None:
        """Gives the lease back, so that another need not wait for its end."""
        self._believe(0, 0)
        with self._transaction() as connection:
            mine = schema.coordinator.c.epoch == epoch
            connection.execute(update(schema.coordinator).where(mine).values(until_ms=0))

    def holder(self) -> Holder:
        """Who coordinates now, or did last."""
        with self._reading() as connection:
            row = connection.execute(select(schema.coordinator)).one()
            left = max(row.until_ms - self._now(connection), 0)
        return Holder(row.holder, row.address, row.epoch, row.since_ms, left)

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Entries of the audit log, newest first; if only what was refused is asked for, calls of strangers as well.

        Those have no number, so they are in the first page.
        """
        with self._reading() as connection:
            entries = audit_log.found(connection, query)
            if query.refused_only and not query.before:
                entries = sorted((*entries, *refusals.found(connection, query)), key=lambda entry: -entry.at_ms)
        return entries[: min(max(query.limit, 1), 1000)]

    def seen(
        self, *, requires: str = "", since_ms: int = 0, offset: int = 0, limit: int | None = None
    ) -> list[SeenClient]:
        """The clients that made a handshake, latest first; those that required a feature, if one is named."""
        with self._reading() as connection:
            return sightings.seen(connection, requires=requires, since_ms=since_ms, offset=offset, limit=limit)

    def keys(self) -> list[SigningKey]:
        """The keys for tokens, newest first, by their names only."""
        with self._reading() as connection:
            return signing_keys.names(connection)

    def drop_key(self, epoch: int, key: str, audit: Audit) -> bool:
        """Forgets a key, if it is there."""
        with self._transaction() as connection:
            self._fence(connection, epoch)
            dropped = signing_keys.drop(connection, key)
            audit_log.append(connection, epoch, (audit,) if dropped else ())
        return dropped

    def signing_keys(self, now_ms: int) -> dict[str, bytes]:
        """The keys for tokens, newest first; makes one if the newest is a day old, and forgets those of two days."""
        with self._transaction() as connection:
            return signing_keys.current(connection, now_ms)

    def export(self) -> dict[str, Any]:
        """Everything durable except keys, as plain values; what grows is read page by page as it is used."""
        with self._reading() as connection:
            epoch = connection.execute(select(schema.coordinator.c.epoch)).scalar_one()
            fleet = records.fleet(connection, epoch)
        return {
            "format": 1,
            "halocline": __version__,
            "epoch": epoch,
            "records": (msgspec.to_builtins(each, str_keys=True) for each in codec.taken_apart(fleet)),
            "audit": map(msgspec.to_builtins, self._whole_audit()),
            "sightings": map(msgspec.to_builtins, self._all_seen()),
            "refusals": self._all_refused(),
        }

    def _whole_audit(self) -> Iterator[AuditEntry]:
        number = 0
        while entries := self._audit_after(number):
            yield from entries
            number = entries[-1].number

    def _audit_after(self, number: int) -> list[AuditEntry]:
        with self._reading() as connection:
            return audit_log.following(connection, number, _PAGE)

    def _all_seen(self) -> Iterator[SeenClient]:
        offset = 0
        while clients := self.seen(offset=offset, limit=_PAGE):
            yield from clients
            offset += _PAGE

    def _all_refused(self) -> Iterator[dict[str, Any]]:
        with self._reading() as connection:
            yield from refusals.exported(connection)

    def replace(self, epoch: int, changes: Iterable[RecordChange], write: Write) -> None:
        """Puts these records in the place of all others."""
        with self._transaction() as connection:
            self._be_patient(connection)
            self._fence(connection, epoch)
            records.put_in_place(connection, epoch, changes)
            self._put(connection, epoch, write)

    def prune(self, epoch: int, floor: int = 0, members: Collection[str] = ()) -> None:
        """Forgets some of what is beyond what is kept: of handshakes, of refusals, and of incarnations.

        So many at a time that a transaction stays short; what remains is for the next time. Incarnations up to the
        floor need not be remembered, except those of members.
        """
        with self._transaction() as connection:
            self._fence(connection, epoch)
            sightings.prune(connection, _MOST_PRUNED)
            refusals.prune(connection, _MOST_PRUNED)
            records.prune(connection, floor, members, _MOST_PRUNED)

    def prune_audit(self, epoch: int, now_ms: int, archive: AuditArchive | None = None) -> int:
        """Forgets some entries of the audit log that are too old or too many, once the archive holds them.

        Returns how many.

        Raises:
            UnavailableError: The archive cannot be written; nothing is forgotten.
        """
        with self._reading() as connection:
            surplus = audit_log.surplus(connection, now_ms, _MOST_PRUNED)
        if surplus is None:
            return 0
        if archive is not None:
            archive.add(surplus.entries)
        with self._transaction() as connection:
            self._fence(connection, epoch)
            audit_log.forget(connection, epoch, now_ms, surplus)
        return len(surplus.entries)

    def close(self) -> None:
        """Lets go of connections."""
        self.engine.dispose()

    def _alone(self) -> AbstractContextManager[object]:
        """Keeps the other threads of this process out, where they would share one connection."""
        return nullcontext()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._alone(), _translated(self.description), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._alone(), _translated(self.description), self.engine.connect() as connection, connection.begin():
            yield connection

    def _fence(self, connection: Connection, epoch: int, *, for_update: bool = False) -> None:
        """Lets no coordinator take over before this transaction ends, or fails if one has."""
        row = connection.execute(select(schema.coordinator).with_for_update(read=not for_update)).one()
        if row.epoch != epoch:
            raise StaleEpochError(
                f"another coordinator has taken over from epoch {epoch}",
                sides={"ours": f"epoch {epoch}", "store": f"epoch {row.epoch}, {row.holder} at {row.address}"},
                next_step="Ask the active coordinator instead.",
            )
        migrations.check_usable(connection)

    def _put(self, connection: Connection, epoch: int, write: Write) -> None:
        records.put(connection, epoch, write.changes)
        # Whoever may join can cause as many refused joins as it likes: they are none of the fleet's decisions.
        refused = [bool(audit.refused and audit.action == "join") for audit in write.audits]
        decisions = [audit for audit, is_join in zip(write.audits, refused, strict=True) if not is_join]
        joins = map(RefusedCalls.of, compress(write.audits, refused))
        audit_log.append(connection, epoch, decisions)
        refusals.note(connection, (*joins, *write.refusals))
        sightings.note(connection, write.sightings)


@contextmanager
def _translated(description: str) -> Iterator[None]:
    """Errors of the database as ours. What became of a transaction is unknown when it ends like this."""
    try:
        yield
    except DBAPIError as error:
        problem = str(error.orig).strip().splitlines()
        raise UnavailableError(
            f"the store at {description} failed",
            sides={"heard": problem[0][:300] if problem else type(error.orig).__name__},
            next_step="Is the database running, and is there space left?",
        ) from error
