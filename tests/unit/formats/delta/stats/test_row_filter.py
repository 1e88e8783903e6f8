"""Predicates decided row by row: what Spark would say, or a refusal."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from halocline.errors import InputError, UnsupportedError
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.stats.row_filter import RowFilter

TYPES = {
    "id": "long",
    "n": "integer",
    "name": "string",
    "day": "date",
    "price": "decimal(6,2)",
    "open": "boolean",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "f": "double",
}
FIELDS = [{"name": name, "type": type, "nullable": True, "metadata": {}} for name, type in TYPES.items()]
PADDED = {
    "name": "code",
    "type": "string",
    "nullable": True,
    "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"},
}
PLAIN = {**PADDED, "metadata": {}}
NESTED = {
    "name": "s",
    "type": {"type": "struct", "fields": [FIELDS[0], PLAIN]},
    "nullable": True,
    "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "struct<id:bigint,code:char(3)>"},
}
MAP_TYPE = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
MAP = {"name": "m", "type": MAP_TYPE, "nullable": True, "metadata": {}}
SCHEMA = Schema.parse(json.dumps({"type": "struct", "fields": [*FIELDS, PADDED, NESTED, MAP]}))
DAY = dt.date(2026, 11, 1)
AT = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
ROWS = pa.RecordBatch.from_pydict(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "n": pa.array([1, 2, 3, None], pa.int32()),
        "name": pa.array(["a", "ab", "", None], pa.string()),
        "day": pa.array([DAY, DAY + dt.timedelta(1), DAY, None], pa.date32()),
        "price": pa.array([Decimal("1.00"), Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(6, 2)),
        "open": pa.array([True, False, True, None], pa.bool_()),
        "at": pa.array([AT, AT + dt.timedelta(hours=1), AT, None], pa.timestamp("us", "UTC")),
        "local": pa.array([AT.replace(tzinfo=None)] * 3 + [None], pa.timestamp("us")),
        "f": pa.array([1.0, 2.0, float("nan"), None], pa.float64()),
        "code": pa.array(["a  ", "ab", None, None], pa.string()),
        "s": pa.array([{"id": 1}, {"id": None}, None, {"id": 4}], pa.struct([("id", pa.int64())])),
    }
)


def met(where: str, zone: str = "UTC", **named) -> list[int]:
    """The numbers of the rows that a predicate is true for."""
    mask = RowFilter.parse(where, SCHEMA, zone).mask(ROWS, **named)
    return [number for number, is_met in enumerate(mask.to_pylist()) if is_met]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("id = 2", [1]),
        ("id != 2", [0, 2]),
        ("NOT (id = 2)", [0, 2]),
        ("id > 1 AND id < 3", [1]),
        ("n BETWEEN 2 AND 3", [1, 2]),
        ("n < 2.5", [0, 1]),
        ("id IN (1, 3)", [0, 2]),
        ("id NOT IN (1, 3)", [1]),
        ("id IS NULL", [3]),
        ("id IS NOT NULL OR name IS NULL", [0, 1, 2, 3]),
        ("id <=> NULL", [3]),
        ("ID = '2'", [1]),
        ("name = 'a'", [0]),
        ("name >= 'a'", [0, 1]),
        ("name LIKE 'a%'", [0, 1]),
        ("name = ''", [2]),
        ("day = '2026-11-01'", [0, 2]),
        ("day > DATE '2026-11-01'", [1]),
        ("price = 1.5", [1]),
        ("price <= 1.555", [0, 1]),
        ("open = true", [0, 2]),
        ("at = '2026-11-01 12:00:00'", [0, 2]),
        ("local = TIMESTAMP_NTZ'2026-11-01 12:00:00'", [0, 1, 2]),
        ("s.id = 4", [3]),
        ("s.id IS NULL", [1, 2]),
        ("false", []),
        ("id = 1 OR false", [0]),
        ("true", [0, 1, 2, 3]),
        ("id = 1 AND true", [0]),
        ("upper(name) = 'A' AND false", []),
        ("upper(name) = 'A' OR true", [0, 1, 2, 3]),
        ("f > 1", [1, 2]),
        ("f >= 2", [1, 2]),
        ("NOT (f > 1)", [0]),
        ("f < 2", [0]),
        ("f != 1", [1, 2]),
        ("f = 1", [0]),
        ("code = 'ab'", [1]),
        ("code = 'ab '", [1]),
        ("code > 'a'", [1]),
        ("code != 'ab'", [0]),
        ("code IN ('a', 'abcd')", [0]),
        ("code LIKE 'a%'", [0, 1]),
        ("name LIKE 'ab'", [1]),
        ("id < CAST(2 AS TINYINT)", [0]),
        ("f = ' 1.0e0 '", [0]),
        ("m IS NULL", [0, 1, 2, 3]),
    ],
)
def test_rows_for_which_a_predicate_is_true(where, rows):
    assert met(where) == rows


def test_empty_text_counts_as_null_where_it_will_be():
    assert met("name = ''", empty_is_null=("NAME",)) == []
    assert met("name IS NULL", empty_is_null=("name",)) == [2, 3]


def test_a_column_that_rows_lack_is_null():
    rows = ROWS.select(["id"])
    mask = RowFilter.parse("name IS NULL AND id = 1", SCHEMA, "UTC").mask(rows)
    assert mask.to_pylist() == [True, False, False, False]
    assert RowFilter.parse("day = '2026-11-01'", SCHEMA, "UTC").mask(rows).to_pylist() == [False] * 4


@pytest.mark.parametrize(
    "where",
    [
        "id >= 1 AND upper(name) = 'A'",
        "NOT (id = 1 OR upper(name) = 'A')",
        "id = 1 OR (id = 2 AND rand() < 0.5)",
        "f > 'NaN'",
        "code = 1",
        "upper(name) = 'A'",
        "id = n",
        "id % 2 = 0",
        "name LIKE '%b'",
        "rand() < 0.5",
        "price = '1.5'",
        "code LIKE 'ab'",
        "code BETWEEN 'a' AND 'ab'",
        "code NOT BETWEEN 'a' AND 'ab'",
        "code IN ('ab', NULL)",
        "s.code = 'ab'",
        "f = '1_0'",
        "f = '\u0661'",
        "f = CAST('1_0' AS DOUBLE)",
        "price = CAST('1_0' AS DECIMAL(3, 1))",
        "f = CAST(DATE'1970-01-02' AS DOUBLE)",
        "id = CAST(DATE'1970-01-02' AS INT)",
        "id < CAST(300 AS TINYINT)",
        "id = '\u00a01'",
        "day = '\u00a02026-11-01'",
        "m = NULL",
        "m <=> NULL",
    ],
)
def test_what_takes_an_engine_is_refused_with_the_way(where):
    with pytest.raises(UnsupportedError, match="cannot be decided") as refused:
        met(where)
    assert "spark" in refused.value.next_step
    assert "needs Spark" in refused.value.sides


@pytest.mark.parametrize("where", ["nobody = 1", "id =", "SELECT 1"])
def test_what_is_no_predicate_is_refused(where):
    with pytest.raises(InputError):
        met(where)


def test_columns_whose_names_differ_in_more_than_case_are_told_apart():
    names = ["strasse", "stra\u00dfe"]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    schema = Schema.parse(json.dumps({"type": "struct", "fields": fields}))
    rows = pa.RecordBatch.from_pydict({names[0]: [1, 2], names[1]: [2, 1]})
    for where in ("strasse = 1", "`stra\u00dfe` = 2"):
        assert RowFilter.parse(where, schema, "UTC").mask(rows).to_pylist() == [True, False]


@pytest.mark.parametrize("zone", ["+02:00", "GMT+2", "UTC+02:00", "Africa/Cairo", "ART"])
def test_a_time_is_in_the_zone_of_the_session_whichever_way_that_is_told(zone):
    assert met("at < '2026-11-01 14:30:00'", zone) == [0, 2]


@pytest.mark.parametrize("zone", ["+25:00", "Mars/Olympus", "GMT+"])
def test_a_zone_that_there_is_not_is_refused(zone):
    with pytest.raises(InputError, match="there is no time zone"):
        met("at < '2026-11-01 14:30:00'", zone)
