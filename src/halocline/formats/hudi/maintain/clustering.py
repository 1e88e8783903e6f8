"""Clustering: the rows of several small files go to new file groups, in the order of some columns if one is asked for.

A clustering is *scheduled*: its plan names the file groups that belong together. It is *run* on what those groups hold
then, writes new ones, and replaces the old. A write to one of the groups while it runs is a conflict: nothing of the
clustering counts, and it can be run again. Rows keep the instant that wrote them, so an incremental query does not
return them again.

Up to table version 7 a clustering that is pending has the name of a replace commit, and its plan says what it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from halocline.errors import ConflictError, InputError, NotFoundError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.maintain.compaction import pending_clusterings, planned_groups, remove_leftovers
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import CLUSTERING, REPLACE_COMMIT, HudiInstant
from halocline.formats.hudi.timeline.metadata import CommitMetadata, ReplacePlan, WriteStat
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write import schemas
from halocline.formats.hudi.write.base_writer import write_base_file
from halocline.formats.hudi.write.commit_body import encode_commit
from halocline.formats.hudi.write.instants import put_completed, put_inflight, put_requested
from halocline.formats.hudi.write.markers import delete_markers
from halocline.formats.hudi.write.metadata_table import retire_metadata_table
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
    """Plans to put the rows of small files together.

    Args:
        store: Where the table lies.
        sort_by: The columns that rows are sorted by in each new file.
        small_bytes: Files that are smaller are put together.
        group_bytes: So much goes into one new file at most.

    Returns:
        The requested clustering; None if there is nothing to put together.

    Raises:
        InputError: There is no such column.
    """
    snapshot = HudiSnapshot.load(store)
    missing = [name for name in sort_by if name not in snapshot.schema.columns.names]
    if missing:
        raise InputError(
            f"there is no column {missing[0]!r} to sort by",
            condition="COLUMN_NOT_FOUND",
            sides={"asked for": ", ".join(sort_by), "table has": ", ".join(snapshot.schema.columns.names[:20])},
            next_step="Use one of the table's columns.",
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


def run_clustering(store: Store, time: str) -> HudiInstant:
    """Does what a scheduled clustering plans, and makes it count.

    Args:
        store: Where the table lies.
        time: The instant of the clustering.

    Raises:
        ConflictError: One of its file groups was written to meanwhile; it can be run again.
        NotFoundError: No clustering of that time is pending.
    """
    snapshot = HudiSnapshot.load(store)
    instant = next((each for each, _ in pending_clusterings(snapshot.timeline) if each.time == time), None)
    if instant is None:
        found = ", ".join(each.time for each, _ in pending_clusterings(snapshot.timeline))
        raise NotFoundError(
            f"no clustering {time} of {store.root} is pending",
            sides={"asked for": time, "pending": found or "none"},
            next_step="Schedule one.",
        )
    config = retire_metadata_table(store, snapshot.config)
    put_inflight(store, config, instant)
    remove_leftovers(store, time)
    plan = ReplacePlan.parse(snapshot.timeline.requested_body(instant).record, f"{instant} of {store.root}")
    live = {(each.partition, each.file_id): each for each in snapshot.slices}
    stats: dict[str, list[WriteStat]] = {}
    replaced: dict[str, list[str]] = {}
    for number, slices in enumerate(_planned(plan, live)):
        stat = _put_together(snapshot, slices, time, number, _sort_columns(plan))
        stats.setdefault(stat.partition_path or "", []).append(stat)
        for each in slices:
            replaced.setdefault(each.partition, []).append(each.file_id)
    metadata = CommitMetadata(
        partition_to_write_stats=stats,
        partition_to_replace_file_ids=replaced,
        extra_metadata={"schema": snapshot.schema.avro} if snapshot.schema.avro else {},
        operation_type="CLUSTER",
    )
    _check_untouched(snapshot, set(metadata.replaced), time)
    done = put_completed(store, config, instant, encode_commit(metadata, REPLACE_COMMIT, config.layout))
    delete_markers(store, time)
    return done


def cluster(store: Store, *, sort_by: Sequence[str] = (), small_bytes: int = SMALL_BYTES) -> HudiInstant | None:
    """Schedules a clustering and runs it; None if there is nothing to put together."""
    requested = schedule_clustering(store, sort_by=sort_by, small_bytes=small_bytes)
    return None if requested is None else run_clustering(store, requested.time)


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


def _put_together(
    snapshot: HudiSnapshot, slices: Sequence[FileSlice], time: str, number: int, sort_by: Sequence[str]
) -> WriteStat:
    reader = snapshot.reader()
    batches = (batch for each in slices for batch in reader.read(snapshot.store, each))
    rows = pa.Table.from_batches(batches, reader.output)
    if sort_by:
        rows = rows.sort_by([(name, "ascending") for name in sort_by])
    return write_base_file(
        snapshot.store,
        rows,
        partition=slices[0].partition,
        file_id=f"{uuid.uuid4()}-0",
        token=f"{number}-0-0",
        instant=time,
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
