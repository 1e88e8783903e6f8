"""The metadata of a Delta table: schema, partition columns and properties, as one action.

The next writer replaces it wholly, so fields that this release does not know are kept and encoded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from halocline.schema.json_edge import dump, parse
from halocline.schema.types import Struct


class FileFormat(msgspec.Struct, rename="camel", frozen=True):
    """The encoding of data files; always Parquet in practice."""

    provider: str = "parquet"
    options: dict[str, str] = msgspec.field(default_factory=dict)


class KnownMetadata(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The fields of metadata that Delta defines."""

    id: str
    name: str | None = None
    description: str | None = None
    format: FileFormat = msgspec.field(default_factory=FileFormat)
    # Tables made by hand in early releases had no schema at all; readers take it as a table without columns.
    schema_string: str = ""
    partition_columns: tuple[str, ...] = ()
    # Old releases of one writer stored properties without a value as null.
    configuration: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    created_time: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None


_METADATA_KEYS: Final = frozenset(entry.encode_name for entry in msgspec.structs.fields(KnownMetadata))


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a table is: schema, partition columns, properties. Replaces the previous one wholly."""

    id: str
    schema_string: str = ""
    name: str | None = None
    description: str | None = None
    format: FileFormat = field(default_factory=FileFormat)
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    created_time: int | None = None
    unknown_fields: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def from_json(data: bytes | Raw | Mapping[str, Any]) -> Metadata:
        """Reads the object behind the key `metaData`."""
        content = data if isinstance(data, Mapping) else msgspec.json.decode(data, type=dict[str, Any])
        known = msgspec.structs.asdict(msgspec.convert(content, KnownMetadata))
        known["configuration"] = {key: value for key, value in known["configuration"].items() if value is not None}
        unknown = {key: value for key, value in content.items() if key not in _METADATA_KEYS}
        return Metadata(**known, unknown_fields=unknown)

    def to_json(self) -> dict[str, Any]:
        """The object behind the key `metaData`, in the order Delta writes it, unknown fields last."""
        known = KnownMetadata(**{name: getattr(self, name) for name in KnownMetadata.__struct_fields__})
        encoded = msgspec.to_builtins(known) | {"partitionColumns": list(self.partition_columns)}
        if not self.schema_string:
            del encoded["schemaString"]
        return {key: value for key, value in encoded.items() if value is not None} | dict(self.unknown_fields)

    @property
    def schema(self) -> Struct:
        """The schema, parsed. The same text is parsed once."""
        return parse(self.schema_string)

    def with_schema(self, schema: Struct) -> Metadata:
        """The same table with another schema; the text stays as it is if the schema says the same."""
        return self if self.schema == schema else replace(self, schema_string=dump(schema))

    def with_configuration(self, configuration: Mapping[str, str]) -> Metadata:
        """The same table with other properties."""
        return replace(self, configuration=dict(configuration))
