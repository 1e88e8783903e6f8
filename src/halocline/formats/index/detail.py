"""What an index table is, in a few figures."""

from __future__ import annotations

import time
from typing import Any

from halocline.formats.index.snapshot import IndexSnapshot


def detail_of(snapshot: IndexSnapshot) -> dict[str, Any]:
    """The figures of a version."""
    metadata, files = snapshot.metadata, snapshot.files.values()
    now_ms = time.time_ns() // 1_000_000
    return {
        "format": "index",
        "id": metadata.id,
        "name": metadata.name,
        "location": snapshot.store.root,
        "version": snapshot.version,
        "createdTime": metadata.created_time,
        "partitionColumns": list(metadata.partition_columns),
        "numSplits": len(files),
        "numOwnSplits": sum(each.is_own for each in files),
        "numRecords": snapshot.rows,
        "sizeInBytes": sum(each.size for each in files),
        "numRestingSplits": sum(each.rests_at(now_ms) for each in snapshot.skips.values()),
        "minReaderVersion": snapshot.protocol.reader,
        "minWriterVersion": snapshot.protocol.writer,
        "features": sorted(snapshot.protocol.features),
        "fields": {each.column: str(each.kind) for each in snapshot.fields},
        "properties": dict(metadata.configuration),
    }
