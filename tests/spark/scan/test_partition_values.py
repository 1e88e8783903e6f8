"""Partition values come from the log, in the type of their column, whatever the folders are called."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from halocline.errors import MalformedError

pytestmark = pytest.mark.connect
MODES = ["auto", "paths", "arrow"]
VALUES = [
    ("string", "a b/c=d:é", "a b/c=d:é"),
    ("string", "007", "007"),
    ("byte", "-128", -128),
    ("short", "7", 7),
    ("integer", "2147483647", 2147483647),
    ("long", "-9223372036854775808", -9223372036854775808),
    ("float", "1.5", 1.5),
    ("double", "1.0E10", 1e10),
    ("double", "-Infinity", float("-inf")),
    ("boolean", "true", True),
    ("decimal(10,3)", "-1.5", Decimal("-1.500")),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("date", "0001-01-01", dt.date(1, 1, 1)),
    ("date", "2024-02-29", dt.date(2024, 2, 29)),
    ("timestamp", "2020-06-01 10:00:00", dt.datetime(2020, 6, 1, 10)),
    ("timestamp", "2020-06-01T10:00:00.123456Z", dt.datetime(2020, 6, 1, 10, 0, 0, 123456)),
    ("timestamp", "2020-06-01T10:00:00+02:00", dt.datetime(2020, 6, 1, 8)),
    ("timestamp_ntz", "2020-06-01 10:00:00.5", dt.datetime(2020, 6, 1, 10, 0, 0, 500000)),
    ("binary", "\x01é", b"\x01\xc3\xa9"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("type", "text", "expected"), VALUES, ids=[f"{t}-{n}" for n, (t, _, _) in enumerate(VALUES)])
def test_partition_value_has_its_type(spark, lake, types, conf, mode, type, text, expected):
    conf("spark.halocline.scan.mode", mode)
    # Three groups, so that values are looked up; one value, so that it is a constant.
    lake.add("1.parquet", pa.table({"id": [1]}), values={"p": text, "one": text})
    lake.add("2.parquet", pa.table({"id": [2]}), values={"p": "", "one": text})
    lake.add("3.parquet", pa.table({"id": [3]}), values={"p": None, "one": text})

    df = lake.scan(spark, types.struct(p=type, id="long", one=type), partition_columns=["p", "one"])
    rows = {row["id"]: row for row in df.selectExpr("id", "p", "one", "typeof(p) AS t").collect()}

    assert [rows[n]["p"] for n in (1, 2, 3)] == [expected, None, None]
    assert rows[3]["one"] == expected
    assert rows[1]["t"].startswith(df.schema["p"].dataType.simpleString())


@pytest.mark.parametrize("mode", MODES)
def test_timestamp_value_is_a_moment_though_the_session_means_others(spark, lake, types, conf, mode):
    conf("spark.halocline.scan.mode", mode)
    conf("spark.sql.timestampType", "TIMESTAMP_NTZ")
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    for name, text in {"1": "2020-06-01T10:00:00Z", "2": "2020-06-01T11:00:00Z", "3": None}.items():
        lake.add(f"{name}.parquet", pa.table({"id": [int(name)]}), values={"p": text, "one": "2020-06-01T10:00:00Z"})
    schema = types.struct(id="long", p="timestamp", one="timestamp", absent="timestamp")

    df = lake.scan(spark, schema, partition_columns=["p", "one"])

    assert [df.schema[name].dataType.typeName() for name in ("p", "one", "absent")] == ["timestamp"] * 3
    found = df.orderBy("id").selectExpr("unix_seconds(p)", "unix_seconds(one)", "absent").collect()
    at = 1590969600 + 10 * 3600
    assert [tuple(row) for row in found] == [(at, at, None), (at + 3600, at, None), (None, at, None)]


def test_nan_partition_value_is_nan(spark, lake, types):
    lake.add("1.parquet", pa.table({"id": [1]}), values={"p": "NaN"})
    lake.add("2.parquet", pa.table({"id": [2]}), values={"p": "1"})

    df = lake.scan(spark, types.struct(id="long", p="double"), partition_columns=["p"])

    assert [row["id"] for row in df.where("isnan(p)").collect()] == [1]


@pytest.mark.parametrize("mode", ["auto", "paths", "arrow"])
def test_value_in_an_odd_spelling_is_the_same_in_every_scan(spark, lake, types, conf, mode):
    conf("spark.halocline.scan.mode", mode)
    spellings = [("inf", "0.005"), ("-INF", "1E1"), ("nan", "-0.005")]
    for number, (p, q) in enumerate(spellings):
        lake.add(f"p={p}/{number}.parquet", pa.table({"id": [number]}), values={"p": p, "q": q})

    df = lake.scan(spark, types.struct(id="long", p="double", q="decimal(10,2)"), partition_columns=["p", "q"])

    found = df.orderBy("id").selectExpr("CAST(p AS string)", "CAST(q AS string)").collect()
    assert [tuple(row) for row in found] == [("Infinity", "0.01"), ("-Infinity", "10.00"), ("NaN", "-0.01")]


def test_zoneless_timestamp_value_is_meant_in_the_zone_given(spark, lake, types, conf):
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    lake.add("1.parquet", pa.table({"id": [1]}), values={"p": "2020-06-01 10:00:00"})

    df = lake.scan(spark, types.struct(id="long", p="timestamp"), partition_columns=["p"], zone="America/New_York")

    assert df.selectExpr("unix_seconds(p) AS s").first()["s"] == 1591020000


@pytest.mark.parametrize(
    ("type", "text"),
    [("integer", "x"), ("byte", "128"), ("date", "2020-02-30"), ("decimal(3,1)", "100"), ("boolean", "1")],
)
def test_value_that_its_type_does_not_allow_is_damage(spark, lake, types, type, text):
    lake.add("1.parquet", pa.table({"id": [1]}), values={"p": text})

    with pytest.raises(MalformedError, match="partition column p") as error:
        lake.scan(spark, types.struct(id="long", p=type), partition_columns=["p"])

    assert error.value.condition == "MALFORMED_LOG"


def test_log_wins_over_folder(spark, lake, types, collected):
    lake.add("p=1/a.parquet", pa.table({"id": [1]}), values={"p": "1"})
    lake.add("p=2/b.parquet", pa.table({"id": [2]}), values={"p": "20"})
    lake.add("p=3/c.parquet", pa.table({"id": [3], "p": [77]}), values={"p": "3"})

    df = lake.scan(spark, types.struct(id="long", p="integer"), partition_columns=["p"])

    assert collected(df) == [(1, 1), (2, 20), (3, 3)]


def test_folders_that_agree_with_the_log_become_native_partitions(spark, lake, types, collected):
    for n, text in enumerate(["2024-01-01", "2024-01-02", None]):
        folder = f"day={text or '__HIVE_DEFAULT_PARTITION__'}/city=S%C3%A3o%2FP"
        lake.add(f"{folder}/{n}.parquet", pa.table({"id": [n]}), values={"day": text, "city": "SÃ£o/P"})
    schema = types.struct(day="date", id="long", city="string")

    df = lake.scan(spark, schema, partition_columns=["day", "city"])

    assert collected(df) == [
        (dt.date(2024, 1, 1), 0, "SÃ£o/P"),
        (dt.date(2024, 1, 2), 1, "SÃ£o/P"),
        (None, 2, "SÃ£o/P"),
    ]
    (lake.root / "day=2024-01-01/city=S%C3%A3o%2FP/0.parquet").unlink()
    assert collected(df.where("day > '2024-01-01'").select("id")) == [(1,)]


def test_values_only_the_log_knows_prune_files_natively(spark, lake, types, collected):
    for n in range(4):
        lake.add(f"{n}.parquet", pa.table({"id": [n]}), values={"p": f"x{n}", "q": str(n)})
    schema = types.struct(id="long", p="string", q="integer")
    df = lake.scan(spark, schema, partition_columns=["p", "q"])

    for n in (0, 1, 2):
        (lake.root / f"{n}.parquet").unlink()

    assert collected(df.where("p = 'x3'")) == collected(df.where("q >= 3")) == [(3, "x3", 3)]


def test_few_large_groups_are_scanned_apart_with_constants(spark, lake, types, collected, monkeypatch, capsys):
    monkeypatch.setattr("halocline.spark.scan.branches.LARGE_GROUP", 1)
    for n in range(6):
        lake.add(f"{n}.parquet", pa.table({"id": [n]}), values={"p": str(n % 3)}, deleted=[0] if n == 5 else [])

    df = lake.scan(spark, types.struct(id="long", p="integer"), partition_columns=["p"])

    assert collected(df) == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1)]
    df.where("p = 1").select("id").explain()
    plan = capsys.readouterr().out
    assert "_metadata" not in plan.split("Union")[0], plan
    for n in (0, 2, 3):
        (lake.root / f"{n}.parquet").unlink()
    assert collected(df.where("p = 1")) == [(1, 1), (4, 1)]


def test_only_partition_columns_asked_for_keeps_the_number_of_rows(spark, lake, types, conf, collected):
    lake.add("1.parquet", pa.table({"id": [1, 2]}), values={"p": "x"})
    lake.add("2.parquet", pa.table({"id": [3]}), values={"p": "y"})
    for mode in MODES:
        conf("spark.halocline.scan.mode", mode)
        df = lake.scan(spark, types.struct(id="long", p="string"), partition_columns=["P"], columns=["p"])
        assert collected(df) == [("x",), ("x",), ("y",)]
