"""Taking back writes that did not finish.

Base files of such a write are deleted. Of its log files, up to table version 7 a file may hold blocks of other writes
as well, so a command block in a new log file takes the blocks back; from 8 on a log file is one write's, and is
deleted, as are files that tell changes. The rollback is an instant of its own, and the pending files of the write go
last: until then it is found again and taken back again, with the same result. A rollback that was cut short is gone on
with, so that none stays pending whose write is gone.

A writer that was taken for dead, or a task of one that has died, may leave a file after all that. While the timeline
shows the rollback, the file does not count. When it does not any more, the instant would be taken for an archived one,
so `remove_late_files` goes before. The limit: what comes later still is not seen; and the log files of layout 1, which
do not tell by their name, stay, since a compaction has come after them before anything is archived.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, encode_block, read_blocks
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.names import BaseFile, LogFile
from halocline.formats.hudi.slices import data_files
from halocline.formats.hudi.timeline.instant import (
    CLUSTERING,
    COMPACTION,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    ROLLBACK,
    HudiInstant,
    InstantState,
    file_name,
)
from halocline.formats.hudi.timeline.metadata import RollbackMetadata, RollbackPlan
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write import schemas
from halocline.formats.hudi.write.files_aside import take_back_aside
from halocline.formats.hudi.write.instants import put_completed, put_inflight, put_requested
from halocline.formats.hudi.write.log_files import put_log_file
from halocline.formats.hudi.write.markers import delete_markers, marked_files
from halocline.storage.base import Store

_SERVICES: Final = frozenset({COMPACTION, LOG_COMPACTION, CLUSTERING})
_TOKEN: Final = "1-0-1"


def failed_writes(timeline: HudiTimeline) -> tuple[HudiInstant, ...]:
    """The writes that began and did not finish, without planned table services: those are run again, not taken back."""
    pending = (each for each in timeline.instants if not each.is_completed and each.is_write)
    return tuple(each for each in pending if each.action not in _SERVICES and not _is_clustering(timeline, each))


def roll_back(store: Store, config: HudiTableConfig, failed: HudiInstant) -> HudiInstant:
    """Takes a write back that did not finish.

    Args:
        store: Where the table lies.
        config: What it is.
        failed: The write. It must not be running any more.

    Returns:
        The completed rollback.
    """
    # First, so that a writer that is not dead finds nothing to move where its files have been looked for.
    take_back_aside(store, failed.time)
    begun = _begun(HudiTimeline.load(store, config), failed)
    rollback = begun[0] if begun else _requested(store, config, failed)
    put_inflight(store, config, rollback)
    partitions: dict[str, dict[str, Any]] = {}
    for file in _left_behind(store, config, failed):
        said = partitions.setdefault(
            file.partition,
            {
                "partitionPath": file.partition,
                "successDeleteFiles": [],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            },
        )
        if isinstance(file, LogFile) and config.layout == 1 and not file.is_change_data:
            path, size = _command(store, file, failed, rollback)
            said["rollbackLogFiles"][path] = size
            said["logFilesFromFailedCommit"][file.path] = file.size
        else:
            store.delete(file.path)
            said["successDeleteFiles"].append(file.path)
    done = _completed(store, config, rollback, failed, partitions)
    delete_markers(store, failed.time)
    for each in (*begun[1:], failed):
        for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
            store.delete(f"{config.timeline_folder}/{file_name(replace(each, state=state))}")
    return done


def remove_late_files(store: Store, timeline: HudiTimeline) -> None:
    """Deletes the files of writes that came after they had been taken back.

    Args:
        store: Where the table lies.
        timeline: Its timeline; rollbacks that it does not show are not looked at.
    """
    times: set[str] = set()
    for each in timeline.instants:
        if each.action == ROLLBACK and each.is_completed:
            said = RollbackMetadata.parse(timeline.body(each).record, f"{each} of {store.root}")
            times.update(said.commits_rollback)
    # A table service that was taken back is run again at the same time.
    times -= {each.time for each in timeline.instants if each.action != ROLLBACK}
    if not times:
        return
    by_name = timeline.config.layout > 1
    late = (
        each.path
        for each in data_files(store)
        if each.instant in times and (isinstance(each, BaseFile) or by_name or each.is_change_data)
    )
    store.delete_many(list(late))


def taken_back(timeline: HudiTimeline, rollback: HudiInstant) -> str | None:
    """The instant that a pending rollback takes back; None if its plan does not tell."""
    try:
        plan = RollbackPlan.parse(timeline.requested_body(rollback).record, f"{rollback} of {timeline.store.root}")
    except (MalformedError, NotFoundError):
        return None
    return plan.instant_to_rollback.commit_time if plan.instant_to_rollback else None


def _begun(timeline: HudiTimeline, failed: HudiInstant) -> list[HudiInstant]:
    """The rollbacks of a write that were begun and cut short."""
    pending = (each for each in timeline.instants if each.action == ROLLBACK and not each.is_completed)
    return [each for each in pending if taken_back(timeline, each) == failed.time]


def _requested(store: Store, config: HudiTableConfig, failed: HudiInstant) -> HudiInstant:
    about = {"commitTime": failed.time, "action": failed.action}
    plan = {"instantToRollback": about, "RollbackRequests": [], "version": 1}
    return put_requested(store, config, ROLLBACK, write_record(schemas.ROLLBACK_PLAN, plan))


def _left_behind(store: Store, config: HudiTableConfig, failed: HudiInstant) -> list[BaseFile | LogFile]:
    """Every file of a failed write: those marked, and those whose names or blocks tell."""
    marked = {path for path, _ in marked_files(store, failed.time)}
    found = []
    for each in data_files(store):
        by_name = each.instant == failed.time and (
            isinstance(each, BaseFile) or config.layout > 1 or each.is_change_data
        )
        if by_name or each.path in marked or (isinstance(each, LogFile) and _holds(store, each, failed, config)):
            found.append(each)
    return found


def _holds(store: Store, log: LogFile, failed: HudiInstant, config: HudiTableConfig) -> bool:
    """Whether a log file of layout 1 holds a block of the write; its name does not tell."""
    if config.layout > 1 or log.is_change_data:
        return False
    blocks = read_blocks(store.get(log.path), log.path)
    return any(getattr(each, "instant", None) == failed.time for each in blocks)


def _command(store: Store, log: LogFile, failed: HudiInstant, rollback: HudiInstant) -> tuple[str, int]:
    """A log file behind those of the slice, with the command that takes the blocks of a write back."""
    versions = [
        each.version
        for each in data_files(store)
        if isinstance(each, LogFile)
        and (each.partition, each.file_id, each.instant) == (log.partition, log.file_id, log.instant)
    ]
    header = {
        HeaderKey.INSTANT_TIME: rollback.time,
        HeaderKey.TARGET_INSTANT_TIME: failed.time,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    data = encode_block(BlockType.COMMAND, header, b"")
    path, _ = put_log_file(
        store,
        data,
        partition=log.partition,
        file_id=log.file_id,
        named=log.instant,
        version=max(versions) + 1,
        token=_TOKEN,
    )
    return path, len(data)


def _completed(
    store: Store,
    config: HudiTableConfig,
    rollback: HudiInstant,
    failed: HudiInstant,
    partitions: dict[str, dict[str, Any]],
) -> HudiInstant:
    said = {
        "startRollbackTime": rollback.time,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": sum(len(each["successDeleteFiles"]) for each in partitions.values()),
        "commitsRollback": [failed.time],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": failed.time, "action": failed.action}],
    }
    return put_completed(store, config, rollback, write_record(schemas.ROLLBACK, said))


def _is_clustering(timeline: HudiTimeline, instant: HudiInstant) -> bool:
    if instant.action != REPLACE_COMMIT:
        return False
    return timeline.requested_body(instant).record.get("operationType") == "CLUSTER"
