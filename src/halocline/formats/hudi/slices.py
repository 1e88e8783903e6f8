"""File groups and file slices: which files together hold the rows of a table.

A *file group* is all versions of a set of rows; a row stays in its group for as long as it lives. A *file slice* is one
version: a base file, and the log files that change it. Which slice a log file belongs to depends on the layout:

- layout 1: the instant in its name is that of the slice.
- layout 2: the instant in its name is that of the write; it belongs to the last slice that existed when the write was
  completed. Files from before a move to layout 2 still carry the instant of their slice, and are known by it: it is one
  that a base file of the group has, or that of a pending compaction.

A slice without a base file continues the one before it: while a compaction is pending, new log files already belong to
the slice that it will make. In layout 1 that slice is there as soon as the compaction is planned, because its instant
is the name of the next log file. Files of instants that did not take effect are left out here where the file's name
tells, and block by block where it does not.

An attempt of a task that lost, and was done with its file when the write had been completed, has left a base file that
the commit does not name. It does not count. Its name tells of it: the file of the attempt that won has the same task
and stage in its token. So commits are asked only about such files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from halocline.formats.hudi.names import BaseFile, LogFile, parse_data_file
from halocline.formats.hudi.properties import FOLDER
from halocline.formats.hudi.timeline.instant import WRITES, order
from halocline.formats.hudi.timeline.metadata import CommitMetadata
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.storage.base import Store


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group.

    Attributes:
        partition: The partition path.
        file_id: The file group.
        instant: The instant of the slice.
        base: Its base file; None if all its rows are in log files.
        logs: Its log files, in the order in which they apply.
    """

    partition: str
    file_id: str
    instant: str
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def size(self) -> int:
        """The size of its files in bytes."""
        return (self.base.size if self.base else 0) + sum(each.size for each in self.logs)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All versions of a set of rows.

    Attributes:
        partition: The partition path.
        file_id: Its id.
        slices: Its slices, oldest first, as they lie on disk: without what they continue.
    """

    partition: str
    file_id: str
    slices: tuple[FileSlice, ...]

    def slice_at(self, as_of: str | None = None) -> FileSlice | None:
        """The version that held at an instant, whole: with what it continues.

        Args:
            as_of: The instant; the newest if not given.
        """
        found = [each for each in self.slices if as_of is None or order(each.instant) <= order(as_of)]
        if not found:
            return None
        first = next((at for at in range(len(found) - 1, -1, -1) if found[at].base is not None), 0)
        logs = tuple(log for each in found[first:] for log in each.logs)
        return FileSlice(self.partition, self.file_id, found[-1].instant, found[first].base, logs)

    def base_at(self, as_of: str | None = None) -> BaseFile | None:
        """The newest base file at an instant, which is all that a read-optimised query reads."""
        found = self.slice_at(as_of)
        return None if found is None else found.base


def data_files(store: Store) -> Iterator[BaseFile | LogFile]:
    """Every data file of a table, whether it counts or not, sorted by path."""
    for meta in _outside(store):
        found = parse_data_file(meta[0], meta[1])
        if found is not None:
            yield found


def files_beside_timeline(timeline: HudiTimeline) -> Iterator[BaseFile | LogFile]:
    """Data files in the folder of the timeline: a write has taken it for a partition.

    Releases that did not refuse such a partition have left them. They are found by what active writes say, because that
    folder holds tables of its own.
    """
    inside = f"{FOLDER}/"
    said = (stat.path for _, metadata in timeline.metadata_of_writes() for _, stat in metadata.stats if stat.path)
    for partition in sorted({path.rpartition("/")[0] for path in said if path.startswith(inside)}):
        for meta in timeline.store.list(partition):
            found = parse_data_file(meta.path, meta.size)
            if found is not None and found.partition == partition:
                yield found


def file_groups(timeline: HudiTimeline, files: Iterable[BaseFile | LogFile]) -> list[FileGroup]:
    """The file groups that those files make, without files of instants that did not take effect.

    Change data is left out; it is found by what commits say.
    """
    members: dict[tuple[str, str], tuple[list[BaseFile], list[LogFile]]] = {}
    listed = list(files)
    late = late_files(timeline, listed)
    for each in listed:
        bases, logs = members.setdefault((each.partition, each.file_id), ([], []))
        if isinstance(each, BaseFile):
            if each.instant in timeline.committed and each not in late:
                bases.append(each)
        elif not each.is_change_data:
            logs.append(each)
    groups = (_group(timeline, *key, *found) for key, found in sorted(members.items()))
    return [group for group in groups if group.slices]


def late_files(timeline: HudiTimeline, files: Iterable[BaseFile | LogFile]) -> set[BaseFile]:
    """The base files that the commit of their instant does not name, though it names another attempt's.

    That is one of the same task, or of the same file group.

    Raises:
        MalformedError: What commits say about such files is damaged.
    """
    rivals: dict[tuple[str, ...], list[BaseFile]] = {}
    for each in files:
        if isinstance(each, BaseFile) and each.instant in timeline.committed:
            rivals.setdefault((each.instant, each.partition, each.file_id), []).append(each)
            task, stage, *attempt = each.token.split("-")[:3] + [""] * 3
            if attempt[0]:
                rivals.setdefault((each.instant, task, stage, ""), []).append(each)
    doubtful = [rival for rival in rivals.values() if len({each.token for each in rival}) > 1]
    named = _named(timeline, {rival[0].instant for rival in doubtful})
    settled = [rival for rival in doubtful if any(each.path in named for each in rival)]
    return {each for rival in settled for each in rival if each.path not in named}


def log_order(log: LogFile) -> tuple[str, int, tuple[int, ...]]:
    """What log files of a group are ordered by."""
    token = tuple(int(part) for part in log.token.split("-") if part)
    return order(log.instant), log.version, token


def _group(
    timeline: HudiTimeline, partition: str, file_id: str, bases: list[BaseFile], logs: list[LogFile]
) -> FileGroup:
    by_instant = {each.instant: each for each in sorted(bases, key=lambda each: each.path)}
    attached: dict[str, list[LogFile]] = {instant: [] for instant in by_instant}
    if timeline.config.layout == 1 and (planned := timeline.planned_compactions.get((partition, file_id))):
        attached[planned] = []
    keys = sorted(attached, key=order)
    for log in sorted(logs, key=log_order):
        key = _slice_of(timeline, log, keys)
        if key is None:
            continue
        if key not in attached:
            attached[key] = []
            keys.insert(bisect_right(keys, order(key), key=order), key)
        attached[key].append(log)
    slices = (FileSlice(partition, file_id, key, by_instant.get(key), tuple(attached[key])) for key in keys)
    return FileGroup(partition, file_id, tuple(slices))


def _slice_of(timeline: HudiTimeline, log: LogFile, keys: list[str]) -> str | None:
    """The instant of the slice that a log file belongs to; None if the file does not count."""
    if timeline.config.layout == 1 or log.instant in keys or log.instant in timeline.pending_compactions:
        return log.instant
    if log.instant not in timeline.committed:
        return None
    completion = timeline.completion_of(log.instant) or log.instant
    before = bisect_right(keys, order(completion), key=order)
    return keys[before - 1] if before else log.instant


def _named(timeline: HudiTimeline, times: set[str]) -> set[str]:
    """The files that commits name, of those that can still be found."""
    if not times:
        return set()
    found = {each.time: timeline.commit_metadata(each) for each in timeline.writes if each.time in times}
    if left := times - found.keys():
        history = (each for each in timeline.history() if each.time in left and each.action in WRITES and each.body)
        found |= {each.time: CommitMetadata.parse(each.body, f"{each.time} in the history") for each in history}
    return {stat.path for commit in found.values() for _, stat in commit.stats if stat.path}


def _outside(store: Store) -> Iterator[tuple[str, int]]:
    """Everything below the root that is not in the folder of the timeline, which may be large."""
    inside = f"{FOLDER}/"
    for meta in store.list():
        if meta.path >= inside:
            break
        yield meta.path, meta.size
    # The character behind the slash: the first name that is not in the folder any more.
    for meta in store.list(start_after=f"{FOLDER}0"):
        yield meta.path, meta.size
