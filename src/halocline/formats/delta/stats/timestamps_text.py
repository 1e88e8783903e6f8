"""Dates and timestamps as text, turned into numbers.

A date is a number of days and a timestamp a number of microseconds since the epoch. Text without a zone names a
timestamp only together with one. Where the zone is not known, the *range* of what can be meant is given: zones differ
from UTC by at most 18 hours.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

_DATE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[ T](?P<hour>\d{2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_EPOCH: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH_TIME: Final = datetime(1970, 1, 1)
FARTHEST_ZONE_US: Final = 18 * 3600 * 1_000_000
"""The greatest distance of any zone from UTC, in microseconds."""


@lru_cache(maxsize=65536)
def days_of(text: str) -> int | None:
    """The day that a text names, `yyyy-MM-dd` and nothing more.

    Example:
        >>> days_of("1970-01-02"), days_of("1970-1-2")
        (1, None)
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return (date(int(found[1]), int(found[2]), int(found[3])) - _EPOCH).days
    except ValueError:
        return None


@lru_cache(maxsize=65536)
def microseconds_of(text: str) -> tuple[int, bool] | None:
    """The timestamp that a text names, and whether it has a zone; without one, as if it were UTC.

    Digits beyond microseconds are cut off.

    Example:
        >>> microseconds_of("1970-01-01T01:00:00.5+01:00"), microseconds_of("1970-01-01 00:00:01")
        ((500000, True), (1000000, False))
    """
    found = _TIMESTAMP.fullmatch(text)
    days = days_of(found["date"]) if found else None
    if found is None or days is None:
        return None
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    micros = int((found["fraction"] or "").ljust(6, "0")[:6] or 0)
    total = ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + micros
    zone = found["zone"]
    if zone is None:
        return total, False
    if zone == "Z":
        return total, True
    offset = int(zone[1:3]) * 60 + int(zone[-2:])
    return total - (offset if zone[0] == "+" else -offset) * 60_000_000, True


def range_of(text: str, zone: tzinfo | None = None) -> tuple[int, int] | None:
    """The first and the last moment that a text can mean; both the same where the zone is known.

    Example:
        >>> range_of("1970-01-01 00:00:00Z"), range_of("1970-01-01 00:00:00") == (-64_800_000_000, 64_800_000_000)
        ((0, 0), True)
    """
    found = microseconds_of(text)
    if found is None:
        return None
    moment, has_zone = found
    if has_zone:
        return moment, moment
    if zone is None:
        return moment - FARTHEST_ZONE_US, moment + FARTHEST_ZONE_US
    offsets = []
    for fold in (0, 1):
        try:
            offset = (_EPOCH_TIME + moment * _MICROSECOND).replace(fold=fold).replace(tzinfo=zone).utcoffset()
        except OverflowError:
            offset = None
        if offset is None:
            return moment - FARTHEST_ZONE_US, moment + FARTHEST_ZONE_US
        offsets.append(offset // _MICROSECOND)
    return moment - max(offsets), moment - min(offsets)
