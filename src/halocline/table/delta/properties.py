"""The properties of a table, and its description for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from halocline.formats.delta.configuration import alter as change
from halocline.formats.delta.configuration import row_tracking
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import row_ids, support
from halocline.formats.delta.features.approval import asked_by
from halocline.table.delta.alter import Altered, ColumnPath, alter
from halocline.table.delta.columns import comment_column
from halocline.table.delta.features import protocol_parameters
from halocline.table.delta.opened import Opened
from halocline.table.opening import as_operation


@as_operation
def set_properties(table: Opened, values: Mapping[str, str]) -> Altered:
    """Sets properties; one that switches a feature on also adds it to the protocol.

    Raises:
        InputError: A property cannot have that value, or an existing table gains the feature only by name.
        IncompatibleError: Somebody known would break.
    """
    wanted = {key: str(value) for key, value in values.items()}
    snapshot = table.snapshot("write")
    target = change.set_properties(snapshot.configuration, wanted)
    if target.properties.row_tracking and not snapshot.properties.row_tracking:
        return _enable_row_tracking(table, wanted)
    return alter(
        table,
        lambda _: target,
        "SET TBLPROPERTIES",
        lambda _: {"properties": wanted},
        snapshot,
        asked=asked_by(wanted, snapshot.protocol),
    )


def unset_properties(table: Opened, keys: str | Iterable[str], *, if_exists: bool = False) -> Altered:
    """Takes properties away. Features stay in the protocol; `drop_feature_support` takes one out."""
    names = [keys] if isinstance(keys, str) else list(keys)
    return alter(
        table,
        lambda state: change.unset_properties(state, names, if_exists=if_exists),
        "UNSET TBLPROPERTIES",
        lambda _: {"properties": names, "ifExists": if_exists},
    )


def set_comment(table: Opened, comment: str | None, column: ColumnPath | None = None) -> Altered:
    """Describes the table, or one of its columns, for people; None takes the description away."""
    if column is None:
        return alter(
            table,
            lambda state: _described(state, comment),
            "SET TBLPROPERTIES",
            lambda _: {"properties": {"comment": comment}},
        )
    return comment_column(table, column, comment)


def _enable_row_tracking(table: Opened, wanted: Mapping[str, str]) -> Altered:
    """Every row has an id before the table says so: the feature first, then ids for old files, then the switch."""
    supported = alter(
        table,
        lambda state: support.with_feature(state, row_tracking.FEATURE),
        "UPGRADE PROTOCOL",
        protocol_parameters,
        asked=frozenset({row_tracking.FEATURE}),
    )
    if table.snapshot("write").properties.row_tracking_suspended:
        alter(
            table,
            lambda state: change.set_properties(state, {"delta.rowTrackingSuspended": "false"}),
            "SET TBLPROPERTIES",
            lambda _: {"properties": {"delta.rowTrackingSuspended": "false"}},
        )
    row_ids.backfill(lambda: table.snapshot("write"), table.transaction)
    names = row_ids.materialised_columns()

    def switched_on(state: TableConfiguration) -> TableConfiguration:
        kept = {key: state.metadata.configuration.get(key, value) for key, value in names.items()}
        return change.set_properties(state, {**kept, **wanted})

    asked = asked_by(wanted, table.snapshot("write").protocol)
    switched = alter(table, switched_on, "SET TBLPROPERTIES", lambda _: {"properties": dict(wanted)}, asked=asked)
    return replace(switched, approval=supported.approval) if supported.approval.grows else switched


def _described(state: TableConfiguration, comment: str | None) -> TableConfiguration:
    return state.with_metadata(replace(state.metadata, description=comment))
