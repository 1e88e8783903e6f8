"""A few rows that are known already: as constants they are what they are through Arrow, to the last bit."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.columns import field

from halocline.schema import Array, Field, Primitive
from halocline.schema.arrow import arrow_schema
from halocline.spark.types import constant_rows
from halocline.spark.types.columns import spark_schema
from halocline.spark.types.constant_rows import known_rows

_FAR = datetime(9998, 12, 31, 23, 59, 59, 999999, UTC)
VALUES = {
    "boolean": [True, False, None],
    "byte": [-128, 127, None],
    "short": [-(2**15), 2**15 - 1, None],
    "integer": [-(2**31), 2**31 - 1, None],
    "long": [-(2**63), 2**63 - 1, None],
    "float": [struct.unpack("f", struct.pack("f", 0.1))[0], -0.0, math.inf],
    "double": [0.1 + 0.2, math.nan, -math.inf],
    "string": ['it\'s \\n a "test" ${x} :y ? `z`', "grüße 🙂\n\0", "plain text"],
    "binary": [b"", b"\x00\xff'", None],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)],
    "timestamp": [datetime(1583, 1, 1, 0, 0, 0, 1, tzinfo=UTC), _FAR, None],
    "decimal(38,10)": [Decimal("-1234567890123456789012345678.0000000001"), Decimal("0E-10"), None],
}


def made(**columns: tuple[str, list]) -> tuple[pa.Table, list[Field]]:
    fields = [field(name.replace("_", " "), kind) for name, (kind, _) in columns.items()]
    arrays = [
        pa.array(values, type) for (_, values), type in zip(columns.values(), arrow_schema(fields).types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(fields)), fields


def bits(rows) -> list:
    """Rows in which two values are equal only if they are the same."""
    return [tuple(struct.pack("d", value) if isinstance(value, float) else value for value in row) for row in rows]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.ansi.enabled": "false"},
        {"spark.sql.session.timeZone": "America/St_Johns", "spark.sql.ansi.doubleQuotedIdentifiers": "true"},
        {"spark.sql.parser.eagerEvalOfUnresolvedInlineTable": "false", "spark.sql.ansi.enabled": "true"},
        {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.parser.quotedRegexColumnNames": "true"},
        {"spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"},
    ],
)
def test_constants_are_the_values_whatever_the_session_says(spark, monkeypatch, changes):
    table, fields = made(**{f"c_{number}": (kind, values) for number, (kind, values) in enumerate(VALUES.items())})
    before = {key: spark.conf.get(key, None) for key in changes}
    for key, value in changes.items():
        spark.conf.set(key, value)
    try:
        through_arrow = spark.createDataFrame(table, spark_schema(fields))
        expected = bits(through_arrow.collect())
        monkeypatch.setattr(type(spark), "createDataFrame", None)
        found = known_rows(spark, table, fields)
        assert bits(found.collect()) == expected
        assert found.schema == through_arrow.schema
        for some in (table.slice(2), table.slice(0, 0)):
            found = known_rows(spark, some, fields)
            assert (bits(found.collect()), found.schema) == (expected[2:][: len(some)], through_arrow.schema)
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def test_years_that_python_does_not_have_are_constants_as_well(spark):
    far = 300_000_000_000_000_000
    fields = [field("at", "timestamp"), field("day", "date")]
    arrays = [pa.array([-far, far], pa.int64()), pa.array([-4_000_000, 4_000_000], pa.int32())]
    schema = arrow_schema(fields)
    table = pa.Table.from_arrays(
        [each.cast(type) for each, type in zip(arrays, schema.types, strict=True)], schema=schema
    )
    found = known_rows(spark, table, fields).selectExpr("unix_micros(at)", "unix_date(day)")
    assert [tuple(row) for row in found.collect()] == [(-far, -4_000_000), (far, 4_000_000)]


def test_no_limit_of_the_session_chooses_among_the_rows():
    table, fields = made(a=("long", [1, 2]))
    assert "LIMIT" not in constant_rows._statement(table, fields)
    assert constant_rows._statement(table.slice(0, 0), fields).endswith("LIMIT 0")


def test_bytes_of_a_text_that_are_none_stay_what_they_are(spark):
    damaged = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(struct.pack("3i", 0, 2, 3)), pa.py_buffer(b"\xff\xfea")]
    )
    found = known_rows(spark, pa.table({"a": damaged}), [field("a", "string")])
    assert [bytes(row[0]) for row in found.selectExpr("CAST(a AS binary)").collect()] == [b"\xff\xfe", b"a"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit_are_the_same_moment(spark, unit):
    at = pa.array([1_700_000_000, None], pa.timestamp("s", "UTC")).cast(pa.timestamp(unit, "UTC"))
    found = known_rows(spark, pa.table({"at": at}), [field("at", "timestamp")])
    assert [row[0] for row in found.selectExpr("unix_micros(at)").collect()] == [1_700_000_000_000_000, None]


def test_the_parser_makes_constants_into_rows_and_leaves_nothing_to_look_up():
    table, fields = made(**{f"c_{number}": (kind, values) for number, (kind, values) in enumerate(VALUES.items())})
    statement = constant_rows._statement(table, fields)
    called = set(re.findall(r"\b([A-Za-z_]+)\(", re.sub(r"'[^']*'", "''", statement)))
    assert called <= {"CAST", "known", "decimal"}, statement


@pytest.mark.parametrize(
    "columns",
    [
        {"a": ("array", [["x"], None])},
        {"a": ("timestamp_ntz", [datetime(2024, 1, 1), None])},
        {"${a}": ("string", ["x", None])},
        {"a": ("string", ["x" * 40_000, None])},
        {"a": ("long", list(range(1000)))},
    ],
)
def test_what_has_no_constant_goes_through_arrow(spark, monkeypatch, columns):
    (name, (kind, values)) = next(iter(columns.items()))
    type = Array(Primitive("string")) if kind == "array" else Primitive(kind)
    schema = arrow_schema([Field(name, type)])
    table = pa.Table.from_arrays([pa.array(values, schema.types[0])], schema=schema)
    assert constant_rows._statement(table, [Field(name, type)]) is None
    assert [row[0] for row in known_rows(spark, table, [Field(name, type)]).collect()] == values
