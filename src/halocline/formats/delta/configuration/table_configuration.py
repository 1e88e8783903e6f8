"""What a table is at one version: its protocol and its metadata, with everything that follows from them.

A `TableConfiguration` is made once per version, is what a snapshot holds, and is what a scan, a write and a transaction
take. One that exists is valid: its schema can be read, mapped columns have their names, and the columns that it is
partitioned by are there.

It changes through `evolved`, which lets the protocol follow the metadata by the rules of `halocline.compat.evolution`
and refuses metadata that no table may have. The reasons why the protocol grew come along. Pure: nothing is read and
nothing is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from halocline.compat.evolution import FeatureGain, alter, for_new_table
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.request import is_request
from halocline.compat.terms import Terms
from halocline.errors import InputError, MalformedError, nearest
from halocline.formats.delta.actions.action import Action, Metadata
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.configuration import column_mapping, properties
from halocline.formats.delta.configuration.column_mapping import FEATURE, MODE, mode_of, stored_name
from halocline.formats.delta.configuration.metadata_rules import check_metadata, schema_facts, table_metadata
from halocline.formats.delta.configuration.properties import KNOWN, OPEN_PREFIXES, TableProperties
from halocline.formats.delta.configuration.schema import Schema
from halocline.schema import Struct
from halocline.schema.json_edge import dump
from halocline.schema.visitor import map_fields


@dataclass(frozen=True)
class TableConfiguration:
    """A protocol and metadata that fit each other.

    Attributes:
        protocol: The protocol.
        metadata: The metadata.
        reasons: Why features came in since the version that it was made from.
    """

    protocol: Protocol
    metadata: Metadata
    reasons: tuple[FeatureGain, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        self.columns.partition_columns(self.metadata.partition_columns)

    def __reduce__(self) -> tuple[object, ...]:
        return TableConfiguration, (self.protocol, self.metadata, self.reasons)

    @cached_property
    def facts(self) -> TableMetadata:
        """The metadata as far as features depend on it."""
        return table_metadata(self.metadata)

    @cached_property
    def terms(self) -> Terms:
        """What the table asks of those who use it."""
        return Terms.of(self.protocol, self.facts)

    @cached_property
    def properties(self) -> TableProperties:
        """The stored properties, and what they mean."""
        return TableProperties(self.metadata.configuration)

    @property
    def schema(self) -> Struct:
        """The schema."""
        return self.metadata.schema

    @property
    def mapping_mode(self) -> str:
        """By what columns are found in files: `none`, `name` or `id`."""
        return self.columns.mode

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns, in order."""
        return self.metadata.partition_columns

    @property
    def tracks_rows(self) -> bool:
        """Whether every row has an id that it keeps when it is written again."""
        return self.protocol.supports("rowTracking") and self.properties.row_tracking

    @cached_property
    def columns(self) -> Schema:
        """The schema with the names that files go by."""
        schema, mode = self.metadata.schema, mode_of(self.metadata.configuration)
        if mode == "none" or self.protocol.supports(FEATURE):
            return Schema.of(schema, mode)
        # Some writers store the property without mapping anything. Only where names differ would rows be lost.
        plain = Schema.of(schema)
        if any(stored_name(column.field) not in (None, column.path[-1]) for column in plain.walk()):
            raise contradiction(self.protocol, f"{MODE} is {mode}, and {FEATURE} is not supported", "the table")
        return plain

    def actions_since(self, before: TableConfiguration | None) -> tuple[Action, ...]:
        """What a commit holds that makes a table become this: each only if it changed."""
        changed: list[Action] = []
        if before is None or before.protocol != self.protocol:
            changed.append(action_of(self.protocol))
        if before is None or before.metadata != self.metadata:
            changed.append(self.metadata)
        return tuple(changed)

    def evolved(
        self,
        *,
        schema: Struct | None = None,
        configuration: Mapping[str, str] | None = None,
        partition_columns: Sequence[str] | None = None,
        named: Iterable[str] = (),
        operation: str = "ALTER TABLE",
    ) -> TableConfiguration:
        """The configuration with other metadata, and the protocol that this needs.

        Args:
            schema: The new schema; the same if left out.
            configuration: All properties, requests included; the same if left out.
            partition_columns: The new partition columns; the same if left out.
            named: Features that the statement asks for by name.
            operation: What is done; a few kinds may change the partitioning.

        Raises:
            InputError: Properties or features do not fit.
            SchemaError: The schema or the partitioning does not fit.
        """
        before = self.metadata
        columns = before.partition_columns if partition_columns is None else tuple(partition_columns)
        asked = before.schema if schema is None else schema
        wanted = schema_facts(asked, before.configuration if configuration is None else configuration, columns)
        evolution = alter(self.protocol, wanted, named=named)
        stripped = wanted.field_annotations - evolution.metadata.field_annotations
        metadata = replace(
            before.with_schema(map_fields(asked, lambda _, field: field.without(stripped)) if stripped else asked),
            partition_columns=columns,
            configuration=dict(evolution.metadata.configuration),
        )
        if metadata != before:
            check_metadata(metadata, before, evolution.protocol, operation)
        return TableConfiguration(evolution.protocol, metadata, (*self.reasons, *evolution.reasons))

    def with_metadata(self, metadata: Metadata) -> TableConfiguration:
        """The same protocol with other metadata, which asks for nothing more."""
        return TableConfiguration(self.protocol, metadata, self.reasons)


def new_table(
    schema: Struct,
    partition_columns: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    created_ms: int | None = None,
    named: Iterable[str] = (),
) -> TableConfiguration:
    """The configuration of a table to be created, with the least protocol that it needs.

    Args:
        schema: The schema.
        partition_columns: Names of the partition columns, in order.
        configuration: Properties, requests included.
        name: A name for people.
        description: A description for people.
        created_ms: When it is created, in milliseconds since the epoch.
        named: Features that the statement asks for by itself, such as clustering.

    Raises:
        InputError: The properties do not fit.
        SchemaError: The schema or the partitioning does not fit.
    """
    asked = dict(configuration or {})
    for key, value in asked.items():
        check_property(key, value)
    schema, asked = column_mapping.mapped(schema, asked, column_mapping.random_name)
    evolution = for_new_table(schema_facts(schema, asked, partition_columns), named=named)
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=dump(schema),
        name=name,
        description=description,
        partition_columns=tuple(partition_columns),
        configuration=dict(evolution.metadata.configuration),
        created_time=created_ms,
    )
    check_metadata(metadata, None, evolution.protocol, "CREATE TABLE")
    return TableConfiguration(evolution.protocol, metadata, evolution.reasons)


def contradiction(protocol: Protocol, problem: str, table: str) -> MalformedError:
    """The error for a table whose protocol and metadata do not fit each other."""
    return MalformedError(
        f"the protocol and the metadata of {table} contradict each other: {problem}",
        condition="MALFORMED_PROTOCOL",
        sides={"protocol": str(protocol), "metadata": problem},
        next_step=f"halocline lint {table if table != 'the table' else 'TABLE'} --fix",
    )


def check_property(key: str, value: str) -> None:
    """Makes sure that a user may ask for this property with this value."""
    properties.check(key, value)
    if key.lower().startswith("delta.") and not (key in KNOWN or key.startswith(OPEN_PREFIXES) or is_request(key)):
        near = nearest(key, KNOWN)
        why = "Delta defines no property of that name" + (f"; the nearest is {near}" if near else "")
        raise unusable_property(key, value, why)


def unusable_property(key: str, value: str | None, why: str) -> InputError:
    """The error for a property that cannot be changed as asked."""
    return InputError(
        f"property {key} cannot be changed this way: {why}",
        condition="PROPERTY_INVALID",
        sides={"given": key if value is None else f"{key}={value}", "because": why},
    )
