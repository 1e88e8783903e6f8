"""The one way in which a change of rows is committed, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from halocline.formats.delta.actions.action import Action
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.configuration.commit_rules import check_removable
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.files import RowFiles

_TOLD: Final = (
    ("rows inserted", ("numTargetRowsInserted",)),
    ("rows updated", ("numUpdatedRows", "numTargetRowsUpdated")),
    ("rows deleted", ("numDeletedRows", "numTargetRowsDeleted")),
    ("files added", ("numAddedFiles", "numTargetFilesAdded")),
    ("files removed", ("numRemovedFiles", "numTargetFilesRemoved")),
)
"""What people are told of a change, and the figures of a commit that say it."""


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """A change of rows.

    Attributes:
        version: The version that has it; the one that was read if there was nothing to change.
        committed: Whether there was anything to change.
        metrics: Figures, under the names that commits use.
    """

    version: int
    committed: bool
    metrics: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.committed:
            return f"nothing to change in version {self.version}"
        counts = ((text, self.metrics[name]) for text, names in _TOLD for name in names if name in self.metrics)
        return f"version {self.version}: {', '.join(f'{count:,} {text}' for text, count in counts)}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class RowChange:
    """A change under way: the version that it starts from, and its transaction."""

    def __init__(self, table: Opened, takes_rows: str | None = None) -> None:
        self.began = time.monotonic()
        self.table = table
        self.spark = table.spark
        self.snapshot: Snapshot = table.snapshot("write")
        self.transaction = table.transaction(self.snapshot)
        if takes_rows is not None:
            check_removable(self.snapshot.configuration, takes_rows, table.url)

    def commit(
        self,
        files: RowFiles,
        actions: Sequence[Action],
        operation: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, int],
    ) -> RowsChanged:
        """Commits what changes rows, if anything does."""
        metrics = {**metrics, "executionTimeMs": int((time.monotonic() - self.began) * 1000)}
        if not files.has_changes(self.transaction, actions):
            return RowsChanged(self.snapshot.version, False, metrics)
        said = CommitDescription(operation, parameters, metrics)
        return RowsChanged(files.commit(self.transaction, actions, said), True, metrics)
