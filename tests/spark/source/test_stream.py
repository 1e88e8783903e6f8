"""Streams deliver every row once, whatever happens to the query, and stop where they cannot go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.support import columns
from tests.support.columns import field

from halocline.errors import ConstraintError, InputError
from halocline.formats.delta.actions.action import Add, CommitInfo, Metadata, ProtocolAction, Remove, Txn, encode_commit
from halocline.formats.log.names import DELTA
from halocline.schema.json_edge import dump
from halocline.storage import open_store
from halocline.table import Table

BUSY = "failed to connect back"
"""What Spark says if a Python worker took more than ten seconds to start, as on a busy machine."""


def patiently(run, tries: int = 6) -> None:
    """Runs a query, and again if a worker started too late."""
    for left in range(tries, 0, -1):
        try:
            return run()
        except Exception as error:  # Spark's classes differ between sessions
            if left == 1 or BUSY not in str(error):
                raise


class Query:
    """A streaming query that can be run again and again from its checkpoint, until nothing is left."""

    def __init__(self, spark, source: str, root: Path, **options: str) -> None:
        self.spark = spark
        self.source = source
        self.root = root
        self.options = options
        self.target = str(root / "target")

    def start(self, **trigger):
        read = self.spark.readStream.format("halocline").options(**self.options).load(self.source)
        write = read.writeStream.format("parquet").option("checkpointLocation", str(self.root / "checkpoint"))
        return write.trigger(**(trigger or {"availableNow": True})).start(self.target)

    def run(self) -> list[int]:
        """Runs to the end of what there is, and returns all ids delivered so far."""
        patiently(lambda: self.start().awaitTermination())
        return self.ids()

    def fail(self) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's classes differ between sessions
            patiently(lambda: self.start().awaitTermination())
        return str(caught.value)

    def fail_after(self, change) -> str:
        """What a running query says when the table changes under it."""
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's classes differ between sessions
            patiently(lambda: self._changed(change))
        return str(caught.value)

    def _changed(self, change) -> None:
        running = self.start(processingTime="0 seconds")
        try:
            while len(self.ids()) < 3:
                running.awaitTermination(0.2)
            change()
            assert running.awaitTermination(90), "the query did not notice"
        finally:
            running.stop()

    def ids(self) -> list[int]:
        if not Path(self.target, "_spark_metadata").exists():
            return []
        return sorted(row["id"] for row in self.spark.read.schema("id long").parquet(self.target).collect())

    def done(self) -> int:
        """How many batches the checkpoint says are done."""
        return len(list((self.root / "checkpoint/commits").glob("[0-9]*")))

    def batches(self) -> list[dict]:
        """The positions that the checkpoint holds, in order."""
        files = sorted((self.root / "checkpoint/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return [json.loads(path.read_text().splitlines()[-1]) for path in files]


def append(path, *ids, **options):
    write_deltalake(str(path), pa.table({"id": pa.array(ids, pa.int64())}), mode="append", **options)


def commit(path, version, *actions):
    open_store(path).put_if_absent(DELTA.commit_path(version), encode_commit([CommitInfo({}), *actions]))


@pytest.fixture
def source(tmp_path):
    path = str(tmp_path / "source")
    append(path, 1, 2)
    append(path, 3)
    return path


# ---------------------------------------------------------------- reading


def test_a_stream_delivers_what_is_there_and_then_what_is_added(spark, source, tmp_path):
    query = Query(spark, source, tmp_path)
    assert query.run() == [1, 2, 3]
    append(source, 4)
    append(source, 5)
    assert query.run() == [1, 2, 3, 4, 5]
    assert query.run() == [1, 2, 3, 4, 5]
    first, *_ = query.batches()
    assert first.keys() == {"version", "index", "isStartingVersion", "tableId", "began"}
    assert (first["version"], first["index"], first["isStartingVersion"]) == (2, -1, False)
    began = first["began"]
    assert (began["version"], began["index"], began["isStartingVersion"]) == (1, -1, True)


def test_a_stream_from_a_version_delivers_only_what_came_since(spark, source, tmp_path):
    append(source, 4)
    assert Query(spark, source, tmp_path / "a", startingVersion="1").run() == [3, 4]
    latest = Query(spark, source, tmp_path / "b", startingVersion="latest")
    assert latest.run() == []
    append(source, 5)
    assert latest.run() == [5]
    assert "VERSION_NOT_FOUND" in Query(spark, source, tmp_path / "c", startingVersion="9").fail()


def test_micro_batches_are_limited_and_positions_point_into_versions(spark, tmp_path):
    path = str(tmp_path / "source")
    table = pa.table({"id": list(range(7)), "p": list(range(7))})
    write_deltalake(path, table, partition_by=["p"])
    query = Query(spark, path, tmp_path, maxFilesPerTrigger="3")
    assert query.run() == list(range(7))
    places = [(batch["version"], batch["index"], batch["isStartingVersion"]) for batch in query.batches()]
    assert places == [(0, 2, True), (0, 5, True), (1, -1, False)]
    small = Query(spark, path, tmp_path / "bytes", maxBytesPerTrigger="1")
    assert small.run() == list(range(7))
    assert len(small.batches()) == 7


def test_queries_stopped_at_any_time_lose_and_repeat_nothing(spark, tmp_path):
    path = str(tmp_path / "source")
    append(path, *range(5))
    query, expected = Query(spark, path, tmp_path, maxFilesPerTrigger="1"), 5
    for more in (0, 1, 2):
        running, before = query.start(processingTime="0 seconds"), query.done()
        for _ in range(3):
            append(path, expected)
            expected += 1
        while running.isActive and query.done() < before + more:
            running.awaitTermination(0.05)
        died = running.exception()
        running.stop()
        assert died is None or BUSY in str(died), "a query may die of a late worker, which is as good as being stopped"
    assert query.run() == list(range(expected))


def test_a_batch_that_was_planned_but_not_done_is_done_again_exactly(spark, source, tmp_path):
    query = Query(spark, source, tmp_path, maxFilesPerTrigger="1")
    assert query.run() == [1, 2, 3]
    append(source, 4)
    append(source, 5)
    assert query.run() == [1, 2, 3, 4, 5]
    # As after a crash: the last batch is planned, but neither committed by the query nor by its target.
    last = len(query.batches()) - 1
    for log in (tmp_path / "checkpoint/commits", Path(query.target) / "_spark_metadata"):
        for name in (str(last), f".{last}.crc"):
            (log / name).unlink(missing_ok=True)
    append(source, 6)
    assert query.run() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("has_it", [False, True], ids=["target lacks it", "target has it"])
@pytest.mark.parametrize("options", [{}, {"maxFilesPerTrigger": "1"}, {"startingVersion": "latest"}], ids=str)
def test_a_first_batch_that_was_not_noted_is_done_again_though_the_table_moved_on(
    spark, source, tmp_path, options, has_it
):
    query, is_latest = Query(spark, source, tmp_path, **options), "startingVersion" in options
    assert query.run() == ([] if is_latest else [1, 2, 3])
    # As after a crash in the first batch: it is planned, and Spark has not noted that it is done.
    first, logs = {"0", ".0.crc"}, {"checkpoint/offsets": True, "checkpoint/commits": False}
    for log, keeps in (logs | {f"{query.target}/_spark_metadata": has_it}).items():
        for path in (tmp_path / log).iterdir():
            if path.name not in first or not keeps:
                path.unlink()
    append(source, 4)
    append(source, 5)
    assert query.run() == ([4, 5] if is_latest else [1, 2, 3, 4, 5])


def test_versions_that_take_rows_away_stop_the_stream_after_all_before_them(spark, source, tmp_path):
    query = Query(spark, source, tmp_path)
    assert query.run() == [1, 2, 3]
    append(source, 4)
    DeltaTable(source).delete("id = 1")
    append(source, 5)
    assert "STREAM_ROWS_REMOVED" in query.fail()
    assert query.ids() == [1, 2, 3, 4]
    query.options["skipChangeCommits"] = "true"
    assert query.run() == [1, 2, 3, 4, 5]


def test_changed_columns_stop_the_stream_and_a_restart_goes_on_with_them(spark, source, tmp_path):
    query = Query(spark, source, tmp_path)
    wider = pa.table({"id": pa.array([4], pa.int64()), "note": ["new"]})
    said = query.fail_after(lambda: write_deltalake(source, wider, mode="append", schema_mode="merge"))
    assert "STREAM_SCHEMA_CHANGED" in said
    assert query.ids() == [1, 2, 3]
    assert query.run() == [1, 2, 3, 4]


def test_a_stream_whose_files_were_vacuumed_says_what_to_do(spark, source, tmp_path):
    table = Table.for_path(source, spark)
    table.optimize().execute_compaction()
    table.vacuum(retention_hours=0, enforce_retention=False, dry_run=False)
    said = Query(spark, source, tmp_path, startingVersion="0").fail()
    assert "DATA_FILES_MISSING" in said, said[-500:]
    assert "start a stream with a new checkpoint" in said


def test_a_table_that_is_replaced_under_a_running_query_ends_it(spark, source, tmp_path):
    def replaced():
        shutil.rmtree(source)
        for number in (7, 8, 9):
            append(source, number)

    query = Query(spark, source, tmp_path)
    said = query.fail_after(replaced)
    # It may look between the two tables, when there is none.
    assert "STREAM_TABLE_REPLACED" in said or "TABLE_NOT_FOUND" in said, said[:1000]
    assert query.ids() == [1, 2, 3], "rows of the other table"
    assert "STREAM_TABLE_REPLACED" in query.fail()


def test_the_change_feed_streams_too(spark, tmp_path):
    path = str(tmp_path / "source")
    append(path, 1, 2, configuration={"delta.enableChangeDataFeed": "true"})
    query = Query(spark, path, tmp_path, readChangeFeed="true")
    assert query.run() == [1, 2]
    DeltaTable(path).update(updates={"id": "id + 10"}, predicate="id = 1")
    query.run()
    rows = spark.read.parquet(query.target).select("id", "_change_type", "_commit_version").collect()
    assert sorted(map(tuple, rows)) == [
        (1, "insert", 0),
        (1, "update_preimage", 1),
        (2, "insert", 0),
        (11, "update_postimage", 1),
    ]


# ---------------------------------------------------------------- writing


class Sink:
    """A query from one table into another."""

    def __init__(self, spark, source: str, root: Path, **options: str) -> None:
        self.spark = spark
        self.source = source
        self.root = root
        self.options = options
        self.target = root / "target"
        self.checkpoint = root / "checkpoint"

    def run(self, mode: str = "append") -> list[int]:
        read = self.spark.readStream.format("halocline").option("maxFilesPerTrigger", "1").load(self.source)
        write = read.writeStream.format("halocline").outputMode(mode).options(**self.options)
        write = write.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        patiently(lambda: write.start(str(self.target)).awaitTermination())
        return self.ids()

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in Table.for_path(self.target, self.spark).to_df().collect())

    def redo_last(self) -> None:
        """Makes Spark believe that the last batch was planned and not done."""
        last = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for name in (str(last), f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


def test_a_stream_creates_the_table_and_adds_each_batch_as_one_version(spark, source, tmp_path):
    sink = Sink(spark, source, tmp_path)
    assert sink.run() == [1, 2, 3]
    query_id = json.loads((sink.checkpoint / "metadata").read_text())["id"]
    snapshot = Table.for_path(sink.target).snapshot()
    assert snapshot.txns.keys() == {query_id}
    assert str(snapshot.protocol) == "(1,2)"
    append(source, 4)
    assert sink.run() == [1, 2, 3, 4]
    entry = Table.for_path(sink.target).history()[0]
    assert entry.operation == "STREAMING UPDATE"
    assert DeltaTable(str(sink.target)).to_pyarrow_table().num_rows == 4


def test_a_batch_that_spark_repeats_is_skipped_and_leaves_no_files(spark, source, tmp_path):
    sink = Sink(spark, source, tmp_path)
    sink.run()
    version = Table.for_path(sink.target).version
    files = sorted(sink.target.rglob("*.parquet"))
    for _ in range(2):
        sink.redo_last()
        assert sink.run() == [1, 2, 3]
    assert Table.for_path(sink.target).version == version
    assert sorted(sink.target.rglob("*.parquet")) == files
    append(source, 4)
    assert sink.run() == [1, 2, 3, 4]


def test_a_new_checkpoint_is_another_query_and_a_named_one_is_the_same(spark, source, tmp_path):
    sink = Sink(spark, source, tmp_path)
    sink.run()
    sink.checkpoint = tmp_path / "second"
    assert sink.run() == [1, 1, 2, 2, 3, 3], "another checkpoint is another query"
    named = Sink(spark, source, tmp_path / "named", txnAppId="nightly")
    named.run()
    named.checkpoint = tmp_path / "named/second"
    assert named.run() == [1, 2, 3]
    assert Table.for_path(named.target).snapshot().txns["nightly"] == Txn(
        "nightly", 1, Table.for_path(named.target).snapshot().txns["nightly"].last_updated
    )


def test_complete_mode_replaces_all_rows_with_each_batch(spark, source, tmp_path):
    target = tmp_path / "counts"
    counts = spark.readStream.format("halocline").load(source).groupBy("id").count()
    writing = counts.writeStream.format("halocline").outputMode("complete").trigger(availableNow=True)
    for expected in ([(1, 1), (2, 1), (3, 1)], [(1, 2), (2, 1), (3, 1), (9, 1)]):
        query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(target))
        patiently(query.awaitTermination)
        table = Table.for_path(target, spark)
        assert sorted((row["id"], row["count"]) for row in table.to_df().collect()) == expected
        assert table.history()[0].operation == "STREAMING UPDATE"
        Table.for_path(source, spark).append(spark.range(1, 10, 8))


def test_update_mode_is_refused(spark, source, tmp_path):
    with pytest.raises(Exception, match=r"(?i)update|UNSUPPORTED"):
        Sink(spark, source, tmp_path).run(mode="update")


def test_a_table_with_rules_is_refused_before_anything_is_written(spark, source, tmp_path):
    sink = Sink(spark, source, tmp_path)
    schema = dump(columns.schema(field("id", "long")))
    metadata = Metadata("1", schema_string=schema, configuration={"delta.constraints.small": "id % 10 < 3"})
    commit(sink.target, 0, ProtocolAction(1, 3), metadata)
    with pytest.raises(Exception, match=r"append\(df\)"):
        sink.run()
    assert sorted(path.name for path in sink.target.iterdir()) == ["_delta_log"]


def test_a_file_may_be_delivered_with_its_deletion_vector_kept(spark, tmp_path):
    path = str(tmp_path / "source")
    append(path, 1, 2, 3, configuration={"delta.enableDeletionVectors": "true"})
    from halocline.formats.delta.actions.deletion_vectors import write_file

    store = open_store(path)
    files = Table.for_path(path).snapshot().files()
    (vector,) = write_file(store, [[1]])
    name, size = files["path"][0].as_py(), files["size"][0].as_py()
    commit(path, 1, Remove(name, 1, True, True, {}, size), Add(name, {}, size, 1, True, deletion_vector=vector))
    assert Query(spark, path, tmp_path).run() == [1, 3]


def test_batches_handed_to_a_table_with_rules_are_added_once_each(spark, source, tmp_path):
    path = tmp_path / "target"
    schema = dump(columns.schema(field("id", "long")))
    metadata = Metadata("1", schema_string=schema, configuration={"delta.constraints.small": "id < 100"})
    commit(path, 0, ProtocolAction(1, 3), metadata)
    table = Table.for_path(path, spark)
    first = table.append_batch(spark.range(3), 0, app_id="orders-1")
    assert table.append_batch(spark.range(3), 0, app_id="orders-1") == first
    table.append_batch(spark.range(3, 5), 1, app_id="orders-1")
    with pytest.raises(ConstraintError, match="small"):
        table.append_batch(spark.range(99, 101), 2, app_id="orders-1")
    with pytest.raises(InputError, match="name of its query"):
        table.append_batch(spark.range(1), 3, app_id="")
    assert sorted(row["id"] for row in table.to_df().collect()) == list(range(5))
    assert table.snapshot().txns["orders-1"].version == 1


def test_foreach_batch_adds_each_batch_once(spark, source, tmp_path, is_connect):
    if is_connect:
        pytest.skip("the function would run on the server, which has no copy of this module")
    table = Table.create(tmp_path / "target", "id BIGINT", spark)

    def add(df, batch_id):
        table.append_batch(df, batch_id, app_id="orders-1")

    for ids in ((), (4,)):
        if ids:
            append(source, *ids)
        write = spark.readStream.format("halocline").load(source).writeStream.foreachBatch(add)
        write = write.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        patiently(lambda write=write: write.start().awaitTermination())
    assert sorted(row["id"] for row in table.to_df().collect()) == [1, 2, 3, 4]
