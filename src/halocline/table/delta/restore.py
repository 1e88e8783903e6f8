"""Going back: a new version with the rows, the columns and the properties of an older one.

What comes back and what never does is worked out by `halocline.formats.delta.maintain.restore`; here it is committed
behind the gate. No data is read or written, so no Spark session is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from halocline.errors import InputError
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.maintain.restore import restoration
from halocline.table.delta.opened import Opened
from halocline.table.opening import Moment, as_operation

_FIGURES: Final = (
    *("numRestoredFiles", "numRemovedFiles", "restoredFilesSize", "removedFilesSize"),
    *("numOfFilesAfterRestore", "tableSizeAfterRestore"),
)
"""The figures of a commit that a `Restored` holds, in its order."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What going back did.

    Attributes:
        version: The version that the table then had.
        restored_files: How many files came back.
        removed_files: How many went.
        restored_bytes: The length of those that came back.
        removed_bytes: The length of those that went.
        files: How many files the table then had.
        bytes: How long they are together.
    """

    version: int
    restored_files: int
    removed_files: int
    restored_bytes: int
    removed_bytes: int
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"version {self.version}: {self.restored_files:,} files came back, {self.removed_files:,} went"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


@as_operation
def restore_version(table: Opened, version: int | None = None, *, timestamp: Moment | None = None) -> Restored:
    """Makes the table what it was at a version or time, as a new version.

    Args:
        table: The table.
        version: The version to go back to.
        timestamp: A time; the version that held then.

    Raises:
        NotFoundError: There is no such version, or some of its files are gone (`DATA_FILES_MISSING`).
        InputError: Neither is given, the table only takes new rows, or a feature that was dropped since would come
            back, unless writes may raise the protocol (`halocline.protocol.autoUpgrade`).
        ConflictError: Somebody else changed the table meanwhile.

    Example:
        >>> Table.for_path("lake/orders").restore(12).restored_files  # doctest: +SKIP
        3
    """
    if (version is None) == (timestamp is None):
        raise InputError(
            "give a version or a timestamp to go back to", sides={"version": str(version), "timestamp": str(timestamp)}
        )
    current = table.snapshot("write")
    target = table.snapshot(version=version, timestamp=timestamp)
    planned = restoration(current, target, now_ms=system_clock())
    # Going back to a version with features that were dropped since would bring them back.
    asked = None if table.settings.auto_upgrade else frozenset[str]()
    approve_change(current.configuration, planned.configuration, table.approve, asked=asked)
    transaction = table.transaction(current)
    transaction.read_whole_table()
    details = {"version": version, "timestamp": None if timestamp is None else str(timestamp)}
    said = CommitDescription("RESTORE", details, planned.metrics)
    committed = transaction.commit(
        planned.actions, said, configuration=planned.configuration, row_id_mark=planned.row_id_mark
    )
    return Restored(committed, *(planned.metrics[name] for name in _FIGURES))
