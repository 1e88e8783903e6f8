"""How files hold the columns of a table: what is in them, what the log knows instead, and by which names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from halocline.schema.types import Field, Struct
from halocline.schema.visitor import nullable
from halocline.spark.types.partition_values import PartitionColumn

if TYPE_CHECKING:
    from halocline.formats.delta.configuration.table_configuration import TableConfiguration


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How files hold the columns of a table.

    Attributes:
        schema: The columns.
        partition_columns: The names of those that the log knows.
        mapping_mode: How columns are found: by `none`, `name` or `id`.
        empty_is_null: Whether empty text in a partition column is null, as in Delta tables.
    """

    schema: Struct
    partition_columns: Sequence[str] = ()
    mapping_mode: str = "none"
    empty_is_null: bool = True

    @staticmethod
    def of(configuration: TableConfiguration) -> FileLayout:
        """The layout of a table's own files."""
        return FileLayout(configuration.schema, configuration.partition_columns, configuration.mapping_mode)

    @property
    def with_nulls(self) -> FileLayout:
        """The same for rows that are written again: a null that must not be there stays one, and is found."""
        return replace(self, schema=nullable(self.schema))

    @property
    def partitions(self) -> list[Field]:
        """The columns that the log knows."""
        return [self.schema.find([name])[1] for name in self.partition_columns]

    @property
    def data(self) -> list[Field]:
        """The columns that files hold."""
        names = {field.name for field in self.partitions}
        return [field for field in self.schema.fields if field.name not in names]

    @property
    def partition_keys(self) -> list[PartitionColumn]:
        """The columns that the log knows, by the names that it has for them."""
        return [
            PartitionColumn.of(field, self.mapping_mode, empty_is_null=self.empty_is_null) for field in self.partitions
        ]
