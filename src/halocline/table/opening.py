"""A table that has been found: where it lies, who acts on it, and the one way to a snapshot of it.

Everything that a table does to data or metadata begins with `Opened.snapshot`. It is the only place that makes
snapshots, and a snapshot is made behind the gate, so nothing is touched before the protocol has been checked for the
release that acts and the operation it wants.

The verbs of a table are functions that take an `Opened` first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from halocline.compat.release import Release
from halocline.errors import InputError
from halocline.formats.delta.commit.transaction import Clock, system_clock
from halocline.formats.delta.snapshot.access import UNCHECKED
from halocline.formats.delta.snapshot.snapshot import Snapshot, own_release
from halocline.spark.session.settings import PREFIX, Settings
from halocline.storage import open_store
from halocline.table import gatekeeper
from halocline.table.gatekeeper import Gatekeeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.storage.base import Store

Moment = str | int | datetime
"""A time as users give it: ISO text, milliseconds since the epoch, or a datetime."""


class Opened:
    """A table that has been found, or a place where one is to be.

    Attributes:
        store: Where the table lies.
        url: The same place as text.
        settings: What the user has set.
        release: Who acts; Halocline itself unless set otherwise.
        clock: Tells the present.
        session: The session for rows; None if there is none.
    """

    def __init__(
        self,
        store: Store,
        spark: SparkSession | None = None,
        settings: Settings | None = None,
        *,
        clock: Clock = system_clock,
    ) -> None:
        self.store = store
        self.url = store.root
        self.clock = clock
        self.session = spark
        self.settings = settings or Settings()
        self.release = own_release() if self.settings.release is None else Release.parse(self.settings.release)
        if not self.settings.check_enabled:
            self.release = UNCHECKED
        if self.settings.fleet:
            gatekeeper.join(self.settings.fleet, str(self.release), spark)
        self._fresh: Snapshot | None = None

    @staticmethod
    def at(
        path: str | os.PathLike[str], spark: SparkSession | None = None, options: Mapping[str, str] | None = None
    ) -> Opened:
        """The place that a path or URL names, with the settings and the options of the store that come with it.

        Raises:
            InputError: The place cannot be one, or an option cannot be used.
        """
        given = dict(options or {})
        store = open_store(path, {key: value for key, value in given.items() if not key.startswith(PREFIX)})
        return Opened(store, spark, Settings.read(given, spark))

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
        if self.session is None:
            raise InputError(
                f"{self.url} was opened without a Spark session, and rows need one",
                next_step="Open it with one: Table.for_path(path, spark)",
            )
        return self.session

    def snapshot(
        self, operation: str = "read", *, version: int | None = None, timestamp: Moment | None = None
    ) -> Snapshot:
        """The table at a version or time, the newest if neither is given, behind the gate.

        Raises:
            IncompatibleError: The release that acts lacks a feature that the table requires.
            NotFoundError: There is no table here, or no such version.
        """
        newest = version is None and timestamp is None
        snapshot = (self._made_before(operation) if newest else None) or Snapshot.load(
            self.store,
            version=version,
            timestamp_ms=None if timestamp is None else self.milliseconds(timestamp),
            release=self.release,
            operation=operation,
            legacy_protocol=self.settings.allow_missing_protocol,
        )
        level = self.gatekeeper.opened(snapshot, operation, newest=newest)
        return snapshot if level is None else replace(snapshot, level=level)

    def found(self) -> Opened:
        """The same, once it is known that the newest version may be read; the first verb starts from that version.

        Raises:
            IncompatibleError: The release that acts lacks a feature that the table requires.
            NotFoundError: There is no table here.
        """
        self._fresh = self.snapshot()
        return self

    def _made_before(self, operation: str) -> Snapshot | None:
        """The snapshot that was made when the table was found, once, and only if it still is the newest version."""
        fresh, self._fresh = self._fresh, None
        if fresh is None or not fresh.is_newest():
            return None
        return fresh.reopened(operation)

    def milliseconds(self, moment: Moment) -> int:
        """A time in milliseconds since the epoch; one without a zone is in the session's, or in UTC.

        Raises:
            InputError: It is no time.
        """
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
        if self.session is None:
            return UTC
        return ZoneInfo(self.session.conf.get("spark.sql.session.timeZone", "UTC") or "UTC")
