"""Partition paths that are made of times, as the timestamp key generator makes them.

The generator reads a column as a time, by a *type* and a format for texts, and writes it in another format. Formats are
Java's: letters stand for parts of a time, text between single quotes for itself. Those that differ from locale to
locale, or that this release does not know, are refused rather than guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from halocline.errors import ConstraintError, UnsupportedError

_PREFIXES: Final = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
_SAID: Final = (
    "timestamp.type",
    "output.dateformat",
    "output.timezone",
    "input.dateformat",
    "input.timezone",
    "timezone",
)
SETTINGS: Final = tuple(_PREFIXES[0] + each for each in _SAID)
"""The properties that say how paths are made of times."""

_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_LETTERS: Final[Mapping[str, str]] = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "DDD": "%j",
    "SSS": "%f",
}
_PER_SECOND: Final = {"UNIX_TIMESTAMP": 1, "EPOCHMILLISECONDS": 1_000, "EPOCHMICROSECONDS": 1_000_000}


def path_of_time(pairs: Mapping[str, str], table: str) -> Callable[[Any], str]:
    """What turns a value of the column into its part of the path; null becomes the first moment of 1970.

    Raises:
        UnsupportedError: The table does not say how, or in a way that this release does not know.

    Example:
        >>> pairs = {"hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS"}
        >>> pairs |= {"hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd"}
        >>> path_of_time(pairs, "t")(1700000000000)
        '2023/11/14'
    """
    kind = _told(pairs, "timestamp.type").upper()
    output = _pattern(_told(pairs, "output.dateformat"), table)
    common = _told(pairs, "timezone")
    zones = [_zone(_told(pairs, f"{each}.timezone") or common or "UTC", table) for each in ("input", "output")]
    formats = [_pattern(each, table) for each in _told(pairs, "input.dateformat").split(",") if each]
    known = kind in _PER_SECOND or (kind in ("DATE_STRING", "MIXED") and formats)
    if not known or not output:
        raise _unknown(table, f"timestamp.type={kind or 'none'}, output.dateformat={output or 'none'}")

    def path(value: Any) -> str:
        moment = _moment(value, kind, formats, zones[0], table)
        return _written(moment.astimezone(zones[1]), output)

    return path


def _moment(value: Any, kind: str, formats: list[str], zone: ZoneInfo, table: str) -> datetime:
    if value is None:
        return datetime.fromtimestamp(0, UTC)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, int | float):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value / _PER_SECOND.get(kind, 1_000))
    for each in formats:
        try:
            found = datetime.strptime(str(value), each)
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=zone)
    raise ConstraintError(
        f"{value!r} is no time by the formats of {table}",
        sides={"row": repr(value), "table": ", ".join(formats) or kind},
        next_step="Correct the row.",
    )


def _written(moment: datetime, pattern: str) -> str:
    return moment.strftime(pattern.replace("%f", f"{moment.microsecond // 1000:03}"))


def _pattern(java: str, table: str) -> str:
    """A format of Java's as one of Python's."""
    found = []
    for piece in _PIECE.finditer(java.strip()):
        text = piece[0]
        if piece[1] is not None:
            found.append((piece[1] or "'").replace("''", "'").replace("%", "%%"))
        elif piece[2] is None:
            found.append(text.replace("%", "%%"))
        elif text in _LETTERS:
            found.append(_LETTERS[text])
        else:
            raise _unknown(table, f"{text} in {java}")
    return "".join(found)


def _zone(name: str, table: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise _unknown(table, f"timezone={name}") from None


def _told(pairs: Mapping[str, str], key: str) -> str:
    return next((pairs[prefix + key] for prefix in _PREFIXES if pairs.get(prefix + key)), "")


def _unknown(table: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        f"partition paths of {table} are made of times in a way that this release does not know",
        sides={
            "table": found,
            "halocline writes": f"{', '.join(_LETTERS)}; types {', '.join(_PER_SECOND)}, DATE_STRING",
        },
        next_step="Write with the writer that made the table.",
    )
