"""How far somebody has read a table: the set of writes that were completed, and of those that were pending.

Writes are completed in another order than that in which they began, so no single instant says what was read: a write
that began earlier than the newest one may be completed later. A *progress* is compared with a timeline as a set. What
has left the active timeline since was archived if it is older than what is there, by the rule by which readers go as
well (`CommittedInstants`); anything else that is gone was taken back.

Instants keep the time at which they were requested when a table moves between versions, and through archiving,
cleaning and restores, so a progress can be compared across all of them. It also tells a table from another one at the
same place: two tables share no write. Times that begin with 0 are the exception: Apache Hudi gives them to the writes
that bootstrap a table, in every table alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline.formats.hudi.timeline.instant import HudiInstant
from halocline.formats.hudi.timeline.timeline import HudiTimeline


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """The writes that a reader has seen.

    Attributes:
        completed: The times of the completed writes of the active timeline.
        pending: The times of the writes that had begun and were not completed.

    Example:
        >>> ReadProgress(frozenset({"20250101000000000"}), frozenset()).own_times
        frozenset({'20250101000000000'})
    """

    completed: frozenset[str]
    pending: frozenset[str]

    @staticmethod
    def at(timeline: HudiTimeline) -> ReadProgress:
        """Return the progress of a reader that has read all that a timeline shows."""
        begun = (each.time for each in timeline.instants if each.is_write and not each.is_completed)
        return ReadProgress(
            frozenset(each.time for each in timeline.writes),
            frozenset(time for time in begun if time in timeline.pending),
        )

    def unread(self, timeline: HudiTimeline) -> tuple[HudiInstant, ...]:
        """Return the completed writes of a timeline that the reader has not seen, in the order of the timeline."""
        return tuple(each for each in timeline.writes if each.time not in self.completed)

    def missed(self, timeline: HudiTimeline) -> frozenset[str]:
        """Return the writes that were pending for the reader, and that were completed and archived since, or may be."""
        return frozenset(time for time in self.pending - self.completed if time in timeline.committed)

    def taken_back(self, timeline: HudiTimeline) -> frozenset[str]:
        """Return the writes that the reader has seen and that do not count any more, by a restore for instance."""
        return frozenset(time for time in self.completed if time not in timeline.committed)

    def is_whole(self, timeline: HudiTimeline) -> bool:
        """Return whether the reader has seen exactly what a timeline shows."""
        return not (self.unread(timeline) or self.missed(timeline) or self.taken_back(timeline))

    @property
    def own_times(self) -> frozenset[str]:
        """The completed writes that no other table has."""
        return frozenset(time for time in self.completed if not time.startswith("0"))

    def shares_write(self, timeline: HudiTimeline) -> bool:
        """Return whether a timeline, or the history behind it, has a write that the reader has seen.

        The history is read only where every such write has been archived since.
        """
        own = self.own_times
        if not own.isdisjoint(each.time for each in timeline.writes):
            return True
        return bool(own) and any(time in own for time in timeline.archived_times())
