"""The provenance of a commit: free-form, with names for the entries that writers agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

_T = TypeVar("_T")


def _entry(key: str, kind: type[_T]) -> cached_property[_T | None]:
    """An attribute that reads one entry; None if it is missing or of another type."""
    return cached_property(lambda info: value if type(value := info.values.get(key)) is kind else None)


@dataclass(frozen=True)
class CommitInfo:
    """Free-form provenance of a commit. The well-known entries have names.

    Attributes:
        timestamp: Milliseconds since the epoch on the writer's clock.
        in_commit_timestamp: The same, increasing along the log where in-commit timestamps are enabled.
        operation: The word for what was done, for example `WRITE`.
        engine_info: Who wrote the commit, as the writer calls itself.
        txn_id: The writer's own identifier of this attempt.
        is_blind_append: Whether the commit only added files and read nothing.
    """

    values: Mapping[str, Any]

    timestamp = _entry("timestamp", int)
    in_commit_timestamp = _entry("inCommitTimestamp", int)
    operation = _entry("operation", str)
    engine_info = _entry("engineInfo", str)
    txn_id = _entry("txnId", str)
    is_blind_append = _entry("isBlindAppend", bool)
