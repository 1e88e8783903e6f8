"""A few rows that are known already, as a DataFrame.

Spark takes rows of Arrow through a file and some forty questions to its process, which is longer than finding a row in
an index. A few rows of simple types are constants of one SQL statement instead: literals and casts of them, which the
parser makes into rows, and no functions, which the analyser would have to look up. Whatever is more than that, or has
no constant that is the same to the last bit in every session, goes through Arrow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.schema.arrow import arrow_type
from halocline.schema.types import DataType, Field, Primitive, decimal_of
from halocline.spark.session.session import is_connect
from halocline.spark.types.columns import cast_type, missing, quoted, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_VALUES: Final = 400
_MOST_BYTES: Final = 32 * 1024
_PLAIN: Final = re.compile(rb"[A-Za-z0-9 _.,:/@=+-]*")
"""Bytes of a text that Spark SQL reads as it is, whatever a session says of backslashes, quotes and variables."""

_VARIABLE: Final = "${"
"""What a session may put something else in place of, also inside of names."""

_NAMES: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_LITERALS: Final[Mapping[str, Callable[[Any, str], str]]] = {
    "boolean": lambda value, type: "true" if value else "false",
    **dict.fromkeys(("byte", "short", "integer", "long"), lambda value, type: f"CAST('{value}' AS {type})"),
    **dict.fromkeys(
        ("float", "double"),
        lambda value, type: f"CAST('{repr(value) if math.isfinite(value) else _NAMES[repr(value)]}' AS {type})",
    ),
    "string": lambda value, type: (
        f"'{value.decode()}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.hex()}' AS {type})"
    ),
    "binary": lambda value, type: f"X'{value.hex()}'",
    "date": lambda value, type: (
        f"date_from_unix_date({value})"
        if (day := _moment(value * _DAY)) is None
        else f"DATE '{day.date().isoformat()}'"
    ),
    "timestamp": lambda value, type: (
        f"timestamp_micros({value})" if (at := _moment(value)) is None else f"TIMESTAMP_LTZ '{at.isoformat()}Z'"
    ),
}
_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = 24 * 60 * 60 * 1_000_000
_RAW: Final = {"date": pa.int32(), "timestamp": pa.int64(), "string": pa.binary()}
"""How values are taken that Python may not have: its years end with 9999, and a text may hold bytes that are none."""


def known_rows(spark: SparkSession, table: pa.Table, fields: Sequence[Field]) -> DataFrame:
    """Rows as a DataFrame.

    Args:
        spark: The session.
        table: The rows, with the columns of the fields.
        fields: The columns, all of which may be null.
    """
    statement = None if is_connect(spark) else _statement(table, fields)
    # Without named arguments, none, PySpark looks up a class and a method of the JVM to make an empty list of others.
    return spark.createDataFrame(table, spark_schema(fields)) if statement is None else spark.sql(statement, {})


def _statement(table: pa.Table, fields: Sequence[Field]) -> str | None:
    """SQL that gives the rows; None if there is none, or it would be long."""
    if not fields or len(table) * len(fields) > _MOST_VALUES or table.nbytes > _MOST_BYTES:
        return None
    if any(field.metadata or not field.nullable or not _has_literal(field.type) for field in fields):
        return None
    if any(_VARIABLE in field.name for field in fields):
        return None
    columns = [_literals(column, field.type) for column, field in zip(table.columns, fields, strict=True)]
    # The first row says that every column may be null. A row of nulls and a limit would say so, too, but which rows a
    # limit leaves is up to the session, which may shuffle them first. Of no rows there is nothing to choose.
    for literals in columns:
        literals[:1] = [f"CASE 0 WHEN 0 THEN {each} END" for each in literals[:1]]
    rows = list(zip(*columns, strict=True)) or [tuple(missing(field.type) for field in fields)]
    names = ", ".join(quoted(field.name) for field in fields)
    values = ", ".join(f"({', '.join(row)})" for row in rows)
    return f"VALUES {values} AS known({names}){'' if len(table) else ' LIMIT 0'}"


def _moment(micros: int) -> datetime | None:
    """A time since the epoch; None if Python has no such year."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _decimal(value: Any, type: str) -> str:
    return f"CAST('{value:f}' AS {type})"


def _has_literal(type: DataType) -> bool:
    return isinstance(type, Primitive) and (type.text in _LITERALS or decimal_of(type) is not None)


def _literals(column: pa.ChunkedArray, type: DataType) -> list[str]:
    name, written = type.name, cast_type(type)
    values = column.cast(arrow_type(type))
    if name in _RAW:
        values = values.cast(_RAW[name])
    literal = _LITERALS.get(name, _decimal)
    return [missing(type) if value is None else literal(value, written) for value in values.to_pylist()]
