"""What a table's metadata says, as far as features depend on it.

A feature is *supported* when the protocol names or implies it and *enabled* when the metadata also switches it on: a
property is set, a column carries an annotation or has a certain type, or an action is pending. `TableMetadata` holds
the facts for those kinds of question and never interprets a value. Which types and annotations a schema has is worked
out by `halocline.schema`, at every nesting level; statistics, defaults and everything else that metadata can hold is
left to the formats.

Properties are compared by their exact stored key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from halocline.errors import MalformedError


@dataclass(frozen=True)
class TableMetadata:
    """The properties of one table, and what its columns have.

    Args:
        configuration: Stored properties, key to text.
        partition_columns: Names of the partition columns, in order.
        column_types: The names of all types in the schema that hold no other types, without their parameters.
        field_annotations: The keys of all field metadata in the schema.
        pending: The actions that were planned and have not been carried out, where the format has such.
        widened_to: The names of the types that columns were widened to, where the format has such.
    """

    configuration: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    column_types: frozenset[str] = frozenset()
    field_annotations: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    widened_to: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "configuration", MappingProxyType(dict(self.configuration)))
        object.__setattr__(self, "partition_columns", tuple(self.partition_columns))
        for key, value in self.configuration.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise MalformedError(
                    f"property {key!r} is {value!r}, and both must be text",
                    condition="MALFORMED_METADATA",
                    sides={"expected": "text", "found": type(value).__name__},
                )

    def __reduce__(self) -> tuple[object, ...]:
        return TableMetadata, (
            dict(self.configuration),
            self.partition_columns,
            self.column_types,
            self.field_annotations,
            self.pending,
            self.widened_to,
        )

    def with_configuration(self, configuration: Mapping[str, str]) -> TableMetadata:
        """The same columns under other properties."""
        return replace(self, configuration=configuration)

    def without_annotations(self, keys: frozenset[str]) -> TableMetadata:
        """The same metadata, with these keys taken out of every field's metadata."""
        return replace(self, field_annotations=self.field_annotations - keys)
