"""A store in one SQLite file: nothing to install, one coordinator.

The coordinator locks the file itself for as long as it lives, by whatever name it was reached, so a second one cannot
start on it. The write-ahead log is synced at every commit: what was acknowledged survives a power cut. Not for network
file systems, whose locks and syncs cannot be trusted.

Promise: what is acknowledged is in the file of that name. Before and after each transaction the store looks whether
that is still the file it locked. If another has taken its place, the store is *lost* for good: nothing is acknowledged
any more, the error says what lies there, and what was acknowledged before is put beside it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, update
from sqlalchemy.pool import StaticPool

from halocline.addresses import Address
from halocline.errors import ConflictError, HaloclineError, InputError, StaleEpochError, UnavailableError
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
        super().__init__(_engine(path, self._is_still_there), LEASE_MS)
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

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self._check_place()
        with super()._transaction() as connection:
            yield connection
        # What went into a file that is no longer there must not be acknowledged.
        self._check_place()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        self._check_place()
        with super()._reading() as connection:
            yield connection

    def _fence(self, connection: Connection, epoch: int, *, for_update: bool = False) -> None:
        try:
            super()._fence(connection, epoch, for_update=for_update)
        except StaleEpochError:
            if self._path != MEMORY and epoch == self._epoch:
                # No other can have taken over while we have the file, so its content was put in the place of ours.
                self.lost = self._replaced("is lost: it was written over")
                raise self.lost from None
            raise

    def _check_place(self) -> None:
        """Raise a `StaleEpochError` if the file of that name is not the one that is locked."""
        if self.lost is None and not self._is_still_there():
            self.lost = self._replaced(self._saved())
        if self.lost is not None:
            raise self.lost

    def _replaced(self, ours: str) -> StaleEpochError:
        return StaleEpochError(
            f"another file has taken the place of the store {self._path}",
            condition="STORE_REPLACED",
            sides={"there now": _lying_at(self._path), "what this coordinator has written": ours},
            next_step=f"Put the file that counts at {self._path}, then start the coordinator again.",
        )

    def _saved(self) -> str:
        """Put what was acknowledged into a file beside the one that took its place, and return where it is."""
        place = f"{self._path}.replaced-{time.time_ns()}"
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            ours = self.engine.raw_connection()
            try:
                with closing(sqlite3.connect(place)) as kept:
                    driver: Any = ours.driver_connection
                    driver.backup(kept)
            finally:
                ours.close()
        except (OSError, sqlite3.Error, HaloclineError) as error:
            return f"could not be kept at {place}: {error}"
        return f"is kept at {place}"

    def clock_ms(self) -> int | None:
        """None: the file has no clock of its own."""
        return None

    def _is_still_there(self) -> bool:
        if self._path == MEMORY:
            return True
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


def _lying_at(path: str) -> str:
    """Say what is at a path where a store was."""
    try:
        size = os.stat(path).st_size
    except OSError:
        return "nothing"
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as found:
            epoch, holder = found.execute("SELECT epoch, holder FROM coordinator").fetchone()
    except (sqlite3.Error, TypeError):
        return f"a file of {size:,} bytes that is no fleet's store"
    return f"the store of a fleet at epoch {epoch}, last led by {holder or 'nobody'}"


def _engine(path: str, is_still_there: Callable[[], bool]) -> Engine:
    # One connection for a store in memory, which lives and dies with it.
    pool: dict[str, Any] = {"poolclass": StaticPool} if path == MEMORY else {}
    engine = create_engine(
        URL.create("sqlite+pysqlite", database=path),
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
        if not is_still_there():
            # It was opened by its name, and so is another file.
            raise sqlite3.OperationalError(f"another file lies at {path}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("halocline_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
