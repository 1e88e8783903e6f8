"""The columns of a table: new ones, other names, wider types, descriptions for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halocline.formats.delta.configuration import alter as change
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import support
from halocline.schema import DataType, Field, Path, Struct
from halocline.schema.json_edge import field_from_json, to_json, type_from_json
from halocline.schema.visitor import map_fields
from halocline.table.delta.alter import Altered, ColumnPath, alter, path_of
from halocline.table.delta.opened import Opened
from halocline.table.opening import as_operation


def add_columns(table: Opened, columns: Sequence[Field | Mapping[str, Any]], parent: ColumnPath = ()) -> Altered:
    """Adds nullable columns at the end of the table or of a struct.

    A column whose type needs a feature that the table lacks is refused: add the feature first, or allow writes to
    raise the protocol with `halocline.protocol.autoUpgrade`.
    """
    where = path_of(parent)
    new = [each if isinstance(each, Field) else field_from_json(each) for each in columns]

    def grown(state: TableConfiguration) -> TableConfiguration:
        future = state.metadata.schema.with_fields([*state.metadata.schema.fields, *new])
        ready = support.prepared_for(state, future, auto_upgrade=table.settings.auto_upgrade, table=table.url)
        return change.add_columns(ready, new, where)

    added = [{"column": field} for field in to_json(Struct(new))["fields"]]
    asked = None if table.settings.auto_upgrade else frozenset[str]()
    return alter(table, grown, "ADD COLUMNS", lambda _: {"columns": added}, asked=asked)


def rename_column(table: Opened, column: ColumnPath, name: str) -> Altered:
    """Gives a column another name; needs column mapping."""
    path = path_of(column)
    to = ".".join((*path[:-1], name))
    return alter(
        table,
        lambda state: change.rename_column(state, path, name),
        "RENAME COLUMN",
        lambda _: {"oldColumnPath": ".".join(path), "newColumnPath": to},
    )


def drop_column(table: Opened, *columns: ColumnPath) -> Altered:
    """Takes columns away; needs column mapping. Their data stays in the files until those are written again."""
    paths = [path_of(each) for each in columns]
    return alter(
        table,
        lambda state: change.drop_columns(state, paths),
        "DROP COLUMNS",
        lambda _: {"columns": [".".join(path) for path in paths]},
    )


@as_operation
def widen_column(table: Opened, column: ColumnPath, type: Any) -> Altered:
    """Gives a column a wider type, as the log spells types; needs type widening."""
    path, wide = path_of(column), type if isinstance(type, DataType) else type_from_json(type)
    snapshot = table.snapshot("write")
    return alter(
        table,
        lambda state: change.change_type(state, path, wide, version=snapshot.version + 1),
        "CHANGE COLUMN",
        lambda _: {"column": {"name": ".".join(path), "type": to_json(wide)}},
        snapshot,
    )


def allow_nulls(table: Opened, column: ColumnPath) -> Altered:
    """Takes NOT NULL from a column."""
    path = path_of(column)
    return alter(
        table,
        lambda state: change.allow_nulls(state, path),
        "CHANGE COLUMN",
        lambda _: {"column": {"name": ".".join(path), "nullable": True}},
    )


def comment_column(table: Opened, column: ColumnPath, comment: str | None) -> Altered:
    """Describes a column for people; None takes the description away."""
    path = path_of(column)
    return alter(
        table,
        lambda state: state.evolved(schema=_commented(state, path, comment)),
        "CHANGE COLUMN",
        lambda _: {"column": {"name": ".".join(path), "metadata": {"comment": comment}}},
    )


def _commented(state: TableConfiguration, path: Path, comment: str | None) -> Struct:
    schema = state.metadata.schema
    here, _ = schema.find(path)
    return map_fields(schema, lambda each, field: field.annotated("comment", comment) if each == here else field)
