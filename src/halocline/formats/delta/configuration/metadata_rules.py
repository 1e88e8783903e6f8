"""What metadata a table may be given.

Checked before every commit that changes metadata, against the metadata before it if there is one: the schema is one
that engines can read back, partition columns exist, column mapping is complete and only ever switched on by name, ids
never fall, properties have values of their kind, and every feature that the metadata switches on is in the protocol
together with what it needs.

A table that is damaged already can still be written to: only a commit that changes metadata is held to these rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from halocline.compat.agreement import disagreements
from halocline.compat.metadata import TableMetadata
from halocline.compat.request import is_request
from halocline.errors import InputError, SchemaError
from halocline.formats.delta.actions import operations
from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.configuration import properties, schema_edit
from halocline.formats.delta.configuration.schema_edit import Node

if TYPE_CHECKING:
    from halocline.compat.protocol import Protocol

MODE: Final = "delta.columnMapping.mode"
MAX_ID: Final = "delta.columnMapping.maxColumnId"
ID: Final = "delta.columnMapping.id"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"

_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
PRIMITIVES: Final = frozenset((*_NUMBERS, *_TIMES, "binary", "boolean", "string", "variant", "void"))
"""The types without parameters."""
_PARAMETRISED: Final = re.compile(
    r"decimal\((\d+),\s*(-?\d+)\)|(?:char|varchar)\((\d+)\)|string collate \w+|interval .*"
)
_UNWRITABLE: Final = re.compile(r"[ ,;{}()\n\t=]")
_NOT_FOR_PARTITIONS: Final = frozenset({"variant", "void"})


def table_metadata(metadata: Metadata) -> TableMetadata:
    """The metadata as features see it."""
    return TableMetadata(
        dict(metadata.configuration), schema_edit.parse(metadata.schema_string), metadata.partition_columns
    )


def check_metadata(metadata: Metadata, before: Metadata | None, protocol: Protocol, operation: str) -> None:
    """Makes sure that a table may have this metadata.

    Args:
        metadata: The metadata to be committed.
        before: The metadata it replaces; None for a new table.
        protocol: The protocol after the commit.
        operation: What the commit does; a few kinds may change the partitioning.

    Raises:
        InputError: A property or a feature does not fit.
        SchemaError: The schema or the partitioning does not fit.
    """
    schema = schema_edit.parse(metadata.schema_string)
    mode = properties.choice(metadata.configuration, MODE)
    check_properties(metadata.configuration, {} if before is None else before.configuration)
    check_schema(schema, mapped=mode != "none")
    _check_partitioning(metadata, schema, before, operation)
    check_column_mapping(metadata, schema, None if operation in operations.UNMAPS else before)
    check_features(metadata, before, protocol)


def check_properties(configuration: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Makes sure that every property that is new or changed may be stored with its value.

    Raises:
        InputError: One may not.
    """
    for key, value in configuration.items():
        if is_request(key):
            raise InputError(
                f"{key} is a request about the protocol and is never stored",
                condition="PROPERTY_INVALID",
                sides={"given": f"{key}={value}", "stored": "only in the protocol action"},
                next_step="Ask for it when altering the table, so that the protocol is changed instead.",
            )
        if before.get(key) != value:
            properties.check(key, value)
    both = ("delta.enableRowTracking", "delta.rowTrackingSuspended")
    if all(properties.flag(configuration, key) for key in both):
        raise InputError(
            "row tracking cannot be enabled and suspended at the same time",
            condition="PROPERTY_INVALID",
            sides=dict.fromkeys(both, "true"),
            next_step="Set one of them to false.",
        )


def check_schema(schema: Node, *, mapped: bool) -> None:
    """Makes sure that a schema can be written and read back.

    Args:
        schema: The schema, parsed.
        mapped: Whether column mapping lets names hold any character.

    Raises:
        SchemaError: A name is empty, ambiguous or cannot be written; a type is unknown; a struct holds nothing.
    """
    _check_type(schema, (), mapped)


def check_column_mapping(metadata: Metadata, schema: Node, before: Metadata | None) -> None:
    """Makes sure that column mapping is complete and only changes in the ways that readers survive.

    Raises:
        SchemaError: Ids or physical names are missing or doubled, or ids fell.
        InputError: The mode changes in another way than from none to name.
    """
    mode = properties.choice(metadata.configuration, MODE)
    if before is not None:
        _check_mode_change(properties.choice(before.configuration, MODE), mode)
        was = properties.count(before.configuration, MAX_ID) or 0
        now = properties.count(metadata.configuration, MAX_ID) or 0
        if mode != "none" and now < was:
            raise SchemaError(
                f"{MAX_ID} cannot fall from {was} to {now}: an id would be given out twice",
                sides={"before": str(was), "after": str(now)},
            )
    if mode == "none":
        return
    notes = [(path, each.get("metadata") or {}) for path, each in schema_edit.fields(schema)]
    for path, note in notes:
        if not isinstance(note.get(ID), int) or not note.get(PHYSICAL_NAME):
            raise SchemaError(
                f"column {'.'.join(path)} has no id or no physical name, which column mapping needs",
                sides={"column": ".".join(path), "mode": mode},
            )
    ids = [note[ID] for _, note in notes]
    highest = properties.count(metadata.configuration, MAX_ID) or 0
    if doubled := _doubled(ids):
        raise SchemaError(f"column mapping id {doubled} is given to two columns", sides={"id": str(doubled)})
    if ids and max(ids) > highest:
        raise SchemaError(
            f"column mapping id {max(ids)} is above the highest id given out",
            sides={"id": str(max(ids)), MAX_ID: str(highest)},
        )
    for _, struct in _structs(schema, ()):
        names = [(each.get("metadata") or {})[PHYSICAL_NAME].lower() for each in struct["fields"]]
        if twice := _doubled(names):
            raise SchemaError(f"physical name {twice!r} is given to two columns", sides={"name": str(twice)})


def check_features(metadata: Metadata, before: Metadata | None, protocol: Protocol) -> None:
    """Makes sure that the protocol has what the metadata switches on, and whatever that needs or excludes.

    A disagreement that old protocols are allowed to have may stay as it is; nobody may add one.

    Raises:
        InputError: Metadata and protocol disagree.
    """
    known = set() if before is None else set(disagreements(protocol, table_metadata(before)))
    for finding in disagreements(protocol, table_metadata(metadata)):
        if finding.fatal or finding not in known:
            raise InputError(
                f"metadata and protocol disagree: {finding}",
                condition="FEATURE_DEPENDENCY",
                sides={"protocol": str(protocol), "feature": finding.feature or "none"},
                next_step="Alter the table so that protocol and metadata change together.",
            )


# ---------------------------------------------------------------------- schema


def _check_type(type: Any, path: schema_edit.Path, mapped: bool) -> None:
    if isinstance(type, str):
        _check_primitive(type, path)
    elif schema_edit.is_struct(type):
        _check_struct(type, path, mapped)
    else:
        inner = list(schema_edit.children(type))
        kind = type.get("type") if isinstance(type, Mapping) else None
        if not inner or kind not in ("array", "map") or len(inner) != (1 if kind == "array" else 2):
            raise SchemaError(f"column {'.'.join(path)} has a type that is none", sides={"found": str(type)[:80]})
        for step, child in inner:
            _check_type(child, (*path, step), mapped)


def _check_primitive(type: str, path: schema_edit.Path) -> None:
    if type in PRIMITIVES:
        return
    found = _PARAMETRISED.fullmatch(type)
    if found is None:
        raise SchemaError(
            f"column {'.'.join(path)} has an unknown type",
            sides={"found": type, "known": ", ".join(sorted(PRIMITIVES)) + ", decimal(p,s), array, map, struct"},
        )
    if found[1] is not None and not (1 <= int(found[1]) <= 38 and 0 <= int(found[2]) <= int(found[1])):
        raise SchemaError(
            f"column {'.'.join(path)} has an impossible decimal",
            sides={"found": type, "possible": "precision 1 to 38, scale 0 to the precision"},
        )


def _check_struct(struct: Node, path: schema_edit.Path, mapped: bool) -> None:
    names = [each.get("name") for each in struct["fields"]]
    if path and not names:
        raise SchemaError(f"column {'.'.join(path)} is a struct without fields", sides={"found": "struct<>"})
    for each, name in zip(struct["fields"], names, strict=True):
        if not isinstance(name, str) or not name or not isinstance(each.get("nullable"), bool):
            raise SchemaError(
                "every column needs a name and must say whether it is nullable", sides={"found": str(each)}
            )
        if not mapped and (bad := _UNWRITABLE.search(name)):
            raise SchemaError(
                f"column name {name!r} holds {bad[0]!r}, which data files cannot",
                sides={"column": ".".join((*path, name)), "not allowed": repr(" ,;{}()\\n\\t=")},
                next_step="Rename the column, or set delta.columnMapping.mode=name on the table.",
            )
        _check_type(each.get("type"), (*path, name), mapped)
    if twice := _doubled([str(name).lower() for name in names]):
        where = f" in {'.'.join(path)}" if path else ""
        raise SchemaError(
            f"column name {twice!r} is ambiguous{where}: case does not tell names apart", sides={"name": twice}
        )
    if names and all(each["type"] == "void" for each in struct["fields"]):
        where = ".".join(path) or "the table"
        raise SchemaError(f"{where} has only void columns, so there is nothing to write", sides={"columns": str(names)})


def _structs(type: Any, path: schema_edit.Path) -> Iterable[tuple[schema_edit.Path, Node]]:
    if schema_edit.is_struct(type):
        yield path, type
        for each in type["fields"]:
            yield from _structs(each["type"], (*path, each["name"]))
    for step, child in schema_edit.children(type):
        yield from _structs(child, (*path, step))


def _check_partitioning(metadata: Metadata, schema: Node, before: Metadata | None, operation: str) -> None:
    columns = metadata.partition_columns
    if twice := _doubled([name.lower() for name in columns]):
        raise SchemaError(
            f"the table cannot be partitioned by {twice!r} twice", sides={"partitions": ", ".join(columns)}
        )
    types = {each["name"]: each["type"] for each in schema["fields"]}
    for name in columns:
        if name not in types:
            raise SchemaError(
                f"partition column {name!r} is not a column",
                sides={"partitions": ", ".join(columns), "columns": ", ".join(types)},
            )
        if not isinstance(types[name], str) or types[name] in _NOT_FOR_PARTITIONS:
            raise SchemaError(
                f"the table cannot be partitioned by {name!r}",
                sides={"type": str(types[name])[:80], "needed": "a plain type"},
            )
    if types and len(columns) == len(types):
        raise SchemaError(
            "every column is a partition column, so data files would be empty", sides={"columns": str(columns)}
        )
    if before is not None and before.partition_columns != columns and operation not in operations.MOVES_PARTITIONS:
        raise SchemaError(
            f"{operation} cannot change how the table is partitioned",
            sides={"before": ", ".join(before.partition_columns) or "none", "after": ", ".join(columns) or "none"},
            next_step="Overwrite the table with the new partitioning.",
        )


def _check_mode_change(was: str, now: str) -> None:
    if was == now or (was, now) == ("none", "name"):
        return
    raise InputError(
        f"column mapping cannot change from {was} to {now} on an existing table",
        condition="PROPERTY_INVALID",
        sides={"before": was, "after": now, "allowed": "none to name"},
        next_step="To remove column mapping, drop the feature columnMapping; it rewrites the files.",
    )


def _doubled(values: Iterable[Any]) -> Any:
    return next((value for value, times in Counter(values).items() if times > 1), None)
