"""A table's metadata and protocol as one value, since one rarely changes without the other.

A *state* says what a table is. It changes through `evolved`, which lets the protocol follow the metadata by the rules
of `halocline.compat.evolution` and refuses metadata that no table may have. The reasons why the protocol grew come
along, and `actions` is what to commit. Pure: nothing is read and nothing is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from halocline.compat.evolution import FeatureGain, alter, for_new_table
from halocline.compat.protocol import Protocol
from halocline.compat.request import is_request
from halocline.compat.terms import Terms
from halocline.errors import InputError
from halocline.formats.delta.actions.action import Action, Metadata
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.configuration import column_mapping, properties
from halocline.formats.delta.configuration.metadata_rules import check_metadata, schema_facts, table_metadata
from halocline.formats.delta.configuration.properties import KNOWN, OPEN_PREFIXES
from halocline.schema import Struct
from halocline.schema.json_edge import dump
from halocline.schema.visitor import map_fields


@dataclass(frozen=True)
class TableState:
    """A table's metadata and protocol.

    Attributes:
        metadata: The metadata.
        protocol: The protocol.
        reasons: Why features came in since `before`.
        before: The state that this one was made from; None if it is unchanged.
        is_new: Whether the table is yet to be created.
    """

    metadata: Metadata
    protocol: Protocol
    reasons: tuple[FeatureGain, ...] = ()
    before: TableState | None = None
    is_new: bool = False

    @property
    def schema(self) -> Struct:
        """The schema."""
        return self.metadata.schema

    @cached_property
    def terms(self) -> Terms:
        """What the table asks of those who use it."""
        return Terms.of(self.protocol, table_metadata(self.metadata))

    @property
    def actions(self) -> tuple[Action, ...]:
        """What to commit: protocol and metadata, each only if it changed; both for a new table."""
        origin = self.before or self
        changed: list[Action] = []
        if self.is_new or origin.protocol != self.protocol:
            changed.append(action_of(self.protocol))
        if self.is_new or origin.metadata != self.metadata:
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
    ) -> TableState:
        """The state with other metadata, and the protocol that this needs.

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
        origin = self.before or replace(self, reasons=())
        reasons = (*self.reasons, *evolution.reasons)
        return TableState(metadata, evolution.protocol, reasons, origin, self.is_new)


def new_table(
    schema: Struct,
    partition_columns: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    created_ms: int | None = None,
    named: Iterable[str] = (),
) -> TableState:
    """The state of a table to be created, with the least protocol that it needs.

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

    Example:
        >>> from halocline.schema import Field, Primitive
        >>> state = new_table(Struct([Field("id", Primitive("long"))]))
        >>> print(state.protocol, len(state.actions))
        (1,2) 2
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
    return TableState(metadata, evolution.protocol, evolution.reasons, is_new=True)


def check_property(key: str, value: str) -> None:
    """Makes sure that a user may ask for this property with this value.

    Raises:
        InputError: The value is not of the property's kind, or Delta has no property of that name.
    """
    properties.check(key, value)
    if key.lower().startswith("delta.") and not (key in KNOWN or key.startswith(OPEN_PREFIXES) or is_request(key)):
        raise unusable_property(key, value, "Delta defines no property of that name")


def unusable_property(key: str, value: str | None, why: str) -> InputError:
    """The error for a property that cannot be changed as asked."""
    return InputError(
        f"property {key} cannot be changed this way: {why}",
        condition="PROPERTY_INVALID",
        sides={"given": key if value is None else f"{key}={value}", "because": why},
    )
