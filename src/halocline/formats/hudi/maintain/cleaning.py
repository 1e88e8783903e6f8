"""Cleaning: files that only older instants need are deleted.

What stays is decided by one of two *policies*: enough for time travel to each of the last writes, or the last versions
of each file group. Kept in any case are files that a savepoint names, and file groups that a pending compaction or
clustering is to rewrite. A file group that was replaced goes as a whole, once no instant that stays can see it.

A cleaning is planned, and the plan is done: run again after a crash, it deletes the same files. What writers that were
killed have left half-written goes as well, planned or not, and so do files of attempts that came too late to count,
and of writes that had been taken back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from halocline.errors import InputError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.maintain.compaction import planned_groups
from halocline.formats.hudi.names import BaseFile, LogFile
from halocline.formats.hudi.slices import FileGroup, data_files, file_groups, late_files
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import CLEAN, SAVEPOINT, HudiInstant, order
from halocline.formats.hudi.timeline.metadata import CleanerPlan, SavepointMetadata
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write import schemas
from halocline.formats.hudi.write.files_aside import forget_aside
from halocline.formats.hudi.write.instants import put_completed, put_inflight, put_requested
from halocline.formats.hudi.write.metadata_table import retire_metadata_table
from halocline.formats.hudi.write.rollback import remove_late_files
from halocline.storage.base import Store

_VERSION: Final = 2


class CleaningPolicy(StrEnum):
    """What stays: what the last writes need, or the last versions of each file group."""

    COMMITS = "KEEP_LATEST_COMMITS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True)
class CleaningPlan:
    """What a cleaning is to delete.

    Attributes:
        policy: What stays.
        earliest: The first write that time travel still reaches; None if versions are counted instead.
        files: The files to delete, by partition.
    """

    policy: CleaningPolicy
    earliest: HudiInstant | None
    files: dict[str, list[str]]


def clean(store: Store, *, policy: CleaningPolicy | str = CleaningPolicy.COMMITS, keep: int = 10) -> HudiInstant | None:
    """Deletes files that nobody can ask for any more; a cleaning that was cut short is finished first.

    Args:
        store: Where the table lies.
        policy: What stays.
        keep: How many writes, or versions of each file group, stay.

    Returns:
        The completed cleaning; None if there was nothing to delete.

    Raises:
        InputError: Nothing would stay, or there is no such policy.
    """
    snapshot = HudiSnapshot.load(store)
    for each in snapshot.timeline.instants:
        if each.action == CLEAN and not each.is_completed:
            run_cleaning(store, each)
    plan = plan_cleaning(snapshot, policy, keep)
    done: HudiInstant | None = None
    if plan.files:
        done = run_cleaning(store, put_requested(store, snapshot.config, CLEAN, _encoded(plan, snapshot)))
    kept, late = _savepointed(snapshot.timeline), late_files(snapshot.timeline, data_files(store))
    store.delete_many(sorted(each.path for each in late if each.path not in kept))
    remove_late_files(store, snapshot.timeline)
    forget_aside(store)
    store.sweep(time.time_ns() // 1_000_000)
    return done


def plan_cleaning(snapshot: HudiSnapshot, policy: CleaningPolicy | str, keep: int) -> CleaningPlan:
    """Tells what a cleaning would delete. Changes nothing.

    Raises:
        InputError: Nothing would stay, or there is no such policy.
    """
    if policy not in tuple(CleaningPolicy) or keep < 1:
        raise InputError(
            f"{keep} of {policy} cannot be kept",
            sides={"given": f"{policy}, {keep}", "known": f"{', '.join(CleaningPolicy)}, from 1 on"},
            next_step="Name one of the policies, and keep at least one.",
        )
    chosen, timeline = CleaningPolicy(policy), snapshot.timeline
    earliest = _earliest(timeline, keep) if chosen is CleaningPolicy.COMMITS else None
    if chosen is CleaningPolicy.COMMITS and earliest is None:
        return CleaningPlan(chosen, None, {})
    kept, planned = _savepointed(timeline), planned_groups(timeline)
    files, groups = list(data_files(snapshot.store)), dict[tuple[str, str], FileGroup]()
    for group in file_groups(timeline, files):
        groups[group.partition, group.file_id] = group
    replaced = timeline.replaced_groups(None if earliest is None else earliest.time)
    found: dict[str, list[str]] = {}
    for key, group in groups.items():
        if key in planned:
            continue
        first = None if key in replaced else _first_kept(group, earliest, keep)
        for each in _older(files, group, first):
            if each.path not in kept:
                found.setdefault(each.partition, []).append(each.path)
    return CleaningPlan(chosen, earliest, found)


def run_cleaning(store: Store, instant: HudiInstant) -> HudiInstant:
    """Does what a cleaning plans."""
    snapshot = HudiSnapshot.load(store)
    config = retire_metadata_table(store, snapshot.config)
    body = snapshot.timeline.requested_body(instant)
    plan = CleanerPlan.parse(body.record, f"{instant} of {store.root}")
    put_inflight(store, config, instant, store.get(_requested_path(instant)))
    partitions: dict[str, Any] = {}
    for partition, names in plan.names():
        store.delete_many([f"{partition}/{name}" if partition else name for name in names])
        partitions[partition] = {
            "partitionPath": partition,
            "policy": plan.policy,
            "deletePathPatterns": names,
            "successDeleteFiles": names,
            "failedDeleteFiles": [],
            "isPartitionDeleted": False,
        }
    earliest = plan.earliest_instant_to_retain
    said = {
        "startCleanTime": instant.time,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": sum(len(each["successDeleteFiles"]) for each in partitions.values()),
        "earliestCommitToRetain": earliest.timestamp if earliest else "",
        "lastCompletedCommitTimestamp": plan.last_completed_commit_timestamp,
        "partitionMetadata": partitions,
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": {},
    }
    return put_completed(store, config, instant, write_record(schemas.CLEAN, said))


def _earliest(timeline: HudiTimeline, keep: int) -> HudiInstant | None:
    """The first write that stays within reach; nothing that is pending may begin before it."""
    writes = sorted(timeline.writes, key=lambda each: order(each.time))
    if len(writes) <= keep:
        return None
    pending = min(timeline.pending, key=order, default=None)
    found = [each for each in writes[: len(writes) - keep + 1] if pending is None or order(each.time) < order(pending)]
    return found[-1] if found else None


def _first_kept(group: FileGroup, earliest: HudiInstant | None, keep: int) -> str:
    """The instant of the first slice that stays: one with a base file, which the slices after it continue."""
    whole = [each.instant for each in group.slices if each.base is not None]
    if earliest is None:
        return whole[-keep] if len(whole) >= keep else ""
    before = [each for each in whole if order(each) <= order(earliest.time)]
    return before[-1] if before else ""


def _older(files: list[BaseFile | LogFile], group: FileGroup, first: str | None) -> Iterator[BaseFile | LogFile]:
    """The files of slices before the first that stays; all of the group if none does."""
    gone = {
        file.path
        for each in group.slices
        if first is None or order(each.instant) < order(first)
        for file in (each.base, *each.logs)
        if file is not None
    }
    for file in files:
        if (file.partition, file.file_id) != (group.partition, group.file_id):
            continue
        told = isinstance(file, LogFile) and file.is_change_data
        if file.path in gone or (told and (first is None or order(file.instant) < order(first))):
            yield file


def _savepointed(timeline: HudiTimeline) -> set[str]:
    found = set()
    for instant in timeline.instants:
        if instant.action == SAVEPOINT and instant.is_completed:
            said = SavepointMetadata.parse(timeline.body(instant).record, f"{instant} of {timeline.store.root}")
            for partition, kept in said.partition_metadata.items():
                found |= {f"{partition}/{name}" if partition else name for name in kept.savepoint_data_file}
    return found


def _encoded(plan: CleaningPlan, snapshot: HudiSnapshot) -> bytes:
    store, earliest = snapshot.store, plan.earliest
    newest = max((each.time for each in snapshot.timeline.writes), key=order, default="")
    root = store.address()
    said: dict[str, Any] = {
        "earliestInstantToRetain": earliest
        and {"timestamp": earliest.time, "action": earliest.action, "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": newest,
        "policy": str(plan.policy),
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        "filePathsToBeDeletedPerPartition": {
            partition: [
                {"filePath": f"{'file:' if root.startswith('/') else ''}{root}/{path}", "isBootstrapBaseFile": False}
                for path in paths
            ]
            for partition, paths in plan.files.items()
        },
        "partitionsToBeDeleted": [],
        "extraMetadata": {},
    }
    return write_record(schemas.CLEANER_PLAN, said)


def _requested_path(instant: HudiInstant) -> str:
    return f"{instant.path.rpartition('/')[0]}/{instant.time}.{instant.action}.requested"
