"""What in a table's metadata switches a feature on.

An *activation* is one condition over `TableMetadata`, written as one inline table in a feature's record:

    { property = "delta.appendOnly", is = ["true"], among = ["true", "false"] }
    { property = "delta.columnMapping.mode", is_not = ["none"], among = ["none", "name", "id"] }
    { property = "hoodie.table.metadata.partitions" }          the property is there and not empty
    { properties = "delta.constraints." }                      any property whose key begins so
    { annotation = "delta.invariants" }                        any field carries that metadata key
    { column_type = "timestamp_ntz" }                          any column, or part of one, has that type
    { partitioned = true }                                     the table has partition columns
    { always = true }                                          supporting it is using it

A feature is enabled when it is supported and one of its activations holds. Values compare without regard to case,
as the property parsers of real engines do. `among` lists the values that a writer may set; a stored value outside it
switches nothing on, and `refused_key` names its key so that a writer can refuse it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halocline.compat.metadata import TableMetadata
from halocline.errors import MalformedError


@dataclass(frozen=True, slots=True)
class Activation(ABC):
    """One condition; the subclasses say which. Make one with `Activation.from_record`."""

    @abstractmethod
    def holds(self, metadata: TableMetadata) -> bool:
        """True if the metadata meets the condition."""

    def refused_key(self, configuration: Mapping[str, str]) -> str | None:
        """The key of the condition's property, if it has a value that no writer may set."""
        return None

    @property
    def allowed(self) -> frozenset[str]:
        """The values that a writer may set; empty if any."""
        return frozenset()

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Activation:
        """Reads one inline table of a record."""
        match dict(record):
            case {"property": str(key), **rest} if rest.keys() <= {"is", "is_not", "among"}:
                return PropertyValue(key, *(frozenset(rest.get(name, ())) for name in ("is", "is_not", "among")))
            case {"properties": str(prefix)}:
                return PropertyPrefix(prefix)
            case {"annotation": str(key)}:
                return FieldAnnotation(key)
            case {"column_type": str(name)}:
                return ColumnType(name)
            case {"partitioned": True}:
                return Partitioned()
            case {"always": True}:
                return Always()
        raise MalformedError(f"{dict(record)} is no activation", condition="MALFORMED_KNOWLEDGE")


@dataclass(frozen=True, slots=True)
class PropertyValue(Activation):
    """A property has one of these values; without any, it is there and not empty."""

    key: str
    is_: frozenset[str] = frozenset()
    is_not: frozenset[str] = frozenset()
    among: frozenset[str] = frozenset()

    def holds(self, metadata: TableMetadata) -> bool:
        """True if the stored value is one that switches the feature on."""
        value = metadata.configuration.get(self.key, "").strip().lower()
        if not value or (self.among and value not in self.among):
            return False
        return value in self.is_ if self.is_ else value not in self.is_not

    def refused_key(self, configuration: Mapping[str, str]) -> str | None:
        """The key, if its value is outside `among`."""
        value = configuration.get(self.key)
        return self.key if value is not None and self.among and value.strip().lower() not in self.among else None

    @property
    def allowed(self) -> frozenset[str]:
        """The values that a writer may set."""
        return self.among

    @property
    def enabling_value(self) -> str | None:
        """The value that switches the feature on, if exactly one does."""
        return next(iter(self.is_)) if len(self.is_) == 1 else None

    def __str__(self) -> str:
        if self.is_:
            return f"{self.key}={'|'.join(sorted(self.is_))}"
        return f"{self.key} other than {'|'.join(sorted(self.is_not))}" if self.is_not else f"{self.key} set"


@dataclass(frozen=True, slots=True)
class PropertyPrefix(Activation):
    """Some property's key begins with this."""

    prefix: str

    def holds(self, metadata: TableMetadata) -> bool:
        """True if there is such a property."""
        return any(key.startswith(self.prefix) for key in metadata.configuration)

    def __str__(self) -> str:
        return f"any {self.prefix}*"


@dataclass(frozen=True, slots=True)
class FieldAnnotation(Activation):
    """Some field's metadata has this key."""

    key: str

    def holds(self, metadata: TableMetadata) -> bool:
        """True if there is such a field, at any depth."""
        return self.key in metadata.field_annotations

    def __str__(self) -> str:
        return f"a column with {self.key}"


@dataclass(frozen=True, slots=True)
class ColumnType(Activation):
    """Some column, or part of one, has this type."""

    name: str

    def holds(self, metadata: TableMetadata) -> bool:
        """True if the type occurs in the schema."""
        return self.name in metadata.column_types

    def __str__(self) -> str:
        return f"a {self.name} column"


@dataclass(frozen=True, slots=True)
class Partitioned(Activation):
    """The table has partition columns."""

    def holds(self, metadata: TableMetadata) -> bool:
        """True if there is a partition column."""
        return bool(metadata.partition_columns)

    def __str__(self) -> str:
        return "partition columns"


@dataclass(frozen=True, slots=True)
class Always(Activation):
    """To support the feature is to use it."""

    def holds(self, metadata: TableMetadata) -> bool:
        """Always true."""
        return True

    def __str__(self) -> str:
        return "supporting it"
