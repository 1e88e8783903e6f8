"""The provenance that a commit carries: who did what, when, on top of which version.

The entries and their order are those that Spark writes, so that another client's history shows the commit like any
other: `timestamp`, `operation`, `operationParameters`, `readVersion`, `isolationLevel`, `isBlindAppend`,
`operationMetrics`, `userMetadata`, `tags`, `engineInfo`, `txnId`; and `inCommitTimestamp` in front where the table
has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from halocline.formats.log.gate import own_release


def engine_info(spark_version: str | None = None) -> str:
    """What we call ourselves in commits."""
    own = f"Halocline/{own_release().version}"
    return own if spark_version is None else f"Apache-Spark/{spark_version} {own}"


def parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an operation as commits spell them: lists and maps as JSON text, the rest as it is."""
    return {
        key: json.dumps(list(value) if isinstance(value, tuple | set | frozenset) else value, separators=(",", ":"))
        if isinstance(value, list | tuple | dict | set | frozenset)
        else value
        for key, value in values.items()
    }


@dataclass(frozen=True)
class CommitDescription:
    """What a commit says about itself.

    Attributes:
        operation: The word for what is done, as Delta's writers use it.
        parameters: Details of the operation.
        metrics: Figures of the operation; None if it has none.
        txn: An application and its own version. What the table has of it already is not committed again.
        user_metadata: A note of the user's.
        tags: Tags for programs.
    """

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] | None = None
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


def provenance(
    said: CommitDescription,
    *,
    timestamp_ms: int,
    read_version: int,
    isolation: str,
    is_blind_append: bool,
    engine: str,
    txn_id: str,
    in_commit_timestamp: int | None = None,
) -> dict[str, Any]:
    """The entries of a commit's provenance, absent ones left out."""
    metrics = None if said.metrics is None else {key: _text(value) for key, value in said.metrics.items()}
    entries: dict[str, Any] = {
        "inCommitTimestamp": in_commit_timestamp,
        "timestamp": timestamp_ms,
        "operation": said.operation,
        "operationParameters": parameters(said.parameters),
        "readVersion": read_version if read_version >= 0 else None,
        "isolationLevel": isolation,
        "isBlindAppend": is_blind_append,
        "operationMetrics": metrics,
        "userMetadata": said.user_metadata,
        "tags": dict(said.tags) or None,
        "engineInfo": engine,
        "txnId": txn_id,
    }
    return {key: value for key, value in entries.items() if value is not None}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
