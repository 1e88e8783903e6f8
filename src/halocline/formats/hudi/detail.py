"""The facts about a table at an instant, without a look at its rows."""

from __future__ import annotations

from typing import Any

from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import moment_of


def detail_of(snapshot: HudiSnapshot) -> dict[str, Any]:
    """What a table is, in a few figures."""
    config, slices = snapshot.config, snapshot.slices
    writes = snapshot.timeline.writes
    last = moment_of(str(snapshot.version), config) if writes else None
    return {
        "format": "hudi",
        "name": config.name,
        "database": config.database or None,
        "location": snapshot.store.root,
        "type": str(config.type),
        "tableVersion": config.version,
        "version": snapshot.version,
        "lastModified": None if last is None else last.isoformat(timespec="milliseconds"),
        "recordKeys": list(config.record_keys),
        "orderingFields": list(config.ordering_fields),
        "partitionColumns": [each.name for each in config.partition_fields],
        "keyGenerator": None if config.key_generator is None else str(config.key_generator),
        "mergeMode": None if config.merge_mode is None else str(config.merge_mode),
        "payloadClass": config.payload_class,
        "numFileGroups": len(slices),
        "numFiles": sum((each.base is not None) + len(each.logs) for each in slices),
        "numLogFiles": sum(len(each.logs) for each in slices),
        "sizeInBytes": sum(each.size for each in slices),
        "pending": [str(each) for each in snapshot.timeline.instants if not each.is_completed],
        "properties": dict(config.pairs),
    }
