"""When a commit may go on although somebody else changed the table's metadata first.

Most changes of metadata contradict a commit that was prepared without them: its rows were checked against other
columns and other rules. A few do not, because what was prepared stays right: high-water marks of identity columns
that moved, and features that were switched on and ask nothing of rows already written. `rebased` knows those.

Only the enabling direction is safe, and only where the protocol supports the feature. A removed property, a changed
partitioning or a changed column never is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from halocline.compat.protocol import Protocol
from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.configuration import column_mapping, identity, in_commit_timestamps

ROW_TRACKING: Final = "delta.enableRowTracking"


_SWITCHES: Final[Mapping[str, str]] = {
    ROW_TRACKING: "rowTracking",
    "delta.enableDeletionVectors": "deletionVectors",
    in_commit_timestamps.ENABLED: "inCommitTimestamp",
}
"""Properties that may be switched on under a commit, each with the feature that must be supported."""


def _is_harmless(key: str, before: Mapping[str, str], after: Mapping[str, str], protocol: Protocol) -> bool:
    """Whether a property may change that way under a commit."""
    value, is_new = after[key], key not in before
    if key in _SWITCHES:
        return value.lower() == "true" and protocol.supports(_SWITCHES[key])
    match key:
        case (
            "delta.rowTracking.materializedRowIdColumnName" | "delta.rowTracking.materializedRowCommitVersionColumnName"
        ):
            return after.get(ROW_TRACKING, "").lower() == "true"
        case column_mapping.MODE:
            by_name = (before.get(key, "none").lower(), value.lower()) == ("none", "name")
            return by_name and protocol.supports(column_mapping.FEATURE)
        case column_mapping.MAX_ID:
            return True
        case "delta.checkpointPolicy":
            return value == "v2" and protocol.supports("v2Checkpoint")
        case in_commit_timestamps.SINCE_VERSION | in_commit_timestamps.SINCE_TIMESTAMP:
            return is_new
        case "io.unitycatalog.tableId":
            return is_new and protocol.supports("catalogManaged")
    return False


def rebased(ours: Metadata, winners: Metadata, protocol: Protocol) -> Metadata | None:
    """The metadata to go on with after the winner's change; None if the commit must give way."""
    if identity.only_marks_moved(ours, winners):
        return winners
    same_but = replace(ours, configuration=winners.configuration, schema_string=winners.schema_string)
    if same_but != winners:
        return None
    before, after = ours.configuration, winners.configuration
    changed = [key for key, value in after.items() if before.get(key) != value]
    if before.keys() - after.keys() or not all(_is_harmless(key, before, after, protocol) for key in changed):
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
