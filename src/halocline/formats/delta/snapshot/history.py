"""Who did what to a table: one entry per version that the log still holds.

An entry has the version's time and the provenance that its writer left. Provenance is free-form and may be missing; the
time is always there. Versions whose commit has been cleaned up have no entry, even if a checkpoint still holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halocline.errors import InputError
from halocline.formats.delta.actions.action import CommitInfo
from halocline.formats.delta.log.timestamps import CommitClock, commit_info_in, increasing, text_of
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA, FileKind
from halocline.formats.log.segment import list_files
from halocline.html import ShownEntry


@dataclass(frozen=True, slots=True, repr=False)
class HistoryEntry(ShownEntry):
    """One version.

    Attributes:
        version: The version.
        timestamp_ms: When it came to be.
        info: What its writer said; None if it said nothing.
    """

    version: int
    timestamp_ms: int
    info: CommitInfo | None

    @property
    def operation(self) -> str | None:
        """The word for what was done."""
        return None if self.info is None else self.info.operation

    @property
    def engine_info(self) -> str | None:
        """Who did it, as the writer calls itself."""
        return None if self.info is None else self.info.engine_info

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs; what the writer said keeps the names it has in the log."""
        said = {} if self.info is None else dict(self.info.values)
        return {"version": self.version, "timestamp": text_of(self.timestamp_ms)} | {
            key: value for key, value in said.items() if key not in ("timestamp", "version", "inCommitTimestamp")
        }


def history(snapshot: Snapshot, limit: int | None = None) -> list[HistoryEntry]:
    """The versions up to a snapshot's, newest first."""
    if limit is not None and limit < 0:
        raise InputError(f"a history cannot have {limit} entries", sides={"limit": str(limit), "possible": "0 or more"})
    files = [file for file in list_files(snapshot.store, DELTA) if file.version <= snapshot.version]
    commits = [file for file in files if file.kind is FileKind.COMMIT]
    by_file = increasing(commits)
    since = CommitClock(snapshot.store, snapshot.metadata, files).in_commit_since
    entries = []
    newest = commits[::-1][:limit]
    for commit, data in zip(newest, snapshot.store.get_many(commit.path for commit in newest), strict=True):
        info = commit_info_in(data, commit.name)
        own = info.in_commit_timestamp if info and since is not None and commit.version >= since[0] else None
        entries.append(HistoryEntry(commit.version, by_file[commit.version] if own is None else own, info))
    return entries
