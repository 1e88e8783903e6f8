"""The timeline of a table, as of when it was listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.properties import FOLDER
from halocline.formats.hudi.timeline.bodies import Body, decode_body
from halocline.formats.hudi.timeline.history import ArchivedInstant, read_archive, read_lsm
from halocline.formats.hudi.timeline.instant import (
    COMPACTION,
    ENDS_AS,
    REPLACE_COMMIT,
    SAVEPOINT,
    HudiInstant,
    InstantState,
    instant_text,
    order,
    parse_name,
)
from halocline.formats.hudi.timeline.metadata import CommitMetadata, CompactionPlan
from halocline.storage.base import ObjectMeta, Store

_PROGRESS: Final = {InstantState.REQUESTED: 0, InstantState.INFLIGHT: 1, InstantState.COMPLETED: 2}


@dataclass(frozen=True, slots=True)
class CommittedInstants:
    """Which writes have taken effect; a small value that travels to where rows are read.

    Attributes:
        completed: The times of completed writes in the active timeline.
        pending: The times of instants that have not taken effect.
        start: The first write of the active timeline; what is older was archived, and was completed before.

    Example:
        >>> "1" in CommittedInstants(frozenset({"5"}), frozenset(), "5")
        True
    """

    completed: frozenset[str]
    pending: frozenset[str]
    start: str | None

    def __contains__(self, time: str) -> bool:
        if time in self.completed:
            return True
        return time not in self.pending and self.start is not None and order(time) < order(self.start)

    def knows(self, time: str) -> bool:
        """Whether it is known of an instant if it took effect: it did, it is pending, or it was archived."""
        return time in self or time in self.pending


@dataclass(frozen=True, eq=False)
class HudiTimeline:
    """The active timeline, and a way to what lies before it. Made by `HudiTimeline.load`.

    Attributes:
        store: Where the table lies.
        config: What the table is.
        instants: One entry per instant, in the furthest state that it has come to; completed ones first, in the order
            in which they took effect: by time in layout 1, by completion in layout 2.
    """

    store: Store
    config: HudiTableConfig
    instants: tuple[HudiInstant, ...] = field(repr=False)

    @staticmethod
    def load(store: Store, config: HudiTableConfig) -> HudiTimeline:
        """Lists the active timeline.

        Example:
            >>> from halocline.storage.memory import MemoryStore
            >>> store = MemoryStore("a timeline")
            >>> for name in ("20250101000000000.commit", "20250101000000001.commit.requested"):
            ...     _ = store.put(f".hoodie/{name}", b"")
            >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "6"}
            >>> [str(each) for each in HudiTimeline.load(store, HudiTableConfig.parse(pairs, "t")).instants]
            ['20250101000000000.commit', '20250101000000001.commit.requested']
        """
        found = timeline_files(store, config)
        if config.layout > 1:
            found = [_with_completion(each, config) for each in found]
        return HudiTimeline(store, config, tuple(sorted(_furthest(found), key=_effect)))

    @property
    def writes(self) -> tuple[HudiInstant, ...]:
        """The completed writes that are still in the active timeline, in order."""
        return tuple(each for each in self.instants if each.is_completed and each.is_write)

    @cached_property
    def pending(self) -> frozenset[str]:
        """The times of instants that have not taken effect."""
        return frozenset(each.time for each in _pending(self.instants))

    @cached_property
    def pending_compactions(self) -> frozenset[str]:
        """The times of compactions that have not taken effect."""
        return frozenset(each.time for each in self.instants if each.action == COMPACTION and not each.is_completed)

    @cached_property
    def planned_compactions(self) -> dict[tuple[str, str], str]:
        """The file groups that a compaction is to merge, as partition and file id, with its time.

        Raises:
            MalformedError: A plan is torn.
        """
        found: dict[tuple[str, str], str] = {}
        for instant in self.instants:
            if instant.time in self.pending_compactions and instant.action == COMPACTION:
                plan = CompactionPlan.parse(self.requested_body(instant).record, f"{instant} of {self.store.root}")
                for each in plan.operations or []:
                    found[each.partition_path or "", each.file_id or ""] = instant.time
        return found

    @cached_property
    def start(self) -> str | None:
        """The first write of the active timeline that no savepoint keeps there; None if there is no write.

        What is older and not pending has been archived, and was completed before. A savepoint keeps its write in the
        active timeline while later ones are archived, so there are gaps before this one.
        """
        kept = {each.time for each in self.instants if each.action == SAVEPOINT}
        times = [
            each.time
            for each in self.instants
            if each.is_write and (each.is_completed or each.action == COMPACTION) and each.time not in kept
        ]
        return min(times, key=order, default=None)

    @cached_property
    def committed(self) -> CommittedInstants:
        """Which writes have taken effect."""
        return CommittedInstants(frozenset(self._completed), self.pending, self.start)

    def completion_of(self, time: str) -> str | None:
        """When a write of layout 2 took effect; None if it has not, or nobody knows any more."""
        if time in self._completed:
            return self._completed[time]
        if time in self.committed:
            return self._archived_completions.get(time)
        return None

    def commit_metadata(self, instant: HudiInstant) -> CommitMetadata:
        """What a completed write did.

        Raises:
            MalformedError: The file is torn, or says nothing although something depends on it.
        """
        if instant.path in self._said:
            return self._said[instant.path]
        body = self.body(instant)
        if not body.record:
            raise MalformedError(
                f"{instant.path} of {self.store.root} is empty",
                condition="MALFORMED_LOG",
                sides={"expected": "what the write did", "found": "nothing"},
                next_step="Roll the instant back with the writer that made it.",
            )
        self._said[instant.path] = CommitMetadata.parse(body.record, f"{instant.path} of {self.store.root}")
        return self._said[instant.path]

    def metadata_of_writes(self) -> list[tuple[HudiInstant, CommitMetadata]]:
        """The completed writes of the active timeline and what each did, but for those that say nothing.

        One that has been archived since the timeline was listed is left out as well.

        Raises:
            MalformedError: A file is torn.
        """
        unread = [each for each in self.writes if each.path not in self._said]
        try:
            for each, data in zip(unread, self.store.get_many([each.path for each in unread]), strict=True):
                self._keep(each, data)
        except NotFoundError:
            for each in unread:
                with suppress(NotFoundError):
                    self._keep(each, self.store.get(each.path))
        return [(each, self._said[each.path]) for each in self.writes if each.path in self._said]

    def _keep(self, instant: HudiInstant, data: bytes) -> None:
        place = f"{instant.path} of {self.store.root}"
        if record := decode_body(data, place).record:
            self._said[instant.path] = CommitMetadata.parse(record, place)

    @cached_property
    def _said(self) -> dict[str, CommitMetadata]:
        """What completed writes did, as far as it has been read: their files never change."""
        return {}

    def body(self, instant: HudiInstant) -> Body:
        """What the file of an instant says."""
        return decode_body(self.store.get(instant.path), f"{instant.path} of {self.store.root}")

    def requested_body(self, instant: HudiInstant) -> Body:
        """The plan of an instant: what its requested file says, whatever state it has come to."""
        path = f"{instant.path.rpartition('/')[0]}/{instant.time}.{instant.action}.{InstantState.REQUESTED}"
        return decode_body(self.store.get(path), f"{path} of {self.store.root}")

    def history(self) -> Iterator[ArchivedInstant]:
        """The completed instants that have left the active timeline, and what they did."""
        active = {(each.time, each.action) for each in self.instants if each.is_completed}
        source = read_archive if self.config.layout == 1 else read_lsm
        for each in source(self.store, self.config.history_folder):
            if (each.time, each.action) not in active:
                yield each

    def archived_times(self) -> Iterator[str]:
        """The times of the instants in the history, without what they did."""
        folder = self.config.history_folder
        if self.config.layout == 1:
            return (each.time for each in read_archive(self.store, folder))
        return (each.time for each in read_lsm(self.store, folder, bodies=False))

    def replaced_groups(self, as_of: str | None = None) -> dict[tuple[str, str], str]:
        """Each replaced file group, as partition and file id, with the time of the first instant that replaced it.

        Args:
            as_of: Only what instants up to this time replaced.
        """
        found: dict[tuple[str, str], str] = {}
        for instant in sorted(self.writes, key=lambda each: order(each.time)):
            if instant.action == REPLACE_COMMIT and (as_of is None or order(instant.time) <= order(as_of)):
                for group in self.commit_metadata(instant).replaced:
                    found.setdefault(group, instant.time)
        return found

    @cached_property
    def _completed(self) -> dict[str, str | None]:
        """Each completed write, with its completion time."""
        return {each.time: each.completion for each in self.writes}

    @cached_property
    def _archived_completions(self) -> dict[str, str | None]:
        if self.config.layout == 1:
            return {}
        entries = read_lsm(self.store, self.config.history_folder, bodies=False)
        return {each.time: each.completion for each in entries}


def pending_actions(instants: Iterable[HudiInstant]) -> frozenset[str]:
    """What instants that have not taken effect are to do: `compaction`, `commit`, ...

    Example:
        >>> pending_actions([parse_name("20250101000000001.compaction.requested")])
        frozenset({'compaction'})
    """
    return frozenset(each.action for each in _pending(instants))


def _pending(instants: Iterable[HudiInstant]) -> list[HudiInstant]:
    found = list(instants)
    done = {each.time for each in found if each.is_completed and each.action != SAVEPOINT}
    return [each for each in found if not each.is_completed and each.time not in done]


def active_writes(store: Store) -> tuple[HudiInstant, ...]:
    """The completed writes of either layout that the active timeline holds, oldest first.

    Needs no properties, so it works on tables that cannot be read.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore("writes")
        >>> _ = store.put(".hoodie/timeline/20250101000000000_20250101000000900.commit", b"")
        >>> [each.time for each in active_writes(store)]
        ['20250101000000000']
    """
    found = (each for folder in (FOLDER, f"{FOLDER}/timeline") for each in instant_files(store, folder))
    return tuple(sorted((each for each in found if each.is_completed and each.is_write), key=lambda each: each.time))


def timeline_files(store: Store, config: HudiTableConfig) -> list[HudiInstant]:
    """Every file of a table's active timeline: each state of each instant.

    A table that moved without touching its timeline has its older instants where they were.
    """
    found = list(instant_files(store, config.timeline_folder))
    if config.layout > 1 and config.watermark and not config.is_copied:
        moved = {(each.time, each.action) for each in found}
        older = (each for each in instant_files(store, FOLDER) if order(each.time) <= order(config.watermark))
        found += (each for each in older if (each.time, each.action) not in moved)
    return found


def instant_files(store: Store, folder: str) -> Iterator[HudiInstant]:
    """Every file of an active timeline in a folder."""
    for meta in _beginning_with_a_digit(store, folder):
        instant = parse_name(meta.path.removeprefix(f"{folder}/"), meta.path, meta.modified_ms)
        if instant is not None:
            yield instant


def _beginning_with_a_digit(store: Store, folder: str) -> Iterator[ObjectMeta]:
    """The instant files of a folder. Other folders in it may be large, and sort after them or before."""
    for meta in store.list(folder, start_after=f"{folder}/0"):
        if not meta.path.removeprefix(f"{folder}/")[:1].isdigit():
            return
        yield meta


def _furthest(instants: Iterable[HudiInstant]) -> Iterable[HudiInstant]:
    """Of each instant the furthest state; a completed one ends what began under another name."""
    found: dict[tuple[str, str], HudiInstant] = {}
    for each in instants:
        key = each.time, each.action
        if key not in found or _PROGRESS[each.state] > _PROGRESS[found[key].state]:
            found[key] = each
    for (time, action), each in list(found.items()):
        end = found.get((time, ENDS_AS.get(action, action)))
        if not each.is_completed and end is not None and end.is_completed:
            del found[time, action]
    return found.values()


def _effect(instant: HudiInstant) -> tuple[bool, str, str, str]:
    """What instants are ordered by: when they took effect. Those of layout 1 have no completion time."""
    return not instant.is_completed, order(instant.completion or instant.time), order(instant.time), instant.action


def _with_completion(instant: HudiInstant, config: HudiTableConfig) -> HudiInstant:
    """A completed instant of an older layout took effect when its file was written, and not before it began."""
    if not instant.is_completed or instant.completion is not None:
        return instant
    written = instant_text(datetime.fromtimestamp(instant.written_ms / 1000, UTC), config)
    return replace(instant, completion=max(instant.time, written, key=order))
