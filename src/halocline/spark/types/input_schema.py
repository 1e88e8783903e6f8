"""The columns that somebody offers: of a DataFrame to be written, or of a table to be created.

Schemas are taken in the spelling of the log, which is also Spark's own JSON. What is only meaningful where it came from
is left behind: ids and physical names of another table, changes of type, marks of identity columns, and the defaults
that Spark keeps for files written before a column existed, which no other client knows.

The columns of a DataFrame say nothing about nulls that a table could rely on, so a table made from one allows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.errors import InputError, SchemaError, UnsupportedError, needs_extra
from halocline.formats.delta.configuration import column_mapping, identity, type_widening
from halocline.formats.delta.configuration.metadata_rules import check_schema
from halocline.schema import DataType, Field, Path, Struct, defaults
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.arrow_input import table_schema
from halocline.schema.char_types import DECLARED
from halocline.schema.collations import collation_of
from halocline.schema.json_edge import field_from_json, in_delta_order, parse, struct_from_json, type_from_json
from halocline.schema.visitor import map_fields, walk
from halocline.spark.session.analysis import first_line
from halocline.spark.session.session import check_running
from halocline.spark.types import char_types
from halocline.spark.types.columns import SQL_TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_TABLES: Final = ("__", "delta.", "parquet.", "identity.", *defaults.ANNOTATIONS)
_LOG_TYPES: Final = {sql: log for log, sql in SQL_TYPES.items()}


def is_frame(what: Any) -> bool:
    """Whether something is a DataFrame, of classic Spark or of Connect."""
    # Asked of its class: a DataFrame of a session that was stopped cannot even say which columns it has.
    return hasattr(type(what), "schema") and hasattr(type(what), "sparkSession")


def _class_of(what: Any) -> str:
    """The class of a value, with the package that it is from: several have a DataFrame."""
    package = type(what).__module__.partition(".")[0]
    return type(what).__name__ if package == "builtins" else f"{package} {type(what).__name__}"


def checked_frame(df: DataFrame, *, takes_arrow: bool = False) -> DataFrame:
    """The DataFrame, if it is one; some tables also take rows as they are."""
    if not is_frame(df):
        either = ", or append the rows as they are with append_arrow" if takes_arrow else ""
        raise InputError(
            f"a {_class_of(df)} is no DataFrame of Spark",
            sides={"given": " ".join(repr(df).split())[:80], "expected": "pyspark.sql.DataFrame"},
            next_step=f"Make one of it with spark.createDataFrame{either}.",
        )
    check_running(df.sparkSession)
    if df.isStreaming:
        raise InputError(
            "rows of a stream never end, so they cannot be written at once",
            sides={"given": "a streaming DataFrame", "expected": "one that ends"},
            next_step="Write each batch: df.writeStream.foreachBatch(...)",
        )
    return df


def check_no_arrow_rows(what: Any, format: str) -> None:
    """Make sure that what a table is made of holds no rows in Arrow's form, which only Spark writes for its format."""
    if hasattr(what, "__arrow_c_stream__") and not is_frame(what):
        raise InputError(
            f"a {_class_of(what)} holds rows, and Spark is needed to write rows of {format} tables",
            sides={"given": "rows in Arrow's form", "expected": "a DataFrame of Spark, or columns for an empty table"},
            next_step="Make a DataFrame of it with spark.createDataFrame(rows), or give its schema and no rows.",
        )


def columns_of(df: DataFrame) -> Struct:
    """The columns of a DataFrame, with comments and declared lengths, and nothing that belongs to a table."""
    schema = in_delta_order(parse(df.schema.json()))
    _check(schema)
    return map_fields(schema, lambda _, field: field.without(filter(_is_of_tables, field.metadata)))


def declared(schema: Any, *, keep_lengths: bool = False) -> Struct:
    """The columns that a user declares: a schema or columns of ours, their JSON, a Spark or Arrow schema, or Spark DDL.

    Lengths of char and varchar are kept as a table stores them, unless they are to stay.

    Example:
        >>> from halocline.schema import Primitive
        >>> print(declared([Field("id", Primitive("long"))]))
        struct<id: long>
    """
    found = _struct_of(schema)
    _check_keys(found)
    _check(found)

    def on_its_own(_: Path, field: Field) -> Field:
        plain = type_widening.unrecorded(identity.unmarked(column_mapping.unmapped_field(field)))
        return defaults.without_existing(plain)

    kept = map_fields(in_delta_order(found), on_its_own)
    return kept if keep_lengths else char_types.stored(kept)


def declared_type(given: Any) -> DataType:
    """The type that a user names: a type of ours or of Spark, its JSON, or its name in the log or in SQL.

    Example:
        >>> declared_type("BIGINT") == declared_type("long")
        True
    """
    if isinstance(given, DataType):
        return given
    if callable(getattr(given, "jsonValue", None)):
        return type_from_json(given.jsonValue())
    return type_from_json(_LOG_TYPES.get(given.lower(), given) if isinstance(given, str) else given)


def _is_of_tables(key: str) -> bool:
    return key.startswith(_OF_TABLES) and key != DECLARED


def _struct_of(schema: Any) -> Struct:
    if isinstance(schema, str):
        return parsed_ddl(schema)
    if isinstance(schema, Struct):
        return schema
    if isinstance(schema, pa.Schema):
        return struct_of_arrow(table_schema(schema))
    if isinstance(schema, Mapping) and schema.get("type") == "struct":
        return struct_from_json(schema)
    if callable(getattr(schema, "jsonValue", None)):
        return struct_from_json(schema.jsonValue())
    if isinstance(schema, Sequence):
        return Struct([_field_of(each) for each in schema])
    raise _no_schema(schema)


def _field_of(column: Any) -> Field:
    if isinstance(column, Field):
        return column
    if callable(getattr(column, "jsonValue", None)):
        return field_from_json(column.jsonValue())
    if isinstance(column, Mapping) and {"name", "type"} <= column.keys():
        return field_from_json(column)
    raise _no_schema(column)


def _no_schema(given: Any) -> InputError:
    rows = "Rows are given in Arrow's form: pyarrow.Table.from_pylist(rows), or pyarrow.table(columns)."
    return InputError(
        f"a {type(given).__name__} is no schema",
        sides={"given": repr(given)[:80], "expected": "a StructType, columns, or text such as 'id BIGINT, day DATE'"},
        next_step=rows if isinstance(given, Mapping) else "",
    )


def parsed_ddl(text: str, said: str | None = None, otherwise: str = "give the columns as a pyarrow.Schema") -> Struct:
    """The columns that text declares, which Spark reads; `said` is what a user wrote of it."""
    with needs_extra(f"Spark, which reads {said or text!r},", "spark"):
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

    said = said or text
    try:
        parsed = StructType.fromDDL(text)
    except PySparkException as error:
        if error.getCondition() == "SESSION_OR_CONTEXT_NOT_EXISTS":
            raise InputError(
                f"{said!r} is read by Spark, and there is no session",
                sides={"given": said, "without a session": "a schema made in Python"},
                next_step=f"Create a session first, or {otherwise}.",
            ) from None
        raise SchemaError(
            f"{said!r} is no {'type' if said != text else 'list of columns'}",
            sides={"given": said, "Spark says": first_line(error)},
            next_step="" if said != text else "Write it as 'id BIGINT NOT NULL, day DATE'.",
        ) from None
    if not isinstance(parsed, StructType):
        raise SchemaError(f"{text!r} is a single type", sides={"given": text, "expected": "'id BIGINT, day DATE'"})
    return struct_from_json(parsed.jsonValue())


def _check_keys(schema: Struct) -> None:
    for path, field in walk(schema):
        for key in field.extra:
            keys = ("name", "type", "nullable", "metadata")
            raise InputError.unknown(f"column {'.'.join(path)} has no {key!r}", key, keys, next_step="Leave it out.")


def _check(schema: Struct) -> None:
    for path, field in walk(schema):
        if (collation := collation_of(field)) is not None:
            raise UnsupportedError(
                f"column {'.'.join(path)} has a collation, which tables written here do not keep",
                sides={"column": collation, "possible": "string without a collation"},
                next_step="Cast the column to plain STRING first.",
            )
        if field.type.name.startswith("interval"):
            raise SchemaError(
                f"column {'.'.join(path)} is an interval, which no table can hold",
                sides={"found": str(field.type), "possible": "a number of seconds or months, or text"},
            )
    check_schema(schema, mapped=True)
