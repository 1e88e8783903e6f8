"""Compaction: log files are merged into a new base file, by the rule that readers merge by.

A compaction is *scheduled*: its plan names the slices and the log files that it will merge. From then on new log files
belong to the slice that it will make, so it can be *run* at any time, also while others write. Its plan is what it
does: run again after a crash, it writes the same files.

Up to table version 7 a write that is under way appends to slices that a plan may already name, so nothing is scheduled
while one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from halocline.errors import ConflictError, NotFoundError, UnsupportedError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.running import Lock, Runner, check_no_log_compaction, complete, in_turn, running
from halocline.formats.hudi.names import BaseFile, LogFile, parse_data_file
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import CLUSTERING, COMMIT, COMPACTION, REPLACE_COMMIT, HudiInstant, order
from halocline.formats.hudi.timeline.metadata import (
    CommitMetadata,
    CompactionOperation,
    CompactionPlan,
    ReplacePlan,
    WriteStat,
)
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write import schemas
from halocline.formats.hudi.write.base_writer import write_base_file
from halocline.formats.hudi.write.heartbeat import is_alive
from halocline.formats.hudi.write.instants import put_requested
from halocline.formats.hudi.write.metadata_table import retire_metadata_table
from halocline.formats.hudi.write.rollback import failed_writes
from halocline.storage.base import Store

_MEBIBYTE: Final = 1024 * 1024
_ATTEMPTS: Final = 5


def schedule_compaction(
    store: Store, *, wanted: Callable[[FileSlice], bool] = lambda slice: True
) -> HudiInstant | None:
    """Plans to merge the log files of slices. Where there are other writers, hold their lock meanwhile.

    Args:
        store: Where the table lies.
        wanted: Which slices to merge, of those that have log files; all if not given.

    Returns:
        The requested compaction; None if there is nothing to merge.

    Raises:
        ConflictError: A write is under way that may still append to the slices.
        UnsupportedError: The table has no log files by its type, or a log compaction is pending.
    """
    for _ in range(_ATTEMPTS):
        snapshot = HudiSnapshot.load(store)
        _check_type(snapshot)
        check_no_log_compaction(snapshot.timeline)
        _check_nothing_appends(snapshot)
        planned = planned_groups(snapshot.timeline)
        slices = [
            each
            for each in snapshot.slices
            if each.logs and (each.partition, each.file_id) not in planned and wanted(each)
        ]
        if not slices:
            return None
        requested = put_requested(store, snapshot.config, COMPACTION, _encoded(slices))
        if _names_everything(HudiSnapshot.load(store), slices, requested.time):
            return requested
        store.delete(requested.path)
    raise ConflictError(
        f"{store.root} is written to so often that no compaction can be planned",
        condition="CONCURRENT_APPEND",
        sides={"wanted": "a plan that names every log file", "tried": f"{_ATTEMPTS} times"},
        next_step="Hold the lock of the table while the compaction is scheduled.",
    )


def run_compaction(store: Store, time: str, *, runner: Runner = in_turn, lock: Lock = None) -> HudiInstant:
    """Does what a scheduled compaction plans, and makes it count.

    Args:
        store: Where the table lies.
        time: The instant of the compaction.
        runner: What has the file groups merged; this process if not given.
        lock: What every writer of the table holds while it completes something.

    Raises:
        ConflictError: Somebody else runs it.
        NotFoundError: No compaction of that time is pending, or a file that it names is gone.
        UnsupportedError: Rows are merged by code that only the table's owner has.
    """
    snapshot = HudiSnapshot.load(store)
    instant = next((each for each in pending_compactions(snapshot.timeline) if each.time == time), None)
    if instant is None:
        raise NotFoundError(
            f"no compaction {time} of {store.root} is pending",
            sides={"asked for": time, "pending": ", ".join(sorted(snapshot.timeline.pending_compactions)) or "none"},
            next_step="Schedule one.",
        )
    config = retire_metadata_table(store, snapshot.config)
    with running(store, config, instant, lock):
        plan = read_plan(snapshot.timeline, instant)
        slices = [_planned_slice(each, time) for each in plan.operations or []]
        stats = runner(_Compactor(store, snapshot.reader(), time), slices)
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path or "", []).append(stat)
        metadata = CommitMetadata(
            partition_to_write_stats=by_partition,
            extra_metadata={"schema": snapshot.schema.avro} if snapshot.schema.avro else {},
            operation_type="COMPACT",
            compacted=True,
        )
        return complete(store, config, instant, metadata, COMMIT, lock)


def compact(
    store: Store,
    *,
    wanted: Callable[[FileSlice], bool] = lambda slice: True,
    runner: Runner = in_turn,
    lock: Lock = None,
) -> tuple[HudiInstant, ...]:
    """Runs every compaction that is pending and that nobody is at, and then one that merges what is left.

    Args:
        store: Where the table lies.
        wanted: Which slices to merge; all if not given. Plans that are pending are done whatever they name.
        runner: What has the file groups merged; this process if not given.
        lock: What every writer of the table holds while it begins or completes something.

    Returns:
        The completed compactions.
    """
    snapshot = HudiSnapshot.load(store)
    pending = [each.time for each in pending_compactions(snapshot.timeline) if not is_alive(store, each.time)]
    done = [run_compaction(store, each, runner=runner, lock=lock) for each in pending]
    with lock or nullcontext():
        requested = schedule_compaction(store, wanted=wanted)
    if requested is not None:
        done.append(run_compaction(store, requested.time, runner=runner, lock=lock))
    return tuple(done)


def pending_compactions(timeline: HudiTimeline) -> tuple[HudiInstant, ...]:
    """The compactions that have not taken effect, oldest first."""
    found = (each for each in timeline.instants if each.action == COMPACTION and not each.is_completed)
    return tuple(sorted(found, key=lambda each: each.time))


def read_plan(timeline: HudiTimeline, instant: HudiInstant) -> CompactionPlan:
    """What a compaction plans to do."""
    return CompactionPlan.parse(timeline.requested_body(instant).record, f"{instant} of {timeline.store.root}")


def planned_groups(timeline: HudiTimeline) -> set[tuple[str, str]]:
    """The file groups, as partition and file id, that a pending compaction or clustering is to rewrite."""
    found = set(timeline.planned_compactions)
    for _, slices in pending_clusterings(timeline):
        found |= set(slices)
    return found


def pending_clusterings(timeline: HudiTimeline) -> Iterator[tuple[HudiInstant, list[tuple[str, str]]]]:
    """The clusterings that have not taken effect, each with the file groups that it is to rewrite."""
    for instant in timeline.instants:
        if instant.is_completed or instant.action not in (CLUSTERING, REPLACE_COMMIT):
            continue
        plan = ReplacePlan.parse(timeline.requested_body(instant).record, f"{instant} of {timeline.store.root}")
        if instant.action == REPLACE_COMMIT and plan.operation_type != "CLUSTER":
            continue
        groups = (plan.clustering_plan.input_groups if plan.clustering_plan else None) or []
        yield instant, [(each.partition_path or "", each.file_id or "") for one in groups for each in one.slices or []]


def _check_type(snapshot: HudiSnapshot) -> None:
    if snapshot.config.type is not TableType.MERGE_ON_READ:
        raise UnsupportedError(
            f"{snapshot.store.root} has no log files to merge",
            sides={"table": str(snapshot.config.type), "compaction is for": str(TableType.MERGE_ON_READ)},
            next_step="Cluster the table if its files are small.",
        )


def _check_nothing_appends(snapshot: HudiSnapshot) -> None:
    running = failed_writes(snapshot.timeline) if snapshot.config.layout == 1 else ()
    if running:
        raise ConflictError(
            f"a write to {snapshot.store.root} is under way, and log files that it appends to cannot be merged yet",
            condition="CONCURRENT_APPEND",
            sides={"wanted": "a compaction", "under way": ", ".join(map(str, running))},
            next_step="Wait for it, or roll it back if its writer is dead.",
        )


def _names_everything(now: HudiSnapshot, slices: Iterable[FileSlice], time: str) -> bool:
    """Whether a plan names every log file before the slice that it will make; one that came between would be lost."""
    planned = {(each.partition, each.file_id): each for each in slices}
    for group in now.groups:
        plan = planned.get((group.partition, group.file_id))
        if plan is None:
            continue
        first, named = plan.base.instant if plan.base else "", {each.path for each in plan.logs}
        for slice in group.slices:
            for log in slice.logs if order(slice.instant) >= order(first) else ():
                since = slice.instant if now.config.layout == 1 else now.timeline.completion_of(log.instant)
                if order(since or log.instant) < order(time) and log.path not in named:
                    return False
    return True


def _encoded(slices: Iterable[FileSlice]) -> bytes:
    plan = {
        "operations": [_operation(each) for each in slices],
        "extraMetadata": {},
        "version": 2,
        "preserveHoodieMetadata": True,
        "missingSchedulePartitions": [],
    }
    return write_record(schemas.COMPACTION_PLAN, plan)


def _operation(slice: FileSlice) -> Mapping[str, Any]:
    size = sum(each.size for each in slice.logs)
    read, written = (slice.size // _MEBIBYTE, (slice.base.size if slice.base else size) // _MEBIBYTE)
    return {
        "baseInstantTime": slice.base.instant if slice.base else slice.instant,
        "deltaFilePaths": [_name(each) for each in slice.logs],
        "dataFilePath": _name(slice.base) if slice.base else None,
        "fileId": slice.file_id,
        "partitionPath": slice.partition,
        "metrics": {
            "TOTAL_LOG_FILES": float(len(slice.logs)),
            "TOTAL_IO_MB": float(read + written),
            "TOTAL_IO_READ_MB": float(read),
            "TOTAL_LOG_FILES_SIZE": float(size),
            "TOTAL_IO_WRITE_MB": float(written),
        },
    }


@dataclass(frozen=True)
class _Compactor:
    """Merges slices: a small value that can travel to where the work is done."""

    store: Store
    reader: SliceReader
    time: str

    def __call__(self, slice: FileSlice, token: str) -> WriteStat:
        rows = pa.Table.from_batches(self.reader.read(self.store, slice), self.reader.output)
        return write_base_file(
            self.store,
            rows,
            partition=slice.partition,
            file_id=slice.file_id,
            token=token,
            instant=self.time,
            previous=slice.instant,
            counts=(0, rows.num_rows, 0),
            aside=True,
        )


def _planned_slice(operation: CompactionOperation, time: str) -> FileSlice:
    partition, file_id = operation.partition_path or "", operation.file_id or ""
    folder = f"{partition}/" if partition else ""
    base = parse_data_file(folder + operation.data_file_path.rpartition("/")[2]) if operation.data_file_path else None
    logs = (parse_data_file(folder + each.rpartition("/")[2]) for each in operation.delta_file_paths or [])
    return FileSlice(
        partition,
        file_id,
        operation.base_instant_time or time,
        base if isinstance(base, BaseFile) else None,
        tuple(each for each in logs if isinstance(each, LogFile)),
    )


def _name(file: BaseFile | LogFile) -> str:
    return file.path.rpartition("/")[2]
