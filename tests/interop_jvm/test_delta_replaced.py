"""What one side puts in place of tables, partitions and loose files, as the other side reads it and goes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from halocline.errors import IncompatibleError
from tests.interop_jvm.delta import Ours, Side, Theirs, actions, everything, name, said
from tests.interop_jvm.delta_kinds import MAPPED, TRACKED, VECTORS, Kind
from tests.interop_jvm.test_delta_exchange import columns

pytestmark = pytest.mark.timeout(3600)

BOTH = pytest.mark.parametrize("writer", ["delta", "ours"])


@pytest.fixture
def sides(spark, delta: Theirs):
    """Those who take turns, by name."""
    return {"delta": delta, "ours": Ours(spark)}


def alike(sides: dict[str, Side], path: Path) -> list[list[str]]:
    """The rows, which both read alike."""
    one, other = (side.run(everything(name(path))) for side in sides.values())
    assert one == other, path
    return one


# ---------------------------------------------------------------------- clones


@BOTH
@pytest.mark.parametrize("how", ["SHALLOW", "DEEP"])
@pytest.mark.parametrize("properties", [VECTORS, MAPPED, TRACKED], ids=["vectors", "mapped", "tracked"])
def test_a_clone_that_we_renew_in_its_place_is_read_and_written_on(sides, tmp_path, writer, how, properties):
    """Delta Spark renews none that has rows; it goes on behind ours."""
    source, clone = name(tmp_path / "t"), name(tmp_path / "c")
    sides[writer].run(*Kind("source", properties=properties).create(source))
    sides[writer].run(f"INSERT INTO {source} (id, value) SELECT id, 'a' FROM range(0, 10, 1, 1)")
    sides[writer].run(f"CREATE TABLE {clone} SHALLOW CLONE {source}", f"DELETE FROM {clone} WHERE id < 5")
    sides[writer].run(f"DELETE FROM {source} WHERE id = 9", f"INSERT INTO {source} (id, value) VALUES (20, 'b')")
    sides["ours"].run(f"CREATE OR REPLACE TABLE {clone} {how} CLONE {source}")
    assert alike(sides, tmp_path / "c") == alike(sides, tmp_path / "t")
    for number, side in enumerate(sides.values()):
        side.run(f"DELETE FROM {clone} WHERE id = {number}", f"INSERT INTO {clone} (id, value) VALUES (30, 'c')")
    assert [row for row in sides["delta"].run(f"SELECT id FROM {clone}") if row in (["0"], ["1"], ["30"])] == [
        ["30"]
    ] * 2
    alike(sides, tmp_path / "c")
    assert len(sides["delta"].run(f"SELECT id FROM {source}")) == 10, "the source is let alone"


# ---------------------------------------------------------------------- DataFrames


FOUR = "CREATE TABLE {t} (id INT, v STRING, p STRING, q STRING) USING delta PARTITIONED BY (p, q)"
ROWS = "INSERT INTO {t} VALUES (1, 'a', 'x', 'm'), (2, 'b', 'y', 'm'), (3, 'c', NULL, 'n')"
NEW = {"overwriteSchema": "true"}
DYNAMIC = {"partitionOverwriteMode": "dynamic"}
WRITES = {
    "without a partition column": [("SELECT 5 AS id, 'm' AS q, 'z' AS v", ("q",), NEW)],
    "without any": [("SELECT 5 AS id, 'z' AS v", (), NEW)],
    "of another type": [("SELECT 5L AS id, 'z' AS v, DATE'2020-01-01' AS p, 'm' AS q", ("p",), NEW)],
    "by another column": [("SELECT 5 AS id, 'z' AS v, 'x' AS p", ("id",), NEW)],
    "columns that are not in the table": [("SELECT 5 AS id, 'z' AS v, 'x' AS p, 'm' AS q, 1 AS more", (), {})],
    "more columns": [("SELECT 5 AS id, 'z' AS v, 'x' AS p, 'm' AS q, 1 AS more", (), {"mergeSchema": "true"})],
    "partitions of the rows": [
        ("SELECT 9 AS id, 'o' AS v, 'x' AS p, 'm' AS q", (), DYNAMIC),
        ("SELECT 10 AS id, 'o' AS v, CAST(NULL AS STRING) AS p, 'n' AS q", (), DYNAMIC),
        ("SELECT 11 AS id, 'o' AS v, 'x' AS p, 'm' AS q WHERE false", (), DYNAMIC),
    ],
    "rows of a condition": [
        ("SELECT 13 AS id, 'o' AS v, 'x' AS p, 'mm' AS q", (), {"replaceWhere": "p = 'x'"}),
        ("SELECT 14 AS id, 'o' AS v, 'y' AS p, 'mm' AS q", (), {"replaceWhere": "p = 'x'"}),
        ("SELECT 15 AS id, 'o' AS v, 'y' AS p, 'mm' AS q", (), {"replaceWhere": "id > 12 OR p IS NULL"}),
    ],
}


@pytest.mark.parametrize("properties", ["", " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"], ids=["", "mapped"])
@pytest.mark.parametrize("what", WRITES)
def test_rows_that_are_written_over_others_leave_the_same_table(sides, tmp_path, what, properties):
    refused: dict[str, list[bool]] = {who: [] for who in sides}
    told = {}
    for who, side in sides.items():
        path = tmp_path / who
        sides["delta"].run(*(text.format(t=name(path)) for text in (FOUR + properties, ROWS)))
        for query, by, options in WRITES[what]:
            refused[who].append(bool(side.written(path, query, "overwrite", by, **options)))
        found = actions(path, "metaData")[-1]
        told[who] = (alike(sides, path), columns(path), found["partitionColumns"], found["configuration"].keys())
        for other in sides.values():
            other.run(f"DELETE FROM {name(path)} WHERE id = 1", f"INSERT INTO {name(path)} (id) VALUES (77)")
        alike(sides, path)
    assert refused["ours"] == refused["delta"]
    assert told["ours"] == told["delta"]


# ---------------------------------------------------------------------- files


def test_variants_that_delta_spark_shreds_are_read_whole_and_writing_names_the_feature(sides, delta, tmp_path):
    t = name(tmp_path)
    delta.run(
        f"CREATE TABLE {t} (id INT, v VARIANT, s STRUCT<w: VARIANT>) USING delta "
        "TBLPROPERTIES ('delta.enableVariantShredding' = 'true')",
        "SET spark.sql.variant.writeShredding.enabled = true",
        "SET spark.sql.variant.inferShreddingSchema = true",
        f"""INSERT INTO {t}
        SELECT id, parse_json('{{"a": ' || id || ', "b": "x", "c": [1, {{"d": ' || id || '}}], "n": null}}'),
               named_struct('w', parse_json('{{"k": ' || id || '}}')) FROM range(20)
        UNION ALL SELECT 100, NULL, NULL
        UNION ALL SELECT 101, parse_json('7'), named_struct('w', parse_json('"text"'))
        UNION ALL SELECT 102, parse_json('{{"a": "not a number", "z": 1.5}}'), named_struct('w', NULL)""",
    )
    types = [str(pq.read_schema(each).field("v").type) for each in tmp_path.glob("*.parquet")]
    assert any("typed_value: struct<a:" in each for each in types), types
    for text in (
        "SELECT id, to_json(v), to_json(s), variant_get(v, '$.a', 'string'), try_variant_get(v, '$.c[1].d', 'int')",
        "SELECT id, schema_of_variant(v), schema_of_variant(s.w)",
    ):
        one, other = (side.run(f"{text} FROM {t}") for side in sides.values())
        assert one == other
        assert len(one) == 23
    where = f"SELECT id FROM {t} WHERE variant_get(v, '$.a', 'string') = '7'"
    assert [side.run(where) for side in sides.values()] == [[["7"]], [["7"]]]
    with pytest.raises(IncompatibleError, match="variantShredding"):
        sides["ours"].run(f"INSERT INTO {t} VALUES (1, NULL, NULL)")


@BOTH
def test_a_folder_with_partitions_that_one_converts_is_read_and_written_on(spark, sides, tmp_path, writer):
    rows = spark.sql("SELECT id, CAST(id % 3 AS INT) AS p, CASE WHEN id % 2 = 0 THEN 'a b/c' END AS q FROM range(6)")
    rows.write.partitionBy("p", "q").parquet(str(tmp_path / "t"))
    t, loose = name(tmp_path / "t"), f"parquet.`{tmp_path / 't'}`"
    for wrong in ("", "PARTITIONED BY (p INT)"):
        assert said(sides[writer], f"CONVERT TO DELTA {loose} {wrong}") != ""
    for _ in range(2):
        sides[writer].run(f"CONVERT TO DELTA {loose} PARTITIONED BY (p INT, q STRING)")
    assert [each["operation"] for each in actions(tmp_path / "t", "commitInfo")] == ["CONVERT"]
    for side in sides.values():
        side.run(f"DELETE FROM {t} WHERE q IS NULL AND p = 1", f"INSERT INTO {t} VALUES (77, 5, 'x')")
    assert len(alike(sides, tmp_path / "t")) == 7


@BOTH
def test_a_version_whose_files_were_vacuumed_does_not_come_back(sides, delta, conf, tmp_path, writer):
    t = name(tmp_path)
    sides[writer].run(*Kind("old").create(t), f"INSERT INTO {t} (id, value) VALUES (1, 'a')")
    sides[writer].run(f"DELETE FROM {t}", f"INSERT INTO {t} (id, value) VALUES (2, 'b')")
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    delta.run("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    try:
        sides[writer].run(f"VACUUM {t} RETAIN 0 HOURS")
    finally:
        delta.run("RESET spark.databricks.delta.retentionDurationCheck.enabled")
    for who, side in sides.items():
        assert said(side, f"RESTORE TABLE {t} TO VERSION AS OF 1") != "", who
    assert alike(sides, tmp_path) == [['{"id":2,"value":"b"}']]
