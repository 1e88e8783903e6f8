"""The Avro types of what the timeline stores, as Apache Hudi 1.2.0 writes them.

Field names and their order are the format; readers of any release resolve them against their own.
"""

from __future__ import annotations

from typing import Any, Final

NAMESPACE: Final = "org.apache.hudi.avro.model"


def _record(name: str, *fields: tuple[str, Any] | tuple[str, Any, Any]) -> dict[str, Any]:
    listed = [{"name": each[0], "type": each[1]} | ({"default": each[2]} if len(each) > 2 else {}) for each in fields]
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": listed}


def _optional(name: str, type: Any) -> tuple[str, Any, Any]:
    return name, ["null", type], None


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _map(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


_VERSION: Final = ("version", ["int", "null"], 1)

_RUNTIME: Final = _record(
    "HoodieRuntimeStats",
    _optional("totalScanTime", "long"),
    _optional("totalCreateTime", "long"),
    _optional("totalUpsertTime", "long"),
)

_WRITE_STAT: Final = _record(
    "HoodieWriteStat",
    *(_optional(name, "string") for name in ("fileId", "path", "prevCommit")),
    *(
        _optional(name, "long")
        for name in ("numWrites", "numDeletes", "numUpdateWrites", "totalWriteBytes", "totalWriteErrors")
    ),
    _optional("partitionPath", "string"),
    *(
        _optional(name, "long")
        for name in (
            "totalLogRecords",
            "totalLogFiles",
            "totalUpdatedRecordsCompacted",
            "numInserts",
            "totalLogBlocks",
            "totalCorruptLogBlock",
            "totalRollbackBlocks",
            "fileSizeInBytes",
        )
    ),
    _optional("logVersion", "int"),
    _optional("logOffset", "long"),
    _optional("baseFile", "string"),
    _optional("logFiles", _array("string")),
    _optional("cdcStats", _map("long")),
    _optional("prevBaseFile", "string"),
    _optional("minEventTime", "long"),
    _optional("maxEventTime", "long"),
    _optional("runtimeStats", _RUNTIME),
    *(_optional(name, "long") for name in ("totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted")),
    _optional("tempPath", "string"),
    _optional("numUpdates", "long"),
)

_COMMIT_FIELDS: Final = (
    _optional("partitionToWriteStats", _map(_array(_WRITE_STAT))),
    _optional("compacted", "boolean"),
    _optional("extraMetadata", _map("string")),
    _VERSION,
    _optional("operationType", "string"),
)

COMMIT: Final = _record("HoodieCommitMetadata", *_COMMIT_FIELDS)
REPLACE_COMMIT: Final = _record(
    "HoodieReplaceCommitMetadata", *_COMMIT_FIELDS, _optional("partitionToReplaceFileIds", _map(_array("string")))
)

REQUESTED_REPLACE: Final = _record(
    "HoodieRequestedReplaceMetadata",
    _optional("operationType", "string"),
    _optional("clusteringPlan", _record("HoodieClusteringPlan", _VERSION)),
    _optional("extraMetadata", _map("string")),
    _VERSION,
)
"""The plan of a replace commit that is no clustering, so that its clustering plan is null."""

_INSTANT: Final = _record("HoodieInstantInfo", ("commitTime", "string"), ("action", "string"))

ROLLBACK_PLAN: Final = _record(
    "HoodieRollbackPlan",
    _optional("instantToRollback", _INSTANT),
    _optional(
        "RollbackRequests",
        _array(
            _record(
                "HoodieRollbackRequest",
                ("partitionPath", "string"),
                _optional("fileId", "string"),
                _optional("latestBaseInstant", "string"),
                ("filesToBeDeleted", _array("string"), []),
                _optional("logBlocksToBeDeleted", _map("long")),
            )
        ),
    ),
    _VERSION,
)

ROLLBACK: Final = _record(
    "HoodieRollbackMetadata",
    ("startRollbackTime", "string"),
    ("timeTakenInMillis", "long"),
    ("totalFilesDeleted", "int"),
    ("commitsRollback", _array("string")),
    (
        "partitionMetadata",
        _map(
            _record(
                "HoodieRollbackPartitionMetadata",
                ("partitionPath", "string"),
                ("successDeleteFiles", _array("string")),
                ("failedDeleteFiles", _array("string")),
                _optional("rollbackLogFiles", _map("long")),
                _optional("logFilesFromFailedCommit", _map("long")),
            )
        ),
    ),
    _VERSION,
    ("instantsRollback", _array(_INSTANT), []),
)
