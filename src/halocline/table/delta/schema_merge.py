"""A table's schema grown by the columns of rows that are offered.

New columns come in as `halocline.schema.growth` says. A column whose offered type is wider takes it where the table
allows its columns to widen, unless a rule of the table speaks of the column. Nothing is ever taken away or made
narrower; what is not merged here is cast when the rows are written, or refused.

A column widens by itself only within its kind: whole numbers to longer ones, float to double, decimals to longer ones.
Whole numbers do not become decimals or doubles, nor dates timestamps, because rows happen to come that way; that takes
a change of the column's type by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from halocline.errors import SchemaError
from halocline.formats.delta.configuration import alter, column_mapping, properties, type_widening
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import support
from halocline.schema.growth import grown_by
from halocline.schema.types import DataType, Path, Struct, decimal_of
from halocline.schema.visitor import paired, with_parts


def grown(
    state: TableConfiguration, rows: Struct, *, version: int, auto_upgrade: bool, table: str
) -> TableConfiguration:
    """The state with a schema that takes the rows."""
    if properties.flag(state.metadata.configuration, type_widening.ENABLED):
        for path, type in _wider(state.schema, rows, ()):
            state = _widened(state, path, type, version)
    before = state.schema
    after = grown_by(before, rows)
    return state if after == before else changed(state, after, auto_upgrade=auto_upgrade, table=table)


def changed(state: TableConfiguration, schema: Struct, *, auto_upgrade: bool, table: str) -> TableConfiguration:
    """The state with this schema; new columns get ids where the table maps columns."""
    state = support.prepared_for(state, schema, auto_upgrade=auto_upgrade, table=table)
    mapped, configuration = column_mapping.mapped(schema, state.metadata.configuration, column_mapping.random_name)
    return state.evolved(schema=mapped, configuration=configuration, operation="WRITE")


def _wider(known: DataType, rows: DataType, path: Path) -> Iterator[tuple[Path, DataType]]:
    """The fields whose offered type is wider, each with the type it would get."""
    for step, one, other in paired(known, rows) or ():
        yield from _wider(one, other, (*path, step))
    if not isinstance(known, Struct) or not isinstance(rows, Struct):
        return
    for field in known.fields:
        here, found = (*path, field.name), rows.get(field.name)
        wide = field.type if found is None else _widest(field.type, found.type)
        if wide != field.type:
            yield here, wide
        elif found is not None:
            yield from _wider(field.type, found.type, here)


def _widest(known: DataType, rows: DataType) -> DataType:
    """The type with every plain type in it, down to the next struct, as wide as the offered one."""
    inner = paired(known, rows)
    if inner is not None:
        return with_parts(known, *(_widest(one, other) for _, one, other in inner))
    return rows if _same_kind(known, rows) and type_widening.can_widen(known, rows) else known


def _same_kind(known: DataType, rows: DataType) -> bool:
    kinds: tuple[Callable[[DataType], bool], ...] = (
        lambda type: type.name in ("byte", "short", "integer", "long"),
        lambda type: type.name in ("float", "double"),
        lambda type: decimal_of(type) is not None,
    )
    return any(kind(known) and kind(rows) for kind in kinds)


def _widened(state: TableConfiguration, path: Path, type: DataType, version: int) -> TableConfiguration:
    try:
        return alter.change_type(state, path, type, version=version)
    except SchemaError:  # a rule speaks of the column: it keeps its type, and values are cast to it
        return state
