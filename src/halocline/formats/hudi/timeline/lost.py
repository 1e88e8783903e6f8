"""Instants that have left no trace: rows are there, and nothing says whether they count.

A write is requested before it writes, and stays on the timeline until it is archived, or taken back by a rollback that
names it. So rows of an instant that is younger than the archived ones, and that nobody speaks of, belong to a write
whose instant was lost. Without it the table would be smaller and nobody would know.
"""

from __future__ import annotations

from halocline.errors import MalformedError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.properties import read_properties
from halocline.formats.hudi.timeline.instant import RESTORE, ROLLBACK
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.storage.base import Store


def check_has_trace(store: Store, time: str, place: str) -> None:
    """Refuses rows of an instant that nothing speaks of. This is rare, so the timeline is read again for it.

    Args:
        store: Where the table lies.
        time: An instant that the timeline did not have when it was listed; it may have begun since.
        place: Where its rows lie.

    Raises:
        MalformedError: Neither the timeline nor a rollback knows it.
    """
    timeline = HudiTimeline.load(store, HudiTableConfig.parse(read_properties(store).pairs, store.root))
    if timeline.committed.knows(time) or any(each.time == time for each in timeline.instants):
        return
    active = (timeline.body(each).record for each in timeline.instants if each.action in (ROLLBACK, RESTORE))
    if any(time in str(each) for each in active):
        return
    if any(time in str(each.body) for each in timeline.history() if each.action in (ROLLBACK, RESTORE)):
        return
    raise MalformedError(
        f"{place} of {store.root} was written by {time}, of which the timeline has no trace",
        condition="MALFORMED_LOG",
        sides={"file": f"rows of {time}", "timeline": f"no such instant since {timeline.start}, and none taken back"},
        next_step="Restore the instant's files from a copy. If it was never completed, delete what it wrote.",
    )
