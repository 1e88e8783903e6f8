"""From the columns of a table to the columns in its files, the way back of `halocline.spark.types.columns`.

Columns get their physical names at every depth and, under column mapping, the field ids that files must carry. Columns
of type void are left out. Partition columns become text for the names of folders: timestamps in UTC and bytes in
hexadecimal, so that neither the session's zone nor an encoding changes a value on its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.configuration.schema_edit import FIELD_ID, JsonType
from halocline.spark.types.columns import (
    PARQUET_ID,
    Field,
    Names,
    is_void,
    quoted,
    spark_schema,
    without_void,
)
from halocline.spark.types.partition_values import NULL_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESERVED: Final = f"{NULL_FOLDER} stands for null in partition columns"
_FOLDER_TEXT: Final[Mapping[str, str]] = {
    "timestamp": "CAST(timestampadd(MICROSECOND, unix_micros({0}), TIMESTAMP_NTZ '1970-01-01 00:00:00') AS string)",
    "binary": "nullif(hex({0}), '')",
    # The two zeros have folders of their own, and Spark, which sorts rows by folder, takes them for equal numbers.
    "float": "CAST({0} AS string)",
    "double": "CAST({0} AS string)",
    # Spark would write this text and null into the same folder.
    "string": f"CASE WHEN {{0}} = '{NULL_FOLDER}' THEN raise_error('{_RESERVED}') ELSE {{0}} END",
}


def unfit_folder(error: BaseException, table: str) -> InputError | None:
    """What a failed Spark job says of a value that no folder can have, or None if it failed for another reason."""
    if _RESERVED not in str(error):
        return None
    return InputError(
        f"{_RESERVED}; nothing was written to {table}",
        sides={"value": NULL_FOLDER, "reserved for": "null"},
        next_step="Write null, or another text.",
    )


class Physical:
    """How rows of a table are laid out in files.

    Args:
        schema: The table's schema as the log spells it.
        partition_columns: Logical names of the partition columns.
        mode: The table's column mapping.

    Raises:
        SchemaError: There would be no column left to write.
    """

    def __init__(self, schema: Mapping[str, Any], partition_columns: Sequence[str], mode: str) -> None:
        fields: Sequence[Field] = schema["fields"]
        by_name = {field["name"].lower(): field for field in fields}
        self._names = Names("none" if mode == "none" else "name")
        self._mapped = mode != "none"
        self.partitions: Final = [by_name[name.lower()] for name in partition_columns]
        taken = {field["name"] for field in self.partitions}
        self.data: Final = without_void([field for field in fields if field["name"] not in taken])
        self._with_void = {field["name"] for field in fields if _has_void(field["type"])}
        if not self.data:
            raise SchemaError(
                "there is no column to write",
                sides={"columns": ", ".join(f"{field['name']} {field['type']}" for field in fields) or "none"},
                next_step="Add a column that is neither void nor a partition column.",
            )

    @property
    def keys(self) -> list[str]:
        """The names of the partition columns in the log and in folders."""
        return [str(self._names.of(field)) for field in self.partitions]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The columns in files, with their field ids."""
        return [self._field(field) for field in self.data]

    def frame(self, df: DataFrame) -> DataFrame:
        """The rows with physical columns, those for folders last.

        Raises:
            SchemaError: The columns are not the table's.
        """
        found = {name.lower(): name for name in df.columns}
        wanted = [*self.data, *self.partitions]
        lacking = [field["name"] for field in wanted if field["name"].lower() not in found]
        extra = set(found) - {field["name"].lower() for field in wanted}
        if lacking or extra:
            raise SchemaError(
                "the rows do not have the table's columns",
                sides={
                    "table has": ", ".join(field["name"] for field in wanted),
                    "rows have": ", ".join(df.columns),
                },
                next_step="Select the table's columns by name.",
            )
        cleaned = df.selectExpr(
            *(self._cleaned(field, quoted(found[field["name"].lower()])) for field in self.data),
            *(_folder_item(field, key) for field, key in zip(self.partitions, self.keys, strict=True)),
        )
        plain = not self._mapped and all(isinstance(field["type"], str) for field in self.data)
        if plain and not any(field.metadata for field in cleaned.schema):
            return cleaned
        items = []
        for field, target in zip(self.data, spark_schema(self.fields), strict=True):
            column = cleaned[quoted(field["name"])]
            if not isinstance(field["type"], str):
                column = column.cast(target.dataType)
            items.append(column.alias(target.name, metadata=target.metadata))
        return cleaned.select(*items, *(cleaned[quoted(key)] for key in self.keys))

    def values(self, texts: Mapping[str, str | None]) -> dict[str, str | None]:
        """Partition values as the log has them, out of the texts of folders.

        Raises:
            InputError: Bytes that are no text, which the log cannot hold.
        """
        types = dict(zip(self.keys, (field["type"] for field in self.partitions), strict=True))
        return {key: text and _logged(text, types[key], key) for key, text in texts.items()}

    def _cleaned(self, field: Field, source: str) -> str:
        sql = _picked(source, field["type"]) if field["name"] in self._with_void else source
        return f"{sql} AS {quoted(field['name'])}"

    def _field(self, field: Field) -> dict[str, Any]:
        metadata = {PARQUET_ID: (field.get("metadata") or {})[FIELD_ID]} if self._mapped else {}
        return {
            "name": self._names.of(field),
            "type": self._type(field["type"]),
            "nullable": True,
            "metadata": metadata,
        }

    def _type(self, type: JsonType) -> JsonType:
        if isinstance(type, str):
            return type
        if type["type"] == "struct":
            return {"type": "struct", "fields": [self._field(field) for field in type["fields"]]}
        return {key: self._type(part) if key.endswith("Type") else part for key, part in type.items()}


def _folder_item(field: Field, key: str) -> str:
    source = quoted(field["name"])
    return f"{_FOLDER_TEXT.get(field['type'], '{0}').format(source)} AS {quoted(key)}"


def _logged(text: str, type: str, key: str) -> str:
    if type == "timestamp":
        return datetime.fromisoformat(text).isoformat(timespec="microseconds") + "Z"
    if type == "binary":
        try:
            return bytes.fromhex(text).decode()
        except UnicodeDecodeError:
            raise InputError(
                f"partition column {key} holds bytes that are no text",
                sides={"value": text, "log": "partition values are text"},
                next_step="Partition by another column.",
            ) from None
    return text


def _has_void(type: JsonType) -> bool:
    if isinstance(type, str):
        return is_void(type)
    if type["type"] == "struct":
        return any(_has_void(field["type"]) for field in type["fields"])
    return any(_has_void(part) for key, part in type.items() if key.endswith("Type"))


def _picked(sql: str, type: JsonType, depth: int = 0) -> str:
    """SQL for only those fields of a value that the type has."""
    if isinstance(type, str):
        return sql
    variable = f"halocline_{depth}"
    if type["type"] == "array":
        return f"transform({sql}, {variable} -> {_picked(variable, type['elementType'], depth + 1)})"
    if type["type"] == "map":
        return (
            f"transform_values({sql}, (halocline_key, {variable}) -> {_picked(variable, type['valueType'], depth + 1)})"
        )
    parts = []
    for field in type["fields"]:
        name = quoted(field["name"])
        parts.append(f"{_picked(f'{sql}.{name}', field['type'], depth)} AS {name}")
    return f"CASE WHEN {sql} IS NOT NULL THEN struct({', '.join(parts)}) END"
