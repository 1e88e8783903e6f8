"""What a commit says about itself, as it is stored: JSON up to table version 7, Avro from 8 on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.timeline.instant import REPLACE_COMMIT
from halocline.formats.hudi.timeline.metadata import CommitMetadata, WriteStat
from halocline.formats.hudi.write import schemas

_ZEROES: Final = (
    "totalLogRecords",
    "totalLogFilesCompacted",
    "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
)
"""What compaction counts; a write to rows has none of it."""

_OF_LOGS: Final = ("logVersion", "logOffset", "baseFile", "logFiles")


def encode_commit(metadata: CommitMetadata, action: str, layout: int) -> bytes:
    r"""The body of a commit.

    Args:
        metadata: What the commit says.
        action: What it is; replace commits name what they replace.
        layout: The layout of the timeline.

    Example:
        >>> encode_commit(CommitMetadata(operation_type="UPSERT"), "commit", 2)[:4]
        b'Obj\x01'
    """
    replaces = action == REPLACE_COMMIT
    said: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [_stat(each, layout) for each in stats]
            for partition, stats in (metadata.partition_to_write_stats or {}).items()
        },
        "compacted": bool(metadata.compacted),
        "extraMetadata": metadata.extra_metadata or {},
        "operationType": metadata.operation_type,
    }
    if replaces:
        said["partitionToReplaceFileIds"] = metadata.partition_to_replace_file_ids or {}
    if layout == 1:
        return msgspec.json.format(msgspec.json.encode(said), indent=2)
    return write_record(schemas.REPLACE_COMMIT if replaces else schemas.COMMIT, said | {"version": 1})


def _stat(stat: WriteStat, layout: int) -> Mapping[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(stat) | dict.fromkeys(_ZEROES, 0)
    said |= {"tempPath": None, "minEventTime": None, "maxEventTime": None}
    said["runtimeStats"] = {"totalScanTime": 0, "totalUpsertTime": 0, "totalCreateTime": 0}
    if layout > 1:
        return said | {"totalLogFiles": None, "totalLogReadTimeMs": 0, "numUpdates": 0}
    del said["prevBaseFile"]
    if stat.log_version is None:
        for name in _OF_LOGS:
            del said[name]
    else:
        said["recordsStats"] = {"val": None}
    return said
