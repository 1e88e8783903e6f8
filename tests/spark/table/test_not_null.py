"""Columns that are never null are so in the schema of every DataFrame, as Delta Spark 4.4 shows them."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest
from tests.support.tables import FEED, rows

from halocline.errors import ConstraintError, UnsupportedError
from halocline.source.data_source import register
from halocline.table import Table

DECLARED = """
id INT NOT NULL, p STRING NOT NULL, d DATE NOT NULL, n INT, s STRUCT<x: INT NOT NULL, y: INT>,
t STRUCT<x: INT NOT NULL> NOT NULL
"""
ROWS = """
SELECT 1 id, 'a' p, DATE'2026-11-01' d, CAST(NULL AS INT) n, named_struct('x', 1, 'y', 2) s, named_struct('x', 3) t
UNION ALL SELECT 2, 'b', DATE'2026-11-02', 4, named_struct('x', 5, 'y', 6), named_struct('x', 7)
"""


def never_null(schema, above=""):
    """The paths of what is never null."""
    found = []
    for field in schema["fields"]:
        found += [] if field["nullable"] else [above + field["name"]]
        inner = field["type"] if isinstance(field["type"], dict) else {}
        found += never_null(inner, f"{above}{field['name']}.") if inner.get("type") == "struct" else []
        found += (
            [f"{above}{field['name']}[]"]
            if False in (inner.get("containsNull"), inner.get("valueContainsNull"))
            else []
        )
    return found


def shown(df):
    return never_null(json.loads(df.schema.json()))


def retold(path, old, new):
    """The metadata of the first commit with something else said in its schema."""
    commit = path / "_delta_log" / f"{0:020}.json"
    old, new = (json.dumps(text)[1:-1] for text in (old, new))
    line = next(line for line in commit.read_text().splitlines() if line.startswith('{"metaData"'))
    assert old in line, f"{old} is not in {line}"
    return line, line.replace(old, new)


def retell(path, old, new):
    """Changes that commit itself."""
    commit = path / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace(*retold(path, old, new)))
    for checksum in (path / "_delta_log").glob("*.crc"):
        checksum.unlink()


@pytest.mark.parametrize("mode", ["auto", "arrow", "paths"])
@pytest.mark.parametrize("partitioned", [[], ["p"], ["d", "p"]], ids=["flat", "by text", "by date and text"])
def test_a_column_that_is_never_null_is_shown_so_by_every_read(spark, tmp_path, mode, partitioned):
    path = tmp_path / "t"
    table = Table.create(path, DECLARED, spark, partition_by=partitioned, properties=FEED)
    expected = ["id", "p", "d", "s.x", "t", "t.x"]
    assert shown(table.to_df()) == expected, "without rows"
    table.append(spark.sql(ROWS))
    spark.conf.set("spark.halocline.scan.mode", mode)
    try:
        assert shown(table.to_df()) == expected, "the newest version"
        assert shown(table.to_df(version=1, where="id > 0 AND s.y > 0")) == expected, "an older one, with a condition"
        assert shown(table.to_df(columns=["t", "n"])) == ["t", "t.x"], "some columns"
        assert shown(table.changes(0)) == expected, "the change feed"
        assert rows(table, "id", "p", "s.x", "t.x") == [(1, "a", 1, 3), (2, "b", 5, 7)]
    finally:
        spark.conf.unset("spark.halocline.scan.mode")


def test_the_data_source_shows_it_too(spark, tmp_path):
    path = tmp_path / "t"
    Table.create(path, DECLARED, spark, partition_by=["p"], properties=FEED).append(spark.sql(ROWS))
    register(spark)
    expected = ["id", "p", "d", "s.x", "t", "t.x"]
    batch = spark.read.format("halocline").load(str(path))
    feed = spark.read.format("halocline").options(readChangeFeed="true", startingVersion="0").load(str(path))
    assert (shown(batch), shown(feed)) == (expected, expected)
    assert sorted(map(tuple, batch.select("id", "s.x", "t.x").collect())) == [(1, 1, 3), (2, 5, 7)]
    assert feed.count() == 2
    assert shown(spark.readStream.format("halocline").load(str(path))) == expected


def test_arrays_and_maps_without_null_elements_are_shown_so(spark, tmp_path):
    path = tmp_path / "t"
    Table.create(path, "id INT, a ARRAY<INT>, m MAP<STRING, INT>", spark)
    retell(path, 'ontainsNull":true', 'ontainsNull":false')
    table = Table.for_path(path, spark)
    table.append(spark.sql("SELECT 1 id, array(1, 2) a, map('k', 3) m"))
    register(spark)
    for df in (table.to_df(), spark.read.format("halocline").load(str(path))):
        assert shown(df) == ["a[]", "m[]"]
        assert [tuple(row) for row in df.collect()] == [(1, [1, 2], {"k": 3})]


DEEP = """
id INT, s STRUCT<x: INT, y: INT, f: DOUBLE, d: DECIMAL(5,2), a: ARRAY<STRING>, t: STRUCT<u: DATE>>,
e ARRAY<STRUCT<x: INT, y: INT>>
"""
DEEP_ROWS = """
SELECT 1 id,
named_struct('x', 1, 'y', 2, 'f', 3D, 'd', 4.5BD, 'a', array('b'), 't', named_struct('u', DATE'2026-11-01')) s,
array(named_struct('x', 1, 'y', 2)) e UNION ALL SELECT 2, NULL, NULL
"""


@pytest.mark.parametrize(("mapping", "mode"), [("none", "auto"), ("none", "paths"), ("name", "auto"), ("id", "auto")])
def test_fields_of_a_struct_that_may_be_null_are_shown_so_and_read_one_by_one(spark, tmp_path, mapping, mode):
    properties = {"delta.columnMapping.mode": mapping} if mapping != "none" else {}
    Table.create(tmp_path / "t", DEEP, spark, properties=properties).append(spark.sql(DEEP_ROWS))
    # No writer of Delta takes a null struct with such a field; others wrote it, before the fields became so.
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    for field in (*schema["fields"][1]["type"]["fields"], *schema["fields"][2]["type"]["elementType"]["fields"]):
        field["nullable"] = field["name"] not in ("x", "d", "a", "t")
    metadata["schemaString"] = json.dumps(schema)
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checksum in commit.parent.glob("*.crc"):
        checksum.unlink()
    spark.conf.set("spark.halocline.scan.mode", mode)
    spark.conf.set("spark.sql.maxMetadataStringLength", 1000)
    try:
        df = Table.for_path(tmp_path / "t", spark).to_df()
        found = df.selectExpr("id", "s.x", "s.d", "s.a[0]", "s.t.u", "e[0].x", "s IS NULL").orderBy("id").collect()
        plan = df.select("s.t.u")._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.unset("spark.halocline.scan.mode")
        spark.conf.unset("spark.sql.maxMetadataStringLength")
    assert shown(df) == ["s.x", "s.d", "s.a", "s.t"]
    assert df.schema["e"].dataType.elementType["x"].nullable is (mode == "paths"), "of lists Spark would read all"
    assert [tuple(row) for row in found] == [
        (1, 1, Decimal("4.50"), "b", date(2026, 11, 1), 1, False),
        (2, None, None, None, None, None, True),
    ]
    assert plan.partition("ReadSchema: ")[2].splitlines()[0].count(":") == 3, f"more than s.t.u is read: {plan}"


def test_a_decimal_partition_column_is_shown_so(spark, tmp_path):
    table = Table.create(tmp_path / "t", "id INT, d DECIMAL(2,2) NOT NULL", spark, partition_by=["d"])
    table.append(spark.sql("SELECT 1 id, 0.25BD d UNION ALL SELECT 2, 0.5BD"))
    assert shown(table.to_df()) == ["d"]
    assert table.to_df().schema["d"].dataType.simpleString() == "decimal(2,2)"
    assert rows(table, "id", "d") == [(1, Decimal("0.25")), (2, Decimal("0.50"))]


def plan_of(df):
    return df._jdf.queryExecution().executedPlan().toString()


def test_a_filter_on_such_a_column_reaches_the_files(spark, tmp_path):
    table = Table.create(tmp_path / "t", DECLARED, spark, partition_by=["p"])
    table.append(spark.sql(ROWS))
    plan = plan_of(table.to_df().where("id = 1 AND p = 'a'"))
    assert "EqualTo(id,1)" in plan.partition("PushedFilters")[2], plan
    assert "p#" in plan.partition("PartitionFilters: [")[2].partition("]")[0], plan
    spark.conf.set("spark.halocline.scan.mode", "paths")
    try:
        df = table.to_df(where="id = 1")
    finally:
        spark.conf.unset("spark.halocline.scan.mode")
    plan = plan_of(df)
    assert "EqualTo(id,1)" in plan.partition("PushedFilters")[2], plan
    assert shown(df) == ["id", "p", "d", "s.x", "t", "t.x"]
    assert [row["id"] for row in df.collect()] == [1]


def test_a_null_that_must_not_be_there_is_not_rewritten_as_zero(spark, tmp_path):
    path = tmp_path / "t"
    Table.create(path, "id INT, n INT", spark).append(spark.sql("SELECT 1 id, 2 n UNION ALL SELECT NULL, 3"))
    retell(path, '"id","type":"integer","nullable":true', '"id","type":"integer","nullable":false')
    table = Table.for_path(path, spark)
    with pytest.raises(ConstraintError, match="NOT NULL id"):
        table.update({"n": "4"}, "n = 3")


def test_changes_from_before_a_column_became_not_null_are_refused(spark, tmp_path):
    path = tmp_path / "t"
    Table.create(path, "id INT, n INT", spark, properties=FEED).append(spark.sql("SELECT 1 id, CAST(NULL AS INT) n"))
    (path / "_delta_log" / f"{2:020}.json").write_text(retold(path, '"nullable":true', '"nullable":false')[1] + "\n")
    table = Table.for_path(path, spark)
    table.append(spark.sql("SELECT 2 id, 3 n"))
    assert table.changes(2).count() == 1
    with pytest.raises(UnsupportedError, match="id became NOT NULL after version 0"):
        table.changes(0)


@pytest.mark.parametrize("place", ["memory", "file"])
def test_structs_of_fields_that_are_never_null_may_be_null_where_rows_come_from(spark, tmp_path, place):
    url = tmp_path / "t" if place == "file" else "memory://nulls-in-structs/t"
    table = Table.create(url, "id INT, s STRUCT<x: INT>, a ARRAY<STRUCT<x: INT>>", spark)
    values = "(1, named_struct('x', 1), array(named_struct('x', 1), NULL)), (2, NULL, NULL)"
    table.append(spark.sql(f"SELECT col1 AS id, col2 AS s, col3 AS a FROM VALUES {values}"))
    table.update({"s": "CASE WHEN id > 1 THEN named_struct('x', 1) END"}, "id = 1")
    found = sorted((row.asDict(recursive=True) for row in table.to_df().collect()), key=lambda row: row["id"])
    assert found == [{"id": 1, "s": None, "a": [{"x": 1}, None]}, {"id": 2, "s": None, "a": None}]
