"""SQL that changes rows: inserts, updates, deletes and merges go through the verbs of the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.sql import rows

from halocline.errors import ConstraintError, InputError, SchemaError, UnsupportedError
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.session.session import settings

CREATE = """
    CREATE TABLE sales.orders (
        id BIGINT NOT NULL COMMENT 'the key', name STRING DEFAULT 'none', day DATE,
        y INT GENERATED ALWAYS AS (year(day)), CONSTRAINT positive CHECK (id > 0)
    ) USING delta PARTITIONED BY (day) COMMENT 'all orders' TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
"""


def test_parameters_reach_queries_and_changes(lake):
    assert rows(lake, "SELECT id FROM t WHERE id = :a", {"a": 2}) == [(2,)]
    assert rows(lake, "SELECT id FROM t WHERE id > ? AND name <> ?", [3, "x'y"]) == [(4,)]
    lake.sql("UPDATE t SET name = :n WHERE id = :a", {"a": 2, "n": "it's {so}"})
    assert rows(lake, "SELECT name FROM t WHERE id = 2") == [("it's {so}",)]
    with pytest.raises(InputError, match="single statement"):
        lake.sql("SELECT 1; SELECT :a", {"a": 1})


def test_columns_that_differ_in_more_than_case_get_their_own_defaults(lake):
    feature = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    lake.sql(f"CREATE TABLE s (strasse INT DEFAULT 1, `stra\u00dfe` INT DEFAULT 2) {feature}")
    lake.sql("INSERT INTO s VALUES (DEFAULT, DEFAULT)")
    assert rows(lake, "SELECT * FROM s") == [(1, 2)]


def test_rows_are_changed_by_our_verbs(lake):
    assert rows(lake, "UPDATE t AS o SET o.name = concat(o.name, '!') WHERE o.id = 1 -- only one") == [(1,)]
    assert rows(lake, "DELETE FROM t WHERE id IN (SELECT id FROM t VERSION AS OF 0 WHERE name = 'n2')") == [(1,)]
    merged = """
        WITH s AS (SELECT 1 id, 'm' name UNION ALL SELECT 9, 'n')
        MERGE INTO t USING s ON t.id = s.id
        WHEN MATCHED AND s.name = CASE WHEN true THEN 'm' END THEN UPDATE SET t.name = s.name
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)
        WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE
    """
    assert rows(lake, merged) == [(3, 1, 1, 1)]
    assert rows(lake, "SELECT id, name FROM t") == [(1, "m"), (3, "n3"), (9, "n")]
    assert [entry.info.values["operation"] for entry in lake.table("t").history()][:3] == ["MERGE", "DELETE", "UPDATE"]


@pytest.mark.parametrize("source", ["t VERSION AS OF 0 AS s", "t FOR VERSION AS OF 0 s", "t VERSION AS OF 0 s"])
def test_an_older_version_of_a_table_is_merged_into_it(lake, source):
    lake.sql("DELETE FROM t WHERE id > 1")
    lake.sql(f"MERGE INTO t USING {source} ON t.id = s.id WHEN NOT MATCHED AND s.id < 4 THEN INSERT *")
    assert rows(lake, "SELECT id FROM t") == [(1,), (2,), (3,)]


def test_columns_may_be_named_with_all_of_their_table(lake):
    lake.sql("CREATE TABLE a.new AS SELECT 1L AS id, 'one' AS name UNION ALL SELECT 8, 'eight'")
    lake.sql("CREATE TABLE a.t AS SELECT * FROM t")
    lake.sql("""
        MERGE INTO a.t USING a.new ON a.t.id = a.new.id
        WHEN MATCHED AND a.t.part = 1 THEN UPDATE SET a.t.name = concat(a.t.name, a.new.name)
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (a.new.id, a.new.name)
    """)
    lake.sql("UPDATE a.t SET name = upper(a.t.name) WHERE id IN (SELECT a.new.id FROM a.new)")
    lake.sql("DELETE FROM a.t WHERE a.t.id BETWEEN 2 AND 4")
    assert rows(lake, "SELECT id, name FROM a.t") == [(1, "N1ONE"), (8, "EIGHT")]
    with pytest.raises(InputError, match="no column 'nam'") as refused:
        lake.sql("UPDATE a.t SET nam = 'x'")
    assert refused.value.sides["nearest"] == "name"


def test_rows_are_inserted_by_position_by_name_and_in_place_of_others(lake):
    lake.sql("INSERT INTO t BY NAME SELECT 7 AS part, 5 AS id, 'five' AS name")
    lake.sql("INSERT INTO t WITH x AS (SELECT 6) SELECT *, 'six', 8 FROM x")
    lake.sql("INSERT INTO TABLE t (name, id) VALUES ('seven', 7)")
    assert rows(lake, "SELECT id, name, part FROM t WHERE id > 4") == [
        (5, "five", 7),
        (6, "six", 8),
        (7, "seven", None),
    ]
    lake.sql("INSERT INTO t REPLACE WHERE part = 7 VALUES (50, 'fifty', 7)")
    assert rows(lake, "SELECT id FROM t WHERE part = 7") == [(50,)]
    lake.sql("INSERT OVERWRITE t SELECT id, name, part FROM t WHERE id < 3")
    assert rows(lake, "SELECT id FROM t") == [(1,), (2,)]
    for text in ("INSERT INTO t VALUES (1)", "INSERT INTO t (id, name) SELECT 1", "INSERT INTO t SELECT 1, 'a', 2, 3"):
        with pytest.raises(SchemaError, match="columns"):
            lake.sql(text)


def test_fields_of_structs_are_inserted_by_position_unless_by_name(lake):
    lake.sql("CREATE TABLE n (id INT, s STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<x: INT, y: INT>>)")
    lake.sql("INSERT INTO n VALUES (1, struct(1, 2), array(struct(3, 4)))")
    lake.sql("INSERT INTO n (s, id) SELECT named_struct('y', 1, 'x', 2), 2")
    lake.sql("INSERT INTO n BY NAME SELECT named_struct('y', 1, 'x', 2) AS s, 3 AS id")
    assert rows(lake, "SELECT id, s.x, s.y, l[0].x, l[0].y FROM n") == [
        (1, 1, 2, 3, 4),
        (2, 1, 2, None, None),
        (3, 2, 1, None, None),
    ]
    for text in (
        "INSERT INTO n (id, s) VALUES (4, struct(1))",
        "INSERT INTO n BY NAME SELECT 4 AS id, struct(1, 2) AS s",
    ):
        with pytest.raises(SchemaError, match="do not fit"):
            lake.sql(text)


def test_the_word_default_stands_for_what_a_column_gets_by_itself(lake):
    lake.sql("CREATE TABLE d (id INT, a STRING DEFAULT concat('x', 'y'), b INT, n BIGINT GENERATED ALWAYS AS IDENTITY)")
    lake.sql("INSERT INTO d (id, a, b) VALUES (1, DEFAULT, default), (2, 'DEFAULT', 5)")
    lake.sql("INSERT INTO d (b, id) VALUES (6, 3); UPDATE d SET a = DEFAULT, b = DEFAULT WHERE id = 2")
    assert rows(lake, "SELECT id, a, b FROM d") == [(1, "xy", None), (2, "xy", None), (3, "xy", 6)]
    with pytest.raises(SchemaError, match="fills it by itself"):
        lake.sql("INSERT INTO d VALUES (1, 'a', 2, DEFAULT)")


def test_partitions_without_a_value_are_those_of_the_rows(lake):
    lake.sql("CREATE TABLE p (id INT, a INT, b INT) PARTITIONED BY (a, b)")
    lake.sql("INSERT INTO p PARTITION (a = 1, b) SELECT 7, 2")
    lake.sql("INSERT INTO p PARTITION (a, b) SELECT 8, 3, 4")
    assert rows(lake, "SELECT id, a, b FROM p") == [(7, 1, 2), (8, 3, 4)]
    with pytest.raises(SchemaError, match="no partition column"):
        lake.sql("INSERT INTO p PARTITION (id) SELECT 8, 3, 4")


@pytest.mark.parametrize(("mode", "left"), [("static", []), ("dynamic", [(2, 1, 3)])])
def test_partitions_that_rows_name_in_part_are_replaced_as_the_session_says(lake, mode, left):
    key = "spark.sql.sources.partitionOverwriteMode"
    lake.sql("CREATE TABLE p (id INT, a INT, b INT) PARTITIONED BY (a, b)")
    lake.sql("INSERT INTO p VALUES (1, 1, 2), (2, 1, 3), (3, 4, 2)")
    with settings(lake.spark, {key: mode}):
        lake.sql("INSERT OVERWRITE p PARTITION (a = 1, b) SELECT 7, 2")
        assert rows(lake, "SELECT id, a, b FROM p") == [*left, (3, 4, 2), (7, 1, 2)]
        lake.sql("INSERT OVERWRITE p PARTITION (a = 4, b = 2) SELECT 8 WHERE false")
        assert rows(lake, "SELECT id, a, b FROM p") == [*left, (7, 1, 2)]
        lake.sql("INSERT OVERWRITE t SELECT 9, 'n', 1")
        assert rows(lake, "SELECT id FROM t") == [(9,)]


def test_text_is_inserted_into_columns_of_other_types_where_it_stands_for_a_value(lake):
    lake.sql("CREATE TABLE v (i INT, d DATE, t TIMESTAMP, b BOOLEAN, n DECIMAL(5,2))")
    lake.sql("INSERT INTO v VALUES ('7', '2026-11-01', '2026-11-01 10:00:00', 'true', '9.999')")
    found = rows(lake, "SELECT i, CAST(d AS STRING), CAST(t AS STRING), b, CAST(n AS STRING) FROM v")
    assert found == [(7, "2026-11-01", "2026-11-01 10:00:00", True, "10.00")]
    for column, text in (("i", "x"), ("d", "2026-13-01"), ("b", "perhaps"), ("n", "1e9")):
        with pytest.raises(ConstraintError, match=f"does not fit into column {column}"):
            lake.sql(f"INSERT INTO v ({column}) VALUES ('{text}')")


def test_a_partition_that_is_named_is_the_one_that_is_replaced(lake):
    lake.sql("CREATE TABLE p PARTITIONED BY (part) AS SELECT * FROM t")
    lake.sql("INSERT OVERWRITE p PARTITION (part = 1) SELECT 100, 'new'")
    assert rows(lake, "SELECT id, part FROM p") == [(2, 0), (4, 0), (100, 1)]
    lake.sql("INSERT INTO p PARTITION (part = 0) (name, id) VALUES ('z', 6)")
    assert rows(lake, "SELECT id FROM p WHERE part = 0") == [(2,), (4,), (6,)]


def test_a_with_stands_before_an_update_and_a_delete(lake):
    lake.sql("CREATE TABLE ids AS SELECT 2L AS k")
    few = "WITH few AS (SELECT k FROM ids), more AS (SELECT k + 1 AS k FROM few)"
    lake.sql(f"{few} UPDATE t SET name = (SELECT max(k) FROM more) WHERE id IN (SELECT k FROM few)")
    lake.sql(f"{few} DELETE FROM t WHERE id IN (WITH own AS (SELECT k + 1 AS k FROM more) SELECT k FROM own)")
    lake.sql(f"{few} UPDATE t SET part = 9 WHERE id = 1")
    merge = f"{few} MERGE INTO t USING few ON t.id = few.k WHEN MATCHED THEN UPDATE SET part = (SELECT k FROM more)"
    lake.sql(merge)
    assert rows(lake, "SELECT * FROM t") == [(1, "n1", 9), (2, "3", 3), (3, "n3", 1)]


def test_rows_are_replaced_by_name(lake):
    lake.sql("INSERT INTO t BY NAME REPLACE WHERE id = 4 SELECT 'new' AS name, 4L AS id, 0L AS part")
    assert rows(lake, "SELECT * FROM t WHERE id > 2") == [(3, "n3", 1), (4, "new", 0)]


def test_a_subquery_of_other_words_never_reaches_rows_that_it_does_not_mean(spark, lake):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW some AS SELECT 2L AS id")
    try:
        with pytest.raises(UnsupportedError, match="use MERGE"):
            lake.sql("DELETE FROM t WHERE EXISTS (FROM some |> WHERE some.id = t.id)")
        assert lake.table("t").version == 0
    finally:
        spark.catalog.dropTempView("some")


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("INSERT INTO n VALUES (NULL, NULL)", [(1, 2), (None, None)]),
        ("INSERT INTO n (a) VALUES (DEFAULT)", [(1, 2), (None, None)]),
        ("INSERT INTO n SELECT NULL, NULL", [(1, 2), (None, None)]),
        ("INSERT INTO n (s) SELECT named_struct('x', NULL)", [(1, 2), (None, None)]),
        ("INSERT OVERWRITE n (a) VALUES (NULL)", [(None, None)]),
        ("MERGE INTO n USING (SELECT NULL AS b) v ON false WHEN NOT MATCHED THEN INSERT (a) VALUES (NULL)", None),
        ("MERGE INTO n USING (SELECT NULL AS a, NULL AS s) v ON n.a = v.a WHEN NOT MATCHED THEN INSERT *", None),
    ],
)
def test_rows_of_nulls_alone_are_rows_of_the_table(lake, statement, found):
    lake.sql("CREATE TABLE n (a INT, s STRUCT<x: INT>)")
    lake.sql("INSERT INTO n VALUES (1, named_struct('x', 2))")
    lake.sql(statement)
    stored = sorted(map(tuple, lake.sql("SELECT a, s.x FROM n").collect()), key=str)
    assert stored == (found or [(1, 2), (None, None)])


def test_a_table_of_nulls_without_a_type_is_refused(lake):
    with pytest.raises(SchemaError, match="only void columns") as refused:
        lake.sql("CREATE TABLE v AS SELECT NULL AS a")
    assert "CAST(NULL AS INT)" in str(refused.value)
    with pytest.raises(SchemaError, match="s has only void columns"):
        lake.sql("CREATE TABLE v AS SELECT 1 AS a, named_struct('x', NULL) AS s")
    with pytest.raises(SchemaError, match="only void columns"):
        lake.table("t").overwrite(lake.spark.sql("SELECT NULL AS a"), schema_mode="overwrite")


def test_manifests_follow_every_statement_where_the_table_says_so(lake):
    enabled = "TBLPROPERTIES ('delta.compatibility.symlinkFormatManifest.enabled' = 'true')"
    lake.sql(f"CREATE TABLE m (id INT, p STRING) PARTITIONED BY (p) {enabled}")
    folder = lake.table("m").store.address("_symlink_format_manifest")
    for statement in (
        "INSERT INTO m VALUES (1, 'a'), (2, 'b'), (3, 'b')",
        "INSERT INTO m VALUES (4, 'a')",
        "UPDATE m SET id = 5 WHERE id = 2",
        "MERGE INTO m USING (SELECT 6 id, 'c' p) v ON m.id = v.id WHEN NOT MATCHED THEN INSERT *",
        "OPTIMIZE m",
        "DELETE FROM m WHERE p = 'a'",
    ):
        lake.sql(statement)
        lines = {line for each in Path(folder).rglob("manifest") for line in each.read_text().splitlines()}
        table = lake.table("m")
        files = map(table.store.address, Snapshot.load(table.store).files()["path"].to_pylist())
        assert lines == {f"file:{each}" for each in files}, statement
    assert {each.name for each in Path(folder).iterdir() if any(each.iterdir())} == {"p=b", "p=c"}
