"""Rows put in place of others, and columns that come and go, through `Table` and through the data source."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import halocline as hc
from halocline.errors import ConstraintError, SchemaError
from halocline.formats.index.maintain.lint import lint
from halocline.source.data_source import register
from halocline.table.index.opened import IndexOpened


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


def at_once(monkeypatch, *writes):
    """What each write returns or raises, where none commits before all are about to."""
    meeting, seen, commit = threading.Barrier(len(writes), timeout=120), threading.local(), IndexOpened.commit

    def met(self, *given, **said):
        if not getattr(seen, "met", False):
            seen.met = True
            meeting.wait()
        return commit(self, *given, **said)

    monkeypatch.setattr(IndexOpened, "commit", met)
    with ThreadPoolExecutor(len(writes)) as pool:
        found = [pool.submit(write) for write in writes]
        return [each.exception() or each.result() for each in found]


def test_two_who_add_columns_at_once_both_land_and_no_column_or_row_is_lost(spark, logs, monkeypatch):
    notes, codes = (rows(spark, 2, 20, extra="'Kept Cool' AS note"), rows(spark, 2, 30, extra="id AS code"))
    versions = at_once(
        monkeypatch,
        lambda: logs.append(notes, schema_mode="merge", fields={"note": "text"}),
        lambda: logs.append(codes, schema_mode="merge"),
    )
    assert sorted(versions) == [1, 2]
    assert sorted(logs.to_df().columns) == ["code", "id", "message", "note", "p"]
    assert ids(logs.to_df()) == [*range(12), 20, 21, 30, 31]
    assert ids(logs.search("note:cool OR code:31")) == [20, 21, 31]
    assert {row["note"] for row in logs.to_df(where="id > 25").collect()} == {None}


def test_of_two_who_add_one_column_in_two_types_one_lands_and_the_other_is_refused(spark, logs, monkeypatch):
    words, numbers = (rows(spark, 2, 20, extra="'x' AS note"), rows(spark, 2, 30, extra="DATE'2024-01-01' AS note"))
    found = at_once(
        monkeypatch,
        lambda: logs.append(words, schema_mode="merge"),
        lambda: logs.append(numbers, schema_mode="merge"),
    )
    refused = [each for each in found if isinstance(each, BaseException)]
    assert [type(each) for each in refused] == [SchemaError], found
    assert ids(logs.to_df()) == [*range(12), *([20, 21] if isinstance(found[1], SchemaError) else [30, 31])]
    live = {each.path for each in logs.store.list() if each.path.endswith(".parquet")}
    assert live == set(logs.snapshot().files), "the splits of the refused write are gone"


def test_splits_of_a_commit_that_is_interrupted_when_it_is_there_stay_readable(spark, logs, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("halocline.formats.index.transaction.IndexTransaction._keep_up", interrupted)
    with pytest.raises(KeyboardInterrupt):
        logs.append(rows(spark, 2, 12))
    assert logs.version == 1
    assert ids(logs.to_df()) == list(range(14))


EMPTIES = "id INT, p STRING, t STRING"


def empties(spark):
    return spark.createDataFrame([(1, "", "one"), (2, None, "two"), (3, "a", "three"), (4, "", "one")], EMPTIES)


def by_value(table):
    """The rows of each partition value, as conditions find them."""
    tests = {"empty": "p = ''", "null": "p IS NULL", "other": "p <> ''", "known": "p IS NOT NULL", "early": "p < 'a'"}
    return {name: ids(table.to_df(where=where)) for name, where in tests.items()}


def test_empty_text_and_null_stay_two_partitions(spark, tmp_path, written):
    df = empties(spark)
    table = hc.Table.create(tmp_path / "x", df.limit(0), format="index", fields={"t": "text"}, partition_by="p")
    written(table, df, "append")
    whole = {"empty": [1, 4], "null": [2], "other": [3], "known": [1, 3, 4], "early": [1, 4]}
    assert by_value(table) == whole
    assert {row["id"]: row["p"] for row in table.to_df().collect()} == {1: "", 2: None, 3: "a", 4: ""}
    assert {row["id"]: row["p"] for row in table.search("one OR two").collect()} == {1: "", 2: None, 4: ""}
    assert ids(table.search('p:""')) == [1, 4]
    counts = {row["p"]: row["rows"] for row in table.aggregate({"rows": hc.Count()}, by="p").collect()}
    assert counts == {"": 2, None: 1, "a": 1}
    written(table, df.where("id = 1").selectExpr("10 AS id", "p", "t"), "overwrite", partitions="dynamic")
    assert by_value(table) == {"empty": [10], "null": [2], "other": [3], "known": [3, 10], "early": [10]}
    written(table, df.where("id = 2").selectExpr("20 AS id", "p", "t"), "overwrite", partitions="dynamic")
    written(table, df.where("id = 1").selectExpr("11 AS id", "p", "t"), "append")
    assert by_value(table) == {"empty": [10, 11], "null": [20], "other": [3], "known": [3, 10, 11], "early": [10, 11]}
    assert table.merge_splits().merged
    assert by_value(table)["empty"] == [10, 11]
    written(table, df.where("id = 1"), "overwrite", where="p = ''")
    assert by_value(table) == {"empty": [1], "null": [20], "other": [3], "known": [1, 3], "early": [1]}
    assert lint(table.store).findings == ()
    stream = spark.readStream.format("halocline").load(table.url)
    stream.writeStream.format("memory").queryName("empties").trigger(availableNow=True).start().awaitTermination()
    assert {row["id"]: row["p"] for row in spark.table("empties").collect()} == {1: "", 20: None, 3: "a"}


def test_empty_bytes_and_values_that_are_not_equal_to_themselves_have_partitions_of_their_own(spark, tmp_path):
    df = spark.sql("SELECT * FROM VALUES (1, X'', double('NaN')), (2, null, 0.0D), (3, X'41', null) AS t(id, b, d)")
    table = hc.Table.create(tmp_path / "x", df, format="index", partition_by=["b", "d"])
    found = {row["id"]: row["b"] for row in table.to_df().collect()}
    assert found == {1: bytearray(), 2: None, 3: bytearray(b"A")}
    table.overwrite(df.where("id = 1").selectExpr("10 AS id", "b", "d"), partitions="dynamic")
    assert ids(table.to_df()) == [2, 3, 10]
    assert ids(table.to_df(where="b = X''")) == [10]


def test_a_partition_value_that_the_log_takes_for_null_is_refused(spark, tmp_path, written):
    df = empties(spark)
    table = hc.Table.create(tmp_path / "x", df, format="index", partition_by="p")
    files = sorted(meta.path for meta in table.store.list())
    bad = df.where("id = 1").selectExpr("id", "'__HIVE_DEFAULT_PARTITION__' AS p", "t")
    with pytest.raises(Exception, match="cannot keep '__HIVE_DEFAULT_PARTITION__' in partition column p"):
        written(table, bad, "append")
    assert sorted(meta.path for meta in table.store.list()) == files
    written(table, bad.selectExpr("id + 10 AS id", "concat(p, '_') AS p", "t"), "append")
    assert ids(table.to_df(where="p = '__HIVE_DEFAULT_PARTITION___'")) == [11]


def test_a_partition_column_that_must_not_be_null_takes_empty_text(spark, tmp_path, written):
    table = hc.Table.create(
        tmp_path / "x", "id INT, p STRING NOT NULL, t STRING", spark, format="index", partition_by="p"
    )
    written(table, empties(spark).where("id = 1"), "append")
    assert ids(table.to_df(where="p = ''")) == [1]
    with pytest.raises(Exception, match="NOT NULL p"):
        written(table, empties(spark).where("id = 2"), "append")
