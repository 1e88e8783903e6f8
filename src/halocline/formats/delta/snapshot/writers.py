"""Who writes a table, from the provenance of the commits that its log still holds.

Times come from the commits, so a copied table tells the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from halocline.compat.release import Release, releases_in_commit
from halocline.compat.reports import Writers, writers_in
from halocline.errors import NotFoundError
from halocline.formats.delta.log.timestamps import commit_info_in
from halocline.formats.log.names import DELTA, FileKind, LogEntry
from halocline.formats.log.segment import list_files
from halocline.storage.base import Store


def writers(store: Store) -> Writers:
    """Who wrote the commits that the log still holds."""
    return writers_in(_provenances(store))


def _provenances(store: Store) -> Iterator[tuple[tuple[Release, ...], int, int]]:
    for commit, data in commit_bytes(store, list_files(store, DELTA)):
        info = commit_info_in(data, commit.name)
        told = None if info is None else (info.in_commit_timestamp or info.timestamp)
        releases = () if info is None else releases_in_commit(info.values)
        yield releases, commit.version, commit.modified_ms if told is None else told


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
