"""The one opener: where a table lies, who acts on it, and the only way to a version of it.

`Table`, the data source, streams and maintenance all open tables here. Opening a version passes the gate, so nothing is
touched before the protocol has been checked for the release that acts and the operation it wants; and it tells the
gatekeeper, so a fleet knows of every use, whichever door it came through.

A write runs inside an *operation*. Under a fleet, it keeps the levels that it began with until it ends, and a level is
settled, or a gate closed, only when it has ended. What it then commits, it may only commit while its lease runs, if it
makes use of a level. Reads are no operations: Spark runs them when it likes.

Each format makes an opener of its own from this one (`halocline.table.delta.opened`), by saying how a version is
loaded.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from halocline.compat.release import Release
from halocline.compat.terms import ProtocolChange, Terms
from halocline.errors import ConflictError, InputError
from halocline.formats.base import TableFormat, TableVersion, formats_at
from halocline.formats.delta.commit.transaction import Clock, system_clock
from halocline.formats.log.gate import UNCHECKED, change_unchecked, own_release
from halocline.schema.zones import zone_named
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.read_errors import in_our_words
from halocline.spark.session.pinning import outliving_executors
from halocline.spark.session.session import check_running, our_sql
from halocline.spark.session.settings import NAMES, PREFIX, Settings
from halocline.spark.session.worker_python import check_worker_python
from halocline.storage import open_store
from halocline.storage.options import checked
from halocline.table import gatekeeper
from halocline.table.free_place import check_free, check_no_table
from halocline.table.gatekeeper import Gatekeeper, Operation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.storage.base import Store

V = TypeVar("V", bound=TableVersion)
T = TypeVar("T", bound="Opening[Any]")
P = ParamSpec("P")
R = TypeVar("R")

Moment = str | int | datetime
"""A time as users give it: ISO text, milliseconds since the epoch, or a datetime."""


def _milliseconds(point: datetime) -> int:
    return int((point - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))


_FIRST_MS: Final = _milliseconds(datetime.min.replace(tzinfo=UTC))
_LAST_MS: Final = _milliseconds(datetime.max.replace(tzinfo=UTC))
_MOST_HOURS: Final = 1_000_000_000
_running: Final[ContextVar[tuple[Gatekeeper, Operation] | None]] = ContextVar("halocline_operation", default=None)


class Opening(ABC, Generic[V]):
    """A table that has been found, or a place where one is to be.

    Times without a zone are in the one given, else in the session's, or in UTC. A short-lived process is there only for
    as long as a data source needs it.

    Attributes:
        url: The place as text.
        release: Who acts; Halocline itself unless set otherwise.
    """

    def __init__(
        self,
        store: Store,
        spark: SparkSession | None = None,
        settings: Settings | None = None,
        *,
        clock: Clock = system_clock,
        zone: str | None = None,
        short_lived: bool = False,
    ) -> None:
        self.store = store
        self.url = store.root
        self.clock = clock
        self.session = spark
        self.settings = settings or Settings()
        self.release = own_release() if self.settings.release is None else Release.parse(self.settings.release)
        if not self.settings.check_enabled:
            self.release = UNCHECKED
        self._keeper: Gatekeeper | None = None
        if self.settings.fleet and (short_lived or gatekeeper.is_alone()):
            self._keeper = gatekeeper.join(self.settings, str(self.release), spark, short_lived=short_lived)
        self._zone = zone
        self._fresh: V | None = None

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], spark: SparkSession | None = None, options: Mapping[str, str] | None = None
    ) -> Self:
        """The place that a path or URL names, with the settings and the options of the store that come with it."""
        store, settings = placed(path, spark, options)
        return cls(store, spark, settings)

    @abstractmethod
    def _loaded(self, operation: str, version: int | None, timestamp_ms: int | None) -> V:
        """A version, the newest if neither a number nor a time is given, behind the gate."""

    # ------------------------------------------------------------------ what a verb needs

    @property
    def gatekeeper(self) -> Gatekeeper:
        """Who is asked before the table requires more of others."""
        return self._keeper or gatekeeper.current()

    def approve(self, before: Terms | None, after: Terms) -> str:
        """Asks whether the terms of the table may change, and says who was checked."""
        return self.gatekeeper.approve_change(ProtocolChange(self.url, before, after))

    @property
    def spark(self) -> SparkSession:
        """The session that does the work on rows."""
        if self.session is None:
            raise InputError(
                f"{self.url} was opened without a Spark session, and rows need one",
                next_step="Open it with one, Table.for_path(path, spark), or use to_arrow and append_arrow.",
            )
        check_running(self.session)
        return self.session

    @property
    def zone(self) -> str:
        """Times without a zone are in the session's, as everywhere in Spark; in UTC where there is none."""
        return self._zone or ("UTC" if self.session is None else session_zone(self.session))

    def snapshot(self, operation: str = "read", *, version: int | None = None, timestamp: Moment | None = None) -> V:
        """The table at a version or time, the newest if neither is given, behind the gate."""
        newest = version is None and timestamp is None
        opened = self._opened_before(operation) if newest else None
        if opened is None:
            opened = self._loaded(operation, version, None if timestamp is None else self.milliseconds(timestamp))
        keeper, running = self.gatekeeper, self._running()
        level = keeper.opened(opened, operation, newest=newest)
        if level is None:
            return opened
        held = level if running is None else running.level(opened.protocol.format) or 0
        return opened.at_level(min(level, held))

    def found(self) -> Self:
        """The same, once it is known that the newest version may be read; the first verb starts from that version."""
        self._fresh = self.snapshot()
        return self

    def is_taken(self, format: TableFormat, *, exist_ok: bool = False) -> bool:
        """Whether a table of the format lies there already.

        Raises:
            AlreadyExistsError: There is a table, unless it may be there and is of the format; or see `check_free`.
        """
        taken = formats_at(self.store)
        if not (exist_ok and taken == (format,)):
            check_no_table(self.store, self.url)
        if not taken:
            self.check_free()
        return bool(taken)

    def check_free(self) -> None:
        """Makes sure that no data lies where a new table is to be; see `halocline.table.free_place`.

        Raises:
            AlreadyExistsError: There is a file, or a folder with files in it.
        """
        check_free(self.store, self.url)

    @contextmanager
    def operation(self, name: str) -> Iterator[Operation]:
        """Runs a write as an operation of the fleet, so that a downgrade waits for it; within another, as part of it.

        A data file that Spark cannot read there is an error that names it; what a worker of ours raised is that error.

        Raises:
            InputError: The protocol check is switched off.
        """
        self.check_may_change(name)
        running = self._running()
        if running is not None:
            yield running
            return
        keeper = self.gatekeeper
        with self.settings.in_force(), our_sql(self.session), keeper.operation(name) as begun:
            token = _running.set((keeper, begun))
            try:
                with in_our_words():
                    yield begun
            finally:
                _running.reset(token)

    def check_may_change(self, operation: str) -> None:
        """Make sure that the protocol check is on: without it, a table may be looked at and nothing else."""
        if self.release == UNCHECKED:
            raise change_unchecked(self.url, operation)

    def milliseconds(self, moment: Moment) -> int:
        """A time in milliseconds since the epoch; one without a zone is in the session's, or in UTC."""
        refused = InputError(f"{moment!r} is not a time", next_step="Give '2026-11-01 12:00:00' or a datetime.")
        if isinstance(moment, bool) or not isinstance(moment, str | int | datetime):
            raise refused
        if isinstance(moment, int):
            if not _FIRST_MS <= moment <= _LAST_MS:
                raise refused
            return moment
        try:
            point = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        except ValueError:
            raise refused from None
        if point.tzinfo is None:
            point = point.replace(tzinfo=self._timezone())
        # The ends of the calendar, which stand for no end at all, may lie beyond it in another zone.
        return min(max(_milliseconds(point), _FIRST_MS), _LAST_MS)

    def check_lease(self) -> None:
        """What makes use of a level may become visible only while the operation's lease runs."""
        running = self._running()
        if running is not None and not running.may_commit():
            raise ConflictError(
                f"the lease under which the change of {self.url} began has run out; nothing was committed",
                condition="INCARNATION_ENDED",
                sides={"change": "makes use of a level of the fleet", "fleet": "may have gone on without it"},
                next_step="Run it again.",
            )

    # ------------------------------------------------------------------ small things

    def _running(self) -> Operation | None:
        """The operation that this thread is in, if the same gatekeeper began it."""
        running = _running.get()
        return running[1] if running is not None and running[0] is self.gatekeeper else None

    def _opened_before(self, operation: str) -> V | None:
        """The version that was opened when the table was found, once, and only if it still is the newest."""
        fresh, self._fresh = self._fresh, None
        if fresh is None or not fresh.is_newest():
            return None
        return fresh.reopened(operation)

    def _timezone(self) -> tzinfo:
        return zone_named(self.zone) or UTC


def kept_ms(hours: float) -> int:
    """How long files are kept, in milliseconds: a time that has passed, and that a clock can count back."""
    if not 0 <= hours <= _MOST_HOURS:
        raise InputError(
            f"files cannot be kept for {hours} hours",
            sides={"given": f"{hours} hours", "possible": f"0 to {_MOST_HOURS:,} hours"},
        )
    return int(hours * 3_600_000)


def placed(
    path: str | os.PathLike[str], spark: SparkSession | None, options: Mapping[str, str] | None
) -> tuple[Store, Settings]:
    """The place that a path or URL names, and the settings, from options for both."""
    given = dict(options or {})
    of_store = {key: value for key, value in given.items() if not key.lower().startswith(PREFIX)}
    found = open_store(path, checked(of_store, NAMES)), Settings.read(given, spark)
    if spark is not None:
        check_worker_python(spark)
    return found


def as_operation(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """A verb that writes: it runs as an operation of the fleet, by its own name.

    It is done again where executors were lost with rows that it had computed; see `halocline.spark.session.pinning`.
    """

    @wraps(function)
    def inside(table: T, /, *given: P.args, **named: P.kwargs) -> R:
        with table.operation(function.__name__):
            return outliving_executors(lambda: function(table, *given, **named))

    return inside
