"""A store in one SQLite file: nothing to install, one coordinator.

The coordinator locks the file itself for as long as it lives, by whatever name it was reached, so a second one cannot
start on it. Its lease makes it read the epoch again now and then all the same, and look whether the file of that name
is still the one it locked: a file that was put in its place belongs to another. The write-ahead log is synced at every
commit: what was acknowledged survives a power cut. Not for network file systems, whose locks and syncs cannot be
trusted.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, update
from sqlalchemy.pool import StaticPool

from halocline.addresses import Address
from halocline.errors import ConflictError, InputError, StaleEpochError, UnavailableError
from halocline.fleet.store import schema
from halocline.fleet.store.sql import FleetStore
from halocline.storage.lock import locked_file

MEMORY: Final = ":memory:"
LEASE_MS: Final = 6_000


class SqliteStore(FleetStore):
    """A store in one file, or in memory for tests."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stack = ExitStack()
        self._lock = Lock()
        if path != MEMORY:
            self._claim(Path(path))
        super().__init__(_engine(path), LEASE_MS)
        with self._transaction() as connection:
            # We have the lock on the file, so the process that held the lease is dead.
            connection.execute(update(schema.coordinator).values(until_ms=0))

    @property
    def description(self) -> str:
        """The file."""
        return str(Address.parse(f"sqlite:///{self._path}"))

    def archive_file(self) -> Path | None:
        """A file beside it."""
        path = Path(self._path)
        return None if self._path == MEMORY else path.with_name(f"{path.stem}-audit.jsonl")

    def renew(self, epoch: int) -> None:
        """Prolongs the lease, unless another file has taken the place of the one that is locked."""
        if self._path != MEMORY and not self._is_still_there():
            raise StaleEpochError(
                f"another file has taken the place of {self._path}",
                sides={"ours": f"epoch {epoch}", "store": self._path},
                next_step="Stop this coordinator, and start one on the file that counts.",
            )
        super().renew(epoch)

    def clock_ms(self) -> int | None:
        """None: the file has no clock of its own."""
        return None

    def _is_still_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Lets go of the file."""
        super().close()
        self._stack.close()

    def _claim(self, path: Path) -> None:
        folder = path.parent
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder} for the store", next_step=f"mkdir -p {folder}")
        try:
            self._descriptor = self._stack.enter_context(locked_file(str(path), timeout_s=0.5))
        except UnavailableError as error:
            raise ConflictError(
                f"another coordinator uses {path}",
                condition="STORE_IN_USE",
                sides={"store": str(path)},
                next_step="Stop it first, or use PostgreSQL for several coordinators.",
            ) from error

    def _alone(self) -> AbstractContextManager[object]:
        return self._lock if self._path == MEMORY else nullcontext()

    def _now(self, connection: Connection) -> int:
        return time.time_ns() // 1_000_000

    def _lock_out_migrations(self, connection: Connection) -> None:
        """The transaction has begun as a writing one already."""


def _engine(path: str) -> Engine:
    # One connection for a store in memory, which lives and dies with it.
    pool: dict[str, Any] = {"poolclass": StaticPool} if path == MEMORY else {}
    engine = create_engine(
        f"sqlite+pysqlite:///{path}",
        hide_parameters=True,
        connect_args={"check_same_thread": False, "timeout": 10.0},
        **pool,
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: object) -> None:
        # We begin transactions ourselves: the driver's own way begins them too late to lock another out.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("halocline_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
