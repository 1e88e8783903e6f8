"""The options of the data source: what each of its doors knows, read once and typed.

Spark makes a source from its options before it says what for: reading, writing, or a stream of either. A name that no
door knows is refused at once, with the nearest one; one that belongs to another door is refused when that shows. What
begins with `halocline.` is a setting of a table, and what a store knows belongs to the store. The tables in
`docs/spark.md` are made from this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from halocline.errors import InputError, UnsupportedError
from halocline.formats.base import TableFormat
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.hudi.snapshot import HudiQuery
from halocline.formats.index.companion.identity import Stale
from halocline.schema.zones import zone_named
from halocline.spark.session import declarations
from halocline.spark.session.declarations import choice, declared, number, switch, text, time
from halocline.spark.session.settings import NAMES, PREFIX, Settings
from halocline.spark.session.variables import BEGIN
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.storage.options import KNOWN as STORE_OPTIONS
from halocline.storage.options import unknown
from halocline.table.delta.opened import Opened
from halocline.table.opening import Opening

_O = TypeVar("_O", bound=Opening[Any])

LATEST: Final = "latest"
"""The word for the version after the newest one."""


class Door(StrEnum):
    """What a source is made for."""

    READ = "reading"
    WRITE = "writing"
    STREAM_READ = "reading a stream"
    STREAM_WRITE = "writing a stream"


class PartitionOverwrite(StrEnum):
    """Which partitions an overwrite replaces."""

    STATIC = "static"
    DYNAMIC = "dynamic"


_READ: Final = (Door.READ,)
_STREAM_READ: Final = (Door.STREAM_READ,)
_READS: Final = (Door.READ, Door.STREAM_READ)
_WRITE: Final = (Door.WRITE,)
_WRITES: Final = (Door.WRITE, Door.STREAM_WRITE)
_OF_ONE_VERSION: Final = frozenset({"versionAsOf", "timestampAsOf"})
_OF_CHANGES: Final = frozenset({"startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp"})
OF_HUDI: Final = frozenset({"query", "beginInstant", "endInstant"})
OF_EVERY_FORMAT: Final = frozenset({"versionAsOf", "timestampAsOf", "timeZone", "checkpointLocation", "txnAppId"})
OF_SEARCHES: Final = frozenset({"search", "stale"})
_OF_THE_CATALOG: Final = frozenset({"serialization.format", "location", "provider", "owner", "external"})
"""What only Spark's catalog gives, when it makes a table of its own with `CREATE TABLE … USING halocline`."""

_VIEW_INSTEAD: Final = "CREATE TEMPORARY VIEW name USING halocline OPTIONS (path 'lake/orders', follow 'true')"
_OF_CATALOG_TABLES: Final = {"asked for": "a table of Spark's catalog", "known of it": "neither LOCATION nor options"}
_TABLE_INSTEAD: Final = (
    'To make a table: lake.sql("CREATE TABLE …"), or Table.create(path, rows). '
    f"To have its name in Spark's own SQL: Lake.register_views, or {_VIEW_INSTEAD}. "
    "A name that is left in Spark's catalog goes with DROP TABLE; no row of ours is behind it."
)
_FROM_SPARK: Final = frozenset({"path", "paths", "queryname"})
_OF_FILES: Final = "The log says which files count, and how they are read."
_OF_COLUMNS: Final = "A table has its own columns and types."
_OF_DELTA: Final = "Delta Lake has it, and it is not done here."
_ELSEWHERE: Final[Mapping[str, str]] = {
    "compression": "Set the table's property delta.parquet.compression.codec.",
    **dict.fromkeys(("basePath", "ignoreCorruptFiles", "ignoreMissingFiles", "modifiedAfter"), _OF_FILES),
    **dict.fromkeys(("modifiedBefore", "pathGlobFilter", "recursiveFileLookup"), _OF_FILES),
    **dict.fromkeys(("dateFormat", "encoding", "header", "inferSchema", "multiLine", "sep"), _OF_COLUMNS),
    **dict.fromkeys(("autoCompact", "excludeRegex", "failOnDataLoss", "optimizeWrite"), _OF_DELTA),
    **dict.fromkeys(("schemaLocation", "schemaTrackingLocation", "targetFileSize"), _OF_DELTA),
}
"""Options that people know from elsewhere, and what to do instead."""


def _version(given: str) -> int | str:
    if given.lower() == LATEST:
        return LATEST
    if int(given) < 0:
        raise ValueError(given)
    return int(given)


def _zone(given: str) -> str:
    try:
        zone_named(given)
    except InputError:
        raise ValueError(given) from None
    return given


def _told(given: str) -> str:
    if not given:
        raise ValueError(given)
    return given


def _condition(given: str) -> str:
    if BEGIN in _told(given):  # stands for a setting of the session, which the source does not know
        raise ValueError(given)
    return given


def _names(given: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in given.split(","))))


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
    given: frozenset[str] = frozenset()
    version: int | None = number("versionAsOf", "the version to read", _READ, expected="a version")
    timestamp: str | None = time("timestampAsOf", "a time; the version that held then", _READ)
    change_feed: bool = switch(
        "readChangeFeed",
        "what happened to rows, with `_change_type`, `_commit_version` and `_commit_timestamp`",
        _READS,
    )
    follow: bool = switch(
        "follow",
        "the newest version at every query, read by one task, and not the one that was the newest when the DataFrame "
        "was made; the columns stay, and a table that has changed one of them is an error",
        _READ,
    )
    starting_version: int | str | None = declared(
        "startingVersion",
        "a version; a stream also takes `latest`",
        "the first version of changes, or of a stream; a stream without one begins with the rows that are there",
        _version,
        _READS,
    )
    starting_timestamp: str | None = time(
        "startingTimestamp", "the same as a time: the first version from it on", _READS
    )
    ending_version: int | None = number(
        "endingVersion", "the last version of changes; the newest if not given", _READ, expected="a version"
    )
    ending_timestamp: str | None = time("endingTimestamp", "the same as a time", _READ)
    most_files: int | None = number(
        "maxFilesPerTrigger", "the most files of one micro-batch, else 1000", _STREAM_READ, least=1
    )
    most_bytes: int | None = number(
        "maxBytesPerTrigger",
        "the most bytes of one micro-batch; at least one file is read",
        _STREAM_READ,
        least=1,
        expected="a number of bytes",
    )
    ignore_deletes: bool = switch("ignoreDeletes", "versions that only take rows away are no error", _STREAM_READ)
    ignore_changes: bool = switch(
        "ignoreChanges", "nor are those that rewrite files; rows that stayed are delivered again", _STREAM_READ
    )
    skip_change_commits: bool = switch(
        "skipChangeCommits", "versions that take rows away are left out altogether", _STREAM_READ
    )
    query: HudiQuery = choice(
        "query", HudiQuery, "of a Hudi table: `read_optimized` leaves log files aside", [Door.READ]
    )
    begin: str | None = declared(
        "beginInstant",
        "an instant, or a time; a stream also takes `latest`",
        "of a Hudi table: the rows of writes after it; a stream without one begins with the rows that are there",
        _told,
        _READS,
    )
    end: str | None = declared(
        "endInstant", "an instant, or a time", "of a Hudi table: the rows of writes up to it", _told, [Door.READ]
    )
    search: str | None = declared(
        "search", "a query", "of an index table: the rows that it finds, and no others", _told, [Door.READ]
    )
    stale: Stale = choice(
        "stale", Stale, "of a companion index: `allow` reads it although its source has moved on", _READS
    )
    partition_by: tuple[str, ...] = declared(
        "partitionBy",
        "names, separated by commas",
        "the partition columns of a table that does not exist yet, or whose columns are overwritten",
        _names,
        _WRITES,
        (),
    )
    replace_where: str | None = declared(
        "replaceWhere",
        "an SQL condition without variables",
        "with mode `overwrite`: replace the rows that meet it, and no others; every new row must meet it, too",
        _condition,
        _WRITE,
    )
    partition_overwrite: PartitionOverwrite = choice(
        "partitionOverwriteMode",
        PartitionOverwrite,
        "with mode `overwrite`: `dynamic` replaces exactly the partitions that the new rows are in",
        _WRITE,
    )
    merge_schema: bool = switch("mergeSchema", "lets the table grow by the columns that it lacks", _WRITES)
    overwrite_schema: bool = switch(
        "overwriteSchema", "with mode `overwrite`: gives the table the columns of the rows", _WRITE
    )
    max_records: int | None = number("maxRecordsPerFile", "the most rows of one new file", _WRITES, least=1)
    data_change: bool = switch(
        "dataChange",
        "false: the rows are those that were there, only laid out otherwise, which is believed; "
        "streams and change feeds skip them",
        _WRITE,
        default=True,
    )
    txn_app_id: str | None = text(
        "txnAppId",
        "a name",
        "an application; with `txnVersion`, a write that the table has already is not done twice. "
        "For a stream, its name instead of the checkpoint's id",
        _WRITES,
    )
    txn_version: int | None = number("txnVersion", "the application's own version", _WRITE)
    user_metadata: str | None = text("userMetadata", "a text", "a note for the history", _WRITES)
    checkpoint: str | None = text(
        "checkpointLocation", "a path", "Spark's own; the identity of a stream is kept there", [Door.STREAM_WRITE]
    )
    zone: str = declared(
        "timeZone",
        "a name such as Europe/Vienna",
        "the zone of times without one; the source does not know the session's",
        _zone,
        Door,
        "UTC",
    )

    @staticmethod
    def read(options: Mapping[str, str]) -> SourceOptions:
        """Reads the options of a data source, whose names may be in lower case."""
        folded = {key.lower(): value for key, value in options.items()}
        own = folded.keys() & _DECLARED.keys()
        if folded.keys() & _OF_THE_CATALOG or any(key.startswith("option.") for key in folded):
            raise UnsupportedError(
                "Spark's catalog does not tell a data source where its tables lie, so it cannot have tables of ours",
                sides=_OF_CATALOG_TABLES,
                next_step=_TABLE_INSTEAD,
            )
        for key in folded.keys() - own - _FROM_SPARK:
            if not key.startswith(PREFIX) and key not in STORE_OPTIONS:
                raise _unknown(key)
        values: dict[str, Any] = declarations.parsed(SourceOptions, folded, "option ")
        found = SourceOptions(
            _path(folded),
            Settings.read(folded),
            {key: value for key, value in folded.items() if key in STORE_OPTIONS},
            frozenset(_DECLARED[key][0].name for key in own),
            **values,
        )
        _check_one_of(found.version, found.timestamp, "versionAsOf", "timestampAsOf")
        if "follow" in found.given:
            for name in sorted(found.given & {*_OF_ONE_VERSION, *_OF_CHANGES, "readChangeFeed", *OF_HUDI}):
                _check_one_of(True, True, "follow", name)
        if found.given & {"beginInstant", "endInstant"}:
            _check_one_of(found.version or found.timestamp, found.begin or found.end, "versionAsOf", "beginInstant")
            query = found.query.value if "query" in found.given else None
            _check_one_of(query, found.begin or found.end, "query", "beginInstant")
        _check_one_of(found.starting_version, found.starting_timestamp, "startingVersion", "startingTimestamp")
        _check_one_of(found.ending_version, found.ending_timestamp, "endingVersion", "endingTimestamp")
        return found

    def through(self, *doors: Door) -> SourceOptions:
        """The same, once it is known that every option belongs to one of these doors."""
        for name in sorted(self.given):
            told = _DECLARED[name.lower()][0]
            if not told.doors.intersection(doors):
                raise InputError(
                    f"{name} is an option for {' and '.join(sorted(told.doors))}, not for {doors[0]}",
                    sides={"given": name, f"options for {doors[0]}": ", ".join(names_for(doors))},
                    next_step="Leave it out.",
                )
        return self

    def known_to(self, format: TableFormat, known: frozenset[str]) -> SourceOptions:
        """The same, once it is known that every option means something for tables of the format.

        Raises:
            InputError: One does not.
        """
        for name in sorted(self.given - known):
            raise InputError(
                f"{name} means nothing for a {format} table",
                sides={"given": name, "table": self.path, "known": ", ".join(sorted(known))},
                next_step="Leave it out.",
            )
        return self

    def of_rows_or_changes(self) -> SourceOptions:
        """The same, once it is known that a batch is asked for rows of one version, or for a range of changes."""
        strange = _OF_ONE_VERSION if self.change_feed else _OF_CHANGES
        for name in sorted(self.given & strange):
            raise InputError(
                f"{name} says nothing about " + ("changes" if self.change_feed else "the rows of one version"),
                sides={"given": name, "readChangeFeed": str(self.change_feed).lower()},
                next_step=f"Leave {name} out, or set readChangeFeed to {str(not self.change_feed).lower()}.",
            )
        if self.starting_version == LATEST:
            raise InputError(
                f"only a stream starts at {LATEST!r}",
                sides={"given": f"startingVersion={LATEST}", "expected": "a version"},
            )
        return self

    @property
    def txn(self) -> tuple[str, int] | None:
        """The application that writes, and its own version of the write.

        Raises:
            InputError: One is given without the other.
        """
        if self.txn_app_id is not None and self.txn_version is not None:
            return self.txn_app_id, self.txn_version
        if self.txn_app_id is None and self.txn_version is None:
            return None
        raise InputError(
            "an application and its version go together",
            sides={"txnAppId": str(self.txn_app_id), "txnVersion": str(self.txn_version)},
            next_step="Give both, or neither.",
        )

    def store(self) -> Store:
        """Where the table lies."""
        return open_store(self.path, self.store_options)

    def opened(self, kind: type[_O], store: Store | None = None) -> _O:
        """The table, opened in the process in which Spark plans or commits for the source."""
        return kind(store or self.store(), settings=self.settings, zone=self.zone, short_lived=True)

    def at(self, version: int | None) -> dict[str, Any]:
        """Which version to open: the one that was fixed, or else the one that was asked for."""
        return {"version": self.version, "timestamp": self.timestamp} if version is None else {"version": version}

    def snapshot(self, operation: str, *, version: int | None = None, timestamp: str | None = None) -> Snapshot:
        """A Delta table at a version or time, the newest if neither is given, behind the gate."""
        return self.opened(Opened).snapshot(operation, version=version, timestamp=timestamp)


_DECLARED: Final = declarations.declarations(SourceOptions)


def check_replacing(asked: SourceOptions, *, overwrite: bool) -> None:
    """Makes sure that options which replace rows come with a write that does.

    Raises:
        InputError: The write only adds rows.
    """
    needs = {
        "replaceWhere": asked.replace_where is not None,
        "partitionOverwriteMode": asked.partition_overwrite is PartitionOverwrite.DYNAMIC,
        "overwriteSchema": asked.overwrite_schema,
    }
    if not overwrite and (given := [name for name, is_given in needs.items() if is_given]):
        raise InputError(
            f"{given[0]} replaces rows, and this write adds some",
            sides={"given": ", ".join(given), "mode": "append"},
            next_step=f'Use mode("overwrite"), or leave {given[0]} out.',
        )


def names_for(doors: Iterable[Door]) -> list[str]:
    """The names of the options that one of these doors knows."""
    wanted = set(doors)
    return [each.name for each, _ in _DECLARED.values() if each.doors & wanted]


def documented(*doors: Door) -> str:
    """The options of doors in a table, as `docs/spark.md` and `docs/streaming.md` show them."""
    wanted = set(doors)
    told = ((each, own.default) for each, own in _DECLARED.values() if each.doors & wanted)
    return declarations.documented(told, "option")


def _unknown(key: str) -> InputError:
    elsewhere = {name.lower(): (name, advice) for name, advice in _ELSEWHERE.items()}
    if key in elsewhere:
        name, advice = elsewhere[key]
        return InputError(
            f"{name} does nothing here", sides={"given": name, "known to": "other formats"}, next_step=advice
        )
    return unknown(key, [*(each.name for each, _ in _DECLARED.values()), *NAMES, *STORE_OPTIONS])


def _path(options: Mapping[str, str]) -> str:
    path = options.get("path")
    if not path:
        by_path = 'Give the path of one: spark.read.format("halocline").load("lake/orders").'
        if "paths" in options:
            raise InputError(
                "the data source reads one table at a time", sides={"paths": options["paths"]}, next_step=by_path
            )
        # So it is with every table of the catalog, however it came there, and with a read or write that forgot it.
        raise InputError(
            "the data source was given no path; if a table of Spark's catalog is meant, it cannot be one of ours",
            sides={"path": "none", **_OF_CATALOG_TABLES},
            next_step=f"{by_path} {_TABLE_INSTEAD}",
        )
    return path


def _check_one_of(one: object, other: object, *names: str) -> None:
    if one is not None and other is not None:
        raise InputError(f"give {names[0]} or {names[1]}, not both", sides={names[0]: str(one), names[1]: str(other)})
