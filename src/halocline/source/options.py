"""The options of the data source, read once and typed.

Spark hands options over as text, with their names in lower case. Those of reading, writing and streaming have the names
that notebooks use already; those that begin with `halocline.` are settings of a table; the rest belong to the store.

    path                       the table: a local path or a URL
    versionAsOf, timestampAsOf a version, or a time at which it held
    timeZone                   the zone of times without one; UTC. The source runs outside of the session, and so does
                               not know its zone
    readChangeFeed             true: what happened to rows, from startingVersion to endingVersion
    startingVersion            the first version of changes or of a stream; a stream also takes `latest`
    startingTimestamp          the same as a time: the first version at or after it
    endingVersion, endingTimestamp   the last version of changes; the newest if not given
    maxFilesPerTrigger         the most files of one micro-batch, 1000 unless said otherwise
    maxBytesPerTrigger         the most bytes of one micro-batch; at least one file is read
    ignoreDeletes              true: versions that only take rows away are no error in a stream
    ignoreChanges              true: nor are those that rewrite files; rows that stayed are delivered again
    skipChangeCommits          true: versions that take rows away are left out altogether
    partitionBy                for a table to be created: its partition columns, separated by commas
    txnAppId, txnVersion       an application and its own version of a write, so that it is not done twice
    userMetadata               a note for the history
    checkpointLocation         Spark's own; a stream's identity is kept there
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from halocline.errors import InputError
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.session.settings import PREFIX, Settings
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.delta.opened import Opened

T = TypeVar("T")

LATEST: Final = "latest"
"""The word for the version after the newest one."""

_SWITCH: Final = {"true": True, "false": False}
_OWN: Final = frozenset(
    {
        "checkpointlocation",
        "endingtimestamp",
        "endingversion",
        "ignorechanges",
        "ignoredeletes",
        "maxbytespertrigger",
        "maxfilespertrigger",
        "partitionby",
        "path",
        "paths",
        "readchangefeed",
        "skipchangecommits",
        "startingtimestamp",
        "startingversion",
        "timestampasof",
        "timezone",
        "txnappid",
        "txnversion",
        "usermetadata",
        "versionasof",
    }
)


@dataclass(frozen=True)
class SourceOptions:
    """What a user asks of the data source.

    Example:
        >>> SourceOptions.read({"path": "lake/orders", "versionasof": "3"}).version
        3
    """

    path: str
    settings: Settings = field(default_factory=Settings)
    store_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    version: int | None = None
    timestamp_ms: int | None = None
    zone: str = "UTC"
    change_feed: bool = False
    starting_version: int | str | None = None
    starting_ms: int | None = None
    ending_version: int | None = None
    ending_ms: int | None = None
    most_files: int | None = None
    most_bytes: int | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    partition_by: tuple[str, ...] = ()
    txn_app_id: str | None = None
    txn_version: int | None = None
    user_metadata: str | None = None
    checkpoint: str | None = None

    @staticmethod
    def read(options: Mapping[str, str]) -> SourceOptions:
        """Reads the options of a data source.

        Raises:
            InputError: The path is missing, or a value does not fit its option.
        """
        given = _Given(options)
        zone = _zone(given.text("timezone") or "UTC")
        rest = {key: value for key, value in options.items() if key not in _OWN and not key.startswith(PREFIX)}
        found = SourceOptions(
            path=_path(options),
            settings=Settings.read(options),
            store_options=rest,
            version=given.number("versionAsOf"),
            timestamp_ms=given.time("timestampAsOf", zone),
            zone=str(zone),
            change_feed=given.switch("readChangeFeed"),
            starting_version=given.version("startingVersion"),
            starting_ms=given.time("startingTimestamp", zone),
            ending_version=given.number("endingVersion"),
            ending_ms=given.time("endingTimestamp", zone),
            most_files=given.number("maxFilesPerTrigger", least=1),
            most_bytes=given.number("maxBytesPerTrigger", least=1),
            ignore_deletes=given.switch("ignoreDeletes"),
            ignore_changes=given.switch("ignoreChanges"),
            skip_change_commits=given.switch("skipChangeCommits"),
            partition_by=tuple(filter(None, (each.strip() for each in (given.text("partitionBy") or "").split(",")))),
            txn_app_id=given.text("txnAppId"),
            txn_version=given.number("txnVersion"),
            user_metadata=given.text("userMetadata"),
            checkpoint=given.text("checkpointLocation"),
        )
        _check_one_of(found.version, found.timestamp_ms, "versionAsOf", "timestampAsOf")
        _check_one_of(found.starting_version, found.starting_ms, "startingVersion", "startingTimestamp")
        _check_one_of(found.ending_version, found.ending_ms, "endingVersion", "endingTimestamp")
        return found

    def opened(self, store: Store | None = None) -> Opened:
        """The table, opened in the process in which Spark plans or commits for the source."""
        place = store or open_store(self.path, self.store_options)
        return Opened(place, settings=self.settings, zone=self.zone, short_lived=True)

    def snapshot(self, operation: str, *, version: int | None = None, timestamp_ms: int | None = None) -> Snapshot:
        """The table at a version or time, the newest if neither is given, behind the gate.

        Raises:
            IncompatibleError: The release that acts lacks a feature that the table requires.
            NotFoundError: There is no table, or no such version.
        """
        return self.opened().snapshot(operation, version=version, timestamp=timestamp_ms)


class _Given:
    """Options by their names in lower case, as one type or another."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def switch(self, name: str) -> bool:
        return bool(self._parsed(name, lambda text: _SWITCH[text.strip().lower()], "true or false"))

    def number(self, name: str, least: int = 0) -> int | None:
        return self._parsed(name, lambda text: _number(text, least), f"a whole number from {least} on")

    def version(self, name: str) -> int | str | None:
        if (self.text(name) or "").strip().lower() == LATEST:
            return LATEST
        return self.number(name)

    def time(self, name: str, zone: tzinfo) -> int | None:
        return self._parsed(name, lambda text: _milliseconds(text, zone), "a time such as 2026-11-01 12:00:00")

    def _parsed(self, name: str, parse: Callable[[str], T], expected: str) -> T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse(text)
        except (ValueError, KeyError):
            raise InputError(f"option {name} cannot be {text!r}", sides={"expected": expected, "found": text}) from None


def _number(text: str, least: int) -> int:
    number = int(text)
    if number < least:
        raise ValueError(text)
    return number


def _milliseconds(text: str, zone: tzinfo) -> int:
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return int(moment.timestamp() * 1000)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InputError(
            f"option timeZone cannot be {name!r}", sides={"expected": "a name such as Europe/Vienna", "found": name}
        ) from None


def _path(options: Mapping[str, str]) -> str:
    path = options.get("path")
    if not path:
        several = "paths" in options
        raise InputError(
            "the data source reads one table at a time" if several else "the data source was given no path",
            sides={"paths": options.get("paths", "none")},
            next_step='Give the table: spark.read.format("halocline").load("lake/orders").',
        )
    return path


def _check_one_of(one: object, other: object, *names: str) -> None:
    if one is not None and other is not None:
        raise InputError(f"give {names[0]} or {names[1]}, not both", sides={names[0]: str(one), names[1]: str(other)})
