"""Time zones by the names that a session of Spark has for them: regions, short names, and distances from UTC."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from halocline.errors import InputError

_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>0?\d|1[0-8])(?::?(?P<minutes>[0-5]\d))?|Z", re.ASCII
)
_SHORT: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""What Java, and with it a session of Spark, means by short names of zones."""


def zone_named(name: str | None) -> tzinfo | None:
    """The zone that a session calls so: a region, or how far it is from UTC; None for none.

    Example:
        >>> print(zone_named("Europe/Vienna"), zone_named("+01:00"), zone_named("GMT-8"))
        Europe/Vienna UTC+01:00 UTC-08:00
    """
    if name is None:
        return None
    name = _SHORT.get(name, name)
    if offset := _OFFSET.fullmatch(name):
        away = timedelta(hours=int(offset["hours"] or 0), minutes=int(offset["minutes"] or 0))
        return timezone(-away if offset["sign"] == "-" else away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(
            f"there is no time zone {name!r}",
            sides={"given": name, "expected": "a name such as Europe/Berlin or UTC, or a distance such as +01:00"},
        ) from error
