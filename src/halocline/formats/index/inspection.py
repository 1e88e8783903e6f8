"""What an index table is, for people and programs, also where its splits may not be read.

The header always tells; splits are counted only for a table that may be read, and what is in the way otherwise is told
in their place.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any
from warnings import catch_warnings, simplefilter

import msgspec

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.errors import HaloclineError
from halocline.formats.index.history import writers_of
from halocline.formats.index.log.actions import IndexMetadata
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY, terms_of
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.storage.base import Store


@dataclass(frozen=True)
class IndexInspection:
    """What an index table is. Made by `inspect_index`.

    Attributes:
        root: The table's URL.
        version: The version that was looked at.
        protocol: What it requires; (1,1) where the log does not say.
        has_protocol: Whether the log says it.
        in_use: The features known to be in use.
        metadata: Columns, partitioning and properties.
        writers: Who wrote the commits that the log still holds, with how many each.
        unnamed: How many commits name nobody.
        splits: How many live splits there are; None if this release may not tell.
        own: How many of them are Parquet files with an index inside.
        rows: How many rows they hold; None if that is not known.
        size: Their bytes.
        resting: How many splits rest after a skip.
        uncounted: Why splits were not counted.
    """

    root: str
    version: int
    protocol: Protocol
    has_protocol: bool
    in_use: tuple[str, ...]
    metadata: IndexMetadata
    writers: tuple[tuple[Release, int], ...]
    unnamed: int
    splits: int | None = None
    own: int = 0
    rows: int | None = None
    size: int | None = None
    resting: int = 0
    uncounted: str | None = None

    @property
    def schema(self) -> Any:
        """The columns, as the log spells a schema; None if it cannot be read."""
        try:
            return msgspec.json.decode(self.metadata.schema_string)
        except msgspec.DecodeError:
            return None

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "table": self.root,
            "format": "index",
            "version": self.version,
            "protocol": str(self.protocol),
            "minReaderVersion": self.protocol.reader,
            "minWriterVersion": self.protocol.writer,
            "hasProtocol": self.has_protocol,
            "supported": sorted(self.protocol.features),
            "enabled": list(self.in_use),
            "splits": self.splits,
            "ownSplits": self.own,
            "rows": self.rows,
            "bytes": self.size,
            "resting": self.resting,
            "uncounted": self.uncounted,
            "schema": self.schema,
            "partitionColumns": list(self.metadata.partition_columns),
            "properties": dict(self.metadata.configuration),
            "writtenBy": [{"release": str(release), "commits": commits} for release, commits in self.writers],
            "unnamedCommits": self.unnamed,
        }


def inspect_index(store: Store, version: int | None = None) -> IndexInspection:
    """Tells what an index table is, whatever its protocol.

    Args:
        store: Where it lies.
        version: The version; the newest if not given.

    Raises:
        MalformedError: The log is damaged.
        NotFoundError: There is no table, or no such version.
    """
    replay = IndexReplay.open(store, version)
    header = replay.header
    protocol = header.protocol or LEGACY
    writers = writers_of(store)
    told = IndexInspection(
        root=store.root,
        version=replay.version,
        protocol=protocol,
        has_protocol=header.protocol is not None,
        in_use=tuple(sorted(terms_of(protocol, has_avro_state=replay.has_avro_state).features_in_use)),
        metadata=replay.metadata,
        writers=tuple((release, commits) for release, commits, _ in writers.named),
        unnamed=writers.unnamed,
    )
    return _counted(told, store)


def _counted(told: IndexInspection, store: Store) -> IndexInspection:
    try:
        with catch_warnings():
            simplefilter("ignore")  # that there is no protocol is part of what is told
            snapshot = IndexSnapshot.load(store, version=told.version)
        files = snapshot.files.values()
    except HaloclineError as error:
        return replace(told, uncounted=f"{error.condition}: {error.message}")
    now_ms = time.time_ns() // 1_000_000
    return replace(
        told,
        splits=len(files),
        own=sum(each.is_own for each in files),
        rows=snapshot.rows,
        size=sum(each.size for each in files),
        resting=sum(each.rests_at(now_ms) for each in snapshot.skips.values()),
    )
