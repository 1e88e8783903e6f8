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

_STRINGS: Final = _map("string")


def _strategy(name: str, class_field: str) -> dict[str, Any]:
    return _record(name, _optional(class_field, "string"), _optional("strategyParams", _STRINGS), _VERSION)


COMPACTION_PLAN: Final = _record(
    "HoodieCompactionPlan",
    _optional(
        "operations",
        _array(
            _record(
                "HoodieCompactionOperation",
                ("baseInstantTime", ["null", "string"]),
                _optional("deltaFilePaths", _array("string")),
                _optional("dataFilePath", "string"),
                ("fileId", ["null", "string"]),
                _optional("partitionPath", "string"),
                _optional("metrics", _map("double")),
                _optional("bootstrapFilePath", "string"),
            )
        ),
    ),
    _optional("extraMetadata", _STRINGS),
    _VERSION,
    _optional("strategy", _strategy("HoodieCompactionStrategy", "compactorClassName")),
    ("preserveHoodieMetadata", ["boolean", "null"], False),
    _optional("missingSchedulePartitions", _array("string")),
)

REQUESTED_REPLACE: Final = _record(
    "HoodieRequestedReplaceMetadata",
    _optional("operationType", "string"),
    _optional(
        "clusteringPlan",
        _record(
            "HoodieClusteringPlan",
            _optional(
                "inputGroups",
                _array(
                    _record(
                        "HoodieClusteringGroup",
                        _optional(
                            "slices",
                            _array(
                                _record(
                                    "HoodieSliceInfo",
                                    _optional("dataFilePath", "string"),
                                    _optional("deltaFilePaths", _array("string")),
                                    ("fileId", ["null", "string"]),
                                    _optional("partitionPath", "string"),
                                    _optional("bootstrapFilePath", "string"),
                                    _VERSION,
                                )
                            ),
                        ),
                        _optional("metrics", _map("double")),
                        ("numOutputFileGroups", ["int", "null"], 1),
                        _optional("extraMetadata", _STRINGS),
                        _VERSION,
                    )
                ),
            ),
            _optional("strategy", _strategy("HoodieClusteringStrategy", "strategyClassName")),
            _optional("extraMetadata", _STRINGS),
            _VERSION,
            _optional("preserveHoodieMetadata", "boolean"),
            _optional("missingSchedulePartitions", _array("string")),
        ),
    ),
    _optional("extraMetadata", _STRINGS),
    _VERSION,
)

CLEANER_PLAN: Final = _record(
    "HoodieCleanerPlan",
    _optional(
        "earliestInstantToRetain",
        _record("HoodieActionInstant", ("timestamp", "string"), ("action", "string"), ("state", "string")),
    ),
    ("lastCompletedCommitTimestamp", "string", ""),
    ("policy", "string"),
    _optional("filesToBeDeletedPerPartition", _map(_array("string"))),
    _VERSION,
    _optional(
        "filePathsToBeDeletedPerPartition",
        _map(
            _array(
                _record(
                    "HoodieCleanFileInfo", _optional("filePath", "string"), _optional("isBootstrapBaseFile", "boolean")
                )
            )
        ),
    ),
    _optional("partitionsToBeDeleted", _array("string")),
    _optional("extraMetadata", _STRINGS),
)

CLEAN: Final = _record(
    "HoodieCleanMetadata",
    ("startCleanTime", "string"),
    ("timeTakenInMillis", "long"),
    ("totalFilesDeleted", "int"),
    ("earliestCommitToRetain", "string"),
    ("lastCompletedCommitTimestamp", "string", ""),
    (
        "partitionMetadata",
        _map(
            _record(
                "HoodieCleanPartitionMetadata",
                ("partitionPath", "string"),
                ("policy", "string"),
                ("deletePathPatterns", _array("string")),
                ("successDeleteFiles", _array("string")),
                ("failedDeleteFiles", _array("string")),
                _optional("isPartitionDeleted", "boolean"),
            )
        ),
    ),
    _VERSION,
    _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata")),
    _optional("extraMetadata", _STRINGS),
)

SAVEPOINT: Final = _record(
    "HoodieSavepointMetadata",
    ("savepointedBy", "string"),
    ("savepointedAt", "long"),
    ("comments", "string"),
    (
        "partitionMetadata",
        _map(
            _record(
                "HoodieSavepointPartitionMetadata",
                ("partitionPath", "string"),
                ("savepointDataFile", _array("string")),
            )
        ),
    ),
    _VERSION,
)

INDEX_COMMIT: Final = _record(
    "HoodieIndexCommitMetadata",
    _VERSION,
    _optional("operationType", "string"),
    _optional(
        "indexPartitionInfos",
        _array(
            _record(
                "HoodieIndexPartitionInfo",
                _VERSION,
                _optional("metadataPartitionPath", "string"),
                _optional("indexUptoInstant", "string"),
                _optional("extraMetadata", _STRINGS),
            )
        ),
    ),
)

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

_COMPACTION: Final = _record(
    "HoodieCompactionMetadata",
    (
        "partitionToCompactionWriteStats",
        [
            "null",
            _map(
                _array(
                    _record(
                        "HoodieCompactionWriteStat",
                        _optional("partitionPath", "string"),
                        _optional("totalLogRecords", "long"),
                        _optional("totalLogFiles", "long"),
                        _optional("totalUpdatedRecordsCompacted", "long"),
                        _optional("hoodieWriteStat", "HoodieWriteStat"),
                    )
                )
            ),
        ],
    ),
)

_ARCHIVED_REPLACE: Final = _record(
    "HoodieReplaceCommitMetadata",
    _optional("partitionToWriteStats", _map(_array("HoodieWriteStat"))),
    *_COMMIT_FIELDS[1:],
    _optional("partitionToReplaceFileIds", _map(_array("string"))),
)

ARCHIVED_ENTRY: Final = _record(
    "HoodieArchivedMetaEntry",
    _optional("hoodieCommitMetadata", COMMIT),
    _optional("hoodieCleanMetadata", CLEAN),
    _optional("hoodieCompactionMetadata", _COMPACTION),
    _optional("hoodieRollbackMetadata", ROLLBACK),
    _optional("hoodieSavePointMetadata", SAVEPOINT),
    _optional("commitTime", "string"),
    _optional("actionType", "string"),
    _VERSION,
    _optional("hoodieCompactionPlan", COMPACTION_PLAN),
    _optional("hoodieCleanerPlan", CLEANER_PLAN),
    _optional("actionState", "string"),
    _optional("hoodieReplaceCommitMetadata", _ARCHIVED_REPLACE),
    _optional("hoodieRequestedReplaceMetadata", REQUESTED_REPLACE),
    _optional("HoodieInflightReplaceMetadata", "HoodieCommitMetadata"),
    _optional("hoodieIndexCommitMetadata", INDEX_COMMIT),
    _optional("stateTransitionTime", "string"),
)
"""One state of an instant in the archive of layout 1; a type that occurs twice is told once and named after that."""
