"""A Delta table that has been opened: its snapshots, and the transactions that change it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from halocline.formats.delta.commit.provenance import engine_info
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.log.listing import Workers
from halocline.formats.delta.log.replay import KnownVersion
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import session_zone
from halocline.spark.session.settings import LogReplay
from halocline.spark.session.tasks import in_tasks
from halocline.storage.memory import MemoryStore
from halocline.table.opening import Opening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Opened(Opening[Snapshot]):
    """A Delta table that has been found, or a place where one is to be."""

    _known: KnownVersion | None = None

    def _loaded(self, operation: str, version: int | None, timestamp_ms: int | None) -> Snapshot:
        newest = version is None and timestamp_ms is None
        loaded = Snapshot.load(
            self.store,
            version=version,
            timestamp_ms=timestamp_ms,
            release=self.release,
            operation=operation,
            legacy_protocol=self.settings.allow_missing_protocol,
            workers=self._workers(),
            known=self._known if newest else None,
        )
        if newest:
            self._known = loaded.replay.known
        return loaded

    def _workers(self) -> Workers | None:
        """Who lists the files of the table; None for this process, as where no other sees the store."""
        asked = self.settings.log_replay is LogReplay.SPARK
        session = self.session if asked and not isinstance(self.store, MemoryStore) else None
        return None if session is None else partial(in_tasks, session)

    def transaction(self, snapshot: Snapshot | None = None, spark: SparkSession | None = None) -> Transaction:
        """A transaction on a version, or one that creates the table."""
        session = spark or self.session
        engine = engine_info(None if session is None else session.version)
        zone = self._zone if session is None else session_zone(session)
        return Transaction(
            snapshot,
            store=self.store,
            release=self.release,
            engine=engine,
            clock=self.clock,
            timezone=zone,
            permit=self.check_lease,
        )
