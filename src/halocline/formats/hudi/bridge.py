"""The bridge: a client that gets along with both sides of a move, while others may be older or newer.

A table is read on both sides by everybody here: with the timeline of either layout, and with one of both that a
watermark divides. What a bridge refuses is what clients on the older side order differently: log files that several
writers appended to one file slice without waiting for each other (*non-blocking concurrency*), completed in another
order than they began. Releases order them by when they began, and the document of the bridge by when they were
completed; where both are the same there is nothing to refuse.
"""

from __future__ import annotations

from itertools import pairwise

from halocline.errors import UnsupportedError
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import order


def check_written_in_turn(snapshot: HudiSnapshot) -> None:
    """Refuses a table whose log files were completed in another order than they began.

    Raises:
        UnsupportedError: A slice has such log files.
    """
    if snapshot.config.layout == 1:  # names tell the slice, not the write
        return
    timeline = snapshot.timeline
    for slice in snapshot.slices:
        for one, other in pairwise(slice.logs):
            ends = [timeline.completion_of(each.instant) or each.instant for each in (one, other)]
            if order(ends[0]) > order(ends[1]):
                raise UnsupportedError(
                    f"file group {slice.file_id} of {snapshot.store.root} was written by several writers at once",
                    sides={
                        "table": f"{other.instant} began later than {one.instant} and was completed earlier "
                        "(non-blocking concurrency)",
                        "a bridge reads": "log files that were completed in the order in which they began",
                    },
                    next_step="Compact the table, or read it without halocline.hudi.bridge.",
                )
