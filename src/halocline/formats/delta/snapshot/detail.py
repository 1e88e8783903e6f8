"""The facts about a table at one version, without a look at its rows.

Totals come from the version's checksum where there is one that agrees with the log about protocol and metadata, and are
counted from the log otherwise; `counted_from` says which. A checksum that disagrees is never believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halocline.compat.findings import Finding
from halocline.errors import MalformedError
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.configuration.clustering import DOMAIN, clustering_columns
from halocline.formats.delta.log.checksum import Summary, read_summary
from halocline.formats.delta.log.timestamps import text_of
from halocline.formats.delta.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Detail:
    """What a table is. Made by `detail_of`.

    Attributes:
        snapshot: The version that is described.
        files: How many live files it has.
        size: Their bytes.
        counted_from: `checksum` or `log`.
    """

    snapshot: Snapshot
    files: int
    size: int
    counted_from: str

    @property
    def clustering_columns(self) -> list[str]:
        """The columns by which the files are clustered, by their logical names; empty if they are not."""
        return clustering_columns(self.snapshot.domains.get(DOMAIN), self.snapshot.columns)

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs, under the names that Delta's `DESCRIBE DETAIL` uses."""
        snapshot, metadata = self.snapshot, self.snapshot.metadata
        return {
            "format": "delta",
            "id": metadata.id,
            "name": metadata.name,
            "description": metadata.description,
            "location": snapshot.store.root,
            "createdAt": None if metadata.created_time is None else text_of(metadata.created_time),
            "lastModified": text_of(snapshot.timestamp_ms),
            "version": snapshot.version,
            "partitionColumns": list(metadata.partition_columns),
            "clusteringColumns": self.clustering_columns,
            "numFiles": self.files,
            "sizeInBytes": self.size,
            "properties": dict(metadata.configuration),
            "minReaderVersion": snapshot.protocol.reader,
            "minWriterVersion": snapshot.protocol.writer,
            "tableFeatures": sorted(snapshot.protocol.features),
        }


def detail_of(snapshot: Snapshot) -> Detail:
    """The facts about a snapshot."""
    summary = read_summary(snapshot.store, snapshot.version) if snapshot.replay.segment.checksum else None
    if summary is not None and agrees(summary, snapshot):
        return Detail(snapshot, summary.table_size.files, summary.table_size.bytes, "checksum")
    return Detail(snapshot, *snapshot.totals, "log")


def agrees(summary: Summary, snapshot: Snapshot) -> bool:
    """Whether a checksum says the same as the log about protocol and metadata."""
    try:
        same_protocol = protocol_of(summary.protocol) == snapshot.protocol
    except MalformedError:
        return False
    return same_protocol and summary.metadata == snapshot.metadata


def checksum_finding(snapshot: Snapshot) -> Finding | None:
    """What is wrong with the checksum of a version, if anything is: readers that believe it would be misled."""
    if snapshot.replay.segment.checksum is None:
        return None
    summary = read_summary(snapshot.store, snapshot.version)
    if summary is None:
        return Finding("CHECKSUM_UNREADABLE", f"the checksum of version {snapshot.version} cannot be read", fatal=False)
    counted = (summary.table_size.files, summary.table_size.bytes) == snapshot.totals
    if agrees(summary, snapshot) and counted:
        return None
    what = "protocol or metadata" if counted else "the number or size of files"
    return Finding("CHECKSUM_WRONG", f"the checksum of version {snapshot.version} contradicts the log about {what}")
