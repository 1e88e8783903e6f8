"""ALTER TABLE and COMMENT ON: what a table requires, and has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from halocline.formats.delta.configuration.alter import ColumnPosition
from halocline.statements.columns import SqlColumn, take_column, take_type
from halocline.statements.references import path_of
from halocline.statements.target import StatementTarget, Translate
from halocline.statements.text import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from halocline.table import DeltaLakeTable


def alter(target: StatementTarget) -> DataFrame | None:
    """`ALTER TABLE table …`, for every verb that tables have."""
    reader = target.reader
    reader.expect("ALTER")
    if not reader.accept("TABLE"):
        return None
    table = target.table()
    if table is None:
        return None
    found = target.delta(table).table
    _altered(target, found)
    return target.told(version=found.version)


def _altered(target: StatementTarget, table: DeltaLakeTable) -> None:
    reader = target.reader
    if reader.accept("ADD", "CONSTRAINT"):
        name = reader.identifier()
        reader.expect("CHECK", "(")
        condition = reader.until()
        reader.expect(")")
        reader.end()
        table.add_constraint(name, condition)
    elif reader.accept("DROP", "CONSTRAINT"):
        if_exists = reader.accept("IF", "EXISTS")
        name = reader.identifier()
        reader.end()
        table.drop_constraint(name, if_exists=if_exists)
    elif reader.accept("DROP", "FEATURE"):
        name = reader.string() if reader.word() == "" else reader.identifier()
        truncate = reader.accept("TRUNCATE", "HISTORY")
        reader.end()
        table.drop_feature_support(name, truncate)
    elif reader.accept("SET", "TBLPROPERTIES"):
        values = reader.properties()
        reader.end()
        table.set_properties(values)
    elif reader.accept("UNSET", "TBLPROPERTIES"):
        if_exists = reader.accept("IF", "EXISTS")
        keys = reader.parenthesised(reader.property_key)
        reader.end()
        table.unset_properties(keys, if_exists=if_exists)
    elif reader.starts("ADD"):
        _add_columns(target, table)
    elif reader.accept("RENAME", "COLUMN"):
        column = reader.name()
        reader.expect("TO")
        name = reader.identifier()
        reader.end()
        table.rename_column(column, name)
    elif reader.accept("DROP", "COLUMN") or reader.accept("DROP", "COLUMNS"):
        columns = reader.parenthesised(reader.name) if reader.word() == "(" else reader.listed(reader.name)
        reader.end()
        table.drop_column(*columns)
    elif reader.accept("CLUSTER", "BY"):
        names = [] if reader.accept("NONE") else reader.parenthesised(reader.identifier)
        reader.end()
        table.cluster_by(*names)
    elif reader.accept("ALTER") or reader.accept("CHANGE"):
        reader.accept("COLUMN")
        _alter_column(target, table)
    else:
        reader.refuse("this is not understood")


def _add_columns(target: StatementTarget, table: DeltaLakeTable) -> None:
    reader = target.reader
    reader.expect("ADD")
    if not reader.accept("COLUMNS"):
        reader.expect("COLUMN")
    bracketed = reader.word() == "("
    columns: list[tuple[tuple[str, ...], SqlColumn, ColumnPosition | None]] = (
        reader.parenthesised(lambda: _added(target)) if bracketed else reader.listed(lambda: _added(target))
    )
    reader.end()
    parents = {path for path, _, _ in columns}
    if len(parents) > 1:
        reader.refuse("columns of one struct are added at a time")
    fields, positions = [each.field for _, each, _ in columns], [position for _, _, position in columns]
    table.add_columns(fields, parents.pop(), positions=positions)


def _added(target: StatementTarget) -> tuple[tuple[str, ...], SqlColumn, ColumnPosition | None]:
    """A column, the struct that it is added to, and where it stands there."""
    reader, above = target.reader, list[str]()
    while reader.word(1) == ".":
        above.append(reader.identifier())
        reader.expect(".")
    found = take_column(reader)
    return tuple(above), found, _position(reader)


def _position(reader: Reader) -> ColumnPosition | None:
    """Takes `FIRST` or `AFTER column`, if there is one of them."""
    if reader.accept("FIRST"):
        return ColumnPosition()
    return ColumnPosition(reader.identifier()) if reader.accept("AFTER") else None


def _alter_column(target: StatementTarget, table: DeltaLakeTable) -> None:
    reader = target.reader
    column = reader.name()
    if reader.accept("TYPE"):
        kind = take_type(reader)
        reader.end()
        table.widen_column(column, SqlColumn(column[-1], kind).field.type)
    elif reader.accept("DROP", "NOT", "NULL"):
        reader.end()
        table.allow_nulls(column)
    elif reader.accept("COMMENT"):
        comment = reader.string()
        reader.end()
        table.set_comment(comment, column)
    elif reader.accept("SET", "DEFAULT"):
        expression = reader.until()
        reader.end()
        table.set_default(column, expression)
    elif reader.accept("DROP", "DEFAULT"):
        reader.end()
        table.set_default(column, None)
    elif reader.accept("SYNC", "IDENTITY"):
        reader.end()
        table.sync_identity(column)
    elif (position := _position(reader)) is not None:
        reader.end()
        table.move_column(column, after=position.after)
    else:
        reader.refuse("this is not understood")


def comment(target: StatementTarget) -> DataFrame | None:
    """`COMMENT ON TABLE table IS 'text'`, and `COMMENT ON COLUMN table.column IS 'text'`."""
    reader = target.reader
    reader.expect("COMMENT", "ON")
    of_column = reader.accept("COLUMN")
    if not of_column and not reader.accept("TABLE"):
        return None
    parts = reader.name()
    column: tuple[str, ...] = ()
    target.parts = parts
    if of_column:
        # A path is two parts; of a lake's name it is not said how many, so the longest that is a table counts.
        cuts = [2] if path_of(parts[:2]) is not None else range(len(parts) - 1, 0, -1)
        cut = next((cut for cut in cuts if target.find(parts[:cut]) is not None), 0)
        target.parts, column = parts[:cut], parts[cut:]
    table = target.find(target.parts) if target.parts else None
    if table is None:
        return None
    reader.expect("IS")
    text = None if reader.accept("NULL") else reader.string()
    reader.end()
    found = target.delta(table).table
    found.set_comment(text, column or None)
    return target.told(version=found.version)


STATEMENTS: Final[dict[str, Translate]] = {"ALTER": alter, "COMMENT": comment}
