"""Clustering: the rows of several small files go to new file groups, in the order of some columns if one is asked for.

A clustering is *scheduled*: its plan names the file groups that belong together. It is *run* on what those groups hold
then, writes new ones, and replaces the old. A write to one of the groups while it runs is a conflict: nothing of the
clustering counts, and it can be run again, or *cancelled*. Rows keep the instant that wrote them, so an incremental
query does not return them again.

Up to table version 7 a clustering that is pending has the name of a replace commit, and its plan says what it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from halocline.errors import ConflictError, InputError, NotFoundError, UnsupportedError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.buckets import bucket_of
from halocline.formats.hudi.maintain.compaction import pending_clusterings, planned_groups
from halocline.formats.hudi.maintain.running import Lock, Runner, check_no_log_compaction, complete, in_turn, running
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import CLUSTERING, REPLACE_COMMIT, HudiInstant
from halocline.formats.hudi.timeline.metadata import CommitMetadata, ReplacePlan, WriteStat
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write import schemas
from halocline.formats.hudi.write.base_writer import write_base_file
from halocline.formats.hudi.write.heartbeat import is_alive
from halocline.formats.hudi.write.instants import put_requested
from halocline.formats.hudi.write.metadata_table import retire_metadata_table
from halocline.formats.hudi.write.rollback import roll_back
from halocline.storage.base import Store

SMALL_BYTES: Final = 300 * 1024 * 1024
"""Files that are smaller are put together with others."""

GROUP_BYTES: Final = 1024 * 1024 * 1024
"""So much goes into one new file at most."""

_STRATEGY: Final = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
_SORT: Final = "hoodie.clustering.plan.strategy.sort.columns"


def schedule_clustering(
    store: Store, *, sort_by: Sequence[str] = (), small_bytes: int = SMALL_BYTES, group_bytes: int = GROUP_BYTES
) -> HudiInstant | None:
    """Plans to put the rows of small files together. Where there are other writers, hold their lock meanwhile.

    Args:
        store: Where the table lies.
        sort_by: The columns that rows are sorted by in each new file.
        small_bytes: Files that are smaller are put together.
        group_bytes: So much goes into one new file at most.

    Returns:
        The requested clustering; None if there is nothing to put together.

    Raises:
        InputError: There is no such column.
        UnsupportedError: The table has a bucket index, or a log compaction is pending.
    """
    snapshot = HudiSnapshot.load(store)
    check_no_log_compaction(snapshot.timeline)
    missing = [name for name in sort_by if name not in snapshot.schema.columns.names]
    if missing:
        raise InputError(
            f"there is no column {missing[0]!r} to sort by",
            condition="COLUMN_NOT_FOUND",
            sides={"asked for": ", ".join(sort_by), "table has": ", ".join(snapshot.schema.columns.names[:20])},
            next_step="Use one of the table's columns.",
        )
    if snapshot.slices and all(bucket_of(each.file_id) is not None for each in snapshot.slices):
        raise UnsupportedError(
            f"{store.root} has a bucket index, and rows put together would lie outside of their buckets",
            sides={"table": "one file group per bucket", "clustering": "makes file groups of several others"},
            next_step="Compact the table instead; its files are as many as its buckets.",
        )
    planned = planned_groups(snapshot.timeline)
    small = [
        each for each in snapshot.slices if each.size < small_bytes and (each.partition, each.file_id) not in planned
    ]
    groups = [each for each in _together(small, group_bytes) if len(each) > 1]
    if not groups:
        return None
    action = CLUSTERING if snapshot.config.layout > 1 else REPLACE_COMMIT
    return put_requested(store, snapshot.config, action, _encoded(store, groups, sort_by))


def run_clustering(store: Store, time: str, *, runner: Runner = in_turn, lock: Lock = None) -> HudiInstant:
    """Does what a scheduled clustering plans, and makes it count.

    Args:
        store: Where the table lies.
        time: The instant of the clustering.
        runner: What has the file groups put together; this process if not given.
        lock: What every writer of the table holds while it completes something.

    Raises:
        ConflictError: One of its file groups was written to meanwhile, or somebody else runs it; it can be run again.
        NotFoundError: No clustering of that time is pending.
    """
    snapshot = HudiSnapshot.load(store)
    instant = _pending(snapshot, time)
    config = retire_metadata_table(store, snapshot.config)
    with running(store, config, instant, lock):
        plan = ReplacePlan.parse(snapshot.timeline.requested_body(instant).record, f"{instant} of {store.root}")
        live = {(each.partition, each.file_id): each for each in snapshot.slices}
        parts = [(f"{uuid.uuid4()}-0", slices) for slices in _planned(plan, live)]
        stats: dict[str, list[WriteStat]] = {}
        for stat in runner(_Clusterer(store, snapshot.reader(), time, _sort_columns(plan)), parts):
            stats.setdefault(stat.partition_path or "", []).append(stat)
        replaced: dict[str, list[str]] = {}
        for each in (slice for _, slices in parts for slice in slices):
            replaced.setdefault(each.partition, []).append(each.file_id)
        metadata = CommitMetadata(
            partition_to_write_stats=stats,
            partition_to_replace_file_ids=replaced,
            extra_metadata={"schema": snapshot.schema.avro} if snapshot.schema.avro else {},
            operation_type="CLUSTER",
        )
        groups = set(metadata.replaced)
        return complete(
            store, config, instant, metadata, REPLACE_COMMIT, lock, lambda: _check_untouched(snapshot, groups, time)
        )


def cancel_clustering(store: Store, time: str, *, lock: Lock = None) -> HudiInstant:
    """Takes a clustering back that is planned and not completed, so that its file groups can be written to again.

    Args:
        store: Where the table lies.
        time: The instant of the clustering.
        lock: What every writer of the table holds while it completes something.

    Returns:
        The rollback.

    Raises:
        ConflictError: Somebody is running it.
        NotFoundError: No clustering of that time is pending.
    """
    with lock or nullcontext():
        snapshot = HudiSnapshot.load(store)
        instant = _pending(snapshot, time)
        with running(store, snapshot.config, instant):
            return roll_back(store, snapshot.config, instant)


def cluster(
    store: Store,
    *,
    sort_by: Sequence[str] = (),
    small_bytes: int = SMALL_BYTES,
    runner: Runner = in_turn,
    lock: Lock = None,
) -> HudiInstant | None:
    """Runs every clustering that is pending and that nobody is at, and then one that puts together what is left.

    Args:
        store: Where the table lies.
        sort_by: The columns that rows are sorted by in each new file.
        small_bytes: Files that are smaller are put together.
        runner: What has the file groups put together; this process if not given.
        lock: What every writer of the table holds while it begins or completes something.

    Returns:
        The last clustering that was completed; None if there was nothing to put together.
    """
    pending = [each.time for each, _ in pending_clusterings(HudiSnapshot.load(store).timeline)]
    done = [run_clustering(store, time, runner=runner, lock=lock) for time in pending if not is_alive(store, time)]
    with lock or nullcontext():
        requested = schedule_clustering(store, sort_by=sort_by, small_bytes=small_bytes)
    if requested is not None:
        done.append(run_clustering(store, requested.time, runner=runner, lock=lock))
    return done[-1] if done else None


def _pending(snapshot: HudiSnapshot, time: str) -> HudiInstant:
    pending = [each for each, _ in pending_clusterings(snapshot.timeline)]
    for each in pending:
        if each.time == time:
            return each
    raise NotFoundError(
        f"no clustering {time} of {snapshot.store.root} is pending",
        sides={"asked for": time, "pending": ", ".join(each.time for each in pending) or "none"},
        next_step="Schedule one.",
    )


def _together(slices: Sequence[FileSlice], group_bytes: int) -> Iterator[list[FileSlice]]:
    """Slices of one partition, filled up to a size."""
    by_partition: dict[str, list[FileSlice]] = {}
    for each in slices:
        by_partition.setdefault(each.partition, []).append(each)
    for found in by_partition.values():
        group: list[FileSlice] = []
        for each in found:
            if group and sum(one.size for one in group) + each.size > group_bytes:
                yield group
                group = []
            group.append(each)
        yield group


def _planned(plan: ReplacePlan, live: dict[tuple[str, str], FileSlice]) -> Iterator[list[FileSlice]]:
    for group in (plan.clustering_plan.input_groups if plan.clustering_plan else None) or []:
        keys = [(each.partition_path or "", each.file_id or "") for each in group.slices or []]
        slices = [live[key] for key in keys if key in live]
        if slices:
            yield slices


def _sort_columns(plan: ReplacePlan) -> list[str]:
    strategy = plan.clustering_plan.strategy if plan.clustering_plan else None
    text = ((strategy.strategy_params if strategy else None) or {}).get(_SORT) or ""
    return [each.strip() for each in text.split(",") if each.strip()]


@dataclass(frozen=True)
class _Clusterer:
    """Puts slices together: a small value that can travel to where the work is done."""

    store: Store
    reader: SliceReader
    time: str
    sort_by: Sequence[str]

    def __call__(self, part: tuple[str, Sequence[FileSlice]], token: str) -> WriteStat:
        file_id, slices = part
        batches = (batch for each in slices for batch in self.reader.read(self.store, each))
        rows = pa.Table.from_batches(batches, self.reader.output)
        if self.sort_by:
            rows = rows.sort_by([(name, "ascending") for name in self.sort_by])
        return write_base_file(
            self.store, rows, partition=slices[0].partition, file_id=file_id, token=token, instant=self.time, aside=True
        )


def _check_untouched(snapshot: HudiSnapshot, groups: set[tuple[str, str]], time: str) -> None:
    seen = {each.time for each in snapshot.timeline.writes}
    for other in HudiTimeline.load(snapshot.store, snapshot.config).writes:
        if other.time in seen:
            continue
        said = snapshot.timeline.commit_metadata(other)
        touched = {(partition, stat.file_id or "") for partition, stat in said.stats} | set(said.replaced)
        if touched & groups:
            raise ConflictError(
                f"{other.time} has written to a file group of {snapshot.store.root} while it was clustered",
                condition="CONCURRENT_APPEND",
                sides={"clustering": time, "other write": str(other)},
                next_step="Run the clustering again.",
            )


def _encoded(store: Store, groups: Sequence[Sequence[FileSlice]], sort_by: Sequence[str]) -> bytes:
    address = store.address()
    root = f"file:{address}" if address.startswith("/") else address
    said: dict[str, Any] = {
        "operationType": "CLUSTER",
        "clusteringPlan": {
            "inputGroups": [
                {
                    "slices": [
                        {
                            "dataFilePath": f"{root}/{each.base.path}" if each.base else "",
                            "deltaFilePaths": [f"{root}/{log.path}" for log in each.logs],
                            "fileId": each.file_id,
                            "partitionPath": each.partition,
                            "bootstrapFilePath": "",
                            "version": 1,
                        }
                        for each in group
                    ],
                    "metrics": {},
                    "numOutputFileGroups": 1,
                    "version": 1,
                }
                for group in groups
            ],
            "strategy": {
                "strategyClassName": _STRATEGY,
                "strategyParams": {_SORT: ",".join(sort_by)} if sort_by else {},
                "version": 1,
            },
            "extraMetadata": {},
            "version": 1,
            "preserveHoodieMetadata": True,
            "missingSchedulePartitions": [],
        },
        "extraMetadata": {},
        "version": 1,
    }
    return write_record(schemas.REQUESTED_REPLACE, said)
