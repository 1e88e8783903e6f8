"""When a commit may go on although somebody else changed the table's metadata first.

Most changes of metadata contradict a commit that was prepared without them: its rows were checked against other
columns and other rules. A few do not, because what was prepared stays right: high-water marks of identity columns
that moved, and features that were switched on and ask nothing of rows already written. `rebased` knows those; the
list of properties is data.

Only the enabling direction is safe, and only where the protocol supports the feature. A removed property, a changed
partitioning or a changed column never is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.configuration import column_mapping, identity, in_commit_timestamps

if TYPE_CHECKING:
    from halocline.compat.protocol import Protocol

ROW_TRACKING: Final = "delta.enableRowTracking"


@dataclass(frozen=True, slots=True)
class _Change:
    """One property that the winner set: its key, the new value, whether it is new, and both metadata."""

    key: str
    value: str
    is_new: bool
    before: Mapping[str, str]
    after: Mapping[str, str]

    @property
    def switched_on(self) -> bool:
        return self.value.lower() == "true"


def _on_with(feature: str) -> Callable[[_Change, Protocol], bool]:
    return lambda change, protocol: change.switched_on and protocol.supports(feature)


def _with_row_tracking(change: _Change, protocol: Protocol) -> bool:
    return change.after.get(ROW_TRACKING, "").lower() == "true"


def _mapping_by_name(change: _Change, protocol: Protocol) -> bool:
    was = change.before.get(column_mapping.MODE, "none").lower()
    return was == "none" and change.value.lower() == "name" and protocol.supports(column_mapping.FEATURE)


def _always(change: _Change, protocol: Protocol) -> bool:
    return True


def _if_new(change: _Change, protocol: Protocol) -> bool:
    return change.is_new


HARMLESS: Final[Mapping[str, Callable[[_Change, Protocol], bool]]] = {
    ROW_TRACKING: _on_with("rowTracking"),
    "delta.rowTracking.materializedRowIdColumnName": _with_row_tracking,
    "delta.rowTracking.materializedRowCommitVersionColumnName": _with_row_tracking,
    column_mapping.MODE: _mapping_by_name,
    column_mapping.MAX_ID: _always,
    "delta.enableDeletionVectors": _on_with("deletionVectors"),
    "delta.checkpointPolicy": lambda change, protocol: change.value == "v2" and protocol.supports("v2Checkpoint"),
    in_commit_timestamps.ENABLED: _on_with("inCommitTimestamp"),
    in_commit_timestamps.SINCE_VERSION: _if_new,
    in_commit_timestamps.SINCE_TIMESTAMP: _if_new,
    "io.unitycatalog.tableId": lambda change, protocol: change.is_new and protocol.supports("catalogManaged"),
}
"""The properties that may change under a commit, and when."""


def rebased(ours: Metadata, winners: Metadata, protocol: Protocol) -> Metadata | None:
    """The metadata to go on with after the winner's change; None if the commit must give way."""
    if identity.only_marks_moved(ours, winners):
        return winners
    same_but = replace(ours, configuration=winners.configuration, schema_string=winners.schema_string)
    if same_but != winners:
        return None
    before, after = ours.configuration, winners.configuration
    if before.keys() - after.keys():
        return None
    for key, value in after.items():
        if before.get(key) == value:
            continue
        rule = HARMLESS.get(key)
        if rule is None or not rule(_Change(key, value, key not in before, before, after), protocol):
            return None
    if ours.schema_string != winners.schema_string and not _only_mapping_added(ours, winners):
        return None
    return winners


def enables_row_tracking(ours: Metadata, winners: Metadata) -> bool:
    """Whether the winner switched row tracking on: then rows that we rewrote have lost their ids."""
    was, is_now = (each.configuration.get(ROW_TRACKING, "").lower() for each in (ours, winners))
    return was != "true" and is_now == "true"


def _only_mapping_added(ours: Metadata, winners: Metadata) -> bool:
    if ours.configuration.get(column_mapping.MODE, "none").lower() != "none":
        return False
    return column_mapping.unmapped(ours.schema) == column_mapping.unmapped(winners.schema)
