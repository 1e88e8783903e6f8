"""Windows: when nothing moves.

A *quiet window* is a stretch of time. A *weekly* one comes back, as a team would say it:

    Fri 16:00 - Mon 08:00 Europe/Berlin       from one day of the week to another
    Mon-Fri 08:00 - 18:00 Europe/Berlin       on each of these days; Sat, Sun works as well
    22:00 - 06:00 Europe/Berlin               every day; an end before its beginning is on the next day

Times are those of a clock on the wall in the zone, whatever the season; without a zone, UTC. Where the clock is put
back or forward, so that a time comes twice or not at all, a window is the longer one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from halocline.errors import InputError, nearest
from halocline.plan.toml_file import unusable

KEYS: Final = ("reason", "from", "until", "weekly")
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEK: Final = 7
_EXPECTED: Final = "such as 'Fri 16:00 - Mon 08:00 Europe/Berlin' or 'Mon-Fri 08:00 - 18:00 Europe/Berlin'"
_WEEKLY: Final = re.compile(
    r"(?:(?P<days>[A-Za-z]+(?:\s*[-,]\s*[A-Za-z]+)*)\s+)?(?P<start>\d{1,2}:\d{2})\s*[-–]\s*"
    r"(?:(?P<day>[A-Za-z]+)\s+)?(?P<end>\d{1,2}:\d{2})(?:\s+(?P<zone>\S+))?"
)


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """A time in which nothing moves; times without a zone are in UTC."""

    reason: str
    since: datetime
    until: datetime

    def at(self, moment: datetime) -> QuietWindow | None:
        """The window, if a moment lies in it."""
        return self if self.since <= moment < self.until else None


@dataclass(frozen=True, slots=True)
class WeeklyWindow:
    """A window that comes back every week.

    Attributes:
        reason: Why nothing moves.
        days: The days of the week on which it begins, Monday being 0.
        start: When it begins, by the clock of its zone.
        end: When it ends.
        lasts: How many days after it began it ends.
        zone: Where the clock hangs.
    """

    reason: str
    days: frozenset[int]
    start: time
    end: time
    lasts: int
    zone: tzinfo

    @staticmethod
    def parse(text: str, reason: str = "nothing moves", where: str = "the window") -> WeeklyWindow:
        """Reads a window as a team writes it.

        Raises:
            InputError: It cannot be understood, or would never end.

        Example:
            >>> friday = WeeklyWindow.parse("Fri 16:00 - Mon 08:00 Europe/Berlin")
            >>> print(friday.at(datetime(2026, 11, 14, 12, tzinfo=UTC)).until)
            2026-11-16 07:00:00+00:00
        """
        found = _WEEKLY.fullmatch(text.strip())
        if found is None:
            raise unusable(f"weekly in {where}", text, _EXPECTED)
        start, end = (_time(found[each], where) for each in ("start", "end"))
        zone = _zone(found["zone"] or "UTC", where)
        if found["day"] is None:
            days = _days(found["days"], where) if found["days"] else frozenset(range(_WEEK))
            return WeeklyWindow(reason, days, start, end, int(end <= start), zone)
        days = _days(found["days"] or "", where)
        if len(days) != 1:
            raise unusable(f"weekly in {where}", text, f"one day to begin on, {_EXPECTED}")
        lasts = (_day(found["day"], where) - min(days)) % _WEEK
        if lasts == 0 and end <= start:
            raise InputError(f"{where} lasts all week, so nothing would ever move", sides={"given": text})
        return WeeklyWindow(reason, days, start, end, lasts, zone)

    def at(self, moment: datetime) -> QuietWindow | None:
        """The window as it falls this time, if a moment lies in it."""
        today = moment.astimezone(self.zone).date()
        for back in range(self.lasts + 1):
            day = today - timedelta(days=back)
            since = min(self._moments(day, self.start))
            until = max(self._moments(day + timedelta(days=self.lasts), self.end))
            if day.weekday() in self.days and since <= moment < until:
                return QuietWindow(self.reason, since, until)
        return None

    def _moments(self, day: date, clock: time) -> tuple[datetime, datetime]:
        """What a clock shows twice when it is put back, or not at all when it is put forward, is two moments."""
        # In UTC: Python compares times of the same zone by what the clock shows.
        first, second = (datetime.combine(day, clock.replace(fold=each), self.zone).astimezone(UTC) for each in (0, 1))
        return first, second


def read_window(raw: Mapping[str, Any], where: str) -> QuietWindow | WeeklyWindow:
    """A window as a policy file says it: `from` and `until`, or `weekly`."""
    reason = str(raw.get("reason", "nothing moves"))
    if "weekly" not in raw:
        since, until = (_point(key, raw.get(key), where) for key in ("from", "until"))
        if since >= until:
            raise InputError(f"{where} ends before it begins", sides={"from": str(since), "until": str(until)})
        return QuietWindow(reason, since, until)
    if "from" in raw or "until" in raw:
        raise InputError(f"{where} has weekly and from or until", next_step="Make two windows of it.")
    if not isinstance(raw["weekly"], str):
        raise unusable(f"weekly in {where}", raw["weekly"], _EXPECTED)
    return WeeklyWindow.parse(raw["weekly"], reason, where)


def _point(key: str, value: Any, where: str) -> datetime:
    if not isinstance(value, datetime):
        raise unusable(f"{key} in {where}", value, "a time, such as 2026-12-20T00:00:00Z")
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _days(text: str, where: str) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, re.split(r"\s*,\s*", text)):
        first, *last = (_day(each, where) for each in re.split(r"\s*-\s*", part))
        found |= {(first + each) % _WEEK for each in range((last[-1] - first) % _WEEK + 1)} if last else {first}
    return frozenset(found)


def _day(text: str, where: str) -> int:
    short = text[:3].title()
    if short not in _DAYS:
        raise InputError.unknown(f"{text} in {where} is no day of the week", short, _DAYS)
    return _DAYS.index(short)


def _time(text: str, where: str) -> time:
    hour, minute = map(int, text.split(":"))
    if hour > 23 or minute > 59:
        raise unusable(f"{text} in {where}", text, "a time of day, 00:00 to 23:59")
    return time(hour, minute)


def _zone(name: str, where: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        raise InputError(
            f"{name} in {where} is no time zone",
            sides={"nearest": nearest(name, sorted(known)) or "none", "known": f"{len(known)}, such as Europe/Berlin"},
            next_step="Name one of the tz database." if known else "pip install tzdata",
        ) from None
