"""SQL that Halocline does not run: it is refused as a whole, in its own words, and with the nearest name."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from tests.support.sql import rows

from halocline.errors import HaloclineError, InputError, NotFoundError, UnsupportedError

DAY = "DATE'2026-11-0{}'"
CREATE = """
    CREATE TABLE sales.orders (
        id BIGINT NOT NULL COMMENT 'the key', name STRING DEFAULT 'none', day DATE,
        y INT GENERATED ALWAYS AS (year(day)), CONSTRAINT positive CHECK (id > 0)
    ) USING delta PARTITIONED BY (day) COMMENT 'all orders' TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
"""


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD COLUMN z INT AFTER nowhere",
        "ALTER TABLE t ALTER COLUMN id AFTER id",
        "ALTER TABLE t ALTER COLUMN id SET DEFAULT 1",
        "ALTER TABLE t ALTER COLUMN id SYNC IDENTITY",
        "ALTER TABLE t CLUSTER BY NONE AT ALL",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t SET LOCATION '/x'",
        "ALTER TABLE t ALTER COLUMN id SET NOT NULL",
        "ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY NOW",
        "UPDATE t SET id = 1, id = 2",
        "UPDATE t SET name = 'x' WHERE id = 1 LIMIT 3",
        "UPDATE t SET name = 'x' FROM other WHERE t.id = other.id",
        "DELETE FROM t USING other WHERE t.id = other.id",
        "DELETE FROM t WHERE id = 1 ORDER BY id LIMIT 1",
        "MERGE INTO t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * EXCEPT (id)",
        "MERGE INTO t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN DO NOTHING",
        "MERGE INTO t USING (SELECT 1 id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES (1)",
        "MERGE INTO t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN DELETE RETURNING *",
        "INSERT INTO t REPLACE USING (id) SELECT 1, 'a', 1",
        "INSERT INTO t PARTITION (part >= 1) SELECT 1, 'a'",
        "INSERT INTO t (id, id) VALUES (1, 2)",
        "INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT DO NOTHING",
        "OPTIMIZE t FULL ZORDER BY (id)",
        "OPTIMIZE t ZORDER BY",
        "VACUUM t RETAIN 1 DAYS",
        "VACUUM t LITE FULL",
        "VACUUM t DRY RUN DRY RUN",
        "ALTER TABLE t REPLACE COLUMNS (id BIGINT NOT NULL, name STRING, part BIGINT)",
        "ALTER TABLE t REPLACE COLUMNS (id BIGINT FIRST, name STRING, part BIGINT)",
        "ALTER TABLE t REPLACE COLUMNS (id BIGINT GENERATED ALWAYS AS (part), name STRING, part BIGINT)",
        "ALTER TABLE t CHANGE COLUMN id other BIGINT",
        "ALTER TABLE t CHANGE COLUMN id id BIGINT COMMENT 'a' FIRST",
        "ALTER TABLE t CHANGE COLUMN id id BIGINT NOT NULL",
        "SHOW PARTITIONS t PARTITION (part = 1)",
        "SHOW CREATE TABLE t AS SERDE",
        "VACUUM t USING INVENTORY (SELECT 1)",
        "RESTORE TABLE t TO VERSION AS OF 0 CASCADE",
        "TRUNCATE TABLE t PARTITION (part = 1)",
        "DESCRIBE HISTORY t LIMIT 1 OFFSET 2",
        "SHOW TBLPROPERTIES t ('a') EXTRA",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "CREATE TABLE u (id INT, CONSTRAINT k PRIMARY KEY (id))",
        "CREATE TABLE u (id INT) CLUSTERED BY (id) INTO 4 BUCKETS",
        "CREATE TABLE u (id INT) PARTITIONED BY (days(id))",
        "CREATE TABLE u (id INT) COMMENT 'a' COMMENT 'b'",
        "CREATE TABLE u (id INT) AS SELECT 1 AS id",
        "CREATE OR REPLACE TABLE IF NOT EXISTS u (id INT)",
        "CREATE TABLE u (id INT) USING hudi LOCATION '/elsewhere'",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM t",
        "DROP TABLE t",
        "DROP TABLE IF EXISTS t",
        "ANALYZE TABLE t COMPUTE STATISTICS",
        "CACHE TABLE t",
        "REFRESH TABLE t",
        "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
        "GENERATE iceberg_manifest FOR TABLE t",
        "DESCRIBE EXTENDED t PARTITION (id = 1)",
        "SELECT * FROM t@v0",
        "SELECT count(*) FROM t@v0",
        "SELECT * FROM t FOR SYSTEM_VERSION AS OF 0 WHERE",
        "CONVERT TO DELTA t",
        "UPDATE t AS o SET name = 'x' WHERE EXISTS (SELECT 1 FROM ids WHERE ids.k = o.id)",
        "UPDATE t SET name = 'x' RETURNING",
        "UPDATE t SET name = 'x' AS y WHERE id = 1",
        "DELETE FROM t WHERE id = 1 CASCADE",
        "INSERT INTO t PARTITION (part = 1 more) VALUES (1, 'a')",
        "INSERT INTO t REPLACE WHERE id = 1 more SELECT 1, 'a', 1",
        "MERGE INTO t USING (SELECT 1 id) s ON t.id = s.id more WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED AND s.id = 1 more THEN DELETE",
        "MERGE INTO t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET part = s.id more",
        "MERGE INTO t USING (SELECT 9 id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id more)",
        "CREATE TABLE u (id INT DEFAULT 5 more) TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "CREATE TABLE u (b BOOLEAN DEFAULT true IS NOT NULL) "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "CREATE TABLE u (id INT, CONSTRAINT c CHECK (id > 0 more))",
    ],
)
def test_what_is_not_understood_as_a_whole_does_nothing(unharmed, text):
    # Spark's own refusals are as good; what must not be is that the statement, or a part of it, was done.
    with pytest.raises((HaloclineError, PySparkException)):
        unharmed.sql(text)
    assert unharmed.table("t").version == 0, "a part of the statement was done"
    assert unharmed.names == ["t"]


@pytest.mark.parametrize(
    "value",
    ["row_number() OVER (ORDER BY id)", "max(name)", "explode(array('a', 'b'))", "(SELECT 'x') || first(name) OVER ()"],
)
def test_a_value_that_other_rows_decide_is_refused(unharmed, value):
    merge = f"MERGE INTO t USING (SELECT 1L AS k) ON id = k WHEN MATCHED THEN UPDATE SET name = {value}"
    for text in (f"UPDATE t SET name = {value} WHERE id = 4", merge):
        with pytest.raises(InputError, match=r"the row alone that decides it|generator") as refused:
            unharmed.sql(text)
        assert "__halocline" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t AS x VALUES (9, 'a', 1)",
        "INSERT INTO t REPLACE USING (id) SELECT 9, 'a', 1",
        "INSERT OVERWRITE t IF NOT EXISTS SELECT 9, 'a', 1",
        "FROM range(1) INSERT INTO t SELECT 9, 'a', 1",
        "EXPLAIN INSERT INTO t SELECT 9, 'a', 1",
        "EXPLAIN UPDATE t SET name = 'a'",
        "EXPLAIN WITH a AS (SELECT 1) DELETE FROM t",
    ],
)
def test_a_change_in_other_words_is_refused_in_ours(unharmed, text):
    with pytest.raises(UnsupportedError, match="the statement is not done"):
        unharmed.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "TABLE t",
        "TABLE t LIMIT 2",
        "SELECT * FROM t WITH ('a' = 'b')",
        "FROM t |> UNION ALL (TABLE t)",
        "SELECT 1 FROM range(1) WHERE EXISTS (TABLE t)",
    ],
)
def test_a_table_of_spark_is_never_taken_for_one_of_the_lake(spark, unharmed, text):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW t AS SELECT -1 AS id")
    try:
        with pytest.raises(UnsupportedError, match="in a way that is not understood"):
            unharmed.sql(text)
    finally:
        spark.catalog.dropTempView("t")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("OPTMIZE t", "OPTIMIZE"),
        ("Selct 1", "SELECT"),
        ("DELETE FROM t WHER id = 1", "WHERE"),
        ("ALTER TABLE t RENAM COLUMN id TO key", "RENAME"),
        ("MERGE INTO t USING t AS s ON true WHEN MATHCED THEN DELETE", "MATCHED"),
        ("SELECT * FROM t VERSON AS OF 0", "VERSION"),
        ("SELECT * FROM t TIMESTMP AS OF '2026-11-01'", "TIMESTAMP"),
        ("INSERT OVERWRITE t SELCT 1, 'a', 1", "SELECT"),
        ("INSERT INTO t REPLACE WHER part = 1 SELECT 1, 'a', 1", "WHERE"),
        ("CREATE TABEL u (id INT)", "TABLE"),
        ("CREATE TABLE u SHALOW CLONE t", "SHALLOW"),
        ("DESCRIBE HISTRY t", "HISTORY"),
        ("DESC DETIAL t", "DETAIL"),
        ("SHOW TBALES", "TABLES"),
        ("SHOW TBLPROPERTEIS t", "TBLPROPERTIES"),
        ("SHOW CREATE TABEL t", "TABLE"),
    ],
)
def test_a_mistyped_word_of_a_statement_is_answered_with_the_nearest(unharmed, text, meant):
    with pytest.raises(UnsupportedError, match=f"Did you mean {meant}"):
        unharmed.sql(text)
    assert unharmed.table("t").version == 0, "a part of the statement was done"


@pytest.mark.connect
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SELECT * FROM table_change('t', 0)", "table_changes"),
        ("SELECT * FROM t JOIN tablechanges('t', 0) AS c ON true", "table_changes"),
        ("SELECT * FROM halocline_serch('t', 'x')", "halocline_search"),
        ("INSERT INTO t SELECT * FROM table_change('t', 0)", "table_changes"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM table_change('t', 0))", "table_changes"),
        (
            "MERGE INTO t USING (SELECT * FROM table_change('t', 0)) s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "table_changes",
        ),
        ("CREATE TABLE u AS SELECT * FROM table_change('t', 0)", "table_changes"),
        ("CREATE TABLE u (id INT) USING detla", "delta"),
        ("SELECT * FROM detla.`/lake/t`", "delta"),
    ],
)
def test_a_mistyped_function_or_format_is_answered_with_the_nearest(unharmed, text, meant):
    with pytest.raises(InputError) as told:
        unharmed.sql(text)
    assert told.value.sides["nearest"] == meant
    assert unharmed.table("t").version == 0, "a part of the statement was done"
    assert unharmed.names == ["t"]


def test_a_function_or_format_of_somebody_else_stays_sparks(spark, unharmed):
    for text in (
        "SELECT * FROM nothing_like_ours('t')",
        "CREATE TABLE u (id INT) USING kudu_files",
        "SELECT * FROM cobol.`/x`",
    ):
        with pytest.raises((PySparkException, InputError), match=r"nothing_like_ours|kudu_files|cobol"):
            unharmed.sql(text)
    assert unharmed.sql("SELECT * FROM range(2)").count() == 2


@pytest.mark.parametrize(
    "text",
    [
        "OPTIMIZE sales.order",
        "SELECT * FROM sales.order",
        "INSERT INTO sales.order VALUES (1)",
        "SHOW TBLPROPERTIES sales.order",
        "MERGE INTO sales.orders USING sales.order AS s ON s.id = sales.orders.id WHEN MATCHED THEN DELETE",
    ],
)
def test_a_name_that_the_lake_lacks_is_answered_with_the_nearest(made, text):
    with pytest.raises(NotFoundError) as told:
        made.sql(text)
    assert told.value.sides["nearest"] == "sales.orders"


def test_a_property_that_a_table_does_not_have_is_told_as_spark_tells_it_with_the_nearest(made):
    shown = dict(
        rows(made, "SHOW TBLPROPERTIES sales.orders ('delta.enableChangeDataFed', 'delta.appendOnly', 'colour')")
    )
    absent = "Table sales.orders does not have property: "
    nearest = "Did you mean delta.enableChangeDataFeed?"
    assert shown.pop("delta.enableChangeDataFed") == f"{absent}delta.enableChangeDataFed. {nearest}"
    assert shown == {"delta.appendOnly": f"{absent}delta.appendOnly", "colour": f"{absent}colour"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT * FROM table_changes('sales.ordres', 0)", r"nearest +sales\.orders"),
        ("SELECT * FROM sales.orders TIMESTAMP AS OF 'yesterdy'", "'yesterdy' is not a time"),
        ("SELECT * FROM sales.orders TIMESTAMP AS OF '2026-13-45'", "'2026-13-45' is not a time"),
        ("RESTORE sales.orders TO TIMESTAMP AS OF 'x'", "'x' is not a time"),
    ],
)
def test_tables_and_times_that_are_none_are_told_in_our_words(made, text, told):
    with pytest.raises(InputError, match=told):
        made.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET name = (SELECT name FROM u)",
        "DELETE FROM t WHERE id = (SELECT id FROM u)",
        "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET name = (SELECT name FROM u)",
    ],
)
def test_a_value_that_a_subquery_has_several_of_is_refused_and_changes_nothing(lake, text):
    lake.sql("CREATE TABLE u AS SELECT id, 'n' AS name FROM range(1, 3)")
    before = lake.table("t").version
    with pytest.raises(InputError, match="More than one row returned by a subquery"):
        lake.sql(text)
    assert lake.table("t").version == before
