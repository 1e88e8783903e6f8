"""What a coordinator needs of a store, in SQL for both databases.

One coordinator at a time holds the *lease* on a store, under an *epoch* that grows with every take-over. Every write
carries the epoch in its own transaction, so a coordinator that was replaced without noticing writes nothing. Between
writes it may rely on its lease: as long as it runs no other has taken over, so heartbeats cost no transaction.

What differs between databases is in `halocline.fleet.store.sqlite` and `halocline.fleet.store.postgresql`: how to
connect, whose clock counts, and what keeps a second coordinator out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from secrets import token_bytes, token_hex
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from halocline._version import __version__
from halocline.errors import StaleEpochError, UnavailableError
from halocline.fleet.answers import AuditEntry, AuditQuery, SeenClient, SigningKey
from halocline.fleet.audit_chain import chained
from halocline.fleet.core.clock import steady_ms
from halocline.fleet.core.effects import Audit
from halocline.fleet.core.state import MOST_LIVES, Fleet, RecordChange
from halocline.fleet.store import codec, migrations, schema

State = TypeVar("State")

_UPSERT: Final[dict[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_SHORTER: Final = 0.8
_KEEPS_TIMES: Final = ("first_ms", "times")
_AT_ONCE: Final = 500
_MOST_PRUNED: Final = 5_000


KEY_LIFE_MS: Final = 24 * 3_600_000
MOST_AUDIT: Final = 1_000_000
MOST_SIGHTINGS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Who coordinates, where members reach it, under which epoch and since when, and what its lease has left."""

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
    """What one transaction writes: records of the fleet, decisions, handshakes."""

    changes: Sequence[RecordChange] = ()
    audits: Sequence[Audit] = ()
    sightings: Sequence[Sighting] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.audits or self.sightings)


Decide = Callable[[Fleet, int], tuple[State, int, Write]]


class FleetStore(ABC):
    """Where the durable truth of a fleet lives.

    All methods block; a service calls them from a thread of their own. A store that cannot be reached raises
    `UnavailableError`, and then it is not known whether the last write was done. What is asked under an epoch that is
    no longer the newest raises `StaleEpochError` and changes nothing.
    """

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
            fleet = self._fleet(connection, row.epoch)
            state, epoch, write = decide(fleet, belief)
            connection.execute(
                update(schema.coordinator).values(
                    epoch=epoch, holder=name, address=address, since_ms=now, until_ms=now + self.lease_ms
                )
            )
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
        """Entries of the audit log, newest first."""
        table = schema.audit.c
        wanted = select(schema.audit).order_by(table.number.desc()).limit(min(max(query.limit, 1), 1000))
        for column, value in ((table.actor, query.actor), (table.action, query.action), (table.subject, query.subject)):
            if value:
                wanted = wanted.where(column == value)
        if query.refused_only:
            wanted = wanted.where(table.refused != "")
        if query.since_ms:
            wanted = wanted.where(table.at_ms >= query.since_ms)
        if query.before:
            wanted = wanted.where(table.number < query.before)
        with self._reading() as connection:
            return [AuditEntry(*row) for row in connection.execute(wanted)]

    def seen(
        self, *, requires: str = "", since_ms: int = 0, offset: int = 0, limit: int | None = None
    ) -> list[SeenClient]:
        """The clients that made a handshake, latest first; those that required a feature, if one is named."""
        table = schema.sightings
        wanted = select(table).where(table.c.last_ms > since_ms)
        if requires:
            named = msgspec.json.encode(requires).decode()
            wanted = wanted.where(table.c.requires.contains(named, autoescape=True))
        order = (table.c.last_ms.desc(), *table.primary_key)
        with self._reading() as connection:
            return list(_seen(connection, wanted.order_by(*order).offset(offset).limit(limit)))

    def keys(self) -> list[SigningKey]:
        """The keys for tokens, newest first, by their names only."""
        table = schema.signing_keys.c
        with self._reading() as connection:
            rows = connection.execute(select(table.id, table.made_ms).order_by(table.made_ms.desc()))
            return [SigningKey(*row) for row in rows]

    def drop_key(self, epoch: int, key: str, audit: Audit) -> bool:
        """Forgets a key, if it is there."""
        table = schema.signing_keys
        with self._transaction() as connection:
            self._fence(connection, epoch)
            dropped = connection.execute(delete(table).where(table.c.id == key)).rowcount > 0
            if dropped:
                self._chain(connection, epoch, (audit,))
        return dropped

    def signing_keys(self, now_ms: int) -> dict[str, bytes]:
        """The keys for tokens, newest first; makes one if the newest is a day old, and forgets those of two days."""
        table = schema.signing_keys
        with self._transaction() as connection:
            # One row that every coordinator locks, or two coordinators would both make the first key.
            connection.execute(select(schema.coordinator.c.id).with_for_update())
            newest = select(table).order_by(table.c.made_ms.desc())
            connection.execute(delete(table).where(table.c.made_ms <= now_ms - 2 * KEY_LIFE_MS))
            rows = connection.execute(newest).all()
            if not rows or rows[0].made_ms <= now_ms - KEY_LIFE_MS:
                connection.execute(insert(table).values(id=token_hex(8), secret=token_bytes(32), made_ms=now_ms))
                rows = connection.execute(newest).all()
        return {row.id: bytes(row.secret) for row in rows}

    def export(self) -> dict[str, Any]:
        """Everything durable except keys, as plain values."""
        with self._reading() as connection:
            row = connection.execute(select(schema.coordinator)).one()
            fleet = self._fleet(connection, row.epoch)
            log = [AuditEntry(*row) for row in connection.execute(select(schema.audit).order_by(schema.audit.c.number))]
            seen = list(_seen(connection, select(schema.sightings).order_by(schema.sightings.c.last_ms.desc())))
        changes = codec.taken_apart(fleet)
        return {
            "format": 1,
            "halocline": __version__,
            "epoch": fleet.epoch,
            "records": [msgspec.to_builtins(each, str_keys=True) for each in changes],
            "audit": [msgspec.to_builtins(each) for each in log],
            "sightings": [msgspec.to_builtins(each) for each in seen],
        }

    def replace(self, epoch: int, changes: Iterable[RecordChange], write: Write) -> None:
        """Puts these records in the place of all others."""
        with self._transaction() as connection:
            self._fence(connection, epoch)
            connection.execute(delete(schema.records))
            connection.execute(delete(schema.incarnations))
            self._put(connection, epoch, Write(tuple(changes), write.audits, write.sightings))

    def prune(self, epoch: int, floor: int = 0, members: Collection[str] = ()) -> None:
        """Forgets some of what is beyond what is kept: of the audit log, of handshakes, and of incarnations.

        So many at a time that a transaction stays short; what remains is for the next time. Incarnations up to the
        floor need not be remembered, except those of members.
        """
        with self._transaction() as connection:
            self._fence(connection, epoch)
            _prune_audit(connection)
            _prune_sightings(connection)
            identity, life = schema.incarnations.c
            old = select(identity).where(life <= floor).order_by(life).limit(_MOST_PRUNED + len(members))
            names = connection.execute(old).scalars()
            self._put_lives(connection, {name: None for name in names if name not in members})

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

    def _fleet(self, connection: Connection, epoch: int) -> Fleet:
        """The fleet, of whose incarnations only the newest and those of its members are read."""
        rows = connection.execute(select(schema.records.c.kind, schema.records.c.body))
        fleet = codec.assembled(epoch, ((row.kind, row.body) for row in rows))
        table, newest = schema.incarnations, schema.incarnations.c.incarnation.desc()
        found = connection.execute(select(table).order_by(newest).limit(MOST_LIVES + 1)).all()
        lives = {row.identity: row.incarnation for row in found[:MOST_LIVES]}
        here = sorted({key.identity for key in fleet.members} - lives.keys())
        for start in range(0, len(here), _AT_ONCE):
            some = table.c.identity.in_(here[start : start + _AT_ONCE])
            lives |= {row.identity: row.incarnation for row in connection.execute(select(table).where(some))}
        # Whatever was not read is no higher than the first of it.
        floor = max([fleet.floor, *(row.incarnation for row in found[MOST_LIVES:])])
        return replace(fleet, incarnations=lives, floor=floor)

    def _put(self, connection: Connection, epoch: int, write: Write) -> None:
        gone: list[tuple[str, str, str]] = []
        kept: list[tuple[str, str, str]] = []
        for change in write.changes:
            if change.kind in ("epoch", "incarnations"):
                continue
            key, body = codec.encode(change.key, change.value)
            (gone if change.value is None else kept).append((change.kind, key, body))
        records = schema.records
        if gone:
            which = (records.c.kind == bindparam("of"), records.c.key == bindparam("named"))
            connection.execute(delete(records).where(*which), [{"of": kind, "named": key} for kind, key, _ in gone])
        if kept:
            rows = [{"kind": kind, "key": key, "epoch": epoch, "body": body} for kind, key, body in kept]
            self._upsert(connection, records, rows)
        self._put_lives(connection, {each.key: each.value for each in write.changes if each.kind == "incarnations"})
        if write.audits:
            self._chain(connection, epoch, write.audits)
        if write.sightings:
            self._upsert(connection, schema.sightings, _merged(write.sightings))

    def _put_lives(self, connection: Connection, lives: Mapping[Any, int | None]) -> None:
        table = schema.incarnations
        if gone := [{"named": name} for name, life in lives.items() if life is None]:
            connection.execute(delete(table).where(table.c.identity == bindparam("named")), gone)
        if kept := [{"identity": name, "incarnation": life} for name, life in lives.items() if life is not None]:
            self._upsert(connection, table, kept)

    def _chain(self, connection: Connection, epoch: int, audits: Sequence[Audit]) -> None:
        """Writes entries, each with a hash of the one before. No other writes them meanwhile: see `_fence`."""
        number, column = schema.audit.c.number, schema.audit.c.hash
        last = select(column).order_by(number.desc()).limit(1)
        previous = connection.execute(last).scalar_one_or_none() or ""
        rows = []
        for audit in audits:
            rows.append(_row(epoch, audit, previous))
            previous = rows[-1]["hash"]
        connection.execute(insert(schema.audit), rows)

    def _upsert(self, connection: Connection, table: Any, rows: Sequence[dict[str, Any]]) -> None:
        statement = _UPSERT[connection.dialect.name](table)
        keys = [column.name for column in table.primary_key]
        new = statement.excluded
        changed = {c.name: new[c.name] for c in table.c if c.name not in (*keys, *_KEEPS_TIMES)}
        if "times" in table.c:
            changed["times"] = table.c.times + new.times
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), rows)


def _seen(connection: Connection, wanted: Any) -> Iterator[SeenClient]:
    for row in connection.execute(wanted):
        requires = tuple(msgspec.json.decode(row.requires, type=list[str]))
        who = (row.identity, row.client, row.release, row.role, row.outcome)
        yield SeenClient(*who, row.first_ms, row.last_ms, row.times, requires)


def _prune_audit(connection: Connection) -> None:
    number = schema.audit.c.number
    first, newest = connection.execute(select(func.min(number), func.max(number))).one()
    if newest is not None and newest - first >= MOST_AUDIT:
        oldest = min(newest - MOST_AUDIT, first + _MOST_PRUNED)
        connection.execute(delete(schema.audit).where(number <= oldest))


def _prune_sightings(connection: Connection) -> None:
    last = schema.sightings.c.last_ms
    seen = connection.execute(select(func.count()).select_from(schema.sightings)).scalar_one()
    if (surplus := min(seen - MOST_SIGHTINGS, _MOST_PRUNED)) > 0:
        oldest = connection.execute(select(last).order_by(last).offset(surplus - 1).limit(1)).scalar_one()
        connection.execute(delete(schema.sightings).where(last <= oldest))


def _merged(sightings: Iterable[Sighting]) -> list[dict[str, Any]]:
    """One row for each kind of handshake; a statement may not touch a row twice."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in sightings:
        key = (each.identity, each.client, each.release, each.role, each.outcome)
        named = zip(("identity", "client", "release", "role", "outcome"), key, strict=True)
        row = rows.setdefault(key, {**dict(named), "first_ms": each.at_ms, "times": 0})
        row["requires"] = msgspec.json.encode(each.requires).decode()
        row["last_ms"] = each.at_ms
        row["times"] += 1
    return list(rows.values())


def _row(epoch: int, audit: Audit, previous: str) -> dict[str, Any]:
    entry = AuditEntry(
        0,
        audit.at,
        epoch,
        audit.actor[:200],
        audit.action[:40],
        audit.subject[:1000],
        audit.detail[:4000],
        audit.refused[:60],
    )
    row: dict[str, Any] = msgspec.to_builtins(replace(entry, hash=chained(previous, entry)))
    del row["number"]
    return row


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
