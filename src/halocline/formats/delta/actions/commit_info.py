"""The provenance of a commit: free-form, with names for the entries that writers agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Free-form provenance of a commit. The well-known entries have names."""

    values: Mapping[str, Any]

    def _of(self, key: str, kind: type) -> Any:
        value = self.values.get(key)
        return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else None

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since the epoch on the writer's clock."""
        return self._of("timestamp", int)  # type: ignore[no-any-return]

    @property
    def in_commit_timestamp(self) -> int | None:
        """Milliseconds since the epoch, increasing along the log where in-commit timestamps are enabled."""
        return self._of("inCommitTimestamp", int)  # type: ignore[no-any-return]

    @property
    def operation(self) -> str | None:
        """The word for what was done, for example `WRITE`."""
        return self._of("operation", str)  # type: ignore[no-any-return]

    @property
    def engine_info(self) -> str | None:
        """Who wrote the commit, as the writer calls itself."""
        return self._of("engineInfo", str)  # type: ignore[no-any-return]

    @property
    def txn_id(self) -> str | None:
        """The writer's own identifier of this attempt."""
        return self._of("txnId", str)  # type: ignore[no-any-return]

    @property
    def is_blind_append(self) -> bool | None:
        """Whether the commit only added files and read nothing."""
        return self._of("isBlindAppend", bool)  # type: ignore[no-any-return]
