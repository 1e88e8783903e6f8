"""What metadata a table may be given.

Checked before every commit that changes metadata, against the metadata before it if there is one: the schema is one
that engines can read back, partition columns exist, column mapping is complete and only ever switched on by name, ids
never fall, properties have values of their kind, and every feature that the metadata switches on is in the protocol
together with what it needs.

A table that is damaged already can still be written to: only a commit that changes metadata is held to these rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from halocline.compat.agreement import disagreements
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.request import is_request
from halocline.compat.terms import Terms
from halocline.errors import InputError, SchemaError
from halocline.formats.delta.actions import operations
from halocline.formats.delta.actions.action import Metadata, repeated
from halocline.formats.delta.configuration import properties
from halocline.formats.delta.configuration.column_mapping import MODE, check_column_mapping, mode_of
from halocline.formats.delta.configuration.properties import KNOWN, TableProperties
from halocline.formats.delta.configuration.schema import PRIMITIVES
from halocline.formats.delta.configuration.type_widening import widened_to
from halocline.schema.types import DataType, Opaque, Path, Primitive, Struct, decimal_of, is_void
from halocline.schema.visitor import types

_OTHER_TYPES: Final = re.compile(r"(?:char|varchar)\(\d+\)$|string collate \w+$|interval ")
_MOST_DIGITS: Final = 38
_UNWRITABLE: Final = re.compile(r"[ ,;{}()\n\t=]")
_NOT_FOR_PARTITIONS: Final = frozenset({"variant", "void"})


LOG_RETENTION: Final = "delta.logRetentionDuration"
FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
MANIFESTS: Final = "delta.compatibility.symlinkFormatManifest.enabled"
_VECTORS: Final = "delta.enableDeletionVectors"
FOREIGN_FORMATS: Final = "delta.universalFormat.enabledFormats"
ICEBERG_SWITCHES: Final = tuple(f"delta.enableIcebergCompatV{version}" for version in (1, 2, 3))


def table_metadata(metadata: Metadata) -> TableMetadata:
    """The metadata as features see it."""
    return schema_facts(metadata.schema, metadata.configuration, metadata.partition_columns)


def schema_facts(
    schema: Struct, configuration: Mapping[str, str], partition_columns: Sequence[str] = ()
) -> TableMetadata:
    """What features depend on, of a table with this schema."""
    return TableMetadata(
        dict(configuration),
        tuple(partition_columns),
        schema.column_types,
        schema.annotations,
        widened_to=widened_to(schema),
    )


def terms_of(protocol: Protocol, metadata: Metadata) -> Terms:
    """What a table with this protocol and metadata asks of those who use it."""
    return Terms.of(protocol, table_metadata(metadata))


def check_metadata(metadata: Metadata, before: Metadata | None, protocol: Protocol, operation: str) -> None:
    """Makes sure that a table may have this metadata."""
    check_properties(metadata.configuration, {} if before is None else before.configuration)
    check_schema(metadata.schema, mapped=mode_of(metadata.configuration) != "none")
    _check_not_only_void(metadata.schema)
    _check_partitioning(metadata, before, operation)
    check_column_mapping(metadata, None if operation in operations.UNMAPS else before)
    check_features(metadata, before, protocol, operation)


def check_properties(configuration: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Makes sure that every property that is new or changed may be stored with its value."""
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
    changed = {key for key in configuration.keys() | before.keys() if configuration.get(key) != before.get(key)}
    if changed & {LOG_RETENTION, FILE_RETENTION}:
        _check_retention(TableProperties(configuration))
    if FOREIGN_FORMATS in changed:
        _check_foreign_formats(configuration)
    if changed & {MANIFESTS, _VECTORS, MODE} and properties.flag(configuration, MANIFESTS):
        _check_manifests(configuration)
    both = ("delta.enableRowTracking", "delta.rowTrackingSuspended")
    if all(properties.flag(configuration, key) for key in both):
        raise InputError(
            "row tracking cannot be enabled and suspended at the same time",
            condition="PROPERTY_INVALID",
            sides=dict.fromkeys(both, "true"),
            next_step="Set one of them to false.",
        )


def _check_retention(properties: TableProperties) -> None:
    if properties.log_retention_ms < properties.deleted_file_retention_ms:
        keys = (LOG_RETENTION, FILE_RETENTION)
        raise InputError(
            "deleted files would be kept for longer than the log that tells of them",
            condition="PROPERTY_INVALID",
            sides={key: properties.get(key, f"{KNOWN[key].default} (default)") for key in keys},
            next_step=f"Set {LOG_RETENTION} to at least {FILE_RETENTION}.",
        )


def _check_manifests(configuration: Mapping[str, str]) -> None:
    vectors, mode = properties.flag(configuration, _VECTORS), mode_of(configuration)
    if vectors or mode != "none":
        raise InputError(
            "who reads manifests would read the table wrong",
            condition="PROPERTY_INVALID",
            sides={
                "table": f"{MANIFESTS}=true and " + (f"{_VECTORS}=true" if vectors else f"{MODE}={mode}"),
                "readers of manifests": "know neither deletion vectors nor column mapping",
            },
            next_step="Set one of them only.",
        )


def _check_foreign_formats(configuration: Mapping[str, str]) -> None:
    formats = {each.strip().lower() for each in configuration.get(FOREIGN_FORMATS, "").split(",")}
    if "iceberg" in formats and not any(properties.flag(configuration, key) for key in ICEBERG_SWITCHES):
        raise InputError(
            "a table is shown to Iceberg only if its files are written so that Iceberg can read them",
            condition="PROPERTY_INVALID",
            sides={"given": f"{FOREIGN_FORMATS}={configuration[FOREIGN_FORMATS]}", "needed": "icebergCompat"},
            next_step="Leave iceberg out; such files are not written here, so only Delta Spark can keep such a table.",
        )


def check_schema(schema: Struct, *, mapped: bool) -> None:
    """Makes sure that a schema can be written and read back."""
    for path, type in types(schema):
        if isinstance(type, Struct):
            _check_struct(type, path, mapped)
        elif isinstance(type, Primitive):
            _check_primitive(type, path)
        elif isinstance(type, Opaque):
            raise _unknown_type(type, path)


def check_features(metadata: Metadata, before: Metadata | None, protocol: Protocol, operation: str) -> None:
    """Makes sure that the protocol has what the metadata switches on, and whatever that needs or excludes.

    A disagreement that is not fatal may stay as it is, and come back with an old version; nobody else may add one.
    """
    known = set() if before is None else set(disagreements(protocol, table_metadata(before)))
    for finding in disagreements(protocol, table_metadata(metadata)):
        if finding.fatal or (finding not in known and operation not in operations.RESTORES):
            raise InputError(
                f"metadata and protocol disagree: {finding}",
                condition="FEATURE_DEPENDENCY",
                sides={"protocol": str(protocol), "feature": finding.feature or "none"},
                next_step="Alter the table so that protocol and metadata change together.",
            )


# ---------------------------------------------------------------------- schema


def _check_primitive(type: Primitive, path: Path) -> None:
    if type.name in PRIMITIVES or _OTHER_TYPES.match(type.text):
        return
    digits = decimal_of(type)
    if digits is None:
        raise _unknown_type(type, path)
    if not (1 <= digits[0] <= _MOST_DIGITS and 0 <= digits[1] <= digits[0]):
        raise SchemaError(
            f"column {'.'.join(path)} has an impossible decimal",
            sides={"found": str(type), "possible": f"precision 1 to {_MOST_DIGITS}, scale 0 to the precision"},
        )


def _unknown_type(type: DataType, path: Path) -> SchemaError:
    return SchemaError(
        f"column {'.'.join(path)} has an unknown type",
        sides={"found": str(type), "known": ", ".join(sorted(PRIMITIVES)) + ", decimal(p,s), array, map, struct"},
    )


def _check_struct(struct: Struct, path: Path, mapped: bool) -> None:
    where = ".".join(path)
    if path and not struct.fields:
        raise SchemaError(f"column {where} is a struct without fields", sides={"found": "struct<>"})
    for field in struct.fields:
        if not field.name:
            raise SchemaError("every column needs a name", sides={"found": str(field)})
        if not mapped and (bad := _UNWRITABLE.search(field.name)):
            raise SchemaError(
                f"column name {field.name!r} holds {bad[0]!r}, which data files cannot",
                sides={"column": ".".join((*path, field.name)), "not allowed": repr(" ,;{}()\\n\\t=")},
                next_step=f"Rename the column, or set {MODE}=name on the table.",
            )
    if twice := repeated(name.lower() for name in struct.names):
        inside = f" in {where}" if path else ""
        raise SchemaError(
            f"column name {twice!r} is ambiguous{inside}: case does not tell names apart", sides={"name": twice}
        )


def _check_not_only_void(schema: Struct) -> None:
    """Refuses a table without a column to write. Rows may be so: their nulls are values of the table's columns."""
    for path, type in types(schema):
        if isinstance(type, Struct) and type.fields and all(is_void(field.type) for field in type.fields):
            raise SchemaError(
                f"{'.'.join(path) or 'the table'} has only void columns, so there is nothing to write",
                sides={"columns": ", ".join(type.names)},
                next_step="Give a column a type: CAST(NULL AS INT), or declare it.",
            )


def _check_partitioning(metadata: Metadata, before: Metadata | None, operation: str) -> None:
    columns = metadata.partition_columns
    if twice := repeated(name.lower() for name in columns):
        raise SchemaError(
            f"the table cannot be partitioned by {twice!r} twice", sides={"partitions": ", ".join(columns)}
        )
    types = {each.name: each.type for each in metadata.schema.fields}
    for name in columns:
        if name not in types:
            raise SchemaError.unknown(f"partition column {name!r} is not a column", name, types)
        if not isinstance(types[name], Primitive) or types[name].name in _NOT_FOR_PARTITIONS:
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
