"""Index tables through the data source and in SQL: rows, searches, writes, and streams both ways."""

from __future__ import annotations

import pytest

import halocline as hc
from halocline.errors import IncompatibleError
from halocline.formats.log.names import INDEX
from halocline.source.data_source import register

FIELDS = {"message": "text"}


@pytest.fixture(scope="module", autouse=True)
def source(spark):
    register(spark)


def rows(spark, count=20, first=0):
    return spark.range(first, first + count, 1, 1).selectExpr(
        "id",
        "if(id % 4 = 0, 'ERROR', 'INFO') AS level",
        "concat('request ', id, ' timed out') AS message",
        "id % 2 AS p",
    )


@pytest.fixture
def logs(spark, tmp_path):
    return hc.Table.create(tmp_path / "logs", rows(spark), format="index", fields=FIELDS, partition_by="p")


def loaded(spark, table, **options):
    return spark.read.format("halocline").options(**options).load(table.url)


def ids(df):
    return sorted(row["id"] for row in df.select("id").collect())


@pytest.mark.connect
def test_rows_and_searches_through_the_source_and_in_sql(spark, logs):
    logs.delete("id = 3")
    assert ids(loaded(spark, logs)) == [n for n in range(20) if n != 3]
    assert ids(loaded(spark, logs, versionAsOf="0", search="timed AND level:ERROR").where("p = 0")) == [0, 4, 8, 12, 16]
    found = spark.sql(f"SELECT id, p FROM halocline_search('{logs.url}', 'message:7 OR message:3') WHERE id > 0")
    assert [tuple(row) for row in found.collect()] == [(7, 1)]
    older = spark.sql(
        f"SELECT * FROM halocline_search(path => '{logs.url}', query => 'message:3', version => 0, columns => 'id')"
    )
    assert [tuple(row) for row in older.collect()] == [(3,)]


def test_what_the_source_does_not_know_of_an_index_table_is_refused(spark, logs):
    with pytest.raises(Exception, match="dataChange means nothing for a index table"):
        rows(spark).write.format("halocline").option("dataChange", "false").mode("append").save(logs.url)
    with pytest.raises(Exception, match="serch"):
        loaded(spark, logs, serch="x").count()
    with pytest.raises(Exception, match="no column 'nope'"):
        spark.sql(f"SELECT * FROM halocline_search('{logs.url}', 'nope:1')").collect()
    with pytest.raises(Exception, match="has no argument 'querry'"):
        spark.sql(f"SELECT * FROM halocline_search('{logs.url}', querry => 'x')").collect()


def test_writes_add_rows_or_replace_all_and_are_done_once(spark, logs):
    once = {"txnAppId": "nightly", "txnVersion": "1"}
    for _ in range(2):
        rows(spark, 5, 100).write.format("halocline").options(**once).mode("append").save(logs.url)
    assert ids(logs.to_df()) == [*range(20), *range(100, 105)]
    assert logs.version == 1
    rows(spark, 3).write.format("halocline").mode("overwrite").save(logs.url)
    assert (ids(logs.search("timed")), logs.to_df(version=1).count()) == ([0, 1, 2], 25)
    files = [meta.path for meta in logs.store.list()]
    with pytest.raises(Exception, match="colour"):
        rows(spark, 3).withColumnRenamed("level", "colour").write.format("halocline").mode("append").save(logs.url)
    assert [meta.path for meta in logs.store.list()] == files
    assert len(list(logs.store.list())) == len({meta.path for meta in logs.store.list()})


def test_a_stream_out_of_one_table_into_another_loses_and_repeats_nothing(spark, logs, tmp_path):
    copy = hc.Table.create(
        tmp_path / "copy", "id BIGINT, level STRING, message STRING, p BIGINT", spark, format="index"
    )

    def run():
        lines = spark.readStream.format("halocline").load(logs.url)
        query = (
            lines.writeStream.format("halocline")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(copy.url)
        )
        query.awaitTermination()

    run()
    logs.append(rows(spark, 4, 50))
    run()
    run()
    assert ids(copy.to_df()) == [*range(20), *range(50, 54)]
    assert [each.operation for each in copy.history(2)] == ["STREAMING UPDATE", "STREAMING UPDATE"]
    logs.delete("id = 50")
    with pytest.raises(Exception, match="takes rows away"):
        run()


def test_a_batch_that_is_in_the_table_is_not_added_again(spark, logs):
    first = logs.append_batch(rows(spark, 2, 200), 3, app_id="q")
    assert logs.append_batch(rows(spark, 2, 200), 3, app_id="q") == first
    assert logs.to_df().count() == 22


def test_a_table_that_requires_too_much_is_refused_at_every_door(spark, logs):
    asking = b'{"protocol":{"minReaderVersion":9,"minWriterVersion":9}}\n'
    logs.store.put(INDEX.commit_path(1), asking)
    doors = (
        lambda: loaded(spark, logs).count(),
        lambda: spark.sql(f"SELECT * FROM halocline_search('{logs.url}', 'x')").collect(),
        lambda: rows(spark).write.format("halocline").mode("append").save(logs.url),
        lambda: hc.Table.for_path(logs.url, spark),
        lambda: logs.search("x"),
        lambda: logs.append(rows(spark)),
        lambda: logs.delete("true"),
        lambda: logs.merge_splits(),
        lambda: logs.reindex(),
    )
    for door in doors:
        with pytest.raises(Exception, match="requires a newer version") as refused:
            door()
        assert isinstance(refused.value, IncompatibleError) or "IncompatibleError" in str(refused.value)


@pytest.mark.connect
def test_a_stale_companion_does_not_answer_however_spark_asks_for_its_rows(spark, tmp_path):
    orders = hc.Table.create(tmp_path / "orders", rows(spark, 4))
    index = hc.build_index(orders, tmp_path / "index", ["id", "message"], spark, fields=FIELDS)
    loaded(spark, index, follow="true").createOrReplaceTempView("followed")

    def streamed(**options):
        query = (
            spark.readStream.format("halocline")
            .options(**options)
            .load(index.url)
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / f"checkpoint-{len(options)}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    doors = {
        "to_df": lambda: index.to_df().count(),
        "load": lambda: loaded(spark, index).count(),
        "view": lambda: spark.sql("SELECT count(*) FROM followed").collect(),
        "search": lambda: index.search("timed").count(),
        "count": lambda: index.count("timed"),
        "aggregate": lambda: index.aggregate({"n": hc.Count()}).collect(),
        "stream": streamed,
    }
    for use in doors.values():
        use()
    orders.append(rows(spark, 2, 10))
    for use in doors.values():
        with pytest.raises(Exception, match="does not show the version"):
            use()
    assert index.to_df(stale="allow").count() == loaded(spark, index, stale="allow").count() == 4
    assert index.to_df(version=index.version).count() == 4
    streamed(stale="allow")
    index.sync()
    for use in doors.values():
        use()
    assert ids(index.to_df()) == [0, 1, 2, 3, 10, 11]
