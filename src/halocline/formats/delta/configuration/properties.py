"""The properties of a Delta table: what each key means, what it may hold, and what holds when it is absent.

A *property* is a pair of texts in the table's metadata. `KNOWN` has one record per key that Delta defines, so that a
value is checked when it is set and understood when it is read. Requests about the protocol look like properties but
are never stored; `halocline.compat.agreement` knows them.

Durations are written as Spark writes intervals, for example `interval 30 days`. Months and years have no fixed
length and are refused.

A stored value that cannot be read is an error, never the default: half of these keys decide how long data is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from halocline.errors import InputError, MalformedError

_T = TypeVar("_T")

CONSTRAINT_PREFIX: Final = "delta.constraints."
OPEN_PREFIXES: Final = (
    CONSTRAINT_PREFIX,
    "delta.coordinatedCommits.",
    "delta.redirect",
    "delta.rowTracking.",
    "delta.universalFormat.",
)
"""Beginnings of keys that Delta defines without listing them all."""


class PropertyKind(StrEnum):
    """What the text of a property stands for."""

    FLAG = "true or false"
    COUNT = "a whole number"
    DURATION = "a duration such as 'interval 30 days', without months and years"
    CHOICE = "one of its words"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Property:
    """What Delta says of one key.

    Attributes:
        key: The key, `delta.` included.
        kind: What the text stands for.
        default: The text that counts when the key is absent; None if absence has a meaning of its own.
        least: The smallest number allowed.
        words: The words a choice may hold, compared without regard to case.
        internal: Set by writers only, never by a user.
    """

    key: str
    kind: PropertyKind
    default: str | None = None
    least: int | None = None
    words: tuple[str, ...] = ()
    internal: bool = False


def _flags(default: str | None, *names: str) -> list[Property]:
    return [Property(f"delta.{name}", PropertyKind.FLAG, default) for name in names]


def _durations(**defaults: str | None) -> list[Property]:
    return [Property(f"delta.{name}", PropertyKind.DURATION, default) for name, default in defaults.items()]


_RECORDS: Final = (
    *_flags(
        "false",
        "appendOnly",
        "castIcebergTimeType",
        "compatibility.symlinkFormatManifest.enabled",
        "enableChangeDataCapture",
        "enableChangeDataFeed",
        "enableDeletionVectors",
        "enableInCommitTimestamps",
        "enableRowTracking",
        "enableTypeWidening",
        "enableVariantShredding",
        "ignoreIcebergBucketPartition",
        "randomizeFilePrefixes",
        "rowTrackingSuspended",
    ),
    *_flags(
        "true",
        "checkpoint.writeStatsAsJson",
        "checkpoint.writeStatsAsStruct",
        "enableExpiredLogCleanup",
        "enableFullRetentionRollback",
    ),
    *_flags(
        None,
        "autoOptimize",
        "autoOptimize.optimizeWrite",
        "enableIcebergCompatV1",
        "enableIcebergCompatV2",
        "enableIcebergCompatV3",
        "enableMaterializePartitionColumnsFeature",
        "writePartitionColumnsToParquet",
    ),
    *_durations(
        checkpointRetentionDuration="interval 2 days",
        deletedFileRetentionDuration="interval 1 week",
        logRetentionDuration="interval 30 days",
        sampleRetentionDuration="interval 7 days",
        setTransactionRetentionDuration=None,
    ),
    Property("delta.dropFeatureTruncateHistory.retentionDuration", PropertyKind.DURATION, "interval 24 hours"),
    Property("delta.checkpointInterval", PropertyKind.COUNT, "10", least=1),
    Property("delta.columnMapping.maxColumnId", PropertyKind.COUNT, "0", least=0, internal=True),
    Property("delta.dataSkippingNumIndexedCols", PropertyKind.COUNT, "32", least=-1),
    Property("delta.dataSkippingStringPrefixLength", PropertyKind.COUNT, "32", least=0),
    Property("delta.inCommitTimestampEnablementTimestamp", PropertyKind.COUNT, internal=True),
    Property("delta.inCommitTimestampEnablementVersion", PropertyKind.COUNT, internal=True),
    Property("delta.randomPrefixLength", PropertyKind.COUNT, "2", least=1),
    Property("delta.requireCheckpointProtectionBeforeVersion", PropertyKind.COUNT, "0", least=0, internal=True),
    Property("delta.autoOptimize.autoCompact", PropertyKind.CHOICE, words=("true", "false", "auto", "legacy")),
    Property("delta.checkpointPolicy", PropertyKind.CHOICE, "classic", words=("classic", "v2")),
    Property("delta.columnMapping.mode", PropertyKind.CHOICE, "none", words=("none", "name", "id")),
    Property("delta.isolationLevel", PropertyKind.CHOICE, "Serializable", words=("Serializable", "WriteSerializable")),
    Property("delta.dataSkippingStatsColumns", PropertyKind.TEXT),
    Property("delta.parquet.compression.codec", PropertyKind.TEXT),
    Property("delta.parquet.format.version", PropertyKind.TEXT),
    Property("delta.targetFileSize", PropertyKind.TEXT),
    Property("delta.tuneFileSizesForRewrites", PropertyKind.TEXT),
)

KNOWN: Final[Mapping[str, Property]] = MappingProxyType({record.key: record for record in _RECORDS})
"""One record per key that Delta defines."""

_UNIT_MS: Final[Mapping[str, Decimal]] = {
    "week": Decimal(604_800_000),
    "day": Decimal(86_400_000),
    "hour": Decimal(3_600_000),
    "minute": Decimal(60_000),
    "second": Decimal(1000),
    "millisecond": Decimal(1),
    "microsecond": Decimal("0.001"),
    "nanosecond": Decimal("0.000001"),
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def parse_duration_ms(text: str) -> int:
    """The milliseconds in a duration as Spark writes it."""
    rest = text.strip().lower().removeprefix("interval").strip()
    total, position = Decimal(0), 0
    while position < len(rest):
        part = _PART.match(rest, position)
        unit = part and _UNIT_MS.get(part[2].removesuffix("s"))
        if part is None or unit is None:
            raise ValueError(f"{text!r} is not a duration")
        total += Decimal(part[1]) * unit
        position = part.end()
    if not rest or total < 0:
        raise ValueError(f"{text!r} is not a duration")
    return int(total)


def flag(configuration: Mapping[str, str], key: str) -> bool:
    """Whether a property of kind `FLAG` is on."""
    return _stored(configuration, key) == "true"


def count(configuration: Mapping[str, str], key: str) -> int | None:
    """The number of a property of kind `COUNT`."""
    text = _stored(configuration, key)
    return None if text is None else int(text)


def duration_ms(configuration: Mapping[str, str], key: str) -> int | None:
    """The milliseconds of a property of kind `DURATION`."""
    text = _stored(configuration, key)
    return None if text is None else parse_duration_ms(text)


def choice(configuration: Mapping[str, str], key: str) -> str:
    """The word of a property of kind `CHOICE`, in the spelling of its record; empty if there is none."""
    text = _stored(configuration, key) or ""
    return next((word for word in KNOWN[key].words if word.lower() == text), "")


def _number(configuration: Mapping[str, str], key: str) -> int:
    """The number of a property that has a default."""
    return count(configuration, key) or 0


def _milliseconds(configuration: Mapping[str, str], key: str) -> int:
    """The duration of a property that has a default."""
    return duration_ms(configuration, key) or 0


class _Typed(Generic[_T]):
    """An attribute that reads one property."""

    def __init__(self, read: Callable[[Mapping[str, str], str], _T], name: str) -> None:
        self._read, self._key = read, f"delta.{name}"

    def __get__(self, instance: TableProperties, owner: type[TableProperties]) -> _T:
        return self._read(instance, self._key)


class TableProperties(Mapping[str, str]):
    """The stored properties of a table: a mapping of texts, and what the texts mean.

    A stored value that cannot be read is a `MalformedError` when it is asked for.
    """

    append_only = _Typed(flag, "appendOnly")
    cleans_log = _Typed(flag, "enableExpiredLogCleanup")
    deletion_vectors = _Typed(flag, "enableDeletionVectors")
    in_commit_timestamps = _Typed(flag, "enableInCommitTimestamps")
    row_tracking = _Typed(flag, "enableRowTracking")
    row_tracking_suspended = _Typed(flag, "rowTrackingSuspended")
    stats_as_json = _Typed(flag, "checkpoint.writeStatsAsJson")
    stats_as_struct = _Typed(flag, "checkpoint.writeStatsAsStruct")

    checkpoint_interval = _Typed(_number, "checkpointInterval")
    indexed_columns = _Typed(_number, "dataSkippingNumIndexedCols")
    protected_before = _Typed(_number, "requireCheckpointProtectionBeforeVersion")
    string_prefix_length = _Typed(_number, "dataSkippingStringPrefixLength")

    deleted_file_retention_ms = _Typed(_milliseconds, "deletedFileRetentionDuration")
    log_retention_ms = _Typed(_milliseconds, "logRetentionDuration")
    transaction_retention_ms = _Typed(duration_ms, "setTransactionRetentionDuration")
    truncation_retention_ms = _Typed(_milliseconds, "dropFeatureTruncateHistory.retentionDuration")

    checkpoint_policy = _Typed(choice, "checkpointPolicy")
    isolation_level = _Typed(choice, "isolationLevel")

    def __init__(self, stored: Mapping[str, str]) -> None:
        self._stored = dict(stored)

    def __getitem__(self, key: str) -> str:
        return self._stored[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def change_data_feed(self) -> bool:
        """Whether changes of rows are recorded, under either name that Delta has for it."""
        return flag(self, "delta.enableChangeDataFeed") or flag(self, "delta.enableChangeDataCapture")


def check(key: str, value: str) -> None:
    """Makes sure that the property may be set to this value."""
    record = KNOWN.get(key)
    if record is not None and not _fits(record, value):
        raise InputError(
            f"property {key} cannot be {value!r}",
            condition="PROPERTY_INVALID",
            sides={"given": repr(value), "expected": _expected(record)},
            next_step=f"Set {key} to {_expected(record)}.",
        )


def _stored(configuration: Mapping[str, str], key: str) -> str | None:
    record = KNOWN[key]
    text = configuration.get(key)
    if text is None:
        return None if record.default is None else record.default.lower()
    if not _fits(record, text):
        raise MalformedError(
            f"the table's property {key} is {text!r}, which cannot be read",
            condition="MALFORMED_METADATA",
            sides={"found": repr(text), "expected": _expected(record)},
            next_step=f"Set {key} to {_expected(record)}.",
        )
    return text.strip().lower()


def _fits(record: Property, text: str) -> bool:
    word = text.strip().lower()
    if record.kind is PropertyKind.FLAG:
        return word in ("true", "false")
    if record.kind is PropertyKind.CHOICE:
        return word in (each.lower() for each in record.words)
    if record.kind is PropertyKind.TEXT:
        return True
    try:
        number = int(word) if record.kind is PropertyKind.COUNT else parse_duration_ms(word)
    except ValueError:
        return False
    return record.least is None or number >= record.least


def _expected(record: Property) -> str:
    if record.words:
        return " or ".join(record.words)
    return str(record.kind) + (f", at least {record.least}" if record.least is not None else "")
