"""When a version came to be, and which version held at a time.

Without in-commit timestamps a version's time is that of its file. Clocks differ, so the times are made to increase: a
file that seems older than the one before counts as one millisecond younger. With in-commit timestamps the commit itself
carries the time; where they were enabled later, versions before that point keep the times of their files.

Only versions that the log can still put together count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Raw

from halocline.errors import NotFoundError
from halocline.formats.delta.actions.action import CommitInfo, Metadata, decode_commit_info, decoded, malformed
from halocline.formats.delta.configuration import in_commit_timestamps, properties
from halocline.formats.log.names import FileKind, LogEntry
from halocline.formats.log.segment import readable_versions
from halocline.storage.base import Store

_EPOCH: Final = datetime(1970, 1, 1)


class _InfoLine(msgspec.Struct, rename="camel", frozen=True, gc=False):
    commit_info: Raw = Raw()


_decode_info = msgspec.json.Decoder(_InfoLine).decode_lines


def commit_info_in(data: bytes, name: str) -> CommitInfo | None:
    """The provenance in the bytes of a commit, without a look at the other actions."""
    if b'"commitInfo"' not in data:
        return None
    lines = decoded(_decode_info, data, name)
    found = next((bytes(line.commit_info) for line in lines if bytes(line.commit_info) not in (b"", b"null")), None)
    return None if found is None else decode_commit_info(found, name)


def increasing(commits: Sequence[LogEntry]) -> dict[int, int]:
    """The time of each version by the times of the files, made to increase.

    Example:
        >>> files = [LogEntry(f"{v}", FileKind.COMMIT, v, v, 0, 0, 1, ms) for v, ms in enumerate((5, 3, 9))]
        >>> increasing(files)
        {0: 5, 1: 6, 2: 9}
    """
    times: dict[int, int] = {}
    last: int | None = None
    for commit in commits:
        last = commit.modified_ms if last is None else max(commit.modified_ms, last + 1)
        times[commit.version] = last
    return times


@dataclass(frozen=True)
class CommitClock:
    """Tells the time of the versions of one table.

    Args:
        store: Where the table lies.
        metadata: The newest metadata, which says since when in-commit timestamps hold.
        files: The whole listing of the log.
    """

    store: Store
    metadata: Metadata
    files: Sequence[LogEntry]

    @property
    def commits(self) -> list[LogEntry]:
        """The commits that can be read as versions, oldest first."""
        readable = readable_versions(self.files)
        return [file for file in self.files if file.kind is FileKind.COMMIT and file.version in readable]

    @property
    def in_commit_since(self) -> tuple[int, int] | None:
        """The version and the time from which commits carry their own; None if they do not."""
        configuration = self.metadata.configuration
        if not in_commit_timestamps.is_enabled(configuration):
            return None
        version = properties.count(configuration, in_commit_timestamps.SINCE_VERSION)
        timestamp = properties.count(configuration, in_commit_timestamps.SINCE_TIMESTAMP)
        return (version or 0, timestamp or 0)

    def version_at(self, timestamp_ms: int) -> int:
        """The version that held at a time: the newest one that is not younger."""
        commits = self.commits
        if not commits:
            raise _no_version(timestamp_ms, "no version can be read")
        since = self.in_commit_since
        own = [] if since is None else [commit for commit in commits if commit.version >= since[0]]
        plain = [commit for commit in commits if since is None or commit.version < since[0]]
        if own and (not plain or (since is not None and timestamp_ms >= since[1])):
            return self._search_own(own, timestamp_ms)
        times = increasing(plain)
        return _newest_not_after(times, timestamp_ms, bounded_above=not own)

    def newest_until(self, timestamp_ms: int) -> int | None:
        """The newest commit that is not younger than a time; None if all are.

        Commits count whether or not their versions can still be put together.
        """
        commits, since = [file for file in self.files if file.kind is FileKind.COMMIT], self.in_commit_since
        own = [] if since is None else [commit for commit in commits if commit.version >= since[0]]
        if older := bisect_right(own, timestamp_ms, key=self.own_time):
            return own[older - 1].version
        times = increasing(commits[: len(commits) - len(own)])
        return max((version for version, time in times.items() if time <= timestamp_ms), default=None)

    def _search_own(self, commits: Sequence[LogEntry], timestamp_ms: int) -> int:
        ends = {commit.version: self.own_time(commit) for commit in (commits[0], commits[-1])}
        if not ends[commits[0].version] <= timestamp_ms <= ends[commits[-1].version]:
            return _newest_not_after(ends, timestamp_ms, bounded_above=True)
        return commits[bisect_right(commits, timestamp_ms, key=self.own_time) - 1].version

    def own_time(self, commit: LogEntry) -> int:
        """The in-commit timestamp of a version."""
        info = commit_info_in(self.store.get(commit.path), commit.name)
        if info is None or info.in_commit_timestamp is None:
            raise malformed(commit.name, "has no in-commit timestamp, which the table's metadata requires")
        return info.in_commit_timestamp


def _newest_not_after(times: dict[int, int], timestamp_ms: int, *, bounded_above: bool) -> int:
    oldest, newest = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
    if timestamp_ms < times[oldest]:
        raise _no_version(timestamp_ms, f"from {text_of(times[oldest])} (version {oldest}) on")
    if bounded_above and timestamp_ms > times[newest]:
        raise _no_version(timestamp_ms, f"up to {text_of(times[newest])} (version {newest})")
    return max(version for version, time in times.items() if time <= timestamp_ms)


def _no_version(timestamp_ms: int, available: str) -> NotFoundError:
    return NotFoundError(
        f"the log holds no version for {text_of(timestamp_ms)}",
        condition="VERSION_NOT_FOUND",
        sides={"asked for": text_of(timestamp_ms), "available": available},
        next_step="Ask for a time within that range, or for a version by number.",
    )


def text_of(timestamp_ms: int) -> str:
    """A time for people, in UTC with milliseconds."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{moment.isoformat(timespec='milliseconds')}Z"
