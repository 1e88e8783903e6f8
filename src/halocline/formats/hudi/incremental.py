"""Rows that writes of a range of time brought: `(begin, end]`, without what was there before.

The range is over *requested* times up to table version 7 and over *completion* times from 8 on, so a time that a
pipeline has stored means another place after a table has moved. A begin that is a requested time where completion times
count is refused with the completion time that it stands for.

Only files that writes of the range wrote are read, and of those only rows that still carry the instant of such a write.
A row in a log file whose base file is older than the range comes as it was written: with the columns of that write.
Rows that were written twice in the range come once, deleted ones not at all.

Ranges are read one after the other, each from where the one before ended, so no write may come into a range that has
been read. In layout 1 one that began earlier may be completed later. So a range without an end stops before the first
write that is still under way, and one that would begin or end behind it is refused; `settled_time` is the time up to
which a range may go. Clusterings that are under way hold nothing up, since they bring no rows.

The limits: in layout 1 the range begins with the active timeline; `HudiIncremental.is_complete` tells whether older
writes were left out. In layout 2 older ones are looked up in the history. A writer that does not take the table's lock
and whose clock is behind may request a write, or complete one, at a time that ranges have passed; who keeps the set of
writes that it has read (`halocline.formats.hudi.timeline.progress`) finds that one all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from halocline.errors import ConflictError, InputError, NotFoundError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.merge.entries import BlockFilter
from halocline.formats.hudi.names import BaseFile, LogFile, parse_data_file
from halocline.formats.hudi.slice_reader import CommitFilter, SliceReader
from halocline.formats.hudi.slices import FileSlice, file_groups
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import (
    REPLACE_COMMIT,
    RESTORE,
    ROLLBACK,
    WRITES,
    HudiInstant,
    InstantState,
    checked_time,
    order,
)
from halocline.formats.hudi.timeline.metadata import CommitMetadata, ReplacePlan
from halocline.formats.hudi.timeline.timeline import HudiTimeline


@dataclass(frozen=True)
class RangeWrite:
    """A write of the range.

    Attributes:
        instant: The write.
        metadata: What it did.
    """

    instant: HudiInstant
    metadata: CommitMetadata


@dataclass(frozen=True, eq=False)
class HudiIncremental:
    """What writes of a range of time brought. Made by `read_range`.

    Attributes:
        snapshot: The table.
        begin: The time after which writes count; None for the first.
        end: The time up to which they count; None for the newest.
        writes: The writes of the range, in the order in which they took effect.
        is_complete: False if writes of the range have left the timeline, and are not known any more.
    """

    snapshot: HudiSnapshot
    begin: str | None
    end: str | None
    writes: tuple[RangeWrite, ...]
    is_complete: bool

    @cached_property
    def slices(self) -> tuple[FileSlice, ...]:
        """The slices that files of the range make."""
        replaced = {group for write in self.writes for group in write.metadata.replaced}
        groups = file_groups(self.snapshot.timeline, self._files())
        found = (each.slice_at() for each in groups if (each.partition, each.file_id) not in replaced)
        return tuple(each for each in found if each is not None)

    def reader(self, columns: Sequence[str] | None = None) -> SliceReader:
        """What reads the slices.

        Args:
            columns: The columns to give; all if not given.

        Raises:
            InputError: The table has no meta columns, so its rows do not say which write they are from.
        """
        if not self.snapshot.config.meta_fields:
            raise InputError(
                f"rows of {self.snapshot.store.root} do not say which write they are from",
                sides={"table": "hoodie.populate.meta.fields=false", "needed": "the meta columns"},
                next_step="Read the snapshot instead.",
            )
        times = frozenset(write.instant.time for write in self.writes)
        # A compaction of layout 1 brings rows along whose own writes may have been archived since.
        by_range = self.snapshot.config.layout == 1 and self.snapshot.config.type is TableType.MERGE_ON_READ
        return replace(
            self.snapshot.reader(columns, merging=any(each.logs for each in self.slices)),
            counting=BlockFilter(self.snapshot.timeline.committed, only=times),
            commits=CommitFilter(after=self.begin, until=self.end) if by_range else CommitFilter(times),
        )

    def read(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows.

        Args:
            columns: The columns to give; all if not given.

        Raises:
            InputError: The table has no meta columns, so its rows do not say which write they are from.
            NotFoundError: Cleaning has removed a file of the range.
        """
        reader = self.reader(columns)
        for slice in self.slices:
            yield from reader.read(self.snapshot.store, slice)

    def _files(self) -> Iterator[BaseFile | LogFile]:
        seen = set()
        for write in self.writes:
            for _, stat in write.metadata.stats:
                found = parse_data_file(stat.path, stat.file_size_in_bytes or 0) if stat.path else None
                if found is not None and found.path not in seen:
                    seen.add(found.path)
                    yield found


def read_range(snapshot: HudiSnapshot, begin: str | None = None, end: str | None = None) -> HudiIncremental:
    """The writes of a range of time.

    Args:
        snapshot: The table.
        begin: The time after which writes count; from the first one on if not given.
        end: The time up to which they count; if not given, up to the newest, or to the last one before a write of
            layout 1 that is still under way.

    Raises:
        ConflictError: In layout 1, a write is still under way that began before the range begins or ends, so that a
            later range would miss it (`RANGE_UNSETTLED`).
        InputError: A time is none, or is a requested time where completion times count, or the end is before the begin.
    """
    timeline, layout = snapshot.timeline, snapshot.config.layout
    for time in (begin, end):
        if time is not None:
            _check_meaning(snapshot, checked_time(time))
    if begin is not None and end is not None and order(end) < order(begin):
        raise InputError(
            "a range of writes ends before it begins",
            sides={"begin": begin, "end": end},
            next_step="Give the earlier time first; writes after it, up to the later one, count.",
        )

    unsettled = _first_under_way(timeline)
    if unsettled is not None:
        _check_settled(snapshot, unsettled, begin, end)

    def inside(instant: HudiInstant) -> bool:
        time = _position(timeline, instant)
        if unsettled is not None and time > order(unsettled.time):
            return False
        return (begin is None or time > order(begin)) and (end is None or time <= order(end))

    writes = [RangeWrite(each, timeline.commit_metadata(each)) for each in timeline.writes if inside(each)]
    first = timeline.writes[0] if timeline.writes else None
    reaches_back = first is not None and (begin is None or order(begin) < order(first.completion or first.time))
    if layout > 1 and reaches_back:
        older = (
            RangeWrite(
                HudiInstant(each.time, each.action, InstantState.COMPLETED, each.completion),
                CommitMetadata.parse(each.body, f"{each.time} in the history"),
            )
            for each in timeline.history()
            if each.action in WRITES
        )
        found = [each for each in older if inside(each.instant)]
        writes = sorted(found, key=lambda each: order(each.instant.completion or each.instant.time)) + writes
    is_complete = layout > 1 or not reaches_back or next(timeline.history(), None) is None
    return HudiIncremental(snapshot, begin, end, tuple(writes), is_complete)


def settled_time(timeline: HudiTimeline) -> str | None:
    """The time up to which every write is known that will ever be in a range; None if there is no write yet.

    In layout 1 that is the last one before the first that is still pending, since ranges are of requested times.
    """
    writes = timeline.writes
    if timeline.config.layout > 1:
        return max((each.completion for each in writes if each.completion), key=order, default=None)
    first = _first_under_way(timeline)
    times = (each.time for each in writes if first is None or order(each.time) < order(first.time))
    return max(times, key=order, default=None)


def accounts_for(timeline: HudiTimeline, time: str) -> bool:
    """Whether a timeline shows the write at a time that `settled_time` gave, or that it was archived or taken back."""
    position, writes = order(time), {_position(timeline, each) for each in timeline.writes}
    if position in writes or (writes and position < min(writes)):
        return True
    taken_back = (each for each in timeline.instants if each.is_completed and each.action in (ROLLBACK, RESTORE))
    return any(_position(timeline, each) > position for each in taken_back)


def _first_under_way(timeline: HudiTimeline) -> HudiInstant | None:
    """The first write of layout 1 that may yet bring rows in a range of times that have passed; None if there is none.

    From layout 2 on a write has its place in ranges from its completion on, which is behind all that is completed.
    """
    if timeline.config.layout > 1:
        return None
    pending = (each for each in timeline.instants if each.time in timeline.pending and each.action in WRITES)
    for instant in sorted(pending, key=lambda each: order(each.time)):
        if instant.action != REPLACE_COMMIT or not _is_clustering(timeline, instant):
            return instant
    return None


def _is_clustering(timeline: HudiTimeline, instant: HudiInstant) -> bool:
    """Return whether a replace commit that is under way only puts rows together that are there."""
    try:
        body = timeline.requested_body(instant)
    except NotFoundError:  # it was completed or taken back since the timeline was listed
        return False
    return ReplacePlan.parse(body.record, f"{instant} of {timeline.store.root}").operation_type == "CLUSTER"


def _check_settled(snapshot: HudiSnapshot, unsettled: HudiInstant, begin: str | None, end: str | None) -> None:
    """Make sure that a range neither begins nor ends behind a write that is still under way."""
    settled = settled_time(snapshot.timeline)
    for time, does in ((begin, "begins"), (end, "ends")):
        if time is not None and order(time) >= order(unsettled.time):
            raise ConflictError(
                f"a write of {snapshot.store.root} that was requested at {unsettled.time} is still under way, and a "
                f"range that {does} behind it would leave its rows out for good",
                condition="RANGE_UNSETTLED",
                sides={"under way": str(unsettled), f"range {does}": time},
                next_step=(
                    f"{does.capitalize()[:-1]} the range at {settled or 'the first write'}, or wait: the write is "
                    "completed, or the next writer takes it back."
                ),
            )


def _position(timeline: HudiTimeline, instant: HudiInstant) -> str:
    """What ranges compare an instant by: when it was requested in layout 1, when it was completed from layout 2 on."""
    return order(instant.completion if timeline.config.layout > 1 and instant.completion else instant.time)


def as_settled(snapshot: HudiSnapshot, until: str) -> HudiSnapshot:
    """The table with the writes up to a time that `settled_time` gave, and none that took effect later."""
    if snapshot.config.layout == 1:
        return replace(snapshot, as_of=until)

    def is_later(each: HudiInstant) -> bool:
        return each.is_write and each.completion is not None and order(each.completion) > order(until)

    pending = InstantState.INFLIGHT
    instants = (
        replace(each, state=pending, completion=None) if is_later(each) else each for each in snapshot.timeline.instants
    )
    return replace(snapshot, timeline=replace(snapshot.timeline, instants=tuple(instants)))


def _check_meaning(snapshot: HudiSnapshot, time: str) -> None:
    """Refuses the time at which a write was requested where the time at which it was completed is meant."""
    if snapshot.config.layout == 1:
        return
    began = {each.time: each.completion for each in snapshot.timeline.writes}
    if time in began and time not in began.values():
        raise InputError(
            f"{time} is when a write of {snapshot.store.root} was requested, and ranges are of completion times",
            sides={
                "given": f"{time}, a requested time",
                "table version": f"{snapshot.config.version}: completion times",
            },
            next_step=f"Use {began[time]}, when that write was completed.",
        )
