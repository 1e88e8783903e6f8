"""From the columns of a table to the columns in its files, the way back of `halocline.spark.types.columns`.

Columns get their physical names at every depth and, under column mapping, the field ids that files must carry. Columns
of type void are left out. Partition columns become text for the names of folders: timestamps in UTC and bytes in
hexadecimal, so that neither the session's zone nor an encoding changes a value on its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.actions.folders import NULL_FOLDER
from halocline.formats.delta.configuration.column_mapping import physical_field, physical_name
from halocline.schema.types import Field, Primitive, Struct
from halocline.schema.visitor import map_fields, nullable
from halocline.spark.types.assignment import Assignment, Casting
from halocline.spark.types.columns import quoted, selected, spark_schema
from halocline.spark.types.file_columns import without_void
from halocline.spark.types.file_layout import FileLayout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOLDER_TEXT: Final[Mapping[str, str]] = {
    "timestamp": "CAST(timestampadd(MICROSECOND, unix_micros({0}), TIMESTAMP_NTZ '1970-01-01 00:00:00') AS string)",
    "binary": "nullif(hex({0}), '')",
    # The two zeros have folders of their own, and Spark, which sorts rows by folder, takes them for equal numbers.
    "float": "CAST({0} AS string)",
    "double": "CAST({0} AS string)",
    # Text that reads like the folder of null gets a folder of its own, one sign longer.
    "string": f"CASE WHEN startswith({{0}}, '{NULL_FOLDER}') THEN concat({{0}}, '_') ELSE {{0}} END",
}


class Physical:
    """How rows of a table are laid out in files."""

    def __init__(self, layout: FileLayout) -> None:
        self.schema: Final = layout.schema
        self.mode: Final = layout.mapping_mode
        self.empty_is_null: Final = layout.empty_is_null
        self.partitions: Final = layout.partitions
        self.data: Final = without_void(layout.data)
        if not self.data:
            raise SchemaError(
                "there is no column to write",
                sides={"columns": ", ".join(map(str, layout.schema.fields)) or "none"},
                next_step="Add a column that is neither void nor a partition column.",
            )

    @property
    def keys(self) -> list[str]:
        """The names of the partition columns in the log and in folders."""
        return [physical_name(field, self.mode) for field in self.partitions]

    @property
    def fields(self) -> Sequence[Field]:
        """The columns in files, with their field ids."""
        return map_fields(Struct(self.data), lambda _, each: physical_field(each, self.mode)).fields

    def frame(self, df: DataFrame) -> DataFrame:
        """The rows with physical columns, those for folders last."""
        found = {name.lower(): name for name in df.columns}
        wanted = [*self.data, *self.partitions]
        lacking = [field.name for field in wanted if field.name.lower() not in found]
        extra = set(found) - {field.name.lower() for field in wanted}
        if lacking or extra:
            raise SchemaError(
                "the rows do not have the table's columns",
                sides={"table has": ", ".join(field.name for field in wanted), "rows have": ", ".join(df.columns)},
                next_step="Select the table's columns by name.",
            )
        cleaned = selected(
            df,
            [
                *(self._cleaned(field, quoted(found[field.name.lower()])) for field in self.data),
                *(
                    f"{_FOLDER_TEXT.get(field.type.name, '{0}').format(quoted(field.name))} AS {quoted(key)}"
                    for field, key in zip(self.partitions, self.keys, strict=True)
                ),
            ],
        )
        plain = self.mode == "none" and all(isinstance(field.type, Primitive) for field in self.data)
        if plain and not any(field.metadata for field in cleaned.schema):
            return cleaned
        items = []
        for field, target in zip(self.data, spark_schema(nullable(Struct(self.fields)).fields), strict=True):
            column = cleaned[quoted(field.name)]
            if not isinstance(field.type, Primitive):
                column = column.cast(target.dataType)
            items.append(column.alias(target.name, metadata=target.metadata))
        return cleaned.select(*items, *(cleaned[quoted(key)] for key in self.keys))

    def values(self, texts: Mapping[str, str | None]) -> dict[str, str | None]:
        """Partition values as the log has them, out of the texts of folders."""
        types = dict(zip(self.keys, (field.type.name for field in self.partitions), strict=True))
        return {key: text and _logged(text, types[key], key) for key, text in texts.items()}

    def _cleaned(self, field: Field, source: str) -> str:
        """The item for a column without what no file holds."""
        stored = self.schema.find([field.name])[1].type
        sql = Assignment(Casting.WIDENING).value(source, stored, field.type, field.name)
        return f"{sql} AS {quoted(field.name)}"


def beyond_text(key: str) -> InputError:
    """The error for times that the text of a partition does not tell."""
    return InputError(
        f"partition column {key} holds a time outside of the years 1 to 9999",
        sides={"column": key, "log": "partition values are text with four digits for the year"},
        next_step="Partition by another column, or correct the value.",
    )


def _logged(text: str, type: str, key: str) -> str:
    if type in ("timestamp", "timestamp_ntz"):
        try:
            told = datetime.fromisoformat(text).isoformat(timespec="microseconds") + "Z"
        except ValueError:
            raise beyond_text(key) from None
        return told if type == "timestamp" else text
    if type == "binary":
        try:
            return bytes.fromhex(text).decode()
        except UnicodeDecodeError:
            raise InputError(
                f"partition column {key} holds bytes that are no text",
                sides={"value": text, "log": "partition values are text"},
                next_step="Partition by another column.",
            ) from None
    if type == "string" and text.startswith(NULL_FOLDER):
        return text[:-1]
    return text
