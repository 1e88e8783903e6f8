"""A store in PostgreSQL, for several coordinators of which one is active.

The active one holds a lease that is a row of the database, counted by the database's clock. It counts its own copy from
before it asked, and a little shorter, so its belief ends before another may take over. A coordinator that stalls
inside a transaction is cut off by the server after a while, so that it cannot keep the row locked.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import URL, Connection, create_engine, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from halocline.addresses import Address
from halocline.errors import InputError, MissingExtraError
from halocline.fleet.store import schema
from halocline.fleet.store.sql import FleetStore

LEASE_MS: Final = 6_000
_PATIENCE_MS: Final = 4_000
_LONG_MS: Final = 120_000
_MIGRATION_LOCK: Final = 7_470_001

_SETTINGS: Final = {
    "statement_timeout": _PATIENCE_MS,
    "lock_timeout": _PATIENCE_MS,
    "idle_in_transaction_session_timeout": _PATIENCE_MS,
    "synchronous_commit": "on",
}


class PostgresqlStore(FleetStore):
    """A store in PostgreSQL."""

    def __init__(self, url: str | Address, lease_ms: int = LEASE_MS) -> None:
        self._url = _checked(url)
        engine = create_engine(
            self._url,
            hide_parameters=True,
            pool_size=4,
            max_overflow=4,
            pool_pre_ping=True,
            pool_timeout=_PATIENCE_MS / 1000,
            connect_args={
                "connect_timeout": max(_PATIENCE_MS // 1000, 2),
                "tcp_user_timeout": 2 * _PATIENCE_MS,
                "application_name": "halocline",
                "options": " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
            },
        )
        super().__init__(engine, lease_ms)

    @property
    def description(self) -> str:
        """The URL without its secrets."""
        return str(Address.parse(self._url.set(drivername="postgresql").render_as_string(hide_password=False)))

    def _now(self, connection: Connection) -> int:
        return int(connection.execute(select(text("extract(epoch from clock_timestamp()) * 1000"))).scalar_one())

    def _be_patient(self, connection: Connection) -> None:
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.execute(text(f"SET LOCAL {name} = {_LONG_MS}"))

    def _lock_out_migrations(self, connection: Connection) -> None:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        # A coordinator that has the row must not find the tables changed under its hands.
        if connection.dialect.has_table(connection, schema.coordinator.name):
            connection.execute(select(schema.coordinator).with_for_update())


def _checked(url: str | Address) -> URL:
    address = Address.parse(url)
    try:
        parsed = make_url(address.with_secrets())
    except (ArgumentError, ValueError):
        # What SQLAlchemy says may quote a password that it took for a port.
        raise InputError(
            f"the store's URL {address} cannot be read", sides={"expected": "postgresql://host/database"}
        ) from None
    try:
        chosen = parsed.set(drivername="postgresql+psycopg")
        chosen.get_dialect().import_dbapi()
    except (NoSuchModuleError, ImportError) as error:
        raise MissingExtraError("PostgreSQL's driver", "fleet") from error
    return chosen
