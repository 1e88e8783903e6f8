"""SQL by name and by path: what is ours is done by our verbs, what is Spark's goes to Spark, the rest is refused."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from tests.support.sql import rows

import halocline as hc
from halocline.errors import HaloclineError, InputError, NotFoundError, UnsupportedError

CREATE = """
    CREATE TABLE sales.orders (
        id BIGINT NOT NULL COMMENT 'the key', name STRING DEFAULT 'none', day DATE,
        y INT GENERATED ALWAYS AS (year(day)), CONSTRAINT positive CHECK (id > 0)
    ) USING delta PARTITIONED BY (day) COMMENT 'all orders' TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
"""


def test_a_table_has_what_its_declaration_says(made):
    table = made.table("sales.orders")
    assert rows(made, "SELECT id, name, y FROM sales.orders") == [(1, "a", 2026), (2, "b", 2026), (3, "none", 2026)]
    assert table.detail()["partitionColumns"] == ["day"]
    assert table.detail()["description"] == "all orders"
    assert table.detail()["properties"]["delta.constraints.positive"] == "id > 0"
    assert table.schema["fields"][0]["metadata"]["comment"] == "the key"
    assert table.schema["fields"][0]["nullable"] is False
    assert sorted(row.k for row in made.sql("SELECT k FROM ids").collect()) == [10, 15]
    with pytest.raises(hc.ConstraintError):
        made.sql("INSERT INTO sales.orders (id, day) VALUES (-1, NULL)")


def test_a_name_may_have_as_many_parts_as_folders(lake):
    lake.sql("CREATE TABLE eu.at.vienna.shops AS SELECT 7L AS id")
    lake.sql("INSERT INTO eu.at.vienna.shops VALUES (8)")
    assert rows(lake, "SELECT count(*) FROM eu.at.vienna.shops") == [(2,)]
    assert rows(lake, "SELECT eu.at.vienna.shops.id FROM eu.at.vienna.shops VERSION AS OF 0") == [(7,)]
    assert rows(lake, "SELECT s.id FROM t RIGHT JOIN eu.at.vienna.shops s ON t.id = s.id WHERE s.id > 7") == [(8,)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT count(*) FROM sales.orders VERSION AS OF 1", [(2,)]),
        ("select count(*) from /* c; */ `sales`.`orders` -- the end", [(3,)]),
        ("SELECT orders.id FROM sales.orders WHERE orders.id > 2", [(3,)]),
        ("SELECT sales.orders.id FROM sales.orders WHERE `sales`.orders.id > 2", [(3,)]),
        (
            "SELECT sales.orders.id, 'sales.orders.id' FROM ids JOIN sales.orders ON sales.orders.id = k - 9",
            [(1, "sales.orders.id")],
        ),
        ("SELECT count(*) FROM sales.orders JOIN old.orders ON sales.orders.id = old.orders.id", [(1,)]),
        ("SELECT k FROM ids WHERE k - 9 IN (SELECT sales.orders.id FROM sales.orders)", [(10,)]),
        ("SELECT id FROM sales.orders WHERE id > 1 AND day = DATE'2026-11-02' ORDER BY id", [(2,), (3,)]),
        (
            "SELECT o.id FROM sales.orders VERSION AS OF 1 AS o JOIN sales.orders p ON o.id = p.id WHERE o.id = 2",
            [(2,)],
        ),
        ("WITH orders AS (SELECT 7 AS id) SELECT id FROM orders", [(7,)]),
        ("WITH ids AS (SELECT k FROM ids WHERE v = 'x') SELECT * FROM ids", [(10,)]),
        ("WITH a AS (SELECT * FROM ids), b AS (SELECT k FROM a) SELECT count(*) FROM b", [(2,)]),
        ("SELECT (SELECT max(k) FROM ids) - (SELECT min(k) FROM ids)", [(5,)]),
        ("SELECT id FROM sales.orders WHERE EXISTS (SELECT 1 FROM ids WHERE k = 10) AND id = 1", [(1,)]),
        ("SELECT '{v}' FROM ids UNION ALL SELECT v FROM ids WHERE v = '{y}'", [("{v}",), ("{v}",), ("{y}",)]),
        ("(SELECT 1) UNION ALL (SELECT count(*) FROM ids)", [(1,), (2,)]),
        ("VALUES (1), (2)", [(1,), (2,)]),
        ("SELECT a, b FROM ids AS i(a, b) WHERE a = 15", [(15, "{y}")]),
        ("SELECT x.v FROM ids x LATERAL VIEW explode(array(1, 2)) e AS n WHERE x.k = 10", [("x",), ("x",)]),
        ("SELECT count(*) FROM ids TABLESAMPLE (100 PERCENT)", [(2,)]),
        ("SET spark.sql.shuffle.partitions; SELECT 1", [(1,)]),
    ],
)
def test_queries_read_tables_of_the_lake_wherever_they_stand(made, text, found):
    assert rows(made, text) == found


@pytest.mark.parametrize(("text", "args"), [("id = 1-:n AND part = 1", {"n": -2}), ("id = 1-? AND part = 1", [-2])])
def test_a_negative_parameter_behind_a_minus_leaves_the_rest_of_a_query(lake, text, args):
    assert rows(lake, f"SELECT id FROM t WHERE {text}", args) == [(3,)]


def test_a_time_is_any_expression(made):
    table = made.table("sales.orders")
    first = table.history()[-2].timestamp_ms
    at = f"timestamp_millis({first}) + INTERVAL 0 SECONDS"
    assert rows(made, f"SELECT count(*) FROM sales.orders TIMESTAMP AS OF {at} o WHERE o.id > 0") == [(2,)]


def test_paths_need_no_lake(spark, tmp_path):
    place = f"delta.`{tmp_path}/my orders`"
    hc.sql(spark, f"CREATE TABLE {place} (id INT, v STRING); INSERT INTO {place} VALUES (1, 'a'), (2, 'b')")
    merged = f"MERGE INTO {place} USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert hc.sql(spark, merged).collect()[0].num_deleted_rows == 1
    assert [tuple(row) for row in hc.sql(spark, f"SELECT * FROM {place}").collect()] == [(1, "a")]
    with pytest.raises(NotFoundError, match="by path"):
        hc.sql(spark, "OPTIMIZE orders")


def test_what_is_sparks_goes_to_spark(spark, made, tmp_path):
    made.sql(f"CREATE TABLE spark_own USING parquet LOCATION '{tmp_path}/own' AS SELECT k FROM ids")
    try:
        made.sql("INSERT INTO spark_own SELECT k + 1 FROM ids")
        assert rows(made, "SELECT k FROM spark_own") == [(10,), (11,), (15,), (16,)]
        assert rows(made, "SELECT count(*) FROM spark_own JOIN ids USING (k)") == [(2,)]
        assert "spark_own" in [row.tableName for row in made.sql("SHOW TABLES").collect()]
        assert made.sql("DESCRIBE spark_own").collect()[0].col_name == "k"
    finally:
        spark.sql("DROP TABLE spark_own")
    assert "FileScan parquet" in made.sql("EXPLAIN SELECT * FROM ids").collect()[0][0]


def test_names_and_statements_that_are_computed_mean_tables_of_the_lake(spark, lake):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW t AS SELECT -1 AS id")
    spark.sql("DECLARE OR REPLACE VARIABLE called = 't'")
    try:
        assert rows(lake, "SELECT max(id) FROM IDENTIFIER('t')") == [(4,)]
        assert rows(lake, "SELECT IDENTIFIER('o.id') FROM IDENTIFIER(called) o WHERE id = :id", {"id": 2}) == [(2,)]
        assert rows(lake, "SELECT count(*) FROM IDENTIFIER(:name)", {"name": "t"}) == [(4,)]
        lake.sql("UPDATE IDENTIFIER('t') SET name = 'x' WHERE id = 1")
        lake.sql("INSERT INTO IDENTIFIER(lower('T')) VALUES (5, 'n5', 5)")
        assert rows(lake, "EXECUTE IMMEDIATE 'SELECT name FROM t WHERE id = ?' USING 1") == [("x",)]
        lake.sql("EXECUTE IMMEDIATE 'DELETE FROM t WHERE id > :low' USING (2 + 1 AS low)")
        assert rows(lake, "SELECT id FROM t") == [(1,), (2,), (3,)]
        lake.sql("EXECUTE IMMEDIATE 'SELECT upper(?)' INTO called USING 'a'")
        assert rows(lake, "SELECT called") == [("A",)]
        for text in (
            "SET VAR called = (SELECT max(name) FROM t)",
            "EXECUTE IMMEDIATE 'SELECT max(name) FROM t' INTO called",
            "BEGIN UPDATE t SET name = 'y'; END",
        ):
            with pytest.raises(UnsupportedError):
                lake.sql(text)
        with pytest.raises(InputError, match="IDENTIFIER takes a constant"):
            lake.sql("SELECT * FROM IDENTIFIER(id)")
    finally:
        spark.catalog.dropTempView("t")
        spark.sql("DROP TEMPORARY VARIABLE called")


def test_files_of_spark_are_read_by_their_path_beside_tables_of_a_lake(spark, lake, tmp_path_factory):
    files = tmp_path_factory.mktemp("files") / "ids"
    spark.range(3, 6).write.parquet(str(files))
    assert rows(lake, f"SELECT id FROM parquet.`{files}` JOIN t USING (id)") == [(3,), (4,)]
    with pytest.raises((PySparkException, NotFoundError), match="nowhere"):
        lake.sql(f"SELECT id FROM parquet.`{files}/nowhere`")


@pytest.mark.connect
def test_a_lake_tells_which_tables_it_has(spark, made):
    spark.range(1).createOrReplaceTempView("ours_not")
    try:
        shown = {tuple(row) for row in made.sql("SHOW TABLES").collect()}
        assert {("sales", "orders", False), ("", "ids", False), ("", "ours_not", True)} <= shown
        assert rows(made, "SHOW TABLES IN sales") == [("sales", "orders", False)]
        assert rows(made, "SHOW TABLES IN old") == [("old", "orders", False)], "made by SQL and not used since"
        assert [row[1] for row in rows(made, "SHOW TABLES LIKE 'id*|or*'")] == ["ids", "orders", "orders"]
    finally:
        spark.catalog.dropTempView("ours_not")


def test_a_long_description_ends_with_the_details(made):
    told = [tuple(row)[:2] for row in made.sql("DESCRIBE EXTENDED sales.orders").collect()]
    assert told[0] == ("id", "bigint")
    assert ("location", made.entry("sales.orders").url) in told[told.index(("# Detailed Table Information", "")) :]


@pytest.mark.connect
def test_the_change_feed_is_a_function_of_a_table(made):
    text = "SELECT c.id, _change_type FROM table_changes('sales.orders', {}) c JOIN ids ON true WHERE k = 10"
    assert rows(made, text.format("2")) == [(3, "insert")]
    assert rows(made, text.format("1, 1")) == [(1, "insert"), (2, "insert")]
    assert rows(made, "SELECT count(*) FROM table_changes('sales.orders', 0)") == [(3,)]
    with pytest.raises(UnsupportedError, match="the first version or time"):
        made.sql("SELECT * FROM table_changes('sales.orders')")


def test_statements_run_one_after_the_other_until_one_is_refused(lake):
    with pytest.raises(UnsupportedError):
        lake.sql("DELETE FROM t WHERE id = 1; VACUUM t LITE FULL; DELETE FROM t WHERE id = 2")
    assert rows(lake, "SELECT id FROM t") == [(2,), (3,), (4,)]


def test_nothing_stays_behind_in_the_session(spark, made):
    before = {each.name for each in spark.catalog.listTables()}
    made.sql("SELECT * FROM ids").collect()
    with pytest.raises(HaloclineError):
        made.sql("DELETE FROM sales.orders WHERE id IN (SELECT k FROM ids) AND nonsense")
    assert {each.name for each in spark.catalog.listTables()} == before


@pytest.mark.parametrize("text", ["", " -- nothing\n", ";"])
def test_no_statement_is_told(made, text):
    with pytest.raises(InputError, match="no statement"):
        made.sql(text)
