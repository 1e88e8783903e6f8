"""Times of instants: milliseconds, in the zone of the table's timeline, and never one that was used before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from halocline.formats.hudi.timeline.instant import instant_text, order
from halocline.formats.hudi.timeline.timeline import HudiTimeline

_SECOND: Final = "%Y%m%d%H%M%S"


def next_time(timeline: HudiTimeline, now: datetime | None = None) -> str:
    """A time for a new instant, or for the completion of one: now, but after everything in the timeline.

    Args:
        timeline: The table's timeline.
        now: The time; that of the clock if not given.
    """
    used = [time for each in timeline.instants for time in (each.time, each.completion) if time]
    text = instant_text(now or datetime.now(UTC), timeline.config)
    last = max(used, key=order, default="")
    return text if order(text) > order(last) else _after(last)


def _after(time: str) -> str:
    """The millisecond after a time."""
    whole = order(time)
    try:
        moment = datetime.strptime(whole[:14], _SECOND) + timedelta(milliseconds=int(whole[14:17] or 0) + 1)
    except ValueError:  # a made-up time, such as those of tests
        return str(int(whole) + 1).zfill(len(whole))
    return f"{moment:{_SECOND}}{moment.microsecond // 1000:03}"
