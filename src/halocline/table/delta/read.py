"""Reading a table: what it is, who may use it, and its rows.

Everything but rows works without Spark. Rows come as a DataFrame from a native scan of exactly the live files, pruned
by `where` before Spark sees them: a filter added to the DataFrame later still leaves out row groups, but no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.verdict import Verdict, can
from halocline.formats.delta.log.header import TableHeader, read_header
from halocline.formats.delta.snapshot.detail import detail_of
from halocline.formats.delta.snapshot.history import HistoryEntry, history
from halocline.table.opening import Moment, Opened

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Reading(Opened):
    """The part of `Table` that reads."""

    @property
    def header(self) -> TableHeader:
        """The newest protocol and metadata. Needs no right to read: it is how others are judged."""
        return read_header(self.store)

    @property
    def protocol(self) -> Protocol:
        """What the table requires of those who use it."""
        header = self.header
        return header.protocol_or_legacy() if self.settings.allow_missing_protocol else header.protocol

    @property
    def version(self) -> int:
        """The newest version."""
        return self.header.version

    @property
    def schema(self) -> dict[str, Any]:
        """The newest schema, as parsed JSON; `pyspark.sql.types.StructType.fromJson` takes it."""
        return dict(self.snapshot().schema)

    def features(self) -> dict[str, str]:
        """Every feature that the protocol supports, and whether it is `enabled`, only `supported`, or `unknown`.

        Example:
            >>> Table.for_path("lake/orders").features()  # doctest: +SKIP
            {'appendOnly': 'supported', 'changeDataFeed': 'enabled', 'invariants': 'supported'}
        """
        protocol = self.protocol
        enabled = protocol.enabled(self.header.table_metadata)
        known = {name: "enabled" if name in enabled else "supported" for name in protocol.features}
        return dict(sorted((known | dict.fromkeys(protocol.unknown_features, "unknown")).items()))

    def can(self, release: str | Release, operation: str = "read") -> Verdict:
        """May this release do this to the table as it is now?

        Example:
            >>> Table.for_path("lake/orders").can("trino@426", "read").ok  # doctest: +SKIP
            True
        """
        protocol = self.protocol
        return can(release, protocol, operation, enabled=protocol.enabled(self.header.table_metadata))

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Who did what, newest version first."""
        return history(self.snapshot(), limit)

    def detail(self) -> dict[str, Any]:
        """What the table is, under the names that Delta's `DESCRIBE DETAIL` uses."""
        return detail_of(self.snapshot()).to_dict()

    def to_df(
        self,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        where: str | Column | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows of a version, the newest if neither a version nor a time is given.

        Args:
            version: The version.
            timestamp: A time; the version that held then.
            where: A condition. As SQL text it also leaves files out.
            columns: The columns wanted; all if not given.

        Raises:
            IncompatibleError: The release that acts lacks a feature that the table requires.
            NotFoundError: There is no such version.

        Example:
            >>> Table.for_path("lake/orders", spark).to_df(where="day >= '2026-11-01'").count()  # doctest: +SKIP
            1284
        """
        from halocline.spark.scan.frames import frame_of

        snapshot = self.snapshot(version=version, timestamp=timestamp)
        return frame_of(self.spark, snapshot, where=where, columns=columns)

    def changes(self, first: int | Moment, last: int | Moment | None = None) -> DataFrame:
        """What happened to each row from one version to another, both included: the change feed.

        Args:
            first: The first version, or a time as text or datetime: then the first version at or after it.
            last: The last version, or a time; the newest version if not given.

        Raises:
            InputError: The range is empty, or the change feed was off in it.
            NotFoundError: The log no longer holds the first versions.

        Example:
            >>> Table.for_path("lake/orders", spark).changes(3, 5).select("_change_type").distinct()  # doctest: +SKIP
        """
        from halocline.formats.delta.snapshot.change_feed import OPERATION, changes
        from halocline.spark.scan.change_feed import change_frame

        if last is None or isinstance(last, int):
            end = self.snapshot(OPERATION, version=last)
        else:
            end = self.snapshot(OPERATION, timestamp=last)
        start = first if isinstance(first, int) else self._first_version_from(first, end.version)
        return change_frame(self.spark, end, changes(end, start))

    def _first_version_from(self, moment: Moment, last: int) -> int:
        """The oldest version that is not before a time."""
        milliseconds = self._milliseconds(moment)
        times = {entry.version: entry.timestamp_ms for entry in history(self.snapshot(version=last))}
        return min((version for version, time in times.items() if time >= milliseconds), default=last + 1)

    def register_view(
        self, name: str, *, version: int | None = None, timestamp: Moment | None = None, where: str | None = None
    ) -> None:
        """Makes the rows of a version known to SQL as a temporary view; later commits do not change it.

        Example:
            >>> Table.for_path("lake/orders", spark).register_view("orders")  # doctest: +SKIP
            >>> spark.sql("SELECT country, count(*) FROM orders GROUP BY country")  # doctest: +SKIP
        """
        self.to_df(version=version, timestamp=timestamp, where=where).createOrReplaceTempView(name)
