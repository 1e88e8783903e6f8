"""`format("halocline")` on Hudi tables: rows of an instant, of a range, how they changed, and streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from tests.support.hudi_tables import COLUMNS, KINDS, HudiTableMaker, rows, shown

from halocline.formats.hudi.configuration import TableType
from halocline.source.data_source import register
from halocline.storage import open_store

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


@pytest.fixture(autouse=True)
def source(spark):
    register(spark)


def seen(df) -> list[tuple[str, int, str]]:
    return shown(df.toArrow().to_batches())


def loaded(spark, path, **options):
    return spark.read.format("halocline").options(**options).load(str(path))


@pytest.mark.parametrize(("version", "type"), [KINDS[0], KINDS[3], KINDS[5]])
def test_batches_are_what_the_reader_without_spark_gives(spark, tmp_path, version, type):
    maker = HudiTableMaker.create(open_store(tmp_path), version, type)
    first = maker.upsert(range(6), 100, "a")
    maker.upsert([1, 2, 7], 200, "b", deletes=[3])
    snapshot = maker.snapshot
    assert seen(loaded(spark, tmp_path)) == shown(snapshot.read())
    optimised = shown(snapshot.read(query="read_optimized"))
    assert seen(loaded(spark, tmp_path, query="read_optimized")) == optimised
    assert len(seen(loaded(spark, tmp_path, versionAsOf=first))) == 6
    begin = first if version == 6 else snapshot.timeline.completion_of(first)
    found = loaded(spark, tmp_path, beginInstant=begin)
    assert [key for key, _, _ in seen(found)] == ["k1", "k2", "k7"]
    assert len(seen(loaded(spark, tmp_path, endInstant=begin))) == 6
    with pytest.raises(Exception, match="no column ts of that type"):
        spark.read.format("halocline").schema("ts STRING, id STRING").load(str(tmp_path)).count()
    few = spark.read.format("halocline").schema("ts BIGINT, id STRING").load(str(tmp_path))
    assert few.columns == ["ts", "id"]
    assert few.where("ts = 200").count() == 3


def test_values_of_all_types_are_handed_over(spark, tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path), 8, MOR)
    maker.upsert(range(4), 100, "a")
    found = loaded(spark, tmp_path).select(*COLUMNS.names).toArrow().sort_by("id")
    assert found.to_pylist() == rows(range(4), 100, "a").to_pylist()


def test_options_of_other_formats_are_refused_by_name(spark, tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path / "hudi"), 8, COW)
    maker.upsert(range(4), 100, "a")
    with pytest.raises(Exception, match="startingVersion means nothing for a hudi table"):
        loaded(spark, tmp_path / "hudi", startingVersion="0").count()
    spark.range(3).write.format("halocline").mode("append").save(str(tmp_path / "delta"))
    with pytest.raises(Exception, match="query means nothing for a delta table"):
        loaded(spark, tmp_path / "delta", query="snapshot").count()
    with pytest.raises(Exception, match="beginInstant"):
        loaded(spark, tmp_path / "hudi", beginInstnat="0").count()


def run(spark, path, checkpoint, target, **options) -> None:
    stream = spark.readStream.format("halocline").options(**options).load(str(path))
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint))
        .option("path", str(target))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)


@pytest.mark.parametrize(("version", "type"), [(6, COW), (8, MOR)])
def test_a_stream_delivers_what_is_there_and_then_what_writes_bring_each_once(spark, tmp_path, version, type):
    table, checkpoint, target = tmp_path / "table", tmp_path / "checkpoint", tmp_path / "out"
    maker = HudiTableMaker.create(open_store(table), version, type)
    maker.upsert(range(4), 100, "a")
    maker.upsert([1], 200, "b")
    run(spark, table, checkpoint, target)
    assert seen(spark.read.parquet(str(target))) == shown(maker.snapshot.read())
    maker.upsert([2, 8], 300, "c")
    maker.upsert([9], 400, "d")
    run(spark, table, checkpoint, target)
    run(spark, table, checkpoint, target)
    delivered = seen(spark.read.parquet(str(target)))
    assert [row for row in delivered if row[1] >= 300] == [("k2", 300, "c2"), ("k8", 300, "c8"), ("k9", 400, "d9")]
    assert len(delivered) == 7


def test_a_stream_waits_for_a_write_that_began_earlier(spark, tmp_path):
    table, checkpoint, target = tmp_path / "table", tmp_path / "checkpoint", tmp_path / "out"
    maker = HudiTableMaker.create(open_store(table), 6, COW)
    maker.upsert(range(4), 100, "a")
    slow = maker.begin()
    maker.upsert([9], 300, "c")
    run(spark, table, checkpoint, target)
    assert len(seen(spark.read.parquet(str(target)))) == 4, "9 comes behind a write that is pending"
    slow.complete(maker.write(slow, rows([12], 200, "b")), schema=maker.schema)
    run(spark, table, checkpoint, target)
    assert {key for key, _, _ in seen(spark.read.parquet(str(target)))} == {"k0", "k1", "k2", "k3", "k9", "k12"}


def test_a_stream_begins_where_it_is_told(spark, tmp_path):
    table = tmp_path / "table"
    maker = HudiTableMaker.create(open_store(table), 8, COW)
    first = maker.upsert(range(4), 100, "a")
    maker.upsert([1], 200, "b")
    begin = maker.snapshot.timeline.completion_of(first)
    run(spark, table, tmp_path / "checkpoint", tmp_path / "out", beginInstant=begin)
    assert seen(spark.read.parquet(str(tmp_path / "out"))) == [("k1", 200, "b1")]


@pytest.mark.parametrize(("version", "type"), [(6, COW), (9, MOR)])
def test_rows_are_added_to_a_table_that_is_there(spark, tmp_path, version, type):
    maker = HudiTableMaker.create(open_store(tmp_path), version, type)
    maker.upsert(range(4), 100, "a")
    more = spark.createDataFrame(rows([7, 8], 200, "b"))
    more.write.format("halocline").mode("append").save(str(tmp_path))
    found = shown(maker.snapshot.read())
    assert len(found) == 6
    assert found[-2:] == [("k7", 200, "b7"), ("k8", 200, "b8")]
    assert maker.snapshot.timeline.pending == frozenset()
    assert list(open_store(tmp_path).list(".hoodie/.heartbeat")) == []
    with pytest.raises(Exception, match="has no column other"):
        more.selectExpr("*", "1 AS other").write.format("halocline").mode("append").save(str(tmp_path))
    with pytest.raises(Exception, match=r"Table\.overwrite"):
        more.write.format("halocline").mode("overwrite").save(str(tmp_path))
    bad = more.selectExpr("CAST(NULL AS STRING) AS id", "region", "ts")
    with pytest.raises(Exception, match="rows have no record key"):
        bad.write.format("halocline").mode("append").save(str(tmp_path))
    assert len(shown(maker.snapshot.read())) == 6
    assert maker.snapshot.timeline.pending == frozenset()


def stream_in(spark, folder, table, **options):
    """Every file of the folder as a batch of its own, into the table."""
    found = spark.readStream.schema(spark.read.parquet(str(folder / "0")).schema).option("maxFilesPerTrigger", 1)
    query = (
        found.parquet(str(folder / "*"))
        .writeStream.format("halocline")
        .option("checkpointLocation", str(table) + "-checkpoint")
        .options(**options)
        .trigger(availableNow=True)
        .start(str(table))
    )
    query.awaitTermination()


@pytest.mark.parametrize(("version", "type"), [(6, COW), (9, MOR)])
def test_a_stream_into_a_table_adds_each_batch_once(spark, tmp_path, version, type):
    folder, table = tmp_path / "in", tmp_path / "table"
    maker = HudiTableMaker.create(open_store(table), version, type)
    batches = [rows(range(each * 3, each * 3 + 3), 100, f"b{each}-") for each in range(3)]
    for number, batch in enumerate(batches[:2]):
        spark.createDataFrame(batch).coalesce(1).write.parquet(str(folder / str(number)))
    stream_in(spark, folder, table)
    expected = shown(batch for each in batches[:2] for batch in each.to_batches())
    assert shown(maker.snapshot.read()) == expected
    before = maker.snapshot.version
    checkpoint = tmp_path / "table-checkpoint/commits"
    (last,) = (each for each in checkpoint.iterdir() if each.name == "1")
    last.unlink()  # as if Spark had died after the table was committed
    (checkpoint / ".1.crc").unlink(missing_ok=True)
    stream_in(spark, folder, table)
    assert (maker.snapshot.version, shown(maker.snapshot.read())) == (before, expected)
    spark.createDataFrame(batches[2]).coalesce(1).write.parquet(str(folder / "2"))
    stream_in(spark, folder, table)
    assert len(shown(maker.snapshot.read())) == 9
    assert maker.snapshot.timeline.pending == frozenset()
    assert list(maker.store.list(".hoodie/.aux")) == [], "no note is left"


@pytest.mark.parametrize(("version", "type"), [(8, MOR), (9, COW)])
def test_a_stream_into_a_table_with_buckets_merges_each_batch_once(spark, tmp_path, version, type):
    folder, table = tmp_path / "in", tmp_path / "table"
    maker = HudiTableMaker.create(open_store(table), version, type, buckets=2)
    for number, batch in enumerate([rows(range(6), 100, "a"), rows(range(4, 9), 200, "b")]):
        spark.createDataFrame(batch).repartition(2).write.parquet(str(folder / str(number)))
    stream_in(spark, folder, table)
    expected = [(f"k{each}", 100, f"a{each}") for each in range(4)] + [
        (f"k{each}", 200, f"b{each}") for each in range(4, 9)
    ]
    assert shown(maker.snapshot.read()) == expected
    before = maker.snapshot.version
    commits = tmp_path / "table-checkpoint/commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    (commits / str(last)).unlink()  # as if Spark had died after the table was committed
    (commits / f".{last}.crc").unlink(missing_ok=True)
    stream_in(spark, folder, table)
    assert (maker.snapshot.version, shown(maker.snapshot.read())) == (before, expected)
    assert maker.snapshot.timeline.pending == frozenset()
    assert list(maker.store.list(".hoodie/.aux")) == [], "neither a note nor a row is left aside"


def test_a_stream_into_a_table_of_a_version_that_the_release_does_not_write_is_refused(spark, tmp_path):
    folder, table = tmp_path / "in", tmp_path / "table"
    maker = HudiTableMaker.create(open_store(table), 8, COW)
    spark.createDataFrame(rows(range(3), 100, "a")).write.parquet(str(folder / "0"))
    with pytest.raises(Exception, match="table version 8"):
        stream_in(spark, folder, table, **{"halocline.release": "hudi@0.15.0"})
    assert maker.snapshot.timeline.instants == ()


KILLED = """
    import os, sys
    from pyspark.sql import SparkSession
    from halocline.source.data_source import register

    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())
    register(spark)
    folder, table = sys.argv[1:]
    rows = spark.readStream.schema(spark.read.parquet(folder + "/0").schema).option("maxFilesPerTrigger", 1)
    query = (rows.parquet(folder + "/*").writeStream.format("halocline")
        .option("checkpointLocation", table + "-checkpoint").start(table))
    query.awaitTermination()
"""


def test_a_stream_that_is_killed_in_the_middle_of_a_batch_goes_on_without_a_row_lost_or_twice(spark, tmp_path):
    folder, table = tmp_path / "in", tmp_path / "table"
    maker = HudiTableMaker.create(open_store(table), 8, COW)
    batches = [rows(range(each * 3, each * 3 + 3), 100, "a") for each in range(4)]
    for number, batch in enumerate(batches):
        spark.createDataFrame(batch).coalesce(1).write.parquet(str(folder / str(number)))
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(folder), str(table)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 200
        while not maker.snapshot.timeline.pending or not maker.snapshot.timeline.writes:
            assert process.poll() is None, "the stream has ended by itself"
            assert time.monotonic() < deadline, "no batch began"
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    stream_in(spark, folder, table)
    expected = shown(batch for each in batches for batch in each.to_batches())
    assert shown(maker.snapshot.read()) == expected
