"""Instants, and the names of their files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from halocline.errors import InputError
from halocline.formats.hudi.configuration import TIMEZONE, HudiTableConfig

COMMIT: Final = "commit"
DELTA_COMMIT: Final = "deltacommit"
REPLACE_COMMIT: Final = "replacecommit"
COMPACTION: Final = "compaction"
LOG_COMPACTION: Final = "logcompaction"
CLUSTERING: Final = "clustering"
CLEAN: Final = "clean"
ROLLBACK: Final = "rollback"
RESTORE: Final = "restore"
SAVEPOINT: Final = "savepoint"
INDEXING: Final = "indexing"

WRITES: Final = frozenset({COMMIT, DELTA_COMMIT, REPLACE_COMMIT})
"""The actions that bring rows in or take them out."""

ENDS_AS: Final = {COMPACTION: COMMIT, LOG_COMPACTION: DELTA_COMMIT, CLUSTERING: REPLACE_COMMIT}
"""Actions that are completed under another name."""

_NAME: Final = re.compile(r"(?P<time>\d+)(?:_(?P<end>\d+))?\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?")
_SECONDS: Final = 14


class InstantState(StrEnum):
    """How far an instant has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class HudiInstant:
    """One state of an action on a table.

    Attributes:
        time: When it began, as the table spells it: in the zone of whoever wrote it. It names the instant.
        action: What it is, e.g. `commit`; what it ends as, once it is completed.
        state: How far it has come.
        completion: When it was completed, spelt likewise; None while it is not, and in layout 1.
        path: The file that says so; empty for one from the history.
        written_ms: When that file was written, in milliseconds since 1970.
    """

    time: str
    action: str
    state: InstantState
    completion: str | None = None
    path: str = ""
    written_ms: int = 0

    @property
    def is_completed(self) -> bool:
        """Whether it has taken effect."""
        return self.state is InstantState.COMPLETED

    @property
    def is_write(self) -> bool:
        """Whether it has changed rows, or will."""
        return ENDS_AS.get(self.action, self.action) in WRITES

    def __str__(self) -> str:
        return f"{self.time}.{self.action}" + ("" if self.is_completed else f".{self.state}")


def parse_name(name: str, path: str = "", written_ms: int = 0) -> HudiInstant | None:
    """The instant that a file of the timeline stands for; None if its name is not that of an instant.

    Example:
        >>> print(parse_name("20250101000000000.inflight"), parse_name("20250101000000000_20250101000000900.commit"))
        20250101000000000.commit.inflight 20250101000000000.commit
    """
    found = _NAME.fullmatch(name)
    if found is None or (found["end"] and found["state"]):
        return None
    action, state = found["action"], InstantState(found["state"] or InstantState.COMPLETED)
    if action == InstantState.INFLIGHT and not found["state"]:  # a commit's name is not in its inflight file
        action, state = COMMIT, InstantState.INFLIGHT
    return HudiInstant(found["time"], action, state, found["end"], path, written_ms)


def file_name(instant: HudiInstant) -> str:
    """The name of the file that says so.

    Example:
        >>> file_name(HudiInstant("20250101000000000", "commit", InstantState.INFLIGHT))
        '20250101000000000.inflight'
    """
    if instant.is_completed:
        end = f"_{instant.completion}" if instant.completion else ""
        return f"{instant.time}{end}.{instant.action}"
    if instant.action == COMMIT and instant.state is InstantState.INFLIGHT:
        return f"{instant.time}.{instant.state}"
    return f"{instant.time}.{instant.action}.{instant.state}"


def order(time: str) -> str:
    """What times compare by: those without milliseconds stand at the end of their second.

    Example:
        >>> sorted(["20250101000000500", "20250101000000"], key=order)
        ['20250101000000500', '20250101000000']
    """
    return f"{time}999" if len(time) == _SECONDS else time


_TIME: Final = re.compile(r"0[0-9]*|[1-9](?:[0-9]{7}|[0-9]{9}|[0-9]{11}|[0-9]{13}|[0-9]{16,})")


def checked_time(text: str) -> str:
    """The text, if it can be the time of an instant, or its beginning: a day, an hour, a minute or a second.

    Times are compared as texts, by which the version 99 of a table in another format would lie in the far future.

    Raises:
        InputError: It is no number, or has more or fewer digits.

    Example:
        >>> checked_time("20250101000000000")
        '20250101000000000'
    """
    if not _TIME.fullmatch(text):
        raise InputError(
            f"{text!r} is no instant",
            sides={"given": text, "expected": "yyyyMMddHHmmssSSS, for instance 20250131235959000"},
            next_step="Take one from the table's history.",
        )
    return text


def instant_text(moment: datetime, config: HudiTableConfig) -> str:
    """A time as the table spells it: in UTC if it says so, in the local zone otherwise.

    Example:
        >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
        >>> config = HudiTableConfig.parse(pairs | {"hoodie.table.timeline.timezone": "UTC"}, "t")
        >>> instant_text(datetime(2025, 1, 2, 3, 4, 5, 678000, tzinfo=UTC), config)
        '20250102030405678'
    """
    zoned = moment.astimezone(UTC if config.pairs.get(TIMEZONE, "").upper() == "UTC" else None)
    return f"{zoned:%Y%m%d%H%M%S}{zoned.microsecond // 1000:03}"


def moment_of(time: str, config: HudiTableConfig) -> datetime | None:
    """When an instant was, from its text; None if the text is no time of a calendar.

    Example:
        >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
        >>> config = HudiTableConfig.parse(pairs | {"hoodie.table.timeline.timezone": "UTC"}, "t")
        >>> moment_of("20250102030405678", config).isoformat()
        '2025-01-02T03:04:05.678000+00:00'
    """
    try:
        found = datetime.strptime(time[:_SECONDS], "%Y%m%d%H%M%S")
    except ValueError:
        return None
    found = found.replace(microsecond=int(time[_SECONDS : _SECONDS + 3] or 0) * 1000)
    return found.replace(tzinfo=UTC) if config.pairs.get(TIMEZONE, "").upper() == "UTC" else found.astimezone()
