"""The same statements by both sides, each on its own table: refused alike, and the same rows, columns and terms."""

from __future__ import annotations

import pytest

from halocline.table import Table
from tests.interop_jvm.delta import Ours, Side, Theirs, everything, name
from tests.interop_jvm.test_delta_exchange import columns, properties

pytestmark = pytest.mark.timeout(3600)

DEFAULTS = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
NESTED = "s STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<x: INT, y: INT>>, m MAP<STRING, STRUCT<x: INT, y: INT>>"
THREE = "(SELECT * FROM VALUES {} AS s(id, v, n))"
FIVE = "(1, 'A', 10L), (2, 'B', 20L), (3, 'C', 30L), (6, 'F', 60L), (CAST(NULL AS INT), 'N', 0L)"
TWICE = "(1, 'd1', 1L), (1, 'd2', 2L)"
SCENARIOS: dict[str, tuple[str, ...]] = {
    "dates before the calendar changed": (
        "CREATE TABLE {t} (d DATE, at TIMESTAMP, n TIMESTAMP_NTZ, p DATE) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (DATE'1500-02-28', TIMESTAMP'1500-02-28 01:02:03.456789', "
        "TIMESTAMP_NTZ'1500-02-28 01:02:03.456789', DATE'1500-02-28')",
        "INSERT INTO {t} VALUES (DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00', NULL, DATE'0001-01-01'), "
        "(DATE'1582-10-10', TIMESTAMP'1582-10-10 12:00:00', NULL, DATE'1582-10-10')",
        "UPDATE {t} SET d = d + INTERVAL 1 DAY WHERE p < DATE'1582-10-15'",
        "DELETE FROM {t} WHERE at < TIMESTAMP'1400-01-01 00:00:00'",
    ),
    "partitions and generated dates by time": (
        "CREATE TABLE {t} (id INT, at TIMESTAMP, p TIMESTAMP, g DATE GENERATED ALWAYS AS (CAST(at AS DATE))) "
        "USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} (id, at, p) VALUES (1, '2024-03-10 23:30:00', '2024-03-10 23:30:00'), "
        "(2, '1900-01-01 00:00:00', '1900-01-01 00:00:00'), (3, NULL, NULL)",
        "UPDATE {t} SET id = id + 10 WHERE p = TIMESTAMP'2024-03-10 23:30:00'",
        "DELETE FROM {t} WHERE p = '1900-01-01 00:00:00'",
    ),
    "text of limited length": (
        "CREATE TABLE {t} (id INT, c CHAR(3), v VARCHAR(4), p CHAR(2)) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 'a', 'b', 'x'), (2, 'abc', 'abcd', 'xy'), (3, NULL, NULL, NULL)",
        "INSERT INTO {t} VALUES (5, 'abcd', 'x', 'p')",
        "UPDATE {t} SET c = 'toolong' WHERE id = 1",
        "DELETE FROM {t} WHERE p = 'x' AND id = 4",
        "UPDATE {t} SET id = 100 WHERE c LIKE 'a%' AND length(c) = 3",
    ),
    "numbers that do not fit": (
        "CREATE TABLE {t} (b TINYINT, s SMALLINT, d DECIMAL(5,2), f FLOAT) USING delta",
        "INSERT INTO {t} VALUES (127, -32768, 123.45, 1.1), (NULL, 1, -999.99, 2)",
        "INSERT INTO {t} VALUES (128, 1, 1, 1)",
        "INSERT INTO {t} VALUES (1, 1, 1000, 1)",
        "INSERT INTO {t} VALUES (1, 1, 'x', 1)",
        "INSERT INTO {t} VALUES ('7', '8', '9.999', '2')",
        "UPDATE {t} SET b = b + 1",
        "UPDATE {t} SET d = d / 3 WHERE s = 8",
        "UPDATE {t} SET d = d * 100",
    ),
    "nulls": (
        "CREATE TABLE {t} (id INT, x INT, y STRING) USING delta",
        "INSERT INTO {t} VALUES (1, NULL, 'a'), (2, 2, NULL), (3, 3, 'c'), (NULL, 4, 'd')",
        "DELETE FROM {t} WHERE NOT (x > 2)",
        "UPDATE {t} SET y = 'q' WHERE id <=> NULL",
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (CAST(NULL AS INT), 'n'), (3, 'm') AS s(id, y)) s ON t.id = s.id "
        "WHEN MATCHED AND t.x IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET y = s.y "
        "WHEN NOT MATCHED AND s.id IS NULL THEN INSERT (y) VALUES (s.y) "
        "WHEN NOT MATCHED BY SOURCE AND t.id IS NULL THEN UPDATE SET x = -1",
        "DELETE FROM {t} WHERE id = NULL",
        "DELETE FROM {t} WHERE NULL",
    ),
    "fields of structs": (
        f"CREATE TABLE {{t}} (id INT, {NESTED}) USING delta",
        "INSERT INTO {t} VALUES (1, named_struct('y', 1, 'x', 2), NULL, NULL)",
        "INSERT INTO {t} VALUES (2, struct(1, 2), array(struct(3, 4)), map('k', struct(5, 6)))",
        "INSERT INTO {t} (s, id) VALUES (struct(7, 8), 3)",
        "INSERT INTO {t} VALUES (4, struct(1), NULL, NULL)",
        "INSERT INTO {t} VALUES (4, struct(1, 2, 3), NULL, NULL)",
        "INSERT INTO {t} BY NAME SELECT 5 AS id, named_struct('y', 1, 'x', 2) AS s",
        "UPDATE {t} SET s.x = 50 WHERE id = 1",
        "UPDATE {t} SET s.nope = 1",
        "UPDATE {t} SET l = transform(l, e -> named_struct('x', e.x + 1, 'y', e.y))",
        "DELETE FROM {t} WHERE exists(l, e -> e.x = 3)",
    ),
    "inserts": (
        f"CREATE TABLE {{t}} (id INT NOT NULL, a STRING DEFAULT 'd', p INT) USING delta PARTITIONED BY (p) {DEFAULTS}",
        "INSERT INTO {t} VALUES (1, DEFAULT, 1), (2, 'b', 2)",
        "INSERT INTO {t} (p, id) VALUES (3, 3)",
        "INSERT INTO {t} VALUES (NULL, 'x', 1)",
        "INSERT INTO {t} (a) VALUES ('x')",
        "INSERT INTO {t} BY NAME SELECT 5 AS id, 5 AS p",
        "INSERT INTO {t} BY NAME SELECT 5 AS id, 5 AS nope",
        "INSERT INTO {t} SELECT id + 10, a, p FROM {t} WHERE id < 3",
        "INSERT INTO {t} VALUES ('6', 7, '8')",
        "INSERT INTO {t} VALUES ('x', 7, '8')",
        "INSERT OVERWRITE {t} PARTITION (p = 2) SELECT 22, 'ow'",
        "INSERT INTO {t} PARTITION (p = 9) VALUES (9, 'nine')",
        "INSERT INTO {t} PARTITION (p) SELECT 10, 'dyn', 10",
        "INSERT INTO {t} REPLACE WHERE p = 3 SELECT 33, 'rw', 3",
        "INSERT INTO {t} REPLACE WHERE p = 3 SELECT 34, 'bad', 4",
        "UPDATE {t} SET a = DEFAULT WHERE id = 22",
        "INSERT OVERWRITE TABLE {t} (id) VALUES (2)",
    ),
    "merges": (
        "CREATE TABLE {t} (id INT, v STRING, n BIGINT) USING delta",
        "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 'x', 10L), (1, 'y', 11L) AS s(id, v, n)) s ON t.id = s.id "
        "WHEN MATCHED AND s.v = 'y' THEN UPDATE SET *",
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 'x', 10L), (1, 'y', 11L) AS s(id, v, n)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING (SELECT 2 AS id, 'z' AS v, 5 AS n, 6 AS extra) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t "
        "USING (SELECT 4 AS id, 'z' AS v, 7 AS n, named_struct('q', 1) AS extra) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO {t} AS t USING {t} AS s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "MERGE INTO {t} t USING (SELECT 'x' AS id) s ON t.v = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        "MERGE INTO {t} t USING (SELECT 1 AS id) s ON true WHEN MATCHED AND rand() < 2 THEN UPDATE SET n = 3",
    ),
    "changes of a table": (
        "CREATE TABLE {t} (id INT, v STRING) USING delta",
        "INSERT INTO {t} VALUES (1, 'a')",
        "ALTER TABLE {t} ADD COLUMNS (x INT COMMENT 'ex' FIRST, y DATE AFTER id)",
        "ALTER TABLE {t} ADD COLUMN z INT DEFAULT 5",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE {t} ADD COLUMN z INT DEFAULT 5",
        "ALTER TABLE {t} ADD COLUMN z INT",
        "ALTER TABLE {t} ALTER COLUMN z SET DEFAULT 5",
        "ALTER TABLE {t} ADD COLUMN nn INT NOT NULL",
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN v TYPE INT",
        "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 5)",
        "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0 AND v <> 'zz')",
        "INSERT INTO {t} (id, v) VALUES (NULL, 'a')",
        "INSERT INTO {t} (id, v) VALUES (2, NULL)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.nonsense' = '1')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '0')",
        "ALTER TABLE {t} ALTER COLUMN y FIRST",
        "ALTER TABLE {t} ALTER COLUMN id SET NOT NULL",
        "ALTER TABLE {t} SET TBLPROPERTIES ('comment' = 'about', 'a.b' = '1')",
        "COMMENT ON TABLE {t} IS 'about it'",
    ),
    "rows put in place of others": (
        "CREATE TABLE {t} (id INT, v STRING, p STRING, q DATE) USING delta PARTITIONED BY (p, q)",
        "INSERT INTO {t} VALUES (1, 'a', 'x', DATE'2024-01-01'), (2, 'b', 'y', DATE'2024-01-02'), "
        "(3, 'c', NULL, NULL), (4, 'd', '', DATE'2024-01-01'), (5, NULL, 'x', DATE'2024-01-03')",
        "INSERT INTO {t} REPLACE WHERE p IS NULL SELECT 30, 'n', NULL, DATE'2024-02-01'",
        "INSERT INTO {t} REPLACE WHERE p IS NULL SELECT 31, 'bad', 'x', DATE'2024-02-01'",
        "INSERT INTO {t} REPLACE WHERE p = 'x' AND q >= '2024-01-02' SELECT 50, 'r', 'x', DATE'2024-01-05'",
        "INSERT INTO {t} REPLACE WHERE v = 'b' SELECT 20, 'b', 'zz', DATE'2024-01-05'",
        "INSERT INTO {t} REPLACE WHERE id > 40 OR v IS NULL SELECT 60, NULL, 'm', DATE'2024-01-05'",
        "INSERT INTO {t} REPLACE WHERE id > 40 SELECT 7, 'bad', 'm', DATE'2024-01-05'",
        "INSERT INTO {t} REPLACE WHERE NOT (p = 'x') SELECT 70, 's', 'k', NULL",
        "INSERT INTO {t} REPLACE WHERE p IN ('k', 'x') AND v LIKE 's%' SELECT 71, 's2', 'k', NULL",
        "INSERT INTO {t} REPLACE WHERE nope = 1 SELECT 71, 's2', 'k', NULL",
        "INSERT INTO {t} REPLACE WHERE id IN (SELECT 71) SELECT 72, 's2', 'k', NULL",
        "INSERT INTO {t} REPLACE WHERE id = NULL SELECT 75, 's2', 'k', DATE'2024-01-01'",
        "INSERT INTO {t} VALUES (6, 'e', 'y', DATE'2024-01-04')",
        "SET spark.sql.sources.partitionOverwriteMode = dynamic",
        "INSERT OVERWRITE {t} VALUES (10, 'o', 'x', DATE'2024-01-01'), (11, 'o', NULL, NULL)",
        "INSERT OVERWRITE {t} PARTITION (p = 'y', q) SELECT 12, 'pp', DATE'2024-01-02'",
        "INSERT OVERWRITE {t} PARTITION (p = 'y') SELECT 13, 'pp', DATE'2024-01-09'",
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE false",
        "INSERT OVERWRITE {t} PARTITION (p = 'y', q = DATE'2024-01-09') SELECT 14, 'pq'",
        "RESET spark.sql.sources.partitionOverwriteMode",
        "INSERT OVERWRITE {t} PARTITION (p = '', q) SELECT 15, 'e', DATE'2024-01-01'",
        "INSERT OVERWRITE {t} PARTITION (v = 'pq') SELECT 14, 'y', DATE'2024-01-11'",
    ),
    "every clause of a merge": (
        "CREATE TABLE {t} (id INT, v STRING, n BIGINT, s STRUCT<a: INT, b: STRING>) USING delta",
        "INSERT INTO {t} VALUES (1, 'a', 1, struct(1, 'x')), (2, 'b', 2, NULL), (3, NULL, 3, struct(NULL, 'y')), "
        "(NULL, 'z', 4, NULL), (5, 'e', 5, struct(5, 'e'))",
        f"MERGE INTO {{t}} t USING {THREE.format(FIVE)} s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 1 THEN UPDATE SET v = s.v, s.a = 100 "
        "WHEN MATCHED AND s.n > 25 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n + t.n "
        "WHEN NOT MATCHED AND s.id IS NULL THEN INSERT (v, n) VALUES (concat(s.v, '!'), s.n) "
        "WHEN NOT MATCHED THEN INSERT (id, v, s) VALUES (s.id, s.v, named_struct('a', 6, 'b', 'new')) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'orphan'",
        f"MERGE INTO {{t}} t USING {THREE.format(TWICE)} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
        f"MERGE INTO {{t}} t USING {THREE.format(TWICE)} s ON t.id = s.id AND t.v = s.v WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND t.n IS NULL THEN UPDATE SET t.n = 0, t.s = NULL",
        "MERGE INTO {t} t USING (SELECT 2 AS ID, 'up' AS V, 3 AS N, named_struct('b', 'sw', 'a', 9) AS S) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO {t} t USING (SELECT 200 AS id, 'short' AS v, 1 AS n, named_struct('a', 9) AS s) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO {t} t USING (SELECT 202 AS id, 3000000000 AS big) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.big)",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t "
        "USING (SELECT 2 AS id, named_struct('a', 7, 'c', DATE'2020-01-01') AS s, array(1) AS l) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t "
        "USING (SELECT 300 AS id, named_struct('c', DATE'2021-01-01') AS s) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 2 AS id, 5 AS unused, 'w' AS extra) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET extra = s.extra",
        "MERGE INTO {t} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'a', V = 'b'",
        "MERGE INTO {t} t USING (SELECT 2 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'a' WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING (SELECT 1 AS id) s ON count(t.id) > 1 WHEN MATCHED THEN DELETE",
    ),
    "a table replaced": (
        "CREATE TABLE {t} (id INT, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true', "
        "'delta.enableRowTracking' = 'true', 'x' = '1')",
        "INSERT INTO {t} VALUES (1, 'a')",
        "ALTER TABLE {t} ADD CONSTRAINT pos CHECK (id > 0)",
        "CREATE OR REPLACE TABLE {t} USING delta CLUSTER BY (q) AS SELECT 2L AS id, 'z' AS q",
        "REPLACE TABLE {t} USING delta PARTITIONED BY (q) AS SELECT 3 AS id, 'zz' AS q",
        "INSERT INTO {t} VALUES (-4, 'unchecked')",
        "RESTORE TABLE {t} TO VERSION AS OF 4",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "INSERT INTO {t} VALUES (-7, 'checked')",
        "INSERT INTO {t} VALUES (7, 'b')",
    ),
    "a version from before column mapping": (
        "CREATE TABLE {t} (id INT, a INT) USING delta",
        "INSERT INTO {t} VALUES (1, 1), (2, 2)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} RENAME COLUMN a TO b",
        "ALTER TABLE {t} DROP COLUMN b",
        "INSERT INTO {t} VALUES (3)",
        "RESTORE TABLE {t} TO VERSION AS OF 3",
        "RESTORE TABLE {t} TO VERSION AS OF 1",
        "INSERT INTO {t} VALUES (4, 4)",
        "DELETE FROM {t} WHERE id = 2",
    ),
    "versions behind an optimize and a purge": (
        "CREATE TABLE {t} (id INT, a INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT id, id FROM range(0, 20, 1, 1)",
        "DELETE FROM {t} WHERE id IN (1, 3)",
        "INSERT INTO {t} VALUES (30, 3), (40, 4)",
        "OPTIMIZE {t}",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "REORG TABLE {t} APPLY (PURGE)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
        "INSERT INTO {t} VALUES (9, 5000000000)",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "INSERT INTO {t} VALUES (9, 5000000000)",
    ),
    "values that files and partitions spell in their own ways": (
        "CREATE TABLE {t} (id INT, f DOUBLE, s STRING, b BINARY, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, double('NaN'), 'it''s', X'00FF', ''), (2, double('-Infinity'), 'd\"q', X'', NULL), "
        "(3, -0.0D, r'raw\n', NULL, 'a=b/c%'), (4, 0.0D, 'é ü', X'01', ' x ')",
        "UPDATE {t} SET s = concat(s, '!') WHERE f = 0",
        "UPDATE {t} SET f = 7 WHERE f = double('NaN')",
        "DELETE FROM {t} WHERE p = 'a=b/c%'",
        "UPDATE {t} SET p = 'moved' WHERE p IS NULL",
        "UPDATE {t} SET s = 'spaced' WHERE p = ' x '",
        "UPDATE {t} SET p = '' WHERE id = 4 /* c */",
        "UPDATE {t} SET s = 'semi;colon' WHERE s LIKE '%\\'%'",
        "DELETE FROM {t} WHERE b = X'' OR f < 0",
    ),
    "columns and fields in other places": (
        f"CREATE TABLE {{t}} (id INT, s STRUCT<a: INT, b: STRING>, v STRING) USING delta {DEFAULTS}",
        "INSERT INTO {t} VALUES (1, struct(1, 'x'), 'v')",
        "ALTER TABLE {t} ADD COLUMNS (s.c INT FIRST, s.d DATE AFTER a)",
        "ALTER TABLE {t} ALTER COLUMN s.b FIRST",
        "ALTER TABLE {t} ALTER COLUMN s.a AFTER nope",
        "ALTER TABLE {t} ALTER COLUMN v FIRST",
        "ALTER TABLE {t} ALTER COLUMN s.a COMMENT 'inner'",
        "ALTER TABLE {t} ALTER COLUMN id SET DEFAULT 7",
        "INSERT INTO {t} (v) VALUES ('d')",
        "ALTER TABLE {t} ALTER COLUMN id SET DEFAULT 'x'",
        "ALTER TABLE {t} ALTER COLUMN id DROP DEFAULT",
        "INSERT INTO {t} (v) VALUES ('n')",
        "ALTER TABLE {t} ALTER COLUMN v SET DEFAULT (SELECT 'q')",
        "INSERT INTO {t} VALUES ('w', 2, named_struct('b', 'y', 'c', 5, 'a', 6, 'd', DATE'2024-01-01'))",
    ),
    "names with dots and blanks": (
        "CREATE TABLE {t} (Id INT, `a.b` INT, `c d` INT) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {t} VALUES (1, 2, 3)",
        "UPDATE {t} SET ID = 5, `A.B` = `a.b` + 1, `c d` = 9",
        "DELETE FROM {t} WHERE `c d` = 8",
        "ALTER TABLE {t} RENAME COLUMN `a.b` TO `x,y`",
        "ALTER TABLE {t} DROP COLUMN `x,y`",
        "ALTER TABLE {t} ADD COLUMN ID INT",
        "INSERT INTO {t} VALUES (6, 7)",
    ),
}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_statements_do_the_same_by_either_side(spark, conf, delta: Theirs, tmp_path, scenario: str, zone: str):
    if zone != "UTC" and "date" not in scenario:
        pytest.skip("no times in it")
    conf("spark.sql.session.timeZone", zone)
    delta.run(f"SET spark.sql.session.timeZone = {zone}")
    sides: dict[str, Side] = {"delta": delta, "ours": Ours(spark)}
    told, refused = {}, {}
    try:
        for who, side in sides.items():
            path = tmp_path / who
            refused[who] = [_against(side, text.format(t=name(path))) for text in SCENARIOS[scenario]]
            by_both = [each.run(everything(name(path))) for each in sides.values()]
            assert by_both[0] == by_both[1], f"both read alike what was written by {who}"
            protocol = str(Table.for_path(path, spark).protocol)
            told[who] = {
                "rows": by_both[0],
                "columns": columns(path),
                "properties": properties(path),
                "protocol": protocol,
            }
    finally:
        delta.run("SET spark.sql.session.timeZone = UTC")
    for text, theirs, ours in zip(SCENARIOS[scenario], refused["delta"], refused["ours"], strict=True):
        assert bool(theirs) == bool(ours), f"{text}\n  Delta Spark: {theirs or 'done'}\n  we: {ours or 'done'}"
    assert told["ours"] == told["delta"]


def _against(side: Side, statement: str) -> str:
    """What is said against a statement; nothing if it is done."""
    try:
        side.run(statement)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""
