"""The properties of a table, and its description for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from halocline.formats.delta.configuration import alter as change
from halocline.formats.delta.configuration import row_tracking
from halocline.formats.delta.configuration.column_mapping import MAX_ID, MODE, mode_of
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import row_ids, support
from halocline.formats.delta.features.approval import asked_by
from halocline.table.delta.alter import Altered, ColumnPath, alter
from halocline.table.delta.columns import comment_column
from halocline.table.delta.features import remove_column_mapping
from halocline.table.delta.opened import Opened
from halocline.table.delta.property_values import property_values
from halocline.table.opening import as_operation

_SET: Final = "SET TBLPROPERTIES"


@as_operation
def set_properties(table: Opened, values: Mapping[str, str]) -> Altered:
    """Sets properties; one that switches a feature on also adds it to the protocol.

    Where `delta.columnMapping.mode` becomes `none`, all files are written again, which takes a session.

    Raises:
        InputError: A property cannot have that value, or an existing table gains the feature only by name.
        IncompatibleError: Somebody known would break.
    """
    wanted = property_values(values)
    snapshot = table.snapshot("write")
    if MODE in wanted and mode_of(wanted) == "none" != mode_of(snapshot.properties):
        remove_column_mapping(table, keeps_mode=True)
        others = {key: value for key, value in wanted.items() if key not in (MODE, MAX_ID)}
        return replace(set_properties(table, others), committed=True)
    target = change.set_properties(snapshot.configuration, wanted)
    if target.properties.row_tracking and not snapshot.properties.row_tracking:
        return _enable_row_tracking(table, wanted)
    asked = asked_by(wanted, snapshot.protocol)
    return alter(table, lambda _: target, _SET, {"properties": wanted}, snapshot, asked=asked)


@as_operation
def unset_properties(table: Opened, keys: str | Collection[str], *, if_exists: bool = False) -> Altered:
    """Takes properties away. Features stay in the protocol; `drop_feature_support` takes one out."""
    names = [keys] if isinstance(keys, str) else list(keys)
    if MODE in names and mode_of(table.snapshot("write").properties) != "none":
        remove_column_mapping(table, keeps_mode=False)
        others = [name for name in names if name not in (MODE, MAX_ID)]
        return replace(unset_properties(table, others, if_exists=if_exists), committed=True)
    unset, told = partial(change.unset_properties, keys=names, if_exists=if_exists), {"properties": names}
    return alter(table, unset, "UNSET TBLPROPERTIES", {**told, "ifExists": if_exists})


def set_comment(table: Opened, comment: str | None, column: ColumnPath | None = None) -> Altered:
    """Describes the table, or one of its columns, for people; None takes the description away."""
    if column is not None:
        return comment_column(table, column, comment)

    def described(state: TableConfiguration) -> TableConfiguration:
        return state.with_metadata(replace(state.metadata, description=comment))

    return alter(table, described, _SET, {"properties": {"comment": comment}})


def _enable_row_tracking(table: Opened, wanted: Mapping[str, str]) -> Altered:
    """Every row has an id before the table says so: the feature first, then ids for old files, then the switch."""
    feature = row_tracking.FEATURE
    with_feature = partial(support.with_feature, name=feature)
    supported = alter(table, with_feature, "UPGRADE PROTOCOL", asked=frozenset({feature}))
    if table.snapshot("write").properties.row_tracking_suspended:
        resumed = {"delta.rowTrackingSuspended": "false"}
        alter(table, lambda state: change.set_properties(state, resumed), _SET, {"properties": resumed})
    row_ids.backfill(lambda: table.snapshot("write"), table.transaction)
    names = row_ids.materialised_columns()

    def switched_on(state: TableConfiguration) -> TableConfiguration:
        kept = {key: state.metadata.configuration.get(key, value) for key, value in names.items()}
        return change.set_properties(state, {**kept, **wanted})

    asked = asked_by(wanted, table.snapshot("write").protocol)
    switched = alter(table, switched_on, _SET, {"properties": dict(wanted)}, asked=asked)
    return replace(switched, approval=supported.approval) if supported.approval.grows else switched
