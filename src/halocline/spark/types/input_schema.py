"""The columns that somebody offers: of a DataFrame to be written, or of a table to be created.

Schemas are taken in the spelling of the log, which is also Spark's own JSON. What is only meaningful where it came from
is left behind: ids and physical names of another table, changes of type, marks of identity columns, and the defaults
that Spark keeps for files written before a column existed, which no other client knows.

The columns of a DataFrame say nothing about nulls that a table could rely on, so a table made from one allows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, SchemaError, UnsupportedError
from halocline.formats.delta.configuration import column_mapping, schema_edit
from halocline.formats.delta.configuration.metadata_rules import check_schema
from halocline.schema import Field, Struct
from halocline.schema.json_edge import struct_from_json, to_json
from halocline.spark.types import char_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT: Final = "CURRENT_DEFAULT"
"""The metadata key of a column's default."""

_OF_TABLES: Final = ("__", "delta.", "parquet.", "identity.", DEFAULT, "EXISTS_DEFAULT")
_COLLATIONS: Final = "__COLLATIONS"
_OF_ANOTHER_TABLE: Final = frozenset(
    {
        "EXISTS_DEFAULT",
        *column_mapping.ANNOTATIONS,
        "parquet.field.nested.ids",
        "delta.typeChanges",
        "delta.identity.highWaterMark",
    }
)


def is_frame(what: Any) -> bool:
    """Whether something is a DataFrame, of classic Spark or of Connect."""
    return hasattr(what, "schema") and hasattr(what, "sparkSession")


def checked_frame(df: DataFrame) -> DataFrame:
    """The DataFrame, if it is one.

    Raises:
        InputError: It is not.
    """
    if not is_frame(df):
        raise InputError(
            f"a {type(df).__name__} is no DataFrame",
            sides={"given": repr(df)[:80], "expected": "pyspark.sql.DataFrame"},
            next_step="Make one of it with spark.createDataFrame.",
        )
    if df.isStreaming:
        raise InputError(
            "rows of a stream never end, so they cannot be written at once",
            sides={"given": "a streaming DataFrame", "expected": "one that ends"},
            next_step="Write each batch: df.writeStream.foreachBatch(...)",
        )
    return df


def columns_of(df: DataFrame) -> dict[str, Any]:
    """The columns of a DataFrame.

    Raises:
        SchemaError: Two columns have the same name, or a column has a type that no table can hold.
    """
    schema = json.loads(df.schema.json())
    _check(schema)
    return dict(schema_edit.map_fields(schema, lambda _, field: {**field, "metadata": _plain(field)}))


def nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same columns with nulls allowed everywhere.

    Example:
        >>> nullable({"type": "struct", "fields": [schema_edit.field("id", "long", nullable=False)]})["fields"]
        [{'name': 'id', 'type': 'long', 'nullable': True, 'metadata': {}}]
    """
    return {"type": "struct", "fields": [{**field, **_loosened(field)} for field in schema["fields"]]}


def declared(schema: Any, *, keep_lengths: bool = False) -> dict[str, Any]:
    """The columns that a user declares for a new table.

    Args:
        schema: A Spark schema, its JSON, columns as the log spells them, or Spark DDL.
        keep_lengths: Leave char and varchar as they are, rather than as a table stores them.

    Raises:
        InputError: It is nothing of the kind.
        SchemaError: A name is given twice, or a type is none.

    Example:
        >>> declared([schema_edit.field("id", "long")])["fields"][0]["name"]
        'id'
    """
    found = _json_of(schema)
    _check(found)
    kept = schema_edit.map_fields(found, lambda _, field: {"nullable": True, **field, "metadata": _own(field)})
    return dict(kept) if keep_lengths else char_types.stored(kept)


def _json_of(schema: Any) -> dict[str, Any]:
    if isinstance(schema, str):
        return _parsed_ddl(schema)
    if isinstance(schema, Sequence) and schema and all(isinstance(each, Field) for each in schema):
        schema = Struct(schema)
    if isinstance(schema, Struct):
        return dict(to_json(schema))
    if isinstance(schema, Mapping) and schema.get("type") == "struct":
        return dict(schema)
    if callable(getattr(schema, "jsonValue", None)):
        return dict(schema.jsonValue())
    if isinstance(schema, Sequence) and all(isinstance(each, Mapping) for each in schema):
        return {"type": "struct", "fields": [dict(each) for each in schema]}
    raise InputError(
        f"a {type(schema).__name__} is no schema",
        sides={"given": repr(schema)[:80], "expected": "a StructType, columns, or text such as 'id BIGINT, day DATE'"},
    )


def _parsed_ddl(text: str) -> dict[str, Any]:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        parsed = StructType.fromDDL(text)
    except PySparkException as error:
        if error.getCondition() == "SESSION_OR_CONTEXT_NOT_EXISTS":
            raise InputError(
                f"{text!r} is read by Spark, and there is no session",
                sides={"given": text, "without a session": "a schema made in Python"},
                next_step="Create a session first, or list the columns one by one.",
            ) from None
        raise SchemaError(
            f"{text!r} is no list of columns",
            sides={"given": text, "Spark says": first_line(error)},
            next_step="Write it as 'id BIGINT NOT NULL, day DATE'.",
        ) from None
    if not isinstance(parsed, StructType):
        raise SchemaError(f"{text!r} is a single type", sides={"given": text, "expected": "'id BIGINT, day DATE'"})
    return dict(parsed.jsonValue())


def first_line(error: BaseException) -> str:
    """What an error of Spark says in short."""
    return next((line for line in str(error).splitlines() if line.strip()), "")[:200]


def _check(schema: Mapping[str, Any]) -> None:
    for path, field in schema_edit.fields(schema):
        if _COLLATIONS in (field.get("metadata") or {}):
            raise UnsupportedError(
                f"column {'.'.join(path)} has a collation, which tables written here do not keep",
                sides={"column": str(field["metadata"][_COLLATIONS]), "possible": "string without a collation"},
                next_step="Cast the column to plain STRING first.",
            )
        if isinstance(field.get("type"), str) and field["type"].startswith("interval"):
            raise SchemaError(
                f"column {'.'.join(path)} is an interval, which no table can hold",
                sides={"found": field["type"], "possible": "a number of seconds or months, or text"},
            )
    check_schema(struct_from_json(schema), mapped=True)


def _plain(field: schema_edit.Node) -> dict[str, Any]:
    """What a DataFrame's column brings along: comments and declared lengths, nothing that belongs to a table."""
    metadata = field.get("metadata") or {}
    return {
        key: value for key, value in metadata.items() if key == char_types.DECLARED or not key.startswith(_OF_TABLES)
    }


def _own(field: schema_edit.Node) -> dict[str, Any]:
    metadata = field.get("metadata") or {}
    return {key: value for key, value in metadata.items() if key not in _OF_ANOTHER_TABLE}


def _loosened(node: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a field or a type that say whether nulls are allowed, all of them saying yes."""
    changed: dict[str, Any] = {}
    for key in ("nullable", "containsNull", "valueContainsNull"):
        if key in node:
            changed[key] = True
    for key in ("type", "elementType", "keyType", "valueType"):
        if isinstance(node.get(key), Mapping):
            changed[key] = {**node[key], **_loosened(node[key])}
    if "fields" in node:
        changed["fields"] = [{**each, **_loosened(each)} for each in node["fields"]]
    return changed
