"""What can be told about a table by looking at its log: what it is, what it requires, and who writes it.

Inspecting needs no permission: it starts from the header, which any table has, and goes on as far as this release may.
Only the number of files is behind the gate; where that stays shut, the reason is told instead. Behind it, everything is
read that a reader would read, so a log that is damaged is an error that names the file.

Who writes is taken from the provenance of the commits that the log still holds. *Observed* are releases that named
themselves there; readers leave no trace. Times come from the commits, so a copied table tells the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from halocline.compat.breaks import WRITING, Client
from halocline.compat.findings import Finding
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release, releases_in_commit
from halocline.compat.terms import Terms
from halocline.errors import HaloclineError, NotFoundError
from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.actions.commit_info import CommitInfo
from halocline.formats.delta.actions.statistics import all_live_rows
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.log.timestamps import commit_info_in
from halocline.formats.delta.snapshot.detail import checksum_finding
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA, FileKind, LogEntry
from halocline.formats.log.segment import list_files
from halocline.storage.base import Store


@dataclass(frozen=True, slots=True)
class Observed:
    """A release that wrote commits of the log.

    Attributes:
        release: Which one.
        commits: How many.
        last_version: The newest of them.
        last_ms: When that was.
    """

    release: Release
    commits: int
    last_version: int
    last_ms: int

    @property
    def client(self) -> Client:
        """The same as a client that reads and writes the table."""
        return Client(self.release, WRITING, "observed", self.last_ms)

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "release": str(self.release),
            "commits": self.commits,
            "lastVersion": self.last_version,
            "lastSeen": self.last_ms,
        }


@dataclass(frozen=True)
class Writers:
    """Who wrote the commits that the log still holds.

    Attributes:
        observed: Those who named themselves, the busiest first.
        unnamed: How many commits name nobody.
    """

    observed: tuple[Observed, ...]
    unnamed: int

    @property
    def clients(self) -> tuple[Client, ...]:
        """The observed ones as clients."""
        return tuple(each.client for each in self.observed)


@dataclass(frozen=True)
class Inspection:
    """What can be told about a table. Made by `inspect`.

    Attributes:
        root: The table's URL.
        version: The version that was looked at.
        terms: What it asks of those who use it, as far as its protocol can be read; (1,1) where there is none.
        metadata: The metadata.
        findings: What is wrong or odd about the protocol, or about the checksum of the version.
        writers: Who wrote the log.
        files: How many live files there are; None if this release may not tell.
        size: Their bytes.
        rows: How many rows they hold that are not deleted; None if their statistics do not say.
        uncounted: Why there is no number of files.
    """

    root: str
    version: int
    terms: Terms
    metadata: Metadata
    findings: tuple[Finding, ...]
    writers: Writers
    files: int | None = None
    size: int | None = None
    rows: int | None = None
    uncounted: str | None = None

    @property
    def protocol(self) -> Protocol:
        """What it requires."""
        return self.terms.protocol

    @property
    def supported(self) -> tuple[str, ...]:
        """The supported features in order of name."""
        return tuple(sorted(self.protocol.features))

    @property
    def enabled(self) -> tuple[str, ...]:
        """The enabled features in order of name."""
        return tuple(sorted(self.terms.features_in_use))

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
            "format": "delta",
            "version": self.version,
            "files": self.files,
            "bytes": self.size,
            "rows": self.rows,
            "uncounted": self.uncounted,
            "protocol": str(self.protocol),
            "minReaderVersion": self.protocol.reader,
            "minWriterVersion": self.protocol.writer,
            "supported": list(self.supported),
            "enabled": list(self.enabled),
            "properties": dict(self.metadata.configuration),
            "schema": self.schema,
            "partitionColumns": list(self.metadata.partition_columns),
            "writtenBy": [each.to_dict() for each in self.writers.observed],
            "unnamedCommits": self.writers.unnamed,
            "findings": [{"code": each.code, "text": each.text, "fatal": each.fatal} for each in self.findings],
        }


def inspect(store: Store, version: int | None = None) -> Inspection:
    """Looks at a table, whatever its protocol."""
    header = read_header(store, version)
    found = Inspection(
        root=header.root,
        version=header.version,
        terms=header.terms,
        metadata=header.metadata,
        findings=header.findings(),
        writers=writers(store),
    )
    try:
        snapshot = Snapshot.load(store, version=header.version)
    except HaloclineError as error:
        return replace(found, uncounted=f"{error.condition}: {error.message}")
    files, size = snapshot.totals
    wrong = checksum_finding(snapshot)
    rows = all_live_rows(snapshot.files(columns=["stats", "deletion_vector"]))
    return replace(found, files=files, size=size, rows=rows, findings=(*found.findings, *((wrong,) if wrong else ())))


def writers(store: Store) -> Writers:
    """Who wrote the commits that the log still holds."""
    found: dict[Release, Observed] = {}
    unnamed = 0
    for commit, info in provenances(store, list_files(store, DELTA)):
        releases = () if info is None else releases_in_commit(info.values)
        unnamed += not releases
        for release in releases:
            commits = found[release].commits if release in found else 0
            found[release] = Observed(release, commits + 1, commit.version, time_of(commit, info))
    busiest_first = sorted(found.values(), key=lambda each: (-each.commits, str(each.release)))
    return Writers(tuple(busiest_first), unnamed)


def provenances(store: Store, files: Sequence[LogEntry]) -> Iterator[tuple[LogEntry, CommitInfo | None]]:
    """Every commit among the files with its provenance, oldest first."""
    for commit, data in commit_bytes(store, files):
        yield commit, commit_info_in(data, commit.name)


def commit_bytes(store: Store, files: Sequence[LogEntry]) -> Iterator[tuple[LogEntry, bytes]]:
    """Every commit among the files with what it holds, oldest first; those that cleanup has just taken are left out."""
    commits = [file for file in files if file.kind is FileKind.COMMIT]
    done = 0
    try:
        for commit, data in zip(commits, store.get_many(file.path for file in commits), strict=True):
            done += 1
            yield commit, data
    except NotFoundError:
        for commit in commits[done:]:
            try:
                data = store.get(commit.path)
            except NotFoundError:
                continue
            yield commit, data


def time_of(commit: LogEntry, info: CommitInfo | None) -> int:
    """When a commit was made: by its own word, or by its file."""
    told = None if info is None else (info.in_commit_timestamp or info.timestamp)
    return commit.modified_ms if told is None else told
