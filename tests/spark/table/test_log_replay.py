"""`halocline.log.replay=spark`: Spark's tasks list the files in a checkpoint."""

import re

import pytest

import halocline as hc
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.table import Table
from halocline.table.delta import opened


@pytest.fixture
def table(spark, tmp_path):
    path = str(tmp_path / "table")
    made = Table.create(path, spark.range(100).repartition(6), spark, properties={"delta.checkpointPolicy": "v2"})
    write_checkpoint(made.store, 0)
    made.delete("id = 7")
    return path


@pytest.mark.connect
def test_tasks_list_the_same_files_and_rows(spark, table, monkeypatch):
    asked = []
    in_tasks = opened.in_tasks
    monkeypatch.setattr(opened, "in_tasks", lambda *given: asked.append(given[2]) or in_tasks(*given))
    here, there = (Table.for_path(table, spark, options={"halocline.log.replay": who}) for who in ("driver", "spark"))
    for where in (None, "id BETWEEN 20 AND 30"):
        rows = [sorted(row.id for row in each.to_df(where=where).collect()) for each in (here, there)]
        assert rows[0] == rows[1]
    assert [len(items) for items in asked] == [2, 2], "the top file and a sidecar, for each question"


@pytest.mark.connect
def test_the_log_counts_rows_that_are_not_deleted_and_reads_none(spark, tmp_path):
    path = str(tmp_path / "table")
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 7 AS k")
    table = Table.create(path, rows, spark, properties={"delta.enableDeletionVectors": "true"})
    table.delete("k = 3")
    expected = table.to_df().count()
    assert table.count(where="k = 2") == table.to_df(where="k = 2").count()
    for file in (tmp_path / "table").glob("*.parquet"):
        file.unlink()
    assert table.count() == expected == 857
    assert table.count(version=0) == 1000
    told = hc.sql(spark, f"SELECT count(*) AS `how many` FROM delta.`{path}`")
    assert (told.columns, told.collect()[0][0]) == (["how many"], 857)
    assert hc.sql(spark, f"select COUNT(1) from delta.`{path}`").columns == ["count(1)"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM {t} WHERE id < 5",
        "SELECT count(k) FROM {t}",
        "SELECT count(DISTINCT k) FROM {t}",
        "SELECT count(*) FROM (SELECT * FROM {t} WHERE id < 5)",
        "SELECT count(*), 1 FROM {t}",
        "SELECT count(*) FILTER (WHERE id < 5) FROM {t}",
        "SELECT count(*) FROM {t} VERSION AS OF 0",
        "SELECT count(*) FROM {t} a, {t} b",
    ],
)
def test_counts_that_the_log_does_not_know_are_spark_s(spark, tmp_path, text):
    rows = spark.range(0, 20, 1, 1).selectExpr("id", "if(id % 2 = 0, id, null) AS k")
    table = Table.create(str(tmp_path / "table"), rows, spark)
    table.to_df().createOrReplaceTempView("plain")
    table.delete("id = 19")
    table.append(rows.where("id = 19"))
    ours = hc.sql(spark, text.replace("{t}", f"delta.`{tmp_path}/table`"))
    plain = spark.sql(text.replace("{t}", "plain").replace(" VERSION AS OF 0", ""))
    assert (ours.columns, ours.collect()) == (plain.columns, plain.collect())


def test_rows_are_counted_where_the_log_does_not_say(spark, tmp_path):
    path = str(tmp_path / "table")
    table = Table.create(path, spark.range(10), spark, properties={"delta.dataSkippingNumIndexedCols": "0"})
    commit = tmp_path / "table" / "_delta_log" / f"{0:020}.json"
    commit.write_text(re.sub(r',"stats":"(?:[^"\\]|\\.)*"', "", commit.read_text()))
    (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)
    assert table.count() == Table.for_path(path).count() == 10
