"""Updates, against rows worked out in Python and against another client."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from tests.support.tables import FEED, VECTORS, by_another_client, rows_of

from halocline.errors import ConstraintError, InputError, SchemaError
from halocline.table import Table
from halocline.table.delta.new_table import Identity, column

TABLES = {
    "plain": {},
    "partitioned with feed": {"partition_by": "p", "properties": FEED},
    "mapped": {"partition_by": "p", "properties": {"delta.columnMapping.mode": "name"}},
    "vectors with feed": {"partition_by": "p", "properties": {**VECTORS, **FEED}},
}


@pytest.mark.parametrize("kind", TABLES)
def test_rows_that_meet_a_condition_get_new_values_and_others_stay(kind, tmp_path, spark):
    df = spark.range(0, 60, 1, 3).selectExpr("id", "CAST(id % 3 AS INT) AS p", "id * 2 AS v")
    table = Table.create(tmp_path / "t", df, spark, **TABLES[kind])
    rows = [(i, i % 3, i * 2) for i in range(60)]
    updates = [
        ({"v": "v + p"}, "id % 5 = 0", lambda i, p, v: i % 5 == 0, lambda i, p, v: (i, p, v + p)),
        ({"v": "v + 1"}, "nullif(p, 1) = 0", lambda i, p, v: p == 0, lambda i, p, v: (i, p, v + 1)),
        ({"P": F.lit(7), "v": 1}, F.col("id") < 9, lambda i, p, v: i < 9, lambda i, p, v: (i, 7, 1)),
        ({"v": "-v"}, "p = 2", lambda i, p, v: p == 2, lambda i, p, v: (i, p, -v)),
        ({"id": "id + 100", "v": "id"}, None, lambda i, p, v: True, lambda i, p, v: (i + 100, p, i)),
        ({"v": "0"}, "id < 0", lambda i, p, v: False, lambda i, p, v: (i, p, 0)),
    ]
    for values, condition, taken, change in updates:
        before, rows = rows, [change(*row) if taken(*row) else row for row in rows]
        done = table.update(values, condition)
        count = sum(taken(*row) for row in before)
        assert (done.committed, done.metrics["numUpdatedRows"]) == (count > 0, count), values
        assert rows_of(table) == sorted(rows), values
        if "feed" in kind and done.committed:
            feed = table.changes(done.version, done.version).select("_change_type", "id", "p", "v").collect()
            pre = [("update_preimage", *row) for row in before if taken(*row)]
            post = [("update_postimage", *change(*row)) for row in before if taken(*row)]
            assert sorted(tuple(row) for row in feed) == sorted(pre + post), values
    assert by_another_client(tmp_path / "t") == sorted(rows)


def test_nested_fields_change_alone_even_where_there_was_no_struct(tmp_path, spark):
    df = spark.sql(
        "SELECT id, IF(id = 2, NULL, named_struct('a', id, 'b', named_struct('c', 'x'))) AS s, "
        "array(id) AS l FROM range(3)"
    )
    table = Table.create(tmp_path / "t", df, spark)
    table.update({"s.a": "s.a + 1", "s.b.c": "'y'"}, "id > 0")
    found = [tuple(row) for row in table.to_df().selectExpr("id", "s.a", "s.b.c", "l[0]").orderBy("id").collect()]
    assert found == [(0, 0, "x", 0), (1, 2, "y", 1), (2, None, "y", 2)]


def test_a_struct_may_be_called_as_nothing_else_is(tmp_path, spark):
    rows = spark.sql("SELECT id, id + 10 AS v, named_struct('v', id + 100) AS target FROM range(3)")
    table = Table.create(tmp_path / "t", rows, spark)
    table.update({"v": "target.v", "target.v": "0"}, "target.v > 100")
    assert sorted(tuple(row) for row in table.to_df().selectExpr("id", "v", "target.v").collect()) == [
        (0, 10, 100),
        (1, 101, 0),
        (2, 102, 0),
    ]
    with pytest.raises(InputError, match=r"target\.w"):
        table.update({"target.w": "1"})


@pytest.mark.parametrize("feed", ["true", "false"])
def test_a_value_that_would_lose_something_is_refused_and_any_other_is_cast(tmp_path, spark, feed):
    sql = "SELECT 1 AS n, CAST(1.50 AS DECIMAL(6,2)) AS p, DATE'2026-11-01' AS d, array(1) AS a"
    table = Table.create(tmp_path / "t", spark.sql(sql), spark, properties={"delta.enableChangeDataFeed": feed})
    for values in (
        {"n": "5.7D"},
        {"n": "5.7BD"},
        {"n": "'x'"},
        {"n": "5000000000L"},
        {"d": "TIMESTAMP'2026-11-02 10:00:00'"},
        {"a": "array(5L, 5000000000L)"},
    ):
        with pytest.raises(ConstraintError, match="does not fit into column"):
            table.update(values)
    assert table.version == 0
    table.update({"n": "'7'", "p": "p * 1.117", "d": "TIMESTAMP'2026-11-02 00:00:00'", "a": "array(5.0D)"})
    (row,) = table.to_df().collect()
    assert (row.n, str(row.p), str(row.d), row.a) == (7, "1.68", "2026-11-02", [5])


def test_a_struct_that_lacks_fields_is_refused(tmp_path, spark):
    sql = "SELECT 1 id, named_struct('a', 1, 'b', 2) s, array(named_struct('a', 1, 'b', 2)) l"
    table = Table.create(tmp_path / "t", spark.sql(sql), spark)
    for values in ({"s": "named_struct('a', 9)"}, {"l": "array(named_struct('a', 9))"}):
        with pytest.raises(SchemaError, match="do not fit") as refused:
            table.update(values)
        assert refused.value.sides["rows"].endswith("b missing")
    table.update({"s": "named_struct('b', 8, 'a', 9)"})
    assert table.to_df().select("s.a", "s.b").collect() == [(9, 8)]


@pytest.mark.parametrize("feature", ["delta.enableRowTracking", "delta.enableDeletionVectors"])
def test_rows_in_partitions_that_the_log_alone_names_are_changed_where_positions_count(feature, tmp_path, spark):
    sql = "SELECT id, id AS v, nullif(concat('p', id % 3), 'p0') AS p, id % 2 + 0.5D AS q FROM range(0, 12, 1, 1)"
    by = ["p", "q"]
    table = Table.create(tmp_path / "t", spark.sql(sql), spark, partition_by=by, properties={feature: "true"})
    table.delete("id = 1")
    table.update({"v": "-v"}, "id % 4 = 2")
    table.merge(spark.range(4), "t.id = s.id").when_matched_update(set={"v": "100"}).execute()
    values = {id: 100 if id < 4 else -id if id % 4 == 2 else id for id in range(12) if id != 1}
    wanted = [(id, v, f"p{id % 3}" if id % 3 else None, id % 2 + 0.5) for id, v in values.items()]
    assert sorted(tuple(row) for row in table.to_df().collect()) == wanted


def test_rules_hold_for_changed_rows_and_computed_columns_follow(tmp_path, spark):
    columns = [
        column("n", "long", identity=Identity()),
        column("k", "integer", nullable=False),
        column("double", "integer", generated="k * 2"),
        column("tag", "char(3)"),
    ]
    table = Table.create(tmp_path / "t", columns, spark, properties={"delta.constraints.small": "k < 100"})
    table.append(spark.range(4).selectExpr("CAST(id AS INT) AS k", "'a' AS tag"))
    table.update({"k": "k + 10", "tag": "'b'"}, "k > 1")
    found = sorted(tuple(row) for row in table.to_df().select("k", "double", "tag").collect())
    assert found == [(0, 0, "a  "), (1, 2, "a  "), (12, 24, "b  "), (13, 26, "b  ")]
    before = set(tmp_path.rglob("*"))
    for values, rule in (
        ({"k": "k + 90"}, "CHECK small"),
        ({"k": None}, "NOT NULL k"),
        ({"double": "5"}, "generated column double"),
        ({"tag": "'long'"}, "length of tag"),
        ({"k": "5000000000"}, "does not fit into column k"),
    ):
        with pytest.raises(ConstraintError, match=rule) as refused:
            table.update(values, "k = 12")
        assert refused.value.sides
    with pytest.raises(InputError, match="itself"):
        table.update({"n": "1"})
    assert table.version == 2
    assert set(tmp_path.rglob("*")) == before, "what was written in vain is deleted again"


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({}, InputError, "no column"),
        ({"nope": "1"}, InputError, "no column 'nope'"),
        ({"v": "nope + 1"}, InputError, "value for"),
        ({"v": "array(1)"}, SchemaError, "do not fit"),
        ({"s.a": "1", "s": "null"}, InputError, "set twice"),
    ],
    ids=["nothing", "no column", "no such name", "no fit", "twice"],
)
def test_what_cannot_be_set_is_refused_before_anything_is_written(values, kind, message, tmp_path, spark):
    table = Table.create(tmp_path / "t", spark.sql("SELECT 1 AS v, named_struct('a', 1) AS s"), spark)
    with pytest.raises(kind, match=message):
        table.update(values)
    assert table.version == 0


@pytest.mark.parametrize("value", ["CAST(rand() * 9 AS INT)", "length(uuid())", F.rand])
def test_a_value_of_chance_is_refused(tmp_path, spark, value):
    table = Table.create(tmp_path / "t", spark.sql("SELECT 1 AS n"), spark)
    with pytest.raises(InputError, match="the value for `n` cannot be used"):
        table.update({"n": value if isinstance(value, str) else value()})
    assert table.update({"n": "month(current_date())"}).committed, "the present is the same throughout"


def test_several_values_are_none_for_a_struct(tmp_path, spark):
    table = Table.create(tmp_path / "t", spark.sql("SELECT 1 AS id, named_struct('a', 1, 'b', 2) AS s"), spark)
    with pytest.raises(InputError, match="cannot be used"):
        table.update({"s": "3, 4"})
    assert table.to_df().collect() == [(1, (1, 2))]
