"""Writing a timeline beside the one in use, and taking it away again.

What is at the new place already is kept if it belongs there: a copy that a crash cut short goes on, and a table that
moves back finds what it left. What does not belong there goes first, because instants that were taken back or archived
meanwhile must not come to life again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from halocline.errors import AlreadyExistsError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.move.translation import TimelineFile, translated_body, translated_files
from halocline.formats.hudi.timeline.history import ArchivedInstant, read_archive, read_lsm
from halocline.formats.hudi.timeline.timeline import HudiTimeline, instant_files
from halocline.formats.hudi.write.history import append_archive, append_lsm
from halocline.storage.base import Store

_AT_ONCE: Final = 256
"""So many files are held in memory at once."""


def copy_timeline(store: Store, source: HudiTableConfig, target: HudiTableConfig, workers: int = 32) -> int:
    """Makes the timeline at the new place what the one in use says.

    Args:
        store: Where the table lies.
        source: What it is.
        target: What it is to be.
        workers: How many files are written at once.

    Returns:
        How many files were written.
    """
    wanted = translated_files(store, source, target)
    there = {each.path: each.written_ms for each in instant_files(store, target.timeline_folder)}
    store.delete_many(sorted(there.keys() - {each.path for each in wanted}))
    missing = [each for each in wanted if each.path not in there]
    _put(store, missing, target.layout, workers)
    for each in wanted:  # whoever copied it before may have died before it said when it was written
        if each.modified_ms is not None and there.get(each.path, each.modified_ms) != each.modified_ms:
            store.set_modified(each.path, each.modified_ms)
    return len(missing)


def late_files(store: Store, source: HudiTableConfig, target: HudiTableConfig, since_ms: int) -> list[TimelineFile]:
    """What was completed in the old timeline at or after a moment, and is not in the new one or its history."""
    found = [
        each
        for each in translated_files(store, source, target)
        if each.instant.is_completed and each.instant.written_ms >= since_ms
    ]
    if not found:
        return []
    known = {each.time for each in instant_files(store, target.timeline_folder) if each.is_completed}
    known |= {each.time for each in _history(store, target)}
    return [each for each in found if each.instant.time not in known]


def carry_late(store: Store, source: HudiTableConfig, target: HudiTableConfig, since_ms: int) -> None:
    """Copies what was completed in the old timeline while the properties flipped."""
    times = {each.instant.time for each in late_files(store, source, target, since_ms)}
    _put(store, [each for each in translated_files(store, source, target) if each.instant.time in times], target.layout)


def size_of(store: Store, folder: str, *, only_instants: bool = False) -> tuple[int, int]:
    """How many files a folder holds, and their size in bytes."""
    sizes = [
        meta.size
        for meta in store.list(folder)
        if not only_instants or meta.path.removeprefix(f"{folder}/")[:1].isdigit()
    ]
    return len(sizes), sum(sizes)


def copy_history(store: Store, source: HudiTableConfig, target: HudiTableConfig) -> int:
    """Makes the history at the new place hold what the one in use does, each instant once.

    Returns:
        How many instants were written.
    """
    missing = list(_missing(store, source, target))
    if target.layout > 1:
        append_lsm(store, target.history_folder, missing)
    else:
        append_archive(store, target.history_folder, missing)
    return len(missing)


def remove_timeline(store: Store, config: HudiTableConfig) -> None:
    """Deletes a timeline and its history; never the one in use."""
    if config.layout > 1:
        store.delete_many([meta.path for meta in store.list(config.timeline_folder)])
        return
    store.delete_many([each.path for each in instant_files(store, config.timeline_folder)])
    store.delete_many([meta.path for meta in store.list(config.history_folder)])


def _missing(store: Store, source: HudiTableConfig, target: HudiTableConfig) -> Iterable[ArchivedInstant]:
    there = {(each.time, each.action) for each in _history(store, target)}
    for each in HudiTimeline.load(store, source).history():
        if (each.time, each.action) not in there:
            there.add((each.time, each.action))
            yield each


def _history(store: Store, config: HudiTableConfig) -> Iterable[ArchivedInstant]:
    if config.layout > 1:
        return read_lsm(store, config.history_folder, bodies=False)
    return read_archive(store, config.history_folder)


def _put(store: Store, files: Sequence[TimelineFile], layout: int, workers: int = 1) -> None:
    def put(file: TimelineFile, data: bytes) -> None:
        with suppress(AlreadyExistsError):
            store.put_if_absent(file.path, translated_body(data, file, layout))
        if file.modified_ms is not None:
            store.set_modified(file.path, file.modified_ms)

    with ThreadPoolExecutor(max(1, workers)) as pool:
        for at in range(0, len(files), _AT_ONCE):
            some = files[at : at + _AT_ONCE]
            bodies = store.get_many(each.source for each in some)
            for _ in pool.map(put, some, bodies):
                pass
