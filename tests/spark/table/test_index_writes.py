"""Rows put in place of others, and columns that come and go, through `Table` and through the data source."""

from __future__ import annotations

import pytest

import halocline as hc
from halocline.errors import ConstraintError
from halocline.source.data_source import register


def rows(spark, count=12, first=0, extra=""):
    made = ["id", "concat('request ', id) AS message", "int(id % 3) AS p", *([extra] if extra else [])]
    return spark.range(first, first + count, 1, 1).selectExpr(*made)


@pytest.fixture
def logs(spark, tmp_path):
    return hc.Table.create(tmp_path / "logs", rows(spark), format="index", fields={"message": "text"}, partition_by="p")


@pytest.fixture(params=["table", "source"])
def written(request, spark):
    """Writes rows through one of the doors, in Delta's words."""
    register(spark)
    options = {"where": "replaceWhere", "schema_mode": None, "partitions": "partitionOverwriteMode"}

    def write(table, df, mode, **given):
        if request.param == "table":
            getattr(table, mode)(df, **given)
            return
        told = {options[key]: value for key, value in given.items() if options[key]}
        if "schema_mode" in given:
            told[{"merge": "mergeSchema", "overwrite": "overwriteSchema"}[given["schema_mode"]]] = "true"
        df.write.format("halocline").options(**told).mode(mode).save(table.url)

    return write


def ids(df):
    return sorted(row["id"] for row in df.select("id").collect())


def test_rows_are_replaced_by_a_condition_or_by_their_partitions(spark, logs, written):
    written(logs, rows(spark, 1, 5).selectExpr("id", "'anew' AS message", "p"), "overwrite", where="id = 5 OR id = 8")
    assert (ids(logs.to_df()), ids(logs.search("anew"))) == ([n for n in range(12) if n != 8], [5])
    assert logs.count("message:8") == 0
    written(logs, rows(spark, 3, 30).where("p = 0"), "overwrite", partitions="dynamic")
    assert ids(logs.to_df()) == [1, 2, 4, 5, 7, 10, 11, 30]
    assert ids(logs.to_df(version=0)) == list(range(12))


def test_new_rows_that_do_not_meet_the_condition_are_refused(spark, logs, written):
    files = sorted(meta.path for meta in logs.store.list())
    with pytest.raises(Exception, match="does not meet the condition") as refused:
        written(logs, rows(spark, 3), "overwrite", where="id < 2")
    assert isinstance(refused.value, ConstraintError) or "ConstraintError" in str(refused.value)
    assert (ids(logs.to_df()), sorted(meta.path for meta in logs.store.list())) == (list(range(12)), files)


def test_a_column_that_comes_in_is_null_before_and_searched_after(spark, logs, written):
    grown = rows(spark, 2, 20, extra="concat('note ', id) AS note")
    with pytest.raises(Exception, match="note"):
        written(logs, grown, "append")
    written(logs, grown, "append", schema_mode="merge")
    found = {row["id"]: row["note"] for row in logs.to_df(where="id > 10").collect()}
    assert found == {11: None, 20: "note 20", 21: "note 21"}
    assert ids(logs.search('note:"note 20" OR message:3')) == [3, 20]
    assert logs.merge_splits().merged
    assert ids(logs.search('note:"note 20" OR message:3')) == [3, 20]
    assert logs.to_df(version=0).columns == ["id", "message", "p"]


def test_columns_are_those_of_the_rows_when_the_schema_is_overwritten(spark, logs, written):
    written(logs, spark.sql("SELECT 'x' AS id, 1 AS p"), "overwrite", schema_mode="overwrite")
    assert [row.asDict() for row in logs.to_df().collect()] == [{"id": "x", "p": 1}]
    assert logs.count("id:x") == 1
    assert logs.to_df(version=0).count() == 12


def test_new_columns_are_indexed_as_is_said(spark, logs):
    logs.append(rows(spark, 1, 40, extra="'Kept Cool' AS note"), schema_mode="merge", fields={"note": "text"})
    assert ids(logs.search("note:cool")) == [40]
    with pytest.raises(Exception, match="replaceWhere replaces rows"):
        rows(spark).write.format("halocline").option("replaceWhere", "p = 1").mode("append").save(logs.url)
