"""Archiving: instants that nobody needs in the active timeline go to the history, in the layout that the table has.

An instant is first in both, then only in the history; readers take one that is in both for active. Its completed file
goes last, and older instants go before younger ones: a pending file without its completed one would say that the write
never finished, and a gap would say so of what lies before it.

What stays: the last writes, everything from the first pending instant, savepoint or instant that time travel still
reaches, and what is not compacted yet. What was completed after a pending instant began stays as well: its writer has
yet to look whether both have changed the same rows. A replace commit stays as long as files of what it replaced are
there, because only it says that they do not count. Files that came after their write was taken back go before, since
older instants that the timeline does not show are taken for archived ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from halocline.errors import InputError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.slices import data_files
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.history import ArchivedInstant, read_archive, read_lsm
from halocline.formats.hudi.timeline.instant import (
    CLEAN,
    COMMIT,
    REPLACE_COMMIT,
    SAVEPOINT,
    HudiInstant,
    InstantState,
    instant_text,
    order,
)
from halocline.formats.hudi.timeline.metadata import CleanMetadata
from halocline.formats.hudi.timeline.timeline import HudiTimeline, instant_files
from halocline.formats.hudi.write.history import append_archive, append_lsm
from halocline.formats.hudi.write.rollback import remove_late_files
from halocline.storage.base import Store

_PLANNED: Final = frozenset({"compaction", "clustering", "clean", REPLACE_COMMIT})


def archive(store: Store, *, keep: int = 20, at_most: int = 30) -> tuple[HudiInstant, ...]:
    """Moves old instants to the history, once the active timeline has grown too long.

    Args:
        store: Where the table lies.
        keep: How many completed writes stay.
        at_most: From how many on instants are moved.

    Returns:
        The instants that were moved.

    Raises:
        InputError: The numbers contradict each other.
    """
    if not 1 <= keep <= at_most:
        raise InputError(
            f"{keep} writes cannot stay of at most {at_most}",
            sides={"given": f"keep {keep}, at most {at_most}", "expected": "at least 1, and not more than at most"},
            next_step="Choose other numbers.",
        )
    timeline = HudiSnapshot.load(store).timeline
    chosen = instants_to_archive(timeline, keep, at_most)
    if not chosen:
        return ()
    remove_late_files(store, timeline)
    folder, layout = timeline.config.history_folder, timeline.config.layout
    there = {
        (each.time, each.action)
        for each in (read_archive(store, folder) if layout == 1 else read_lsm(store, folder, bodies=False))
    }
    plans = _plans(timeline)
    missing = [
        _archived(timeline, each, plans.get(each.time)) for each in chosen if (each.time, each.action) not in there
    ]
    if layout == 1:
        append_archive(store, folder, missing)
    else:
        append_lsm(store, folder, missing)
    _remove(store, timeline, {each.time for each in chosen})
    return chosen


def instants_to_archive(timeline: HudiTimeline, keep: int, at_most: int) -> tuple[HudiInstant, ...]:
    """The completed instants that may go, oldest first."""
    writes = sorted((each.time for each in timeline.writes), key=order)
    if len(writes) <= at_most:
        return ()
    boundary = min([writes[len(writes) - keep], *_boundaries(timeline)], key=order)
    found = (each for each in timeline.instants if each.is_completed and order(each.time) < order(boundary))
    return tuple(sorted(found, key=lambda each: (order(each.time), each.action)))


def _boundaries(timeline: HudiTimeline) -> Iterator[str]:
    """The instants from which on everything stays."""
    yield from timeline.pending
    if first := min(timeline.pending, key=order, default=None):
        yield from (each.time for each in timeline.writes if order(_completion(timeline, each)) >= order(first))
    yield from (each.time for each in timeline.instants if each.action == SAVEPOINT)
    cleans = [each for each in timeline.instants if each.action == CLEAN and each.is_completed]
    if cleans:
        newest = max(cleans, key=lambda each: order(each.time))
        said = CleanMetadata.parse(timeline.body(newest).record, newest.path).earliest_commit_to_retain
        if said:
            yield said
    if timeline.config.type is TableType.MERGE_ON_READ:
        yield _not_compacted(timeline)
    groups = {(each.partition, each.file_id) for each in data_files(timeline.store)}
    for instant in timeline.writes:
        if instant.action == REPLACE_COMMIT and groups & set(timeline.commit_metadata(instant).replaced):
            yield instant.time


def _not_compacted(timeline: HudiTimeline) -> str:
    """The last compaction; the first write if there was none."""
    for instant in sorted(timeline.writes, key=lambda each: order(each.time), reverse=True):
        if instant.action == COMMIT and timeline.commit_metadata(instant).operation_type == "COMPACT":
            return instant.time
    return min((each.time for each in timeline.writes), key=order)


def _plans(timeline: HudiTimeline) -> dict[str, HudiInstant]:
    """The file with the plan of each instant that has one."""
    return {
        each.time: each
        for each in instant_files(timeline.store, timeline.config.timeline_folder)
        if each.action in _PLANNED and each.state is InstantState.REQUESTED
    }


def _archived(timeline: HudiTimeline, instant: HudiInstant, plan: HudiInstant | None) -> ArchivedInstant:
    said = {} if plan is None else timeline.body(plan).record
    completion = _completion(timeline, instant)
    return ArchivedInstant(instant.time, instant.action, completion, timeline.body(instant).record, said)


def _completion(timeline: HudiTimeline, instant: HudiInstant) -> str:
    """When an instant took effect; one of layout 1 when its file was written."""
    written = datetime.fromtimestamp(instant.written_ms / 1000, UTC)
    return instant.completion or instant_text(written, timeline.config)


def _remove(store: Store, timeline: HudiTimeline, times: set[str]) -> None:
    files = [each for each in instant_files(store, timeline.config.timeline_folder) if each.time in times]
    store.delete_many([each.path for each in files if not each.is_completed])
    for each in sorted((each for each in files if each.is_completed), key=lambda each: order(each.time)):
        store.delete(each.path)
