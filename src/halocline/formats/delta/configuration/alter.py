"""Changes to what a table is: properties, constraints, columns. Pure functions from one state to the next.

Every function takes a `TableConfiguration` and gives the next one. Nothing is read and nothing is written, so whether
existing rows fit a new constraint is for the caller to find out before.

Setting a property that switches a feature on adds the feature to the protocol, and requests such as
`delta.feature.x=supported` are used up. Nothing else ever raises a protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from halocline.compat.request import is_request
from halocline.errors import InputError, NotFoundError, SchemaError
from halocline.formats.delta.configuration import column_mapping, properties, type_widening
from halocline.formats.delta.configuration.column_mapping import MAX_ID, MODE, mode_of
from halocline.formats.delta.configuration.constraints import check_key, checks, invariant_of
from halocline.formats.delta.configuration.generated import generation_of
from halocline.formats.delta.configuration.identity import identity_of
from halocline.formats.delta.configuration.properties import CONSTRAINT_PREFIX, KNOWN
from halocline.formats.delta.configuration.table_configuration import (
    TableConfiguration,
    check_property,
    unusable_property,
)
from halocline.schema import DataType, Field, Path, Struct, defaults
from halocline.schema.types import Array, Map
from halocline.schema.visitor import map_fields, walk

_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"")
_WORD: Final = re.compile(r"`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*")
_COMMENT: Final = "comment"
_KEPT_BY_WRITERS: Final = "it is kept by writers and never set by hand"


def set_properties(state: TableConfiguration, values: Mapping[str, str]) -> TableConfiguration:
    """The state with properties set, requests about the protocol included; `comment` is the table's description."""
    for key, value in values.items():
        if key in KNOWN and KNOWN[key].internal:
            raise unusable_property(key, value, _KEPT_BY_WRITERS)
        if key.startswith(CONSTRAINT_PREFIX):
            raise unusable_property(key, value, "constraints are added by name, since existing rows must fit them")
        check_property(key, value)
    asked = {**state.metadata.configuration, **{key: value for key, value in values.items() if key != _COMMENT}}
    if _COMMENT in values:
        state = state.with_metadata(replace(state.metadata, description=values[_COMMENT]))
    schema = state.metadata.schema
    if _mode(state) == "none":
        schema, asked = column_mapping.mapped(schema, asked, column_mapping.same_name)
    return state.evolved(schema=schema, configuration=asked)


def unset_properties(state: TableConfiguration, keys: Iterable[str], *, if_exists: bool = False) -> TableConfiguration:
    """The state without some properties. Features stay in the protocol; dropping one is a move of its own."""
    left = dict(state.metadata.configuration)
    for key in keys:
        if is_request(key):
            raise unusable_property(key, None, "it is in the protocol; drop the feature instead")
        if key in KNOWN and KNOWN[key].internal:
            raise unusable_property(key, None, _KEPT_BY_WRITERS)
        if left.pop(key, None) is None and not if_exists:
            raise NotFoundError.unknown(f"the table has no property {key}", key, sorted(left))
    return state.evolved(configuration=left)


def add_constraint(state: TableConfiguration, name: str, expression: str) -> TableConfiguration:
    """The state with a CHECK constraint. The caller has made sure that every row fits it."""
    if not name.strip() or not expression.strip():
        raise InputError("a constraint needs a name and an expression", sides={"name": name, "expression": expression})
    present = check_key(state.metadata.configuration, name)
    if present is not None:
        raise InputError(
            f"the table has a constraint {name} already",
            sides={"present": state.metadata.configuration[present], "given": expression},
            next_step="Drop it first, or choose another name.",
        )
    return state.evolved(configuration={**state.metadata.configuration, CONSTRAINT_PREFIX + name.lower(): expression})


def drop_constraint(state: TableConfiguration, name: str, *, if_exists: bool = False) -> TableConfiguration:
    """The state without a CHECK constraint; the feature stays in the protocol."""
    present = check_key(state.metadata.configuration, name)
    if present is None and not if_exists:
        known = sorted(checks(state.metadata.configuration))
        raise NotFoundError.unknown(f"the table has no constraint {name}", name, known)
    left = {key: value for key, value in state.metadata.configuration.items() if key != present}
    return state.evolved(configuration=left)


def add_columns(state: TableConfiguration, columns: Sequence[Field], parent: Path = ()) -> TableConfiguration:
    """The state with nullable columns added at the end, of the table or of a struct."""
    check_new(columns)
    added: Sequence[Field] = columns
    configuration = dict(state.metadata.configuration)
    if _mode(state) != "none":
        highest = properties.count(configuration, MAX_ID) or 0
        struct, highest = column_mapping.assigned(Struct(added), highest, column_mapping.random_name)
        added, configuration[MAX_ID] = struct.fields, str(highest)
    return state.evolved(schema=_with_added(state, added, parent), configuration=configuration)


def check_new(columns: Sequence[Field]) -> None:
    """Makes sure that new columns may be null, which they are in the rows that are there, and claim nothing else."""
    for each in columns:
        if defaults.default_of(each) is not None:
            raise SchemaError(
                f"column {each.name} cannot come in with a default, which existing rows would not have",
                sides={"column": each.name, "default": str(defaults.default_of(each))},
                next_step="Add it without one, then set its default for later writes: set_default, or SET DEFAULT.",
            )
        if not each.nullable:
            raise SchemaError(
                f"column {each.name} cannot be NOT NULL: existing rows have no value for it",
                sides={"column": each.name, "nullable": "false"},
                next_step="Add it nullable and fill it; a constraint forbids nulls from then on: "
                f"add_constraint(name, '{each.name} IS NOT NULL'), or ADD CONSTRAINT in SQL.",
            )


@dataclass(frozen=True)
class ColumnPosition:
    """Where a column stands among its siblings: first, or behind another one."""

    after: str | None = None

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {self.after}"


def move_column(state: TableConfiguration, path: Sequence[str], position: ColumnPosition) -> TableConfiguration:
    """The state with a column at another place among its siblings; files know columns by name, and stay as they are."""
    here, moved = state.metadata.schema.find(path)

    def arranged(struct: Struct) -> Struct:
        rest = [field for field in struct.fields if field.name != moved.name]
        place = 0
        if position.after is not None:
            names = [field.name.lower() for field in rest]
            if position.after.lower() not in names:
                message = f"column {'.'.join(here)} cannot stand behind {position.after}, which is not beside it"
                raise SchemaError.unknown(message, position.after, [field.name for field in rest])
            place = names.index(position.after.lower()) + 1
        return struct.with_fields([*rest[:place], moved, *rest[place:]])

    return state.evolved(schema=_with_struct(state.metadata.schema, here[:-1], arranged))


def set_default(state: TableConfiguration, path: Sequence[str], expression: str | None) -> TableConfiguration:
    """The state with a default for later writes, or without one. The caller has made sure that it can be evaluated."""
    here, field = state.metadata.schema.find(path)
    if expression is not None and not state.protocol.supports(defaults.FEATURE):
        raise SchemaError(
            "the table does not allow columns to have defaults",
            sides={"table": str(state.protocol), "needed": defaults.FEATURE},
            next_step=f'Add the feature first: add_feature_support("{defaults.FEATURE}")',
        )
    taken = generation_of(field) is not None or identity_of(field) is not None
    if len(here) > 1 or (expression is not None and taken):
        raise SchemaError(
            f"column {'.'.join(here)} cannot have a default",
            sides={"column": str(field)[:80], "needed": "a column at the top that the table does not fill otherwise"},
        )
    return state.evolved(schema=_changed(state, here, lambda field: defaults.with_default(field, expression)))


def rename_column(state: TableConfiguration, path: Sequence[str], name: str) -> TableConfiguration:
    """The state with a column under another name; its data stays where it is."""
    here, _ = state.metadata.schema.find(path)  # a name that is mistyped is told before what the table lacks
    _check_mapped(state, "renamed")
    check_unreferenced(state, here, "renamed")
    return state.evolved(
        schema=_changed(state, here, lambda field: replace(field, name=name)),
        partition_columns=[name if (each,) == here else each for each in state.metadata.partition_columns],
        operation="RENAME COLUMN",
    )


def drop_columns(state: TableConfiguration, paths: Iterable[Sequence[str]]) -> TableConfiguration:
    """The state without some columns; their data stays in the files, unread."""
    gone = {state.metadata.schema.find(path)[0] for path in paths}
    _check_mapped(state, "dropped")
    for here in gone:
        check_droppable(state, here)
    schema = map_fields(state.metadata.schema, lambda each, field: None if each in gone else field)
    if not schema.fields:
        raise SchemaError("the last column of a table cannot be dropped", sides={"columns": str(sorted(gone))})
    return state.evolved(schema=schema)


def check_droppable(state: TableConfiguration, path: Path) -> None:
    """Makes sure that a table can do without a column."""
    _check_mapped(state, "dropped")
    if len(path) == 1 and path[0] in state.metadata.partition_columns:
        raise SchemaError(
            f"partition column {path[0]} cannot be dropped",
            sides={"column": path[0], "partitioned by": ", ".join(state.metadata.partition_columns)},
        )
    check_unreferenced(state, path, "dropped")


def change_type(
    state: TableConfiguration, path: Sequence[str], type: DataType, *, version: int | None = None
) -> TableConfiguration:
    """The state with a column of a wider type, noted for readers; with its version under the preview of the feature."""
    here, field = state.metadata.schema.find(path)
    if field.type == type:
        return state
    noted = type_widening.noted_version(state.protocol, version)
    wider = type_widening.widened(field, type, here, noted)  # a change that no property allows is told first
    supported = [name for name in type_widening.FEATURES if state.protocol.supports(name)]
    if not supported or not properties.flag(state.metadata.configuration, type_widening.ENABLED):
        raise SchemaError(
            "the table does not allow columns to change their type",
            sides={"table": str(state.protocol), "needed": f"{type_widening.ENABLED}=true"},
            next_step=f"Set {type_widening.ENABLED}=true on the table first.",
        )
    check_unreferenced(state, here, "changed")
    return state.evolved(schema=_changed(state, here, lambda _: wider))


def allow_nulls(state: TableConfiguration, path: Sequence[str]) -> TableConfiguration:
    """The state with NOT NULL taken from a column."""
    here, _ = state.metadata.schema.find(path)
    return state.evolved(schema=_changed(state, here, lambda field: replace(field, nullable=True)))


def replace_schema(
    state: TableConfiguration, schema: Struct, partition_columns: Sequence[str] | None = None
) -> TableConfiguration:
    """The state with another schema altogether, for overwriting a table; under column mapping new columns get ids."""
    configuration = dict(state.metadata.configuration)
    if _mode(state) != "none":
        kept = column_mapping.with_ids_of(schema, state.metadata.schema)
        schema, configuration = column_mapping.mapped(kept, configuration, column_mapping.random_name)
    return state.evolved(
        schema=schema, configuration=configuration, partition_columns=partition_columns, operation="WRITE"
    )


def _mode(state: TableConfiguration) -> str:
    return mode_of(state.metadata.configuration)


def _check_mapped(state: TableConfiguration, word: str) -> None:
    if _mode(state) == "none":
        raise SchemaError(
            f"columns can only be {word} under column mapping",
            sides={"table": f"{MODE}=none", "needed": f"{MODE}=name"},
            next_step=f"Set {MODE}=name on the table first.",
        )


def _with_added(state: TableConfiguration, added: Sequence[Field], parent: Path) -> Struct:
    return _with_struct(state.metadata.schema, parent, lambda struct: struct.with_fields([*struct.fields, *added]))


def _with_struct(schema: Struct, path: Sequence[str], change: Callable[[Struct], Struct]) -> Struct:
    """The schema with the struct at a path changed, be it the element of a list, or the key or value of a map."""

    def within(type: DataType, rest: Sequence[str]) -> DataType:
        if not rest:
            if isinstance(type, Struct):
                return change(type)
            raise SchemaError(
                f"column {'.'.join(path)} is no struct", sides={"type": str(type)[:80], "needed": "a struct"}
            )
        step, *deeper = rest
        if isinstance(type, Struct) and (found := type.get(step)) is not None:
            grown = replace(found, type=within(found.type, deeper))
            return type.with_fields([grown if each is found else each for each in type.fields])
        match type, step.lower():
            case Array(), "element":
                return replace(type, element=within(type.element, deeper))
            case Map(), "key":
                return replace(type, key=within(type.key, deeper))
            case Map(), "value":
                return replace(type, value=within(type.value, deeper))
        raise schema.lacks(path)

    grown = within(schema, path)
    assert isinstance(grown, Struct)
    return grown


def _changed(state: TableConfiguration, here: Path, change: Callable[[Field], Field]) -> Struct:
    """The schema with one field changed."""
    return map_fields(state.metadata.schema, lambda path, field: change(field) if path == here else field)


def check_unreferenced(state: TableConfiguration, path: Path, word: str) -> None:
    """Refuses if a rule of the table speaks of the column: it would change its meaning or break."""
    expressions = {
        f"constraint {name}": expression for name, expression in checks(state.metadata.configuration).items()
    }
    for where, field in walk(state.metadata.schema):
        for what, rule in (("generated column", generation_of(field)), ("invariant of", invariant_of(field))):
            if rule is not None:
                expressions[f"{what} {'.'.join(where)}"] = rule
    for name, expression in expressions.items():
        if path[-1].lower() in _words(expression):
            raise SchemaError(
                f"column {'.'.join(path)} cannot be {word}: {name} refers to it",
                sides={"column": ".".join(path), name: expression},
                next_step="Drop what refers to it first.",
            )


def _words(expression: str) -> frozenset[str]:
    """Every name in an expression; a string literal holds none."""
    return frozenset(word.strip("`").replace("``", "`").lower() for word in _WORD.findall(_QUOTED.sub(" ", expression)))
