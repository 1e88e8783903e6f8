"""In-commit timestamps: the time of a version, kept in the commit itself.

Where `delta.enableInCommitTimestamps` is true, the first action of every commit carries a timestamp that is later
than the one before, whatever the clocks say. A table that switches this on later notes the version and the timestamp
from which it holds, since older versions only have the time of their file. A table that has it from its first
version notes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.configuration import properties

ENABLED: Final = "delta.enableInCommitTimestamps"
SINCE_VERSION: Final = "delta.inCommitTimestampEnablementVersion"
SINCE_TIMESTAMP: Final = "delta.inCommitTimestampEnablementTimestamp"
KEYS: Final = frozenset({ENABLED, SINCE_VERSION, SINCE_TIMESTAMP})
"""Every property that belongs to the feature."""


def is_enabled(configuration: Mapping[str, str]) -> bool:
    """Whether commits must carry a timestamp."""
    return properties.flag(configuration, ENABLED)


def next_timestamp(now_ms: int, previous_ms: int | None) -> int:
    """The timestamp of a commit made now, after one with the previous timestamp.

    Example:
        >>> next_timestamp(1000, 2000), next_timestamp(3000, 2000), next_timestamp(1000, None)
        (2001, 3000, 1000)
    """
    return now_ms if previous_ms is None else max(now_ms, previous_ms + 1)


def with_enablement(metadata: Metadata, before: Mapping[str, str] | None, version: int, timestamp_ms: int) -> Metadata:
    """The metadata with the point noted from which timestamps hold, if this commit is that point.

    Example:
        >>> table = Metadata("1", "{}", configuration={"delta.enableInCommitTimestamps": "true"})
        >>> with_enablement(table, {}, 7, 1000).configuration["delta.inCommitTimestampEnablementVersion"]
        '7'
    """
    if before is None or not is_enabled(metadata.configuration) or is_enabled(before):
        return metadata
    noted = {SINCE_VERSION: str(version), SINCE_TIMESTAMP: str(timestamp_ms)}
    return metadata.with_configuration({**metadata.configuration, **noted})
