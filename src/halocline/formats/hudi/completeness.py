"""Whether a table is whole: all files are there that its timeline speaks of, and nothing else that might count.

A table that has lost a file or an instant looks like a smaller one. Three things tell that it is not:

- A completed write says which files it wrote, and how large. Of slices that hold, all must be there: base files of
  exactly that size, log files of that size at least, since others may have appended to them.
- It says which instant it was based on. That one took effect, or is a compaction that is planned.
- Files whose instant has left no trace (`halocline.formats.hudi.timeline.lost`).

The limits: writes that have left the active timeline are only asked where the history is read as well, which
`halocline lint` does. An instant of which only the completed file is gone looks like a write that died, unless a later
one was based on it. A file in the place of another of the same size, and bytes that were changed in values of rows, are
not noticed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.hudi.names import BaseFile, LogFile, parse_data_file
from halocline.formats.hudi.slices import FileSlice, file_groups
from halocline.formats.hudi.timeline.instant import CLEAN, COMMIT, DELTA_COMMIT, order
from halocline.formats.hudi.timeline.lost import check_has_trace
from halocline.formats.hudi.timeline.metadata import CommitMetadata, WriteStat
from halocline.formats.hudi.timeline.timeline import HudiTimeline

_MAKERS: Final = frozenset({COMMIT, DELTA_COMMIT})
_BUCKET: Final = 8
"""With so many digits the id of a file group begins that is a bucket."""


def check_complete(
    timeline: HudiTimeline, files: Sequence[BaseFile | LogFile], slices: Iterable[FileSlice], as_of: str | None
) -> None:
    """Refuses a table that is not whole.

    Args:
        timeline: Its timeline.
        files: The files that there are.
        slices: The slices that they make.
        as_of: The instant that is read; the newest if None.

    Raises:
        MalformedError: A file has another size, or an instant is lost.
        NotFoundError: A file is lost.
    """
    said = [(each.time, metadata) for each, metadata in timeline.metadata_of_writes()]
    _check_based_on(timeline, said)
    _check_instants(timeline, files)
    _check_first_files(timeline, files)
    _check_sizes(timeline, said, slices)
    for file, time in lost_files(timeline, files, said, as_of):
        raise NotFoundError(
            f"{file.path} of {timeline.store.root} is not there",
            condition="DATA_FILES_MISSING",
            sides={"timeline": f"{time} wrote it, and its rows hold", "store": "no such file"},
            next_step="Open the table again, cleaning may have removed it since; else restore the file from a copy.",
        )


def lost_files(
    timeline: HudiTimeline,
    files: Sequence[BaseFile | LogFile],
    said: Iterable[tuple[str, CommitMetadata]],
    as_of: str | None = None,
) -> Iterator[tuple[BaseFile | LogFile, str]]:
    """Files of slices that hold and that are not there, with the instant that wrote each.

    Args:
        timeline: The timeline of the table.
        files: The files that there are.
        said: What completed writes say, by their times.
        as_of: The instant that is read; the newest if not given.
    """
    listed = {each.path for each in files}
    missing: dict[str, tuple[BaseFile | LogFile, str]] = {}
    replaced: set[tuple[str, str]] = set()
    for time, metadata in said:
        if as_of is None or order(time) <= order(as_of):
            replaced.update(metadata.replaced)
        for path, (file, _) in _written(metadata).items():
            if path not in listed:
                missing[path] = file, time
    if not missing:
        return
    groups = {(each.partition, each.file_id) for each, _ in missing.values()}
    there = [each for each in files if (each.partition, each.file_id) in groups]
    for group in file_groups(timeline, [*there, *(each for each, _ in missing.values())]):
        slice = None if (group.partition, group.file_id) in replaced else group.slice_at(as_of)
        for each in () if slice is None else (slice.base, *slice.logs):
            if each is not None and each.path in missing and (as_of is not None or not _is_cleaned(timeline, each)):
                yield missing[each.path]


def _written(metadata: CommitMetadata) -> Mapping[str, tuple[BaseFile | LogFile, int]]:
    """The files that a write says it wrote, with their sizes."""
    found = {}
    for _, stat in metadata.stats:
        size = stat.file_size_in_bytes or stat.total_write_bytes or 0
        file = parse_data_file(stat.path, size) if stat.path and size else None
        if file is not None and not (isinstance(file, LogFile) and file.is_change_data):
            found[file.path] = file, size
    return found


def _check_sizes(
    timeline: HudiTimeline, said: Iterable[tuple[str, CommitMetadata]], slices: Iterable[FileSlice]
) -> None:
    told = {path: (size, time) for time, metadata in said for path, (_, size) in _written(metadata).items()}
    for file in (each for slice in slices for each in (slice.base, *slice.logs) if each is not None):
        size, time = told.get(file.path, (file.size, ""))
        if file.size < size or (file.size > size and isinstance(file, BaseFile)):
            raise MalformedError(
                f"{file.path} of {timeline.store.root} is damaged, or another file was put in its place",
                condition="MALFORMED_LOG",
                sides={"commit": f"{time} wrote {size} bytes", "file": f"{file.size} bytes"},
                next_step="Restore the file from a copy.",
            )


def _check_based_on(timeline: HudiTimeline, said: Iterable[tuple[str, CommitMetadata]]) -> None:
    known = timeline.committed
    for time, metadata in said:
        for before in (each for _, stat in metadata.stats for each in _based_on(stat)):
            if before in known or before in timeline.pending_compactions:
                continue
            raise _based_on_lost(timeline, time, before)


def _based_on_lost(timeline: HudiTimeline, time: str, before: str) -> MalformedError:
    return MalformedError(
        f"{time} of {timeline.store.root} was based on {before}, which is not completed",
        condition="MALFORMED_LOG",
        sides={"commit": f"{time} changed what {before} wrote", "timeline": f"no completed {before}"},
        next_step="Restore the completed file of the instant from a copy.",
    )


def _based_on(stat: WriteStat) -> Iterator[str]:
    """The instants whose files a write went on with."""
    if stat.prev_commit not in (None, "", "null"):
        yield str(stat.prev_commit)
    base = parse_data_file(stat.base_file) if stat.base_file else None
    if base is not None:
        yield base.instant


def _check_instants(timeline: HudiTimeline, files: Iterable[BaseFile | LogFile]) -> None:
    for each in files:
        # In layout 1 the name of a log file does not tell who wrote it; its blocks do.
        if (isinstance(each, BaseFile) or timeline.config.layout > 1) and not timeline.committed.knows(each.instant):
            check_has_trace(timeline.store, each.instant, each.path)


def _check_first_files(timeline: HudiTimeline, files: Iterable[BaseFile | LogFile]) -> None:
    """Refuses file groups that completed writes went on with, while the one that made the group is not completed.

    Groups of a bucket index are left out: whoever comes first makes them, so two writes may do so at once.
    """
    pending = {each.time for each in timeline.instants if each.time in timeline.pending and each.action in _MAKERS}
    begun: dict[tuple[str, str], set[str]] = {}
    for each in files:
        if pending and isinstance(each, BaseFile) and not each.file_id[:_BUCKET].isdigit():
            begun.setdefault((each.partition, each.file_id), set()).add(each.instant)
    made = {key: instants for key, instants in begun.items() if instants <= pending}
    for each in files:
        key = each.partition, each.file_id
        is_log = isinstance(each, LogFile) and not each.is_change_data and timeline.config.layout > 1
        if key in made and is_log and each.instant in timeline.committed:
            raise _based_on_lost(timeline, each.instant, min(made[key]))


def _is_cleaned(timeline: HudiTimeline, file: BaseFile | LogFile) -> bool:
    """Whether a cleaning says that it removed a file; one of a group whose replacement has left the timeline."""
    name = file.path.rpartition("/")[2]
    active = (timeline.body(each).record for each in timeline.instants if each.action == CLEAN and each.is_completed)
    return any(name in str(each) for each in active) or any(
        name in str(each.body) for each in timeline.history() if each.action == CLEAN
    )
