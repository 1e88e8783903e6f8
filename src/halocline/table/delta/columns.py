"""The columns of a table: new ones, other names, wider types, descriptions for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halocline.errors import InputError
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
    given: Any = columns
    if isinstance(given, str) or not all(isinstance(each, Field | Mapping) for each in given):
        raise InputError(
            "columns are added as fields",
            sides={"given": repr(columns)[:80], "expected": '[{"name": "x", "type": "long", "nullable": true}]'},
        )
    new = [each if isinstance(each, Field) else field_from_json(each) for each in columns]

    def grown(state: TableConfiguration) -> TableConfiguration:
        future = state.metadata.schema.with_fields([*state.metadata.schema.fields, *new])
        ready = support.prepared_for(state, future, auto_upgrade=table.settings.auto_upgrade, table=table.url)
        return change.add_columns(ready, new, where)

    added = [{"column": field} for field in to_json(Struct(new))["fields"]]
    asked = None if table.settings.auto_upgrade else frozenset[str]()
    return alter(table, grown, "ADD COLUMNS", {"columns": added}, asked=asked)


def rename_column(table: Opened, column: ColumnPath, name: str) -> Altered:
    """Gives a column another name; needs column mapping."""
    path = path_of(column)
    told = {"oldColumnPath": ".".join(path), "newColumnPath": ".".join((*path[:-1], name))}
    return alter(table, lambda state: change.rename_column(state, path, name), "RENAME COLUMN", told)


def drop_column(table: Opened, *columns: ColumnPath) -> Altered:
    """Takes columns away; needs column mapping. Their data stays in the files until those are written again."""
    paths = [path_of(each) for each in columns]
    told = {"columns": [".".join(path) for path in paths]}
    return alter(table, lambda state: change.drop_columns(state, paths), "DROP COLUMNS", told)


@as_operation
def widen_column(table: Opened, column: ColumnPath, type: Any) -> Altered:
    """Gives a column a wider type, as the log spells types; needs type widening."""
    path, wide = path_of(column), type if isinstance(type, DataType) else type_from_json(type)
    snapshot = table.snapshot("write")
    wider = change.change_type(snapshot.configuration, path, wide, version=snapshot.version + 1)
    told = {"column": {"name": ".".join(path), "type": to_json(wide)}}
    return alter(table, lambda _: wider, "CHANGE COLUMN", told, snapshot)


def allow_nulls(table: Opened, column: ColumnPath) -> Altered:
    """Takes NOT NULL from a column."""
    path = path_of(column)
    told = {"column": {"name": ".".join(path), "nullable": True}}
    return alter(table, lambda state: change.allow_nulls(state, path), "CHANGE COLUMN", told)


def comment_column(table: Opened, column: ColumnPath, comment: str | None) -> Altered:
    """Describes a column for people; None takes the description away."""
    path = path_of(column)
    told = {"column": {"name": ".".join(path), "metadata": {"comment": comment}}}
    return alter(table, lambda state: _commented(state, path, comment), "CHANGE COLUMN", told)


def _commented(state: TableConfiguration, path: Path, comment: str | None) -> TableConfiguration:
    here, _ = state.schema.find(path)
    return state.evolved(
        schema=map_fields(state.schema, lambda at, field: field.annotated("comment", comment) if at == here else field)
    )
