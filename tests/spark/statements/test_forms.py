"""Forms of statements that users of Delta write as well, and forms that are refused in words that help."""

from __future__ import annotations

import json

import pytest
from tests.support.sql import rows

import halocline as hc
from halocline.errors import InputError, NotFoundError, UnsupportedError


@pytest.fixture
def lake(spark, tmp_path):
    lake = hc.Lake.discover(tmp_path, spark)
    lake.sql(
        "CREATE TABLE t AS SELECT id, id % 2 AS part, named_struct('x', 9 - id, 'l', array(id)) AS s FROM range(4)"
    )
    return lake


def parameters(lake):
    """What the history has of the newest change of the table."""
    return lake.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0]["operationParameters"]


def test_a_path_in_quotes_is_a_table_where_delta_takes_one(lake, spark):
    url = lake.table("t").url
    assert lake.sql(f"DESCRIBE HISTORY '{url}'").collect()[0]["version"] == 0
    assert lake.sql(f"DESCRIBE DETAIL '{url}'").collect()[0]["format"] == "delta"
    assert rows(lake, f"VACUUM '{url}' RETAIN 168.5 HOURS") == [(url,)]
    assert hc.sql(spark, f"OPTIMIZE '{url}'").collect()[0]["path"] == url
    with pytest.raises(NotFoundError, match="nothing-here"):
        lake.sql("DESCRIBE DETAIL 'nothing-here'")


def test_retention_is_a_number_and_nothing_else(lake):
    with pytest.raises(UnsupportedError, match="a whole number was expected"):
        lake.sql("VACUUM t RETAIN many HOURS")
    with pytest.raises(InputError):
        lake.sql("VACUUM t RETAIN 0.5 HOURS")


def test_columns_that_are_there_are_dropped_if_they_exist(lake):
    lake.table("t").set_properties({"delta.columnMapping.mode": "name"})
    lake.sql("ALTER TABLE t DROP COLUMN IF EXISTS nope")
    assert lake.table("t").to_df().columns == ["id", "part", "s"]
    lake.sql("ALTER TABLE t DROP COLUMNS IF EXISTS (nope, part, s.nope)")
    assert lake.table("t").to_df().columns == ["id", "s"]
    with pytest.raises(InputError, match="nope"):
        lake.sql("ALTER TABLE t DROP COLUMN nope")


def test_one_column_is_described_as_spark_does(lake):
    assert [tuple(row) for row in lake.sql("DESCRIBE t s.x").collect()] == [
        ("col_name", "s.x"),
        ("data_type", "bigint"),
        ("comment", "NULL"),
    ]
    with pytest.raises(InputError, match="idd"):
        lake.sql("DESCRIBE TABLE t idd")


def test_rows_are_sorted_by_fields_of_structs_and_not_by_those_of_lists(lake):
    lake.sql("OPTIMIZE t ZORDER BY (s.x)")
    told = parameters(lake)
    assert json.loads(told["zOrderBy"]) == ["s.x"], told
    assert [row.x for row in lake.table("t").to_df().selectExpr("s.x").collect()] == [6, 7, 8, 9]
    with pytest.raises(InputError, match=r"sorted by column s\.l"):
        lake.sql("OPTIMIZE t ZORDER BY (s.l)")


def test_clones_are_made_where_there_is_none(lake):
    lake.sql("CREATE TABLE IF NOT EXISTS c SHALLOW CLONE t")
    lake.sql("INSERT INTO c SELECT 9, 1, NULL")
    lake.sql("CREATE TABLE IF NOT EXISTS c CLONE t")
    assert lake.table("c").count() == 5, "the one that was there stays"
    place = lake.place_for("d")
    lake.sql(f"CREATE TABLE d CLONE t TBLPROPERTIES ('a.b' = '1') LOCATION '{place}'")
    assert lake.table("d").detail()["properties"]["a.b"] == "1"
    with pytest.raises(InputError, match="lies elsewhere"):
        lake.sql("CREATE TABLE e CLONE t LOCATION 'somewhere/else'")
    with pytest.raises(UnsupportedError, match="contradict"):
        lake.sql("CREATE OR REPLACE TABLE IF NOT EXISTS c CLONE t")


def test_a_table_like_another_has_all_but_its_rows(lake):
    lake.sql("""
        CREATE TABLE model (id BIGINT NOT NULL, n INT DEFAULT 3, day DATE, CONSTRAINT c CHECK (id > 0))
        PARTITIONED BY (day) COMMENT 'as it was' TBLPROPERTIES ('a.b' = '1', 'c.d' = '2')
    """)
    lake.sql("CREATE TABLE like_it LIKE model TBLPROPERTIES ('c.d' = '3')")
    made, model = (lake.table(name).detail() for name in ("like_it", "model"))
    for name in ("partitionColumns", "description", "minReaderVersion", "minWriterVersion", "tableFeatures"):
        assert made[name] == model[name], name
    assert made["properties"] == {**model["properties"], "c.d": "3"}
    assert lake.table("like_it").schema == lake.table("model").schema
    with pytest.raises(UnsupportedError, match="has its columns"):
        lake.sql("CREATE TABLE more LIKE model (x INT)")
    with pytest.raises(NotFoundError, match="nope"):
        lake.sql("CREATE TABLE more LIKE nope")


def test_rows_bring_columns_along_where_they_may(lake):
    lake.sql("INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 7L AS id, 'new' AS note")
    assert rows(lake, "SELECT id, note FROM t WHERE id >= 3") == [(3, None), (7, "new")]
    with pytest.raises(UnsupportedError, match="BY NAME"):
        lake.sql("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1, 2, 3, 4")


def test_history_tells_tables_by_the_names_that_the_user_gave(lake):
    lake.sql("CREATE TABLE other.ids AS SELECT 1L AS id")
    lake.sql("DELETE FROM t WHERE id IN (SELECT id FROM other.ids VERSION AS OF 0 AS o)")
    told = parameters(lake)["predicate"]
    assert "other.ids VERSION AS OF 0" in told, told
    assert "halocline_" not in told, told
    assert rows(lake, "SELECT id FROM t") == [(0,), (2,), (3,)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE EXTERNAL TABLE x (id INT) USING delta", "EXTERNAL belongs to Hive"),
        ("CREATE TABLE x (id INT) CLUSTERED BY (id) INTO 4 BUCKETS", "use CLUSTER BY"),
        ("CREATE TABLE x (id INT PRIMARY KEY)", "keep no keys"),
        ("ALTER TABLE t RENAME TO u", "where it lies"),
        ("ALTER TABLE t SET LOCATION 'x'", "lies where its name says"),
        ("ALTER TABLE t SET TAGS ('a' = 'b')", "SET TBLPROPERTIES"),
        ("EXPLAIN UPDATE t SET id = 1", "by statements of their own"),
        ("EXPLAIN EXTENDED DELETE FROM t", "by statements of their own"),
        ("FROM t INSERT INTO t SELECT *", "by statements of their own"),
    ],
)
def test_what_is_not_done_is_refused_with_what_to_do_instead(lake, text, said):
    with pytest.raises(UnsupportedError) as refused:
        lake.sql(text)
    assert said in str(refused.value), refused.value
    assert "Did you mean" not in str(refused.value), "it is no slip of the pen"
    assert lake.table("t").version == 0


@pytest.mark.parametrize(
    "text", ["DELETE FROM nosuch WHERE id IN (SELECT id FROM t)", "UPDATE nosuch SET a = (SELECT 1 FROM t)"]
)
def test_a_missing_table_is_named_where_another_is_read(lake, text):
    with pytest.raises(NotFoundError, match="nosuch"):
        lake.sql(text)
