"""Which version of a row wins: the rule of a table.

A table says it in one of two ways. Up to table version 6 a *payload class* decides, and how it does has two parts: how
entries of log files compare with each other, and how the winner compares with the base file. From version 8 on a
*merge mode* decides both alike. Releases from 1.0 on read older tables by the mode that the class stands for, so the
same table is read by two *dialects*:

- a delete that carries an ordering value and is older than the row in the base file deletes it in the dialect of 0.x,
  and not in that of 1.x;
- `OverwriteWithLatestAvroPayload` with an ordering field: entries of log files compare by that field in the dialect of
  0.x, and by time of writing in that of 1.x;
- a row that is written after a delete with a larger ordering value is there in the dialect of 0.x, and not in 1.x;
- `OverwriteNonDefaultsWithLatestAvroPayload` fills from earlier entries of log files only in the dialect of 1.x, where
  they also compare by time of writing;
- for classes that no mode stands for, a delete wins over a row with a larger ordering value only in the dialect of 1.x.

The dialect is that of the release that made the table, unless the caller asks for the other one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from halocline.errors import UnsupportedError
from halocline.formats.hudi.configuration import (
    FIRST_OF_LAYOUT_2,
    MERGE_PROPERTY,
    PARTIAL_UPDATE_MODE,
    HudiTableConfig,
    MergeMode,
)

STRATEGY_IDS: Final = {
    MergeMode.EVENT_TIME_ORDERING: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    MergeMode.COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
"""The ids that stand for the merge modes."""

PAYLOAD_STRATEGY: Final = "00000000-0000-0000-0000-000000000000"
"""The id that says that the payload class decides."""

OVERWRITE: Final = "OverwriteWithLatestAvroPayload"
DEFAULT: Final = "DefaultHoodieRecordPayload"
EVENT_TIME: Final = "EventTimeAvroPayload"
NON_DEFAULTS: Final = "OverwriteNonDefaultsWithLatestAvroPayload"
PARTIAL: Final = "PartialUpdateAvroPayload"
DMS: Final = "AWSDmsAvroPayload"

IS_DELETED: Final = "_hoodie_is_deleted"
OPERATION: Final = "_hoodie_operation"

_KNOWN_IDS: Final = frozenset({*STRATEGY_IDS.values(), PAYLOAD_STRATEGY})
_DELETE_FIELD: Final = "hoodie.payload.delete.field"
_DELETE_MARKER: Final = "hoodie.payload.delete.marker"
_UNAVAILABLE: Final = f"{MERGE_PROPERTY}hoodie.write.partial.update.unavailable.value"
_UNAVAILABLE_DEFAULT: Final = "__debezium_unavailable_value"


class Dialect(StrEnum):
    """Whose reading of a rule holds."""

    BEFORE_1 = "0.x"
    FROM_1 = "1.x"


class Ordering(StrEnum):
    """What decides between two versions of a row."""

    EVENT_TIME = "event time"
    COMMIT_TIME = "commit time"


class Filling(StrEnum):
    """Which values of the winner are taken from the loser instead."""

    NONE = "none"
    NULLS = "nulls"
    DEFAULTS = "defaults"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class DeleteMarker:
    """A column, and the value of it that makes a row a delete."""

    column: str
    value: str


@dataclass(frozen=True, slots=True)
class MergeRule:
    """How versions of a row are merged. Made by `merge_rule`.

    Attributes:
        dialect: Whose reading holds.
        ordering_fields: The columns that make the ordering value.
        in_logs: How entries of log files compare with each other.
        with_base: How their winner compares with the base file.
        filling_in_logs: What the winner among entries takes from the loser.
        filling_with_base: What the winner against the base file takes from the loser.
        marker: A column and value that make a row a delete, besides those that every table has.
        deletes_win: Whether a delete of a delete block wins whatever its ordering value.
        unavailable: The text that stands for a value that was not available to the writer.
    """

    dialect: Dialect
    ordering_fields: tuple[str, ...]
    in_logs: Ordering
    with_base: Ordering
    filling_in_logs: Filling = Filling.NONE
    filling_with_base: Filling = Filling.NONE
    marker: DeleteMarker | None = None
    unavailable: str = _UNAVAILABLE_DEFAULT
    deletes_win: bool = False


def merge_rule(config: HudiTableConfig, dialect: Dialect | None = None) -> MergeRule:
    """The rule of a table.

    Args:
        config: What the table is.
        dialect: Whose reading of it; that of the release that made the table if not given.

    Raises:
        UnsupportedError: The rule is in code that only the table's owner has.

    Example:
        >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": "9"}
        >>> merge_rule(HudiTableConfig.parse(pairs, "t")).in_logs
        <Ordering.COMMIT_TIME: 'commit time'>
    """
    if config.merge_strategy is not None and config.merge_strategy not in _KNOWN_IDS:
        raise _custom(config, f"merge strategy {config.merge_strategy}")
    chosen = dialect or (Dialect.FROM_1 if config.created_by_1x else Dialect.BEFORE_1)
    mode = config.merge_mode or (None if chosen is Dialect.BEFORE_1 else _inferred_mode(config))
    if mode in (None, MergeMode.CUSTOM):
        return _by_payload(config) if chosen is Dialect.BEFORE_1 else _by_payload_from_1(config)
    return _by_mode(config, MergeMode(str(mode)))


def _by_mode(config: HudiTableConfig, mode: MergeMode) -> MergeRule:
    ordered = mode is MergeMode.EVENT_TIME_ORDERING and config.ordering_fields
    ordering = Ordering.EVENT_TIME if ordered else Ordering.COMMIT_TIME
    text = config.pairs.get(PARTIAL_UPDATE_MODE, "").upper()
    filling = {"": Filling.NONE, "NONE": Filling.NONE, "IGNORE_DEFAULTS": Filling.DEFAULTS}.get(text)
    if text == "FILL_UNAVAILABLE":
        filling = Filling.UNAVAILABLE
    if filling is None:
        raise _custom(config, f"{PARTIAL_UPDATE_MODE}={text}")
    return MergeRule(
        Dialect.FROM_1,
        config.ordering_fields,
        ordering,
        ordering,
        filling,
        filling,
        _marker(config),
        config.pairs.get(_UNAVAILABLE) or _UNAVAILABLE_DEFAULT,
    )


def _by_payload(config: HudiTableConfig) -> MergeRule:
    """Payload classes, whose log entries compare by ordering value where there is one, whatever else they do."""
    dialect, fields, marker = Dialect.BEFORE_1, config.ordering_fields, _marker(config)
    in_logs = Ordering.EVENT_TIME if fields else Ordering.COMMIT_TIME
    match config.payload_class or OVERWRITE:
        case "OverwriteWithLatestAvroPayload":
            return MergeRule(dialect, fields, in_logs, Ordering.COMMIT_TIME, marker=marker)
        case "DefaultHoodieRecordPayload" | "EventTimeAvroPayload":
            return MergeRule(dialect, fields, in_logs, in_logs, marker=marker)
        case "OverwriteNonDefaultsWithLatestAvroPayload":
            filling = Filling.DEFAULTS
            return MergeRule(dialect, fields, in_logs, Ordering.COMMIT_TIME, Filling.NONE, filling, marker)
        case "PartialUpdateAvroPayload":
            return MergeRule(dialect, fields, in_logs, in_logs, Filling.NULLS, Filling.NULLS, marker)
        case "AWSDmsAvroPayload":
            marker = DeleteMarker("Op", "D")
            return MergeRule(dialect, fields, in_logs, Ordering.COMMIT_TIME, marker=marker)
    raise _custom(config, f"payload class {config.payload_class}")


def _by_payload_from_1(config: HudiTableConfig) -> MergeRule:
    """Payload classes as releases from 1.0 on read them, where no mode stands for the class."""
    if config.payload_class == NON_DEFAULTS:
        commit, filling = Ordering.COMMIT_TIME, Filling.DEFAULTS
        return MergeRule(Dialect.FROM_1, config.ordering_fields, commit, commit, filling, filling, _marker(config))
    return replace(_by_payload(config), deletes_win=True)


def _inferred_mode(config: HudiTableConfig) -> MergeMode | None:
    """The mode that a payload class stands for from 1.0 on; None for a class that decides by itself."""
    match config.payload_class:
        case None:
            return MergeMode.EVENT_TIME_ORDERING if config.ordering_fields else MergeMode.COMMIT_TIME_ORDERING
        case "DefaultHoodieRecordPayload" | "EventTimeAvroPayload":
            return MergeMode.EVENT_TIME_ORDERING
        case "OverwriteWithLatestAvroPayload":
            return MergeMode.COMMIT_TIME_ORDERING
    return None


def _marker(config: HudiTableConfig) -> DeleteMarker | None:
    column = config.pairs.get(MERGE_PROPERTY + _DELETE_FIELD) or config.pairs.get(_DELETE_FIELD)
    value = config.pairs.get(MERGE_PROPERTY + _DELETE_MARKER) or config.pairs.get(_DELETE_MARKER)
    return DeleteMarker(column, value) if column and value else None


def _custom(config: HudiTableConfig, found: str) -> UnsupportedError:
    built_in = ", ".join((OVERWRITE, DEFAULT, EVENT_TIME, NON_DEFAULTS, PARTIAL, DMS))
    known = f"{built_in}, and the modes of version {FIRST_OF_LAYOUT_2}"
    return UnsupportedError(
        f"rows of {config.name or 'the table'} are merged by {found}, which this release cannot do",
        sides={"table": found, "halocline merges by": known},
        next_step='Read without log files: query="read_optimized"; or compact the table with its own writer first.',
    )
