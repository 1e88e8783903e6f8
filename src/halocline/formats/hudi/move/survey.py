"""What a move finds in a table: what is unfinished, what stands in the way, and which slices must be compacted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from halocline.errors import NotYetError, UnsupportedError
from halocline.formats.hudi.base_file import open_base_file
from halocline.formats.hudi.configuration import MERGE_MODE, HudiTableConfig, KeyGeneratorType
from halocline.formats.hudi.maintain.compaction import pending_compactions
from halocline.formats.hudi.move.step import Obstacle
from halocline.formats.hudi.record_keys import RECORD_KEY
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import INDEXING, LOG_COMPACTION, RESTORE, ROLLBACK, HudiInstant
from halocline.formats.hudi.write.heartbeat import is_alive
from halocline.formats.hudi.write.rollback import failed_writes, taken_back
from halocline.storage.base import Store

_UNMOVABLE: Final = frozenset({INDEXING, LOG_COMPACTION, RESTORE})
_NAMED_FROM: Final = 9
"""From this version on, releases make the key of a complex generator with one field with the name of the field."""


@dataclass(frozen=True)
class Survey:
    """What a move finds.

    Attributes:
        failed: Writes that did not finish.
        running: Those among them whose writers are alive.
        compactions: Compactions that are pending.
        obstacles: What stands in the way.
        warnings: What to know before.
    """

    failed: tuple[HudiInstant, ...]
    running: tuple[HudiInstant, ...]
    compactions: tuple[HudiInstant, ...]
    obstacles: tuple[Obstacle, ...]
    warnings: tuple[str, ...]


def survey(snapshot: HudiSnapshot, target: HudiTableConfig) -> Survey:
    """Looks at a table before it moves.

    Args:
        snapshot: The table.
        target: What it is to be.
    """
    timeline = snapshot.timeline
    failed = failed_writes(timeline)
    rollbacks = tuple(each for each in timeline.instants if each.action == ROLLBACK and not each.is_completed)
    obstacles = [
        *_unfinished(snapshot, rollbacks, failed),
        *_keys(snapshot, target),
    ]
    return Survey(
        failed=failed,
        running=tuple(each for each in failed if is_alive(snapshot.store, each.time)),
        compactions=pending_compactions(timeline),
        obstacles=tuple(obstacles),
        warnings=tuple(_warnings(snapshot, target)),
    )


def to_compact(snapshot: HudiSnapshot, target: HudiTableConfig) -> list[FileSlice]:
    """The slices whose log files the target would not read as the table does now.

    Args:
        snapshot: The table, without anything that is pending.
        target: What it is to be.

    Raises:
        UnsupportedError: Rows are merged by code that only the table's owner has, so that cannot be told.
    """
    with_logs = [each for each in snapshot.slices if each.logs]
    if not with_logs:
        return []
    now, later = readers(snapshot, target)
    return [
        each
        for each in with_logs
        if (target.layout < snapshot.config.layout and _is_named_by_write(each))
        or (now.rule != later.rule and not same_rows(snapshot.store, each, now, later))
    ]


def readers(snapshot: HudiSnapshot, target: HudiTableConfig) -> tuple[SliceReader, SliceReader]:
    """What reads the slices of a table now, and what will read them."""
    return snapshot.reader(), replace(snapshot, config=target).reader()


def same_rows(store: Store, slice: FileSlice, one: SliceReader, other: SliceReader) -> bool:
    """Whether two readers read the same rows from a slice."""
    first, second = (pa.Table.from_batches(each.read(store, slice), each.output) for each in (one, other))
    return bool(first.equals(second))


def _is_named_by_write(slice: FileSlice) -> bool:
    """Whether log files carry the instant of their write: releases before 1.0 take it for that of a slice."""
    first = slice.base.instant if slice.base else slice.instant
    return any(each.instant != first for each in slice.logs)


def _unfinished(
    snapshot: HudiSnapshot, rollbacks: tuple[HudiInstant, ...], failed: tuple[HudiInstant, ...]
) -> Iterator[Obstacle]:
    for each in snapshot.timeline.instants:
        if not each.is_completed and each.action in _UNMOVABLE:
            yield Obstacle(
                f"pending {each.action} {each.time}",
                "only the writer that began it can finish it",
                f"Let the {each.action} end, or take it back with the writer that began it.",
            )
    known = {each.time for each in failed}
    for rollback in rollbacks:
        about = taken_back(snapshot.timeline, rollback)
        if about not in known:
            yield Obstacle(
                f"pending rollback {rollback.time} of {about or 'an unknown instant'}",
                "what it takes back has taken effect or is gone",
                "Let the writer that began it finish it.",
            )


def _keys(snapshot: HudiSnapshot, target: HudiTableConfig) -> Iterator[Obstacle]:
    """A complex key generator with one field makes other keys at other versions, and then rows come twice."""
    key = _stored_key(snapshot)
    if key is None:
        return
    field = snapshot.config.record_keys[0]
    named = key.startswith(f"{field}:")
    if named != (target.version >= _NAMED_FROM):
        expected = f"{field}:value" if target.version >= _NAMED_FROM else "value"
        yield Obstacle(
            f"a complex key generator with the one key field {field}, whose stored keys look like {key!r}",
            f"writers of version {target.version} make keys like {expected!r}, so updates would insert every row again",
            "Rewrite the table with a simple key generator, or let every writer set "
            "hoodie.write.complex.keygen.new.encoding to what is stored and stay at this version.",
        )


def _stored_key(snapshot: HudiSnapshot) -> str | None:
    config = snapshot.config
    if config.key_generator is not KeyGeneratorType.COMPLEX or len(config.record_keys) != 1 or not config.meta_fields:
        return None
    for each in snapshot.slices:
        if each.base is None:
            continue
        for batch in open_base_file(snapshot.store, each.base).batches([RECORD_KEY]):
            if batch.num_rows:
                return str(batch[RECORD_KEY][0])
    return None


def _warnings(snapshot: HudiSnapshot, target: HudiTableConfig) -> Iterator[str]:
    config = snapshot.config
    if config.payload_class is None and config.merge_mode is None and target.layout > 1 and config.ordering_fields:
        yield (
            "the table names no payload class, and writers of releases before 1.0 let the latest write win unless told "
            f"otherwise, so it is given {target.merge_mode}; later writers that order by "
            f"{', '.join(config.ordering_fields)} instead are refused until {MERGE_MODE} says so"
        )
    if target.layout != config.layout:
        word = "completion" if target.layout > 1 else "request"
        yield f"incremental checkpoints are times of {word} afterwards; convert stored ones with the table's history"
        if config.metadata_partitions:
            yield f"the metadata table ({', '.join(config.metadata_partitions)}) is dropped and built again by a writer"
    if target.layout < config.layout:
        yield "time travel behind this move is not for releases before 1.0: log files carry the names of version 8"


def check_not_running(root: str, running: Iterable[HudiInstant]) -> None:
    """Refuses to move a table beneath a writer.

    Raises:
        NotYetError: A write is under way.
    """
    for each in running:
        raise NotYetError(
            f"write {each} of {root} is under way, and would be completed in the timeline of the old version",
            condition="WRITE_UNDER_WAY",
            sides={"table": f"{each}, whose writer is alive", "asked for": "a move to another version"},
            next_step="Wait until it has ended, or stop its writer.",
        )


def refuse(root: str, source: int, target: int, obstacles: tuple[Obstacle, ...]) -> None:
    """Refuses a move that something stands in the way of.

    Raises:
        UnsupportedError: Something does.
    """
    if not obstacles:
        return
    first = obstacles[0]
    more = {f"also {number}": f"{each.feature}: {each.reason}" for number, each in enumerate(obstacles[1:], 2)}
    raise UnsupportedError(
        f"{root} cannot move from version {source} to {target}: it has {first.feature}",
        sides={"table": first.feature, f"version {target}": first.reason, **more},
        next_step=first.fix,
    )
