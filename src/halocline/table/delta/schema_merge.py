"""A table's schema grown by the columns of rows that are offered.

New columns, and new fields of structs at any depth, come in at the end and allow nulls, since existing rows lack them.
A column without a type (void) takes the type that is offered. A column whose offered type is wider takes it where the
table allows its columns to widen, unless a rule of the table speaks of the column. Nothing is ever taken away or made
narrower; what is not merged here is cast when the rows are written, or refused.

A column widens by itself only within its kind: whole numbers to longer ones, float to double, decimals to longer ones.
Whole numbers do not become decimals or doubles, nor dates timestamps, because rows happen to come that way; that takes
a change of the column's type by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from halocline.errors import SchemaError
from halocline.formats.delta.configuration import alter, column_mapping, properties, schema_edit
from halocline.formats.delta.configuration.schema_edit import Path, decimal_of
from halocline.formats.delta.configuration.table_state import TableState
from halocline.formats.delta.configuration.type_widening import can_widen
from halocline.formats.delta.features import support
from halocline.schema.json_edge import struct_from_json, type_from_json
from halocline.spark.types import input_schema
from halocline.spark.types.columns import is_void


def grown(state: TableState, rows: Mapping[str, Any], *, version: int, auto_upgrade: bool, table: str) -> TableState:
    """The state with a schema that takes the rows.

    Args:
        state: The table so far.
        rows: The columns offered.
        version: The version of the commit, which some tables note with a change of type.
        auto_upgrade: Whether a write may raise the protocol if a new column needs a feature.
        table: The table's name, for messages.

    Raises:
        InputError: A new column needs a feature that the table lacks.
        SchemaError: The new columns do not fit the table.
    """
    if properties.flag(state.metadata.configuration, "delta.enableTypeWidening"):
        for path, type in _wider(state.schema, rows, ()):
            state = _widened(state, path, type, version)
    before = state.schema
    after = _with_new_fields(before, rows)
    return state if after == before else changed(state, after, auto_upgrade=auto_upgrade, table=table)


def changed(state: TableState, schema: Mapping[str, Any], *, auto_upgrade: bool, table: str) -> TableState:
    """The state with this schema; new columns get ids where the table maps columns.

    Raises:
        InputError: A column needs a feature that the table lacks.
    """
    struct = struct_from_json(schema)
    state = support.prepared_for(state, struct, auto_upgrade=auto_upgrade, table=table)
    mapped, configuration = column_mapping.mapped(struct, state.metadata.configuration, column_mapping.random_name)
    return state.evolved(schema=mapped, configuration=configuration, operation="WRITE")


def _with_new_fields(known: Any, rows: Any) -> Any:
    """One type grown by the fields of another; the same object in content where nothing is new."""
    if isinstance(known, str) and is_void(known) and not (isinstance(rows, str) and is_void(rows)):
        return _loose(rows)
    if not (isinstance(known, Mapping) and isinstance(rows, Mapping) and known["type"] == rows["type"]):
        return known
    if known["type"] != "struct":
        inner = {key: _with_new_fields(known[key], rows[key]) for key in _inner_keys(known)}
        return {**known, **inner}
    offered_fields = {str(field["name"]).lower(): field for field in rows["fields"]}
    fields = []
    for field in known["fields"]:
        found = offered_fields.pop(field["name"].lower(), None)
        fields.append(field if found is None else {**field, "type": _with_new_fields(field["type"], found["type"])})
    new = input_schema.nullable({"type": "struct", "fields": list(offered_fields.values())})["fields"]
    return {**known, "fields": [*fields, *new]}


def _wider(known: Any, rows: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The fields whose offered type is wider, each with the type it would get."""
    if not (isinstance(known, Mapping) and isinstance(rows, Mapping) and known["type"] == rows["type"]):
        return
    if known["type"] != "struct":
        steps = dict(schema_edit.children(known))
        for step, inner in schema_edit.children(rows):
            yield from _wider(steps[step], inner, (*path, step))
        return
    offered_types = {str(field["name"]).lower(): field["type"] for field in rows["fields"]}
    for field in known["fields"]:
        here, type = (*path, field["name"]), offered_types.get(field["name"].lower())
        wide = field["type"] if type is None else _widest(field["type"], type)
        if wide != field["type"]:
            yield here, wide
        elif type is not None:
            yield from _wider(field["type"], type, here)


def _widest(known: Any, rows: Any) -> Any:
    """The type with every plain type in it, down to the next struct, as wide as the offered one."""
    if isinstance(known, str):
        return (
            rows
            if isinstance(rows, str)
            and _same_kind(known, rows)
            and can_widen(type_from_json(known), type_from_json(rows))
            else known
        )
    if not isinstance(rows, Mapping) or known["type"] != rows["type"] or known["type"] == "struct":
        return known
    return {**known, **{key: _widest(known[key], rows[key]) for key in _inner_keys(known)}}


def _same_kind(known: str, rows: str) -> bool:
    kinds: tuple[Callable[[str], bool], ...] = (
        lambda type: type in ("byte", "short", "integer", "long"),
        lambda type: type in ("float", "double"),
        lambda type: decimal_of(type) is not None,
    )
    return any(kind(known) and kind(rows) for kind in kinds)


def _widened(state: TableState, path: Path, type: Any, version: int) -> TableState:
    try:
        return alter.change_type(state, path, type_from_json(type), version=version)
    except SchemaError:  # a rule speaks of the column: it keeps its type, and values are cast to it
        return state


def _inner_keys(type: Mapping[str, Any]) -> list[str]:
    return [key for key in ("elementType", "keyType", "valueType") if key in type]


def _loose(type: Any) -> Any:
    field = input_schema.nullable({"type": "struct", "fields": [schema_edit.field("x", type)]})["fields"][0]
    return field["type"]
