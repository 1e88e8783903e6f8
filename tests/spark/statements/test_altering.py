"""SQL that changes tables: their columns, properties, files and copies."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.support.sql import rows

import halocline as hc
from halocline.errors import ConstraintError, HaloclineError, InputError, SchemaError, UnsupportedError

CREATE = """
    CREATE TABLE sales.orders (
        id BIGINT NOT NULL COMMENT 'the key', name STRING DEFAULT 'none', day DATE,
        y INT GENERATED ALWAYS AS (year(day)), CONSTRAINT positive CHECK (id > 0)
    ) USING delta PARTITIONED BY (day) COMMENT 'all orders' TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
"""


def test_a_table_is_clustered_in_full_where_it_has_clustering_columns(lake):
    with pytest.raises(InputError, match="optimized that way"):
        lake.sql("OPTIMIZE t FULL")
    lake.sql("CREATE TABLE c CLUSTER BY (id) AS SELECT * FROM t; OPTIMIZE c; ALTER TABLE c CLUSTER BY (part)")
    before = lake.table("c").snapshot().version
    lake.sql("OPTIMIZE c")
    assert lake.table("c").snapshot().version == before, "what was clustered by another column stays as it is"
    lake.sql("OPTIMIZE c FULL")
    assert lake.table("c").snapshot().version == before + 1
    assert rows(lake, "SELECT id FROM c") == [(1,), (2,), (3,), (4,)]


def test_columns_are_declared_anew(lake):
    lake.sql(
        "ALTER TABLE t REPLACE COLUMNS (note DATE COMMENT 'new', part BIGINT, ID BIGINT COMMENT 'key', name STRING)"
    )
    told = [("note", "date", "new"), ("part", "bigint", None), ("id", "bigint", "key"), ("name", "string", None)]
    assert [tuple(row) for row in lake.sql("DESCRIBE t").collect()] == told
    assert rows(lake, "SELECT id, name, note FROM t WHERE id = 1") == [(1, "n1", None)]
    assert lake.table("t").history(1)[0].operation == "REPLACE COLUMNS"
    with pytest.raises(SchemaError, match="column mapping"):
        lake.sql("ALTER TABLE t REPLACE COLUMNS (id BIGINT, name STRING)")


def test_text_of_limited_length_comes_in_as_a_new_column(lake):
    lake.sql("ALTER TABLE t ADD COLUMNS (v VARCHAR(2), c CHAR(3) FIRST)")
    lake.sql("INSERT INTO t (id, v, c) VALUES (9, 'ab', 'x')")
    assert rows(lake, "SELECT c, v FROM t WHERE id = 9") == [("x  ", "ab")]
    with pytest.raises(HaloclineError, match="v"):
        lake.sql("INSERT INTO t (id, v) VALUES (10, 'abc')")


def test_upkeep_and_what_a_table_tells_of_itself(lake):
    path, version, added, _ = lake.sql("OPTIMIZE t WHERE true ZORDER BY (id, name)").collect()[0]
    assert (path, version, added) == (lake.entry("t").url, 1, 1)
    assert rows(lake, "VACUUM t RETAIN 200 HOURS DRY RUN") == []
    assert rows(lake, "VACUUM t FULL RETAIN 200 HOURS DRY RUN") == []
    assert rows(lake, "VACUUM t DRY RUN RETAIN 200 HOURS LITE") == []
    assert [row.operation for row in lake.sql("DESC HISTORY t LIMIT 1").collect()] == ["OPTIMIZE"]
    assert lake.sql("DESCRIBE DETAIL t").collect()[0].format == "delta"
    lake.sql("DELETE FROM t; RESTORE TABLE t TO VERSION AS OF 1")
    assert len(rows(lake, "SELECT * FROM t")) == 4
    lake.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 7 days', my.key = 3)")
    assert rows(lake, "SHOW TBLPROPERTIES t ('my.key')") == [("my.key", "3")]
    assert [row[:2] for row in rows(lake, "DESCRIBE TABLE t")] == [
        ("id", "bigint"),
        ("name", "string"),
        ("part", "bigint"),
    ]
    assert rows(lake, "TRUNCATE TABLE t") == [(4,)]
    assert rows(lake, "VACUUM t LITE") == [(lake.entry("t").url,)]


def test_a_table_is_altered_by_every_verb_that_it_has(lake):
    table = lake.table("t")
    for text in (
        "ALTER TABLE t ADD COLUMNS (price DECIMAL(10,2) COMMENT 'eur', s STRUCT<a: INT, b: STRING>)",
        "ALTER TABLE t ADD COLUMN s.c INT",
        "ALTER TABLE t ADD CONSTRAINT cheap CHECK (price IS NULL OR (price < 100))",
        "ALTER TABLE t DROP CONSTRAINT cheap",
        "ALTER TABLE t DROP CONSTRAINT IF EXISTS cheap",
        "ALTER TABLE t SET TBLPROPERTIES (delta.feature.columnMapping 'supported', delta.columnMapping.mode = 'name')",
        "ALTER TABLE t RENAME COLUMN price TO cost",
        "ALTER TABLE t DROP COLUMNS (cost, part)",
        "ALTER TABLE t ALTER COLUMN name COMMENT 'it''s'",
        "COMMENT ON TABLE t IS 'a table'",
        "COMMENT ON COLUMN t.s.a IS 'a field'",
        "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('nothing')",
        "ALTER TABLE t SET TBLPROPERTIES (delta.enableTypeWidening = true)",
        "ALTER TABLE t ADD COLUMN small INT",
        "ALTER TABLE t ALTER COLUMN small TYPE BIGINT",
        "ALTER TABLE t ADD COLUMN tiny SMALLINT COMMENT 'old'",
        "ALTER TABLE t CHANGE COLUMN tiny tiny INT COMMENT 'old'",
        "ALTER TABLE t CHANGE tiny TINY INT COMMENT 'few'",
        "ALTER TABLE t CHANGE COLUMN tiny tiny INT COMMENT 'few' FIRST",
    ):
        lake.sql(text)
    fields = {each["name"]: each for each in table.schema["fields"]}
    assert list(fields) == ["tiny", "id", "name", "s", "small"]
    assert (fields["tiny"]["type"], fields["tiny"]["metadata"]["comment"]) == ("integer", "few")
    assert (fields["small"]["type"], fields["name"]["metadata"]["comment"]) == ("long", "it's")
    assert [each["name"] for each in fields["s"]["type"]["fields"]] == ["a", "b", "c"]
    assert table.detail()["description"] == "a table"
    with pytest.raises(hc.NotYetError):
        lake.sql("ALTER TABLE t DROP FEATURE typeWidening TRUNCATE HISTORY")


def test_tables_are_made_replaced_cloned_and_converted(spark, lake, tmp_path):
    lake.sql("CREATE TABLE IF NOT EXISTS t (nothing INT)")
    assert len(rows(lake, "SELECT * FROM t")) == 4
    lake.sql("CREATE OR REPLACE TABLE t (a INT, b DATE) CLUSTER BY (a) TBLPROPERTIES ('x' = 'y')")
    assert lake.table("t").version == 1
    assert lake.table("t").detail()["clusteringColumns"] == ["a"]
    lake.sql("CREATE TABLE copies.old SHALLOW CLONE t VERSION AS OF 0")
    assert len(rows(lake, "SELECT * FROM copies.old")) == 4
    spark.range(3).selectExpr("id", "id % 2 AS half").write.partitionBy("half").parquet(str(tmp_path / "loose"))
    lake.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/loose` PARTITIONED BY (half BIGINT)")
    assert rows(lake, "SELECT * FROM loose") == [(0, 0), (1, 1), (2, 0)]
    assert rows(lake, f"SELECT count(*) FROM delta.`{tmp_path}/loose` WHERE half = 0") == [(2,)]


def test_columns_move_and_get_defaults_and_numbers(lake):
    lake.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')")
    lake.sql("ALTER TABLE t ADD COLUMNS (first INT FIRST, second INT AFTER ID, last INT)")
    lake.sql("ALTER TABLE t ALTER COLUMN part FIRST")
    lake.sql("ALTER TABLE t CHANGE COLUMN name AFTER last")
    assert lake.sql("SELECT * FROM t").columns == ["part", "first", "id", "second", "last", "name"]
    lake.sql("ALTER TABLE t ALTER COLUMN name SET DEFAULT concat('a', 'b')")
    lake.sql("INSERT INTO t (id) VALUES (9)")
    lake.sql("ALTER TABLE t ALTER COLUMN name DROP DEFAULT")
    lake.sql("INSERT INTO t (id) VALUES (10)")
    assert rows(lake, "SELECT id, name FROM t WHERE id > 3") == [(4, "n4"), (9, "ab"), (10, None)]
    lake.sql("CREATE TABLE numbered (k BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 1 INCREMENT BY 10), v INT)")
    lake.sql("INSERT INTO numbered VALUES (55, 1)")
    lake.sql("ALTER TABLE numbered ALTER COLUMN k SYNC IDENTITY")
    lake.sql("INSERT INTO numbered (v) VALUES (2)")
    assert rows(lake, "SELECT k FROM numbered") == [(55,), (71,)]


def test_rows_are_clustered_otherwise_purged_and_listed(lake, tmp_path):
    lake.sql("ALTER TABLE t CLUSTER BY (part)")
    assert lake.table("t").detail()["clusteringColumns"] == ["part"]
    assert {"clustering", "domainMetadata"} <= lake.table("t").features().keys()
    lake.sql("ALTER TABLE t CLUSTER BY NONE")
    assert lake.table("t").detail()["clusteringColumns"] == []
    lake.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lake.sql("DELETE FROM t WHERE id = 2")
    with pytest.raises(UnsupportedError, match="wrong"):
        lake.sql("GENERATE symlink_format_manifest FOR TABLE t")
    assert lake.sql("REORG TABLE t APPLY (PURGE)").collect()[0].numAddedFiles == 1
    assert lake.table("t").history()[0].operation == "REORG"
    assert rows(lake, "SELECT id FROM t") == [(1,), (3,), (4,)]
    assert lake.sql("REORG TABLE t APPLY (PURGE)").collect()[0].numAddedFiles == 0
    lake.sql("GENERATE symlink_format_manifest FOR TABLE t")
    manifest = (tmp_path / "t" / "_symlink_format_manifest" / "manifest").read_text()
    listed = [line.removeprefix("file:") for line in manifest.splitlines()]
    assert sorted(row[0] for file in listed for row in pq.read_table(file, columns=["id"]).to_pandas().values) == [
        1,
        3,
        4,
    ]
    lake.sql("CREATE OR REPLACE TABLE t DEEP CLONE t VERSION AS OF 0")
    assert len(rows(lake, "SELECT id FROM t")) == 4


def test_dropped_columns_are_purged(lake, tmp_path):
    lake.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.sql("ALTER TABLE t DROP COLUMN name")
    lake.table("t").optimize().execute_purge()
    live = lake.table("t").snapshot().files()["path"].to_pylist()
    assert {name for path in live for name in pq.read_schema(tmp_path / "t" / path).names} == {"id", "part"}


def test_dropped_fields_are_purged_at_every_depth(lake, tmp_path):
    lake.sql(
        "CREATE TABLE deep (id INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, "
        "m MAP<STRING, STRUCT<a: INT, b: INT>>) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    for column in ("s", "l.element", "m.value"):
        lake.sql("INSERT INTO deep VALUES (1, struct(1, 2), array(struct(3, 4)), map('k', struct(5, 6)))")
        lake.sql(f"ALTER TABLE deep DROP COLUMN {column}.b")
        before = lake.table("deep").version
        lake.sql("REORG TABLE deep APPLY (PURGE)")
        assert lake.table("deep").version == before + 1, f"{column}.b is still in the files"
        lake.sql("REORG TABLE deep APPLY (PURGE)")
        assert lake.table("deep").version == before + 1, "nothing was left to purge"
        lake.sql(f"ALTER TABLE deep ADD COLUMN {column}.b INT")
    assert rows(lake, "SELECT s.b, l[0].b, m['k'].b FROM deep WHERE s.b IS NULL") == [(None, None, None)]


def test_columns_are_added_and_moved_inside_lists_and_maps(lake):
    lake.sql("CREATE TABLE deep (id INT, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>)")
    lake.sql("INSERT INTO deep VALUES (1, array(struct(1)), map('k', struct(2)))")
    lake.sql("ALTER TABLE deep ADD COLUMNS (l.element.y INT FIRST)")
    lake.sql("ALTER TABLE deep ADD COLUMN m.value.y STRING")
    lake.sql("ALTER TABLE deep ALTER COLUMN m.value.x AFTER y")
    lake.sql("INSERT INTO deep VALUES (2, array(struct(7, 8)), map('k', struct('a', 9)))")
    found = lake.sql("SELECT id, l, m['k'] AS v FROM deep ORDER BY id")
    assert found.schema.simpleString() == "struct<id:int,l:array<struct<y:int,x:int>>,v:struct<y:string,x:int>>"
    assert found.collect() == [(1, [(None, 1)], (None, 2)), (2, [(7, 8)], ("a", 9))]
    for path in ("l.y", "m.element.y", "id.y"):
        with pytest.raises(HaloclineError, match=r"there is no column|is no struct"):
            lake.sql(f"ALTER TABLE deep ADD COLUMN {path} INT")


def test_limited_text_is_made_longer_by_alter_column(lake):
    lake.sql("CREATE TABLE w (v VARCHAR(3), s STRUCT<x: CHAR(2)>)")
    long = "INSERT INTO w VALUES ('abcd', named_struct('x', 'abc'))"
    with pytest.raises(ConstraintError, match="length of v"):
        lake.sql(long)
    lake.sql("ALTER TABLE w ALTER COLUMN v TYPE VARCHAR(4)")
    lake.sql("ALTER TABLE w CHANGE COLUMN s.x x VARCHAR(3)")
    lake.sql(long)
    with pytest.raises(ConstraintError, match="length of v"):
        lake.sql("INSERT INTO w VALUES ('abcde', NULL)")
    lake.sql("ALTER TABLE w ALTER COLUMN v TYPE STRING")
    lake.sql("INSERT INTO w VALUES ('abcde', NULL)")
    assert rows(lake, "SELECT v, s.x FROM w") == [("abcd", "abc"), ("abcde", None)]
