"""A table that has been found: where it lies, who acts on it, and the one way to a snapshot of it.

Everything that a `Table` does to data or metadata begins with `Opened.snapshot`. It is the only place that makes
snapshots, and a snapshot is made behind the gate, so nothing is touched before the protocol has been checked for the
release that acts and the operation it wants.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from halocline.compat.release import Release
from halocline.errors import InputError
from halocline.formats.delta.snapshot.access import UNCHECKED
from halocline.formats.delta.snapshot.snapshot import Snapshot, own_release
from halocline.spark.session.settings import Settings
from halocline.table import gatekeeper
from halocline.table.gatekeeper import Gatekeeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.storage.base import Store

Moment = str | int | datetime
"""A time as users give it: ISO text, milliseconds since the epoch, or a datetime."""


class Opened:
    """What every part of `Table` stands on.

    Attributes:
        store: Where the table lies.
        url: The same place as text.
        settings: What the user has set.
        release: Who acts; Halocline itself unless set otherwise.
    """

    def __init__(self, store: Store, spark: SparkSession | None = None, settings: Settings | None = None) -> None:
        self.store = store
        self.url = store.root
        self.settings = settings or Settings()
        self.release = own_release() if self.settings.release is None else Release.parse(self.settings.release)
        if not self.settings.check_enabled:
            self.release = UNCHECKED
        self._spark = spark
        if self.settings.fleet:
            gatekeeper.join(self.settings.fleet, str(self.release), spark)

    @property
    def gatekeeper(self) -> Gatekeeper:
        """Who is asked before the table requires more of others."""
        return gatekeeper.current()

    @property
    def spark(self) -> SparkSession:
        """The session that does the work on rows.

        Raises:
            InputError: The table was opened without one.
        """
        if self._spark is None:
            raise InputError(
                f"{self.url} was opened without a Spark session, and rows need one",
                next_step="Open it with one: Table.for_path(path, spark)",
            )
        return self._spark

    def snapshot(
        self, operation: str = "read", *, version: int | None = None, timestamp: Moment | None = None
    ) -> Snapshot:
        """The table at a version or time, the newest if neither is given, behind the gate.

        Raises:
            IncompatibleError: The release that acts lacks a feature that the table requires.
            NotFoundError: There is no table here, or no such version.
        """
        snapshot = Snapshot.load(
            self.store,
            version=version,
            timestamp_ms=None if timestamp is None else self._milliseconds(timestamp),
            release=self.release,
            operation=operation,
            legacy_protocol=self.settings.allow_missing_protocol,
        )
        newest = version is None and timestamp is None
        level = self.gatekeeper.opened(snapshot, operation, newest=newest)
        return snapshot if level is None else replace(snapshot, level=level)

    def _milliseconds(self, moment: Moment) -> int:
        if isinstance(moment, bool) or not isinstance(moment, str | int | datetime):
            raise InputError(f"{moment!r} is not a time", next_step="Give '2026-11-01 12:00:00' or a datetime.")
        if isinstance(moment, int):
            return moment
        try:
            point = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        except ValueError:
            raise InputError(f"{moment!r} is not a time", next_step="Give it as '2026-11-01 12:00:00'.") from None
        if point.tzinfo is None:
            point = point.replace(tzinfo=self._zone())
        return int(point.timestamp() * 1000)

    def _zone(self) -> tzinfo:
        """Times without a zone are in the session's, as everywhere in Spark; in UTC where there is none."""
        if self._spark is None:
            return UTC
        return ZoneInfo(self._spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC")
