"""Compaction and z-order: the same rows in other files."""

from __future__ import annotations

import contextlib
import itertools
import shutil

import pyarrow as pa
import pytest
from tests.support.faulty_store import CrashError, FaultyStore
from tests.support.tables import VECTORS, by_another_client, rows_of

from halocline.errors import ConflictError, InputError, MalformedError
from halocline.formats.delta.actions.action import decode_commit
from halocline.formats.log.names import DELTA
from halocline.storage import open_store
from halocline.table import DeltaLakeTable, Table
from halocline.table.delta.layout import optimize
from halocline.table.delta.layout.bins import bins_of
from halocline.table.delta.layout.zorder import interleaved
from halocline.table.delta.opened import Opened


def ids_of(table, spark):
    from halocline.spark.scan.frames import frame_of
    from halocline.table.delta.rows.files import RowFiles

    snapshot = table.snapshot()
    columns = RowFiles(table.store, snapshot.configuration).identities()
    return sorted(tuple(row) for row in frame_of(spark, snapshot, rows=columns).select("id", *columns.names).collect())


@pytest.fixture
def many(tmp_path, spark):
    """Six files in each of two partitions; rows are tracked, and some are marked as deleted."""
    df = spark.range(0, 600, 1, 6).selectExpr("id", "CAST(id % 2 AS INT) AS p", "id * 7 % 100 AS v")
    properties = {**VECTORS, "delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
    table = Table.create(tmp_path / "t", df, spark, partition_by="p", properties=properties)
    table.delete("id % 50 = 3")
    return table


@pytest.mark.parametrize("most_scans", [16, 0], ids=["a scan for each bin", "one scan"])
def test_compaction_packs_each_partition_and_keeps_rows_and_their_ids(many, tmp_path, spark, most_scans, monkeypatch):
    monkeypatch.setattr(optimize, "_MOST_SCANS", most_scans)
    rows, ids = rows_of(many), ids_of(many, spark)
    part = many.optimize().where("p = 1").execute_compaction()
    assert (part.metrics["numRemovedFiles"], part.metrics["numAddedFiles"]) == (6, 1)
    done = many.optimize().execute_compaction()
    assert (done.metrics["numRemovedFiles"], done.metrics["numAddedFiles"]) == (6, 1)
    assert (rows_of(many), ids_of(many, spark)) == (rows, ids)
    assert many.snapshot().files()["deletion_vector"].null_count == 2, "deleted rows are gone for good"
    assert by_another_client(tmp_path / "t") == rows
    assert many.changes(part.version, done.version).count() == 0, "no row changed"
    commit = decode_commit(many.store.get(DELTA.commit_path(done.version)), "commit")
    assert not any(each.data_change for each in (*commit.adds, *commit.removes))
    again = many.optimize().execute_compaction()
    assert (again.committed, again.version) == (False, done.version)


def test_sizes_bound_what_is_packed(tmp_path, spark):
    table = Table.create(tmp_path / "t", spark.range(0, 8000, 1, 8), spark)
    size = max(table.snapshot().files()["size"].to_pylist())
    assert not table.optimize().execute_compaction(min_file_size=1).committed
    done = table.optimize().execute_compaction(max_file_size=size * 4 + 100)
    assert done.metrics["numAddedFiles"] == 2
    with pytest.raises(InputError, match="sizes"):
        table.optimize().execute_compaction(min_file_size=10, max_file_size=5)


def test_bins_hold_files_of_one_partition_up_to_the_target():
    values = pa.array(
        [[("p", "1")], [("p", "2")], [("p", "1")], [("p", "1")], [("p", None)]], pa.map_(pa.string(), pa.string())
    )
    columns = {"size": [5, 5, 6, 7, 1], "partition_values": values, "stats": [None] * 5, "deletion_vector": pa.nulls(5)}
    assert bins_of(pa.table(columns), 100, 12) == [[0, 2]], "7 does not fit in, and one file alone is not worth it"


def test_z_order_lets_each_column_leave_out_files(tmp_path, spark):
    df = spark.range(0, 20000, 1, 4).selectExpr(
        "id", "id * 7919 % 1000 AS a", "concat('k', lpad(CAST(id * 104729 % 1000 AS STRING), 3, '0')) AS b"
    )
    table = Table.create(tmp_path / "t", df, spark)
    rows = rows_of(table)
    size = sum(table.snapshot().files()["size"].to_pylist())
    done = table.optimize().execute_z_order_by("A", "b", max_file_size=size // 15)
    files = table.snapshot().files()
    assert done.metrics["numAddedFiles"] == len(files) > 10
    for where in ("a BETWEEN 100 AND 120", "b BETWEEN 'k400' AND 'k420'"):
        share = len(table.snapshot().files(where)) / len(files)
        assert share < 0.6, f"{where} needs {share:.0%} of the files; four before, it was all of them"
    assert rows_of(table) == rows
    assert table.history()[0].info.values["operationParameters"]["zOrderBy"] == '["a","b"]'


def test_bits_are_taken_in_turns(spark):
    from pyspark.sql import functions as F

    row = spark.range(1).select(interleaved([F.lit(0b101), F.lit(0b011)], 3)).first()
    assert row[0] == 0b100111


def test_rows_that_somebody_else_changes_meanwhile_stop_it(tmp_path, spark):
    from halocline.table.delta.layout.optimize import _Rearranging

    table = Table.create(tmp_path / "t", spark.range(0, 40, 1, 4), spark)
    builder = table.optimize()
    work = _Rearranging(builder)
    table.append(spark.range(100, 101))
    Table.for_path(tmp_path / "t", spark).delete("id = 5")
    found = bins_of(work.files, 10**9, 10**9)
    before = set(tmp_path.rglob("*.parquet"))
    with pytest.raises(ConflictError) as refused:
        work.run(found, lambda files: work.packed(files, found))
    assert refused.value.condition == "CONCURRENT_DELETE_READ"
    assert set(tmp_path.rglob("*.parquet")) == before, "the files that were written are deleted again"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda o: o.where("id > 3").execute_compaction(), "more than partitions"),
        (lambda o: o.execute_z_order_by("nope"), "no column 'nope'"),
        (lambda o: o.execute_z_order_by("p"), "cannot be sorted by column p"),
        (lambda o: o.execute_z_order_by(), "named"),
    ],
    ids=["rows", "unknown column", "partition column", "no column"],
)
def test_what_cannot_be_rearranged_is_refused(ask, message, tmp_path, spark):
    table = Table.create(tmp_path / "t", "id BIGINT, p INT", spark, partition_by="p")
    with pytest.raises(InputError, match=message):
        ask(table.optimize())


def test_a_crash_at_any_step_leaves_the_table_as_before_or_after(tmp_path, spark):
    """Every operation of the store is followed by a crash in turn; the run after it finishes."""
    Table.create(tmp_path / "t", spark.range(0, 40, 1, 4), spark, properties={"delta.checkpointInterval": "1"})
    rows = [(n,) for n in range(40)]
    crashed = 0
    for step in itertools.count(1):
        path = shutil.copytree(tmp_path / "t", tmp_path / str(step))
        broken = DeltaLakeTable(Opened(FaultyStore(open_store(path)).crash_after(step), spark))
        with contextlib.suppress(CrashError):
            broken.optimize().execute_compaction()
            break
        crashed += 1
        table = Table.for_path(path, spark)
        assert table.snapshot().files().num_rows == (1 if table.version == 1 else 4), f"after operation {step}"
        assert by_another_client(path) == rows, f"after operation {step}"
        table.optimize().execute_compaction()
        assert (table.version, table.snapshot().files().num_rows) == (1, 1), f"after operation {step}"
        assert by_another_client(path) == rows, f"after operation {step} and another run"
    assert crashed > 10, "there was something to break"


@pytest.mark.parametrize("verb", ["optimize", "merge", "delete", "update"])
def test_files_with_other_rows_than_the_log_says_are_not_written_again(tmp_path, spark, verb):
    table = Table.create(tmp_path / "t", spark.range(0, 40, 1, 2), spark)
    (commit,) = (tmp_path / "t" / "_delta_log").glob("*0.json")
    commit.write_text(commit.read_text().replace('\\"numRecords\\":20', '\\"numRecords\\":21', 1))
    for checksum in (tmp_path / "t" / "_delta_log").glob("*.crc"):
        checksum.unlink()
    before = sorted(each.name for each in (tmp_path / "t").rglob("*.parquet"))
    merge = table.merge(spark.range(40), "t.id = s.id").when_matched_update(set={"id": "s.id"})
    work = {
        "optimize": table.optimize().execute_compaction,
        "merge": merge.execute,
        "delete": lambda: table.delete("id % 2 = 0"),
        "update": lambda: table.update({"id": "id + 1"}, "id % 2 = 0"),
    }[verb]
    with pytest.raises(MalformedError, match="other rows than its log says") as caught:
        work()
    assert "(20 rows, not 21)" in caught.value.sides["differ"]
    assert sorted(each.name for each in (tmp_path / "t").rglob("*.parquet")) == before
    assert table.version == 0
