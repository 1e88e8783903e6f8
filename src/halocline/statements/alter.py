"""ALTER TABLE and COMMENT ON: what a table requires, and has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from halocline.errors import InputError
from halocline.formats.delta.configuration.alter import ColumnPosition
from halocline.schema import Struct
from halocline.schema.char_types import declared_type
from halocline.statements.columns import SqlColumn, take_column, take_constraints, take_type
from halocline.statements.references import path_of
from halocline.statements.target import StatementTarget, Translate
from halocline.statements.text import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from halocline.table import DeltaLakeTable


_CHANGES: Final = frozenset({"TYPE", "DROP", "COMMENT", "SET", "SYNC", "FIRST", "AFTER"})
"""What may follow the name of a column that is changed."""


def alter(target: StatementTarget) -> DataFrame | None:
    """`ALTER TABLE table …`, for every verb that tables have."""
    reader = target.reader
    reader.expect("ALTER")
    if not reader.accept("TABLE"):
        return None
    table = target.table()
    found = target.delta(table).table
    act = _alteration(target, found)
    reader.end()
    act()
    return target.told(version=found.version)


def _alteration(target: StatementTarget, table: DeltaLakeTable) -> Callable[[], object]:
    """Takes what is to be altered, and gives what does it."""
    reader = target.reader
    if reader.accept("ADD", "CONSTRAINT"):
        name = reader.identifier()
        reader.expect("CHECK", "(")
        condition = reader.until()
        reader.expect(")")
        return partial(table.add_constraint, name, condition)
    if reader.accept("DROP", "CONSTRAINT"):
        if_exists = reader.accept("IF", "EXISTS")
        return partial(table.drop_constraint, reader.identifier(), if_exists=if_exists)
    if reader.accept("DROP", "FEATURE"):
        name = reader.string() if reader.word() == "" else reader.identifier()
        return partial(table.drop_feature_support, name, reader.accept("TRUNCATE", "HISTORY"))
    if reader.accept("SET", "TBLPROPERTIES"):
        return partial(table.set_properties, reader.properties())
    if reader.accept("UNSET", "TBLPROPERTIES"):
        if_exists = reader.accept("IF", "EXISTS")
        return partial(table.unset_properties, reader.parenthesised(reader.property_key), if_exists=if_exists)
    if reader.starts("ADD"):
        return _new_columns(target, table)
    if reader.starts("RENAME", "TO"):
        reader.refuse("a table is called by where it lies: move its folder, or name it in lake.toml")
    if reader.starts("SET", "LOCATION"):
        reader.refuse("a table lies where its name says")
    if reader.starts("SET", "TAGS") or reader.starts("UNSET", "TAGS"):
        reader.refuse("tags are kept by a catalog, and properties by tables: use SET TBLPROPERTIES")
    if reader.accept("RENAME", "COLUMN"):
        column = reader.name()
        reader.expect("TO")
        return partial(table.rename_column, column, reader.identifier())
    if reader.accept("DROP", "COLUMN") or reader.accept("DROP", "COLUMNS"):
        if_exists = reader.accept("IF", "EXISTS")
        columns = reader.parenthesised(reader.name) if reader.word() == "(" else reader.listed(reader.name)
        if if_exists:
            schema = table.snapshot().schema
            columns = [each for each in columns if _is_there(schema, each)]
        return partial(table.drop_column, *columns) if columns else lambda: None
    if reader.accept("CLUSTER", "BY"):
        return partial(
            table.cluster_by, *([] if reader.accept("NONE") else reader.parenthesised(lambda: ".".join(reader.name())))
        )
    if reader.starts("ALTER") or reader.starts("CHANGE"):
        by_name = reader.accept("CHANGE") or not reader.accept("ALTER")
        reader.accept("COLUMN")
        return _column_alteration(reader, table, by_name)
    if reader.accept("REPLACE", "COLUMNS"):
        declared = reader.parenthesised(lambda: take_column(reader))
        if any(each != SqlColumn(each.name, each.type, comment=each.comment) for each in declared):
            reader.refuse("columns are declared anew by name, type and comment alone")
        return partial(table.replace_columns, [each.field for each in declared])
    reader.refuse("this is not understood")


def _is_there(schema: Struct, column: tuple[str, ...]) -> bool:
    try:
        schema.find(column)
    except InputError:
        return False
    return True


def _new_columns(target: StatementTarget, table: DeltaLakeTable) -> Callable[[], object]:
    reader = target.reader
    reader.expect("ADD")
    if not reader.accept("COLUMNS"):
        reader.expect("COLUMN")
    bracketed = reader.word() == "("
    columns: list[tuple[tuple[str, ...], SqlColumn, ColumnPosition | None]] = (
        reader.parenthesised(lambda: _added(target)) if bracketed else reader.listed(lambda: _added(target))
    )
    parents = {path for path, _, _ in columns}
    if len(parents) > 1:
        reader.refuse("columns of one struct are added at a time")
    fields, positions = [each.field for _, each, _ in columns], [position for _, _, position in columns]
    return partial(table.add_columns, fields, parents.pop(), positions=positions)


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


def _column_alteration(reader: Reader, table: DeltaLakeTable, by_name: bool = False) -> Callable[[], object]:
    column = reader.name()
    if by_name and reader.word() not in _CHANGES:
        return _declared_anew(reader, table, column)
    if reader.accept("TYPE"):
        return partial(table.widen_column, column, SqlColumn(column[-1], take_type(reader)).field.type)
    if reader.accept("DROP", "NOT", "NULL"):
        return partial(table.allow_nulls, column)
    if reader.accept("COMMENT"):
        return partial(table.set_comment, reader.string(), column)
    if reader.accept("SET", "DEFAULT"):
        return partial(table.set_default, column, reader.until())
    if reader.accept("DROP", "DEFAULT"):
        return partial(table.set_default, column, None)
    if reader.accept("SYNC", "IDENTITY"):
        return partial(table.sync_identity, column)
    if (position := _position(reader)) is not None:
        return partial(table.move_column, column, after=position.after)
    reader.refuse("this is not understood")


def _declared_anew(reader: Reader, table: DeltaLakeTable, column: tuple[str, ...]) -> Callable[[], object]:
    """`CHANGE COLUMN name name type [COMMENT 'text'] [FIRST | AFTER column]`, of which one thing is new."""
    if reader.identifier().lower() != column[-1].lower():
        reader.refuse("a column that is declared anew keeps its name: use RENAME COLUMN")
    said = take_constraints(reader, SqlColumn(column[-1], take_type(reader)))
    position = _position(reader)
    present = table.snapshot().schema.find(column)[1]
    changes: list[Callable[[], object]] = []
    if said.field.type != (declared_type(present) or present.type):
        changes.append(partial(table.widen_column, column, said.field.type))
    if said.comment not in (None, present.metadata.get("comment")):
        changes.append(partial(table.set_comment, said.comment, column))
    if position is not None:
        changes.append(partial(table.move_column, column, after=position.after))
    if len(changes) > 1 or said != SqlColumn(said.name, said.type, comment=said.comment):
        reader.refuse("a column is changed in one respect at a time: its type, its comment or its place")
    return changes[0] if changes else lambda: None


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
