"""What was done to an index table, version by version, as far as its log tells.

Commits of Halocline say who did what and when. Those of IndexTables4Spark do not: of them the number of splits and the
time of the file are known. A version that is only in an Avro state has neither, and is named all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from halocline.compat.release import releases_in
from halocline.compat.reports import Writers, lowest_writer, writers_in
from halocline.errors import InputError, NotFoundError
from halocline.formats.index.log.actions import IndexCommitInfo, IndexLine, decode_lines
from halocline.formats.index.log.encodings import decoded
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY
from halocline.formats.log.names import INDEX, FileKind, LogEntry
from halocline.formats.log.segment import list_files
from halocline.html import ShownEntry
from halocline.storage.base import Store


@dataclass(frozen=True, repr=False)
class IndexVersion(ShownEntry):
    """One version of a table.

    Attributes:
        version: Its number.
        timestamp_ms: When it was committed: by its own word, or by its file.
        operation: What was done; empty if the log does not say.
        engine: Who did it; empty if the log does not say.
        parameters: Details of the operation.
        added: How many splits came in; None if only a state tells of the version.
        removed: How many went.
        skipped: How many were put aside.
        masked: How many lost some of their rows.
    """

    version: int
    timestamp_ms: int
    operation: str = ""
    engine: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    added: int | None = None
    removed: int | None = None
    skipped: int | None = None
    masked: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        counts = {"numAdded": self.added, "numRemoved": self.removed, "numSkipped": self.skipped}
        return {
            "version": self.version,
            "timestamp": datetime.fromtimestamp(self.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "operation": self.operation or None,
            "engineInfo": self.engine or None,
            "operationParameters": self.parameters,
            "operationMetrics": counts | {"numMasked": self.masked},
        }


def history(store: Store, limit: int | None = None) -> list[IndexVersion]:
    """The versions that the log still tells of, the newest first.

    Args:
        store: Where the table lies.
        limit: How many at most.

    Raises:
        InputError: The limit is negative.
        MalformedError: A commit is damaged.
    """
    if limit is not None and limit < 0:
        raise InputError(f"a history cannot have {limit} entries", sides={"limit": str(limit), "possible": "0 or more"})
    found: list[IndexVersion] = []
    for entry in _newest_first(store):
        if limit is not None and len(found) >= limit:
            break
        found.append(IndexVersion(entry.version, entry.modified_ms) if _is_state(entry) else _told(store, entry))
    return found


def writers(store: Store) -> Writers:
    """Who made the versions that the log still tells of; IndexTables4Spark names itself nowhere, and is inferred.

    Raises:
        MalformedError: A commit is damaged.
    """
    protocol = IndexReplay.open(store).header.protocol or LEGACY
    commits = ((releases_in(each.engine), each.version, each.timestamp_ms) for each in history(store))
    return writers_in(commits, lowest_writer("indextables4spark", protocol))


def version_at(store: Store, timestamp_ms: int) -> int:
    """The newest version that was there at a time.

    Raises:
        NotFoundError: The table had none then, or its log no longer tells.
    """
    oldest: IndexVersion | None = None
    for entry in _newest_first(store):
        oldest = IndexVersion(entry.version, entry.modified_ms) if _is_state(entry) else _told(store, entry)
        if oldest.timestamp_ms <= timestamp_ms:
            return oldest.version
    raise NotFoundError(
        f"{store.root} had no version at that time",
        condition="VERSION_NOT_FOUND",
        sides={"asked for": str(timestamp_ms), "oldest": str(oldest.timestamp_ms) if oldest else "no version"},
        next_step="Ask for a later time.",
    )


def _newest_first(store: Store) -> Iterator[LogEntry]:
    """One file for each version: its commit, or its state where there is no commit."""
    by_version: dict[int, LogEntry] = {}
    for file in list_files(store, INDEX):
        if file.kind is FileKind.COMMIT or (_is_state(file) and file.version not in by_version):
            by_version[file.version] = file
    return (by_version[version] for version in sorted(by_version, reverse=True))


def _is_state(file: LogEntry) -> bool:
    return file.kind is FileKind.STATE


def read_commit(store: Store, file: LogEntry) -> list[IndexLine]:
    """The lines of a commit.

    Raises:
        MalformedError: It is damaged.
    """
    return decode_lines(decoded(store.get(file.path), file.name), file.name)


def _told(store: Store, file: LogEntry) -> IndexVersion:
    lines = read_commit(store, file)
    info = IndexCommitInfo(next((each.commit_info for each in lines if each.commit_info is not None), {}))
    parameters = info.values.get("operationParameters")
    return IndexVersion(
        version=file.version,
        timestamp_ms=file.modified_ms if info.timestamp is None else info.timestamp,
        operation=str(info.values.get("operation", "")),
        engine=str(info.values.get("engineInfo", "")),
        parameters=dict(parameters) if isinstance(parameters, dict) else {},
        added=sum(each.add is not None and each.add.deletion_mask is None for each in lines),
        removed=sum(each.remove is not None for each in lines),
        skipped=sum((each.mergeskip or each.skip) is not None for each in lines),
        masked=sum(each.add is not None and each.add.deletion_mask is not None for each in lines),
    )
