"""What in a table's metadata switches a feature on.

An *activation* is one condition over `TableMetadata`, written as one inline table in a feature's record:

    { property = "delta.appendOnly", is = ["true"], among = ["true", "false"] }
    { property = "delta.columnMapping.mode", is_not = ["none"], among = ["none", "name", "id"] }
    { property = "hoodie.table.metadata.partitions" }          the property is there and not empty
    { no_property = "hoodie.table.keygenerator.type" }         the property is not there
    { properties = "delta.constraints." }                      any property whose key begins so
    { annotation = "delta.invariants" }                        any field carries that metadata key
    { column_type = "timestamp_ntz" }                          any column, or part of one, has that type
    { widened_to = ["long", "double"] }                        a column was widened to one of these types
    { partitioned = true }                                     the table has partition columns
    { pending = "compaction" }                                 such an action is planned and not carried out
    { always = true }                                          supporting it is using it
    { property = "hoodie.table.ordering.fields", also = [ { … } ] }      and others hold with it

A feature is enabled when it is supported and one of its activations holds. Values compare without regard to case,
as the property parsers of real engines do. `among` lists the values that a writer may set; a stored value outside it
switches nothing on, and a writer refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from halocline.compat.metadata import TableMetadata

_NOTHING: frozenset[str] = frozenset()


class Activation(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"key": "property", "missing": "no_property", "prefix": "properties", "is_": "is"},
):
    """One condition, as the records of features write it."""

    key: str = ""
    missing: str = ""
    prefix: str = ""
    annotation: str = ""
    column_type: str = ""
    pending: str = ""
    widened_to: frozenset[str] = _NOTHING
    partitioned: bool = False
    always: bool = False
    is_: frozenset[str] = _NOTHING
    is_not: frozenset[str] = _NOTHING
    among: frozenset[str] = _NOTHING
    also: tuple[Activation, ...] = ()

    def __post_init__(self) -> None:
        conditions = (
            self.key,
            self.missing,
            self.prefix,
            self.annotation,
            self.column_type,
            self.pending,
            self.widened_to,
            self.partitioned,
            self.always,
        )
        if sum(map(bool, conditions)) != 1 or (not self.key and (self.is_ or self.is_not or self.among)):
            raise ValueError("an activation is one condition, and only that on a property has values")

    def holds(self, metadata: TableMetadata) -> bool:
        """Whether the metadata meets the condition, and those that go with it."""
        return self._holds(metadata) and all(each.holds(metadata) for each in self.also)

    def _holds(self, metadata: TableMetadata) -> bool:
        if self.missing:
            return not metadata.configuration.get(self.missing, "").strip()
        if self.key:
            value = metadata.configuration.get(self.key, "").strip().lower()
            if not value or (self.among and value not in self.among):
                return False
            return value in self.is_ if self.is_ else value not in self.is_not
        if self.prefix:
            return any(key.startswith(self.prefix) for key in metadata.configuration)
        in_schema = self.annotation in metadata.field_annotations or self.column_type in metadata.column_types
        told = in_schema or self.pending in metadata.pending or bool(self.widened_to & metadata.widened_to)
        return self.always or told or (self.partitioned and bool(metadata.partition_columns))

    def refuses(self, configuration: Mapping[str, str]) -> bool:
        """Whether the condition's property has a value that no writer may set."""
        value = configuration.get(self.key)
        return value is not None and bool(self.among) and value.strip().lower() not in self.among

    def __str__(self) -> str:
        return " and ".join([self._text, *map(str, self.also)])

    @property
    def _text(self) -> str:
        if self.missing:
            return f"no {self.missing}"
        if self.key and self.is_:
            return f"{self.key}={'|'.join(sorted(self.is_))}"
        if self.key:
            return f"{self.key} other than {'|'.join(sorted(self.is_not))}" if self.is_not else f"{self.key} set"
        if self.prefix:
            return f"any {self.prefix}*"
        if self.annotation:
            return f"a column with {self.annotation}"
        if self.column_type:
            return f"a {self.column_type} column"
        if self.pending:
            return f"a pending {self.pending}"
        if self.widened_to:
            return f"a column widened to {'|'.join(sorted(self.widened_to))}"
        return "partition columns" if self.partitioned else "supporting it"
