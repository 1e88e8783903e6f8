"""Hudi tables written from DataFrames, read back by us and by hudi-rs; and writers that die in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder
from pyspark.sql.functions import lit

from halocline.errors import (
    AlreadyExistsError,
    ConflictError,
    ConstraintError,
    InputError,
    SchemaError,
    UnsupportedError,
)
from halocline.formats.hudi.buckets import BucketIndex, bucket_index
from halocline.formats.hudi.lint import lint
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.write.heartbeat import is_alive
from halocline.formats.hudi.write.transaction import begin_write
from halocline.storage import open_store
from halocline.table import HudiTable, Table
from halocline.table.hudi.shared_partition import SharedPartitionWarning
from halocline.table.hudi.writing import MetadataTableWarning

KINDS = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
DDL = "id STRING, region STRING, ts BIGINT, name STRING, amount DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>"


def rows(spark, ids, ts: int, tag: str):
    return (
        spark.createDataFrame([(number,) for number in ids], "n BIGINT")
        .selectExpr(
            "concat('k', n) AS id",
            "CASE n % 2 WHEN 0 THEN 'ap' ELSE 'eu' END AS region",
            f"CAST({ts} AS BIGINT) AS ts",
            f"concat('{tag}', n) AS name",
            "CAST(n * 1.25 AS DECIMAL(10,2)) AS amount",
            "timestamp'2024-02-29 12:00:00' + make_interval(0,0,0,0,CAST(n AS INT)) AS at",
            f"array('{tag}', 'x') AS tags",
        )
        .coalesce(1)
    )


def made(spark, path: Path, version: int = 8, kind: str = "cow", **more) -> HudiTable:
    declared = {"keys": "id", "ordering": "ts", "partition_by": "region", **more}
    Table.create(path, DDL, spark, format="hudi", version=version, kind=kind, **declared)
    return Table.for_path(path, spark)


def ours(table: HudiTable, **options) -> list[tuple[str, int, str]]:
    return sorted(tuple(row) for row in table.to_df(columns=["id", "ts", "name"], **options).collect())


def theirs(path: Path, options: HudiReadOptions | None = None) -> list[tuple[str, int, str]]:
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read(options or HudiReadOptions())
    return sorted((row["id"], row["ts"], row["name"]) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize(
    ("version", "kind"), [pytest.param(*kind, marks=[pytest.mark.connect] * (kind[0] == 8)) for kind in KINDS]
)
def test_every_verb_leaves_rows_that_another_client_reads(spark, tmp_path, version, kind):
    table = made(spark, tmp_path, version, kind)
    first = table.insert(rows(spark, range(6), 100, "a"))
    assert table.version == first
    table.upsert(rows(spark, [1, 2, 7], 200, "b"))
    table.upsert(rows(spark, [2], 150, "late"))
    expected = [("k0", 100, "a0"), ("k1", 200, "b1"), ("k2", 200, "b2"), ("k3", 100, "a3"), ("k4", 100, "a4")]
    expected += [("k5", 100, "a5"), ("k7", 200, "b7")]
    assert ours(table) == expected
    table.delete("id = 'k0'")
    table.delete(spark.createDataFrame([("k3", "eu"), ("k99", "eu")], "id STRING, region STRING"))
    left = [row for row in expected if row[0] not in ("k0", "k3")]
    assert ours(table) == theirs(tmp_path) == left
    assert ours(table, version=first) == theirs(tmp_path, HudiReadOptions().with_as_of_timestamp(str(first)))
    assert [each.operation for each in table.history()] == ["DELETE", "DELETE", "UPSERT", "UPSERT", "INSERT"]
    table.insert_overwrite(rows(spark, [10], 300, "c"))
    assert (
        ours(table) == theirs(tmp_path) == sorted([row for row in left if int(row[0][1:]) % 2] + [("k10", 300, "c10")])
    )
    table.delete_partition("eu")
    assert ours(table) == theirs(tmp_path) == [("k10", 300, "c10")]
    table.overwrite(rows(spark, [3], 400, "d"))
    assert ours(table) == theirs(tmp_path) == [("k3", 400, "d3")]
    assert int(properties(table.store)["hoodie.table.version"]) == version, "nothing raises the version"


def test_a_table_made_from_rows_has_them_and_their_types(spark, tmp_path):
    df = rows(spark, range(5), 100, "a")
    table = Table.create(tmp_path, df, format="hudi", version=9, kind="mor", keys=["id", "ts"], partition_by="region")
    found = table.to_df(columns=df.columns).orderBy("id").collect()
    assert found == df.orderBy("id").collect()
    assert table.to_df(columns=["_hoodie_record_key"]).orderBy("_hoodie_record_key").first()[0] == "id:k0,ts:100"
    assert table.detail()["keyGenerator"] == "COMPLEX"
    with pytest.raises(AlreadyExistsError):
        Table.create(tmp_path, df, format="hudi", keys="id")
    assert Table.create(tmp_path, df, format="hudi", keys="id", exist_ok=True).version == table.version


def test_only_the_file_groups_of_changed_keys_are_written_anew(spark, tmp_path):
    table = made(spark, tmp_path)
    table.insert(rows(spark, range(40), 100, "a"), rows_per_group=5)
    before = {each.file_id: each.base.path for each in table.snapshot().slices}
    assert len(before) == 8
    table.upsert(rows(spark, [3], 200, "b"))
    after = {each.file_id: each.base.path for each in table.snapshot().slices}
    assert before.keys() == after.keys()
    assert sum(before[each] != after[each] for each in before) == 1


@pytest.mark.parametrize("verb", ["insert", "upsert", "overwrite"])
def test_a_size_that_no_file_group_has_is_refused_before_a_write_begins(spark, tmp_path, verb):
    table = made(spark, tmp_path)
    table.insert(rows(spark, range(2), 100, "a"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="cannot have 0 rows"):
        getattr(table, verb)(rows(spark, range(2), 200, "b"), rows_per_group=0)
    assert sorted(tmp_path.rglob("*")) == before, "no instant of a write that was taken back"


@pytest.mark.connect
def test_a_write_of_no_rows_changes_none(spark, tmp_path):
    table = made(spark, tmp_path)
    table.insert(rows(spark, range(3), 100, "a"))
    before = ours(table)
    for verb in (table.insert, table.upsert, table.insert_overwrite):
        verb(rows(spark, range(3), 200, "b").where("false"))
    assert ours(table) == before


def test_rows_with_the_same_key_become_one_by_the_ordering_field(spark, tmp_path):
    table = made(spark, tmp_path, 9, "mor")
    table.upsert(rows(spark, [1], 200, "b").unionAll(rows(spark, [1], 300, "c")).unionAll(rows(spark, [1], 100, "a")))
    assert ours(table) == theirs(tmp_path) == [("k1", 300, "c1")]
    table.upsert(rows(spark, [1], 250, "d").unionAll(rows(spark, [1], 350, "e")))
    assert ours(table) == theirs(tmp_path) == [("k1", 350, "e1")]


def test_a_key_that_was_inserted_twice_is_changed_and_deleted_in_both_places(spark, tmp_path):
    table = made(spark, tmp_path, 8, "mor")
    table.insert(rows(spark, [1, 2], 100, "a"))
    table.insert(rows(spark, [1], 150, "again"))
    table.upsert(rows(spark, [1], 200, "b"))
    assert ours(table) == [("k1", 200, "b1"), ("k1", 200, "b1"), ("k2", 100, "a2")]
    table.delete("id = 'k1'")
    assert ours(table) == theirs(tmp_path) == [("k2", 100, "a2")]


def test_a_table_grows_by_columns_only_when_asked(spark, tmp_path):
    table = made(spark, tmp_path, 8, "mor")
    table.insert(rows(spark, range(3), 100, "a"))
    more = rows(spark, [1, 5], 200, "b").selectExpr("*", "CAST(7 AS INT) AS extra")
    with pytest.raises(SchemaError, match="has no column extra"):
        table.upsert(more)
    with pytest.raises(SchemaError, match="column ts has another type"):
        table.upsert(rows(spark, [1], 1, "x").selectExpr("id", "region", "'x' AS ts"))
    table.upsert(more, schema_mode="merge")
    found = {row.id: row.extra for row in table.to_df(columns=["id", "extra"]).collect()}
    assert found == {"k0": None, "k1": 7, "k2": None, "k5": 7}
    table.upsert(rows(spark, [0], 300, "c").select("id", "region", "ts"))
    assert [row.name for row in table.to_df(where="id = 'k0'").collect()] == [None], "columns left out are null"


def test_rows_without_a_key_are_refused_and_leave_nothing(spark, tmp_path):
    table = made(spark, tmp_path)
    table.insert(rows(spark, range(3), 100, "a"))
    with pytest.raises(ConstraintError, match="rows have no record key"):
        table.insert(rows(spark, [9], 200, "b").selectExpr("CAST(NULL AS STRING) AS id", "region", "ts"))
    assert len(ours(table)) == 3
    assert table.detail()["pending"] == []
    assert table.history()[0].action == "rollback"


def test_times_make_partition_paths(spark, tmp_path):
    settings = {
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    }
    for version, generator, field in ((6, "TIMESTAMP", "ts"), (8, "CUSTOM", "ts:timestamp")):
        path = tmp_path / generator
        table = made(spark, path, version, key_generator=generator, partition_by=field, properties=settings)
        table.insert(rows(spark, range(2), 1700000000000, "a"))
        table.upsert(rows(spark, [1], 1700000000001, "b"))
        assert {each.partition for each in table.snapshot().slices} == {"2023/11/14"}
        assert len(ours(table)) == 2


def test_a_metadata_table_is_taken_out_with_a_warning_and_indexes_only_if_asked(spark, tmp_path):
    table = made(spark, tmp_path)
    file, before = tmp_path / ".hoodie/hoodie.properties", (tmp_path / ".hoodie/hoodie.properties").read_text()
    table.store.put(".hoodie/metadata/files/x", b"")
    file.write_text(before + "hoodie.table.metadata.partitions=files,record_index,secondary_index_name\n")
    for verb in (table.insert, table.upsert, table.overwrite):
        with pytest.raises(UnsupportedError, match="has indexes in its metadata table") as refused:
            verb(rows(spark, [1], 100, "a"))
    with pytest.raises(UnsupportedError, match="has indexes in its metadata table"):
        table.compact()
    assert "record_index, secondary_index_name" in str(refused.value)
    assert [each.code for each in lint(table.store).findings] == ["INDEXES_NOT_KEPT"]
    assert table.store.exists(".hoodie/metadata/files/x")
    asked = Table.for_path(tmp_path, spark, options={"halocline.hudi.dropIndexes": "true"})
    with pytest.warns(MetadataTableWarning):
        asked.insert(rows(spark, [1], 100, "a"))
    assert "hoodie.table.metadata.partitions" not in properties(table.store)
    assert list(table.store.list(".hoodie/metadata")) == []


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"version": 7}, "version 7"),
        ({"kind": "copy"}, "kind of create cannot be 'copy'"),
        ({"keys": "idd"}, "idd"),
        ({"version": 6, "key_generator": "CUSTOM"}, "custom key generator at version 6"),
        ({"merge": "event"}, "merge of create cannot be 'event'"),
        ({"properties": {"hoodie.table.version": "9"}}, "no setting of a key generator"),
        ({"orderings": "ts"}, "no argument 'orderings'"),
    ],
)
def test_tables_that_cannot_be_are_not_made(spark, tmp_path, declared, message):
    with pytest.raises(InputError, match=message):
        Table.create(tmp_path, DDL, spark, format="hudi", **{"keys": "id", "ordering": "ts", **declared})
    assert not (tmp_path / ".hoodie").exists()


def test_a_write_that_another_one_has_overtaken_is_refused_and_taken_back(spark, tmp_path, monkeypatch):
    table = made(spark, tmp_path)
    table.insert(rows(spark, range(4), 100, "a"))
    from halocline.table.hudi import write

    real, other = write.write_groups, Table.for_path(tmp_path, spark)

    def overtaken(*given):
        stats = real(*given)
        monkeypatch.setattr(write, "write_groups", real)
        other.upsert(rows(spark, [1], 300, "c"))
        return stats

    monkeypatch.setattr(write, "write_groups", overtaken)
    with pytest.raises(ConflictError, match="has changed file group"):
        table.upsert(rows(spark, [1], 200, "b"))
    assert ("k1", 300, "c1") in ours(table)
    assert theirs(tmp_path) == ours(table)


def test_a_bridge_does_a_write_again_that_a_move_has_overtaken(spark, tmp_path, monkeypatch):
    from halocline.table.hudi import write

    def overtaken(*given):
        stats = real(*given)
        monkeypatch.setattr(write, "write_groups", real)
        # A writer that others take for dead: the move takes it back, and goes on.
        table.store.delete_many([meta.path for meta in table.store.list(".hoodie/.heartbeat")])
        table.upgrade(8) if table.detail()["tableVersion"] == 6 else table.downgrade(6)
        return stats

    table, real = made(spark, tmp_path, 6, "mor"), write.write_groups
    table.insert(rows(spark, range(4), 100, "a"))
    bridge = Table.for_path(tmp_path, spark, options={"halocline.hudi.bridge": "true"})
    monkeypatch.setattr(write, "write_groups", overtaken)
    bridge.upsert(rows(spark, [1, 9], 200, "b"))
    assert table.detail()["tableVersion"] == 8
    expected = [("k0", 100, "a0"), ("k1", 200, "b1"), ("k2", 100, "a2"), ("k3", 100, "a3"), ("k9", 200, "b9")]
    assert ours(table) == theirs(tmp_path) == expected
    monkeypatch.setattr(write, "write_groups", overtaken)
    with pytest.raises(ConflictError, match="was moved to version 6"):
        table.upsert(rows(spark, [1], 300, "c"))
    assert ours(table) == theirs(tmp_path) == expected, "nothing of it counts"
    assert table.detail()["pending"] == []


def test_a_running_write_of_another_process_is_left_alone(spark, tmp_path):
    table = made(spark, tmp_path)
    table.insert(rows(spark, range(4), 100, "a"))
    snapshot = table.snapshot()
    running = begin_write(table.store, snapshot.config, "commit", "UPSERT")
    table.store.put(f".hoodie/.heartbeat/{running.time}", b'{"host": "elsewhere", "pid": 1}')
    assert is_alive(table.store, running.time)
    table.upsert(rows(spark, [1], 200, "b"))
    assert table.detail()["pending"] == [f"{running.time}.commit.inflight"]


DYING = """
    import os, signal, sys
    from pyspark.sql import SparkSession
    from halocline.table import Table
    from halocline.table.hudi import write

    spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())
    real = write.write_groups

    def dying(*given):
        real(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    write.write_groups = dying
    table = Table.for_path(sys.argv[1], spark)
    columns = "'eu' AS region, 900L AS ts, 'lost' AS name"
    df = spark.sql(f"SELECT 'k1' AS id, {columns} UNION ALL SELECT 'k77', {columns}")
    table.upsert(df)
"""


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (8, "cow")])
def test_a_writer_that_is_killed_leaves_no_row_and_the_next_write_cleans_up(spark, tmp_path, version, kind):
    table = made(spark, tmp_path, version, kind)
    table.insert(rows(spark, range(4), 100, "a"))
    before = ours(table)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DYING), str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    pending = table.detail()["pending"]
    assert len(pending) == 1
    assert ours(table) == theirs(tmp_path) == before
    table.upsert(rows(spark, [2], 200, "b"))
    assert table.detail()["pending"] == []
    assert ours(table) == theirs(tmp_path) == sorted([*(row for row in before if row[0] != "k2"), ("k2", 200, "b2")])
    left = [meta.path for meta in open_store(tmp_path).list() if pending[0].partition(".")[0] in meta.path]
    assert left == [], "its files, markers and heartbeat are gone"


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_rows_of_a_bucket_index_lie_in_the_group_of_their_hash(spark, tmp_path, version, kind):
    table = made(spark, tmp_path, version, kind, buckets=3)
    table.insert(rows(spark, range(12), 100, "a"))
    table.upsert(rows(spark, [1, 2, 30], 200, "b"))
    table.insert(rows(spark, [3], 300, "c"))
    table.delete("id = 'k0'")
    table.delete(rows(spark, [5, 77], 1, "x"))
    expected = {f"k{each}": (100, f"a{each}") for each in range(12) if each not in (0, 5)}
    expected |= {"k1": (200, "b1"), "k2": (200, "b2"), "k30": (200, "b30"), "k3": (300, "c3")}
    assert {row[0]: row[1:] for row in ours(table)} == expected
    assert ours(table) == theirs(tmp_path)
    groups = [(each.partition, each.file_id[:8]) for each in table.snapshot().slices]
    assert len(groups) == len(set(groups)) <= 6, "one file group per bucket"
    for each in table.snapshot().slices:
        keys = [key for batch in table.snapshot().reader(["id"]).read(table.store, each) for key in batch["id"]]
        assert set(BucketIndex(3).of(pa.array([key.as_py() for key in keys])).tolist()) == {int(each.file_id[:8])}
    table.insert_overwrite(rows(spark, [40, 42], 400, "d"))
    assert [row for row in ours(table) if int(row[0][1:]) % 2 == 0] == [("k40", 400, "d40"), ("k42", 400, "d42")]
    with pytest.raises(UnsupportedError, match="bucket index"):
        table.cluster()
    rows(spark, [40, 50], 500, "e").write.format("halocline").mode("append").save(str(tmp_path))
    changed = [("k40", 500, "e40"), ("k42", 400, "d42"), ("k50", 500, "e50")]
    assert [row for row in ours(table) if int(row[0][1:]) % 2 == 0] == changed, "the data source merges as well"
    assert ours(table) == theirs(tmp_path)


def forget_buckets(file: Path) -> None:
    """Leaves the properties as writers of Apache Hudi leave them, which do not say how many there are."""
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith(("hoodie.bucket.", "hoodie.index."))))


def test_how_many_buckets_there_are_is_told_by_the_keys_or_asked_for(spark, tmp_path):
    table = made(spark, tmp_path, buckets=4)
    table.insert(rows(spark, range(12), 100, "a"))
    file = tmp_path / ".hoodie/hoodie.properties"
    forget_buckets(file)
    assert bucket_index(table.snapshot()) == BucketIndex(4)
    table.upsert(rows(spark, [3, 50], 200, "b"))
    assert len(ours(table)) == 13
    with pytest.raises(UnsupportedError, match="do not explain as 5"):
        Table.for_path(tmp_path, spark, options={"halocline.hudi.buckets": "5"}).upsert(rows(spark, [3], 300, "c"))
    few = made(spark, tmp_path / "few", buckets=64, partition_by=[], keys=["id"])
    few.insert(rows(spark, [1], 100, "a"))
    with pytest.raises(ConstraintError, match="different buckets"):
        few.insert(rows(spark, [1], 100, "a").withColumn("id", lit("a:b")))
    forget_buckets(tmp_path / "few/.hoodie/hoodie.properties")
    with pytest.raises(UnsupportedError, match="do not tell how many buckets"):
        few.upsert(rows(spark, [1], 200, "b"))
    Table.for_path(tmp_path / "few", spark, options={"halocline.hudi.buckets": "64"}).upsert(rows(spark, [1], 200, "b"))
    assert ours(few) == [("k1", 200, "b1")]


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_rows_without_meta_columns_are_written_and_found_by_their_fields(spark, tmp_path, version, kind):
    table = made(spark, tmp_path, version, kind, meta_columns=False, keys=["id", "name"])
    table.insert(rows(spark, range(4), 100, "a"))
    table.upsert(rows(spark, [1, 9], 200, "a"))
    table.delete("id = 'k2'")
    table.delete(spark.createDataFrame([("k3", "a3", "eu")], "id STRING, name STRING, region STRING"))
    assert ours(table) == [("k0", 100, "a0"), ("k1", 200, "a1"), ("k9", 200, "a9")]
    assert not [each for each in table.to_df().columns if each.startswith("_hoodie_")]
    if kind == "cow":
        assert theirs(tmp_path) == ours(table)
    else:
        table.compact()
        assert theirs(tmp_path) == ours(table)


@pytest.mark.parametrize(
    ("version", "kind", "mode"), [(6, "cow", "op_key_only"), (8, "mor", "data_before"), (9, "cow", "data_before_after")]
)
def test_every_write_to_a_table_that_logs_changes_tells_them(spark, tmp_path, version, kind, mode):
    table = made(spark, tmp_path, version, kind, change_log=mode)
    table.insert(rows(spark, range(4), 100, "a"))
    begin = table.history()[0].completion if version > 6 else table.version
    table.upsert(rows(spark, [1, 9], 200, "b"))
    table.delete("id = 'k2'")
    told = table.changes(begin).selectExpr("op", "before.name AS was", "after.name AS now").collect()
    expected = [("d", "a2", None), ("i", None, "b9"), ("u", "a1", "b1")]
    assert sorted((row.op, row.was, row.now) for row in told) == expected
    assert ours(table) == theirs(tmp_path)


def test_an_upsert_reads_only_the_files_whose_footers_let_its_keys_in(spark, tmp_path):
    table = made(spark, tmp_path, 8, "cow", partition_by=[])
    table.insert(rows(spark, range(40), 100, "a"), rows_per_group=5)
    slices = table.snapshot().slices
    (held,) = [each for each in slices if "k3" in keys_in(table, each)]
    damaged = {}
    for each in slices:  # the rows of all others cannot be read any more, but their footers can
        if each is not held:
            path = tmp_path / each.base.path
            damaged[path] = path.read_bytes()
            footer = int.from_bytes(damaged[path][-8:-4], "little") + 8
            path.write_bytes(b"PAR1" + b"\0" * (len(damaged[path]) - footer - 4) + damaged[path][-footer:])
    table.upsert(rows(spark, [3], 200, "b"))
    for path, content in damaged.items():
        path.write_bytes(content)
    after = {each.file_id: each.base.path for each in table.snapshot().slices}
    assert [each.file_id for each in slices if after[each.file_id] != each.base.path] == [held.file_id]
    assert ("k3", 200, "b3") in ours(table)


def keys_in(table: HudiTable, slice) -> list[str]:
    batches = table.snapshot().reader(["id"]).read(table.store, slice)
    return [key for batch in batches for key in batch["id"].to_pylist()]


def test_services_put_file_groups_together_in_tasks_of_spark(spark, tmp_path):
    table = made(spark, tmp_path, 8, "mor")
    table.insert(rows(spark, range(8), 100, "a"), rows_per_group=2)
    table.upsert(rows(spark, [1], 200, "b"))
    before = ours(table)
    assert len(table.compact()) == 1
    assert table.cluster(sort_by=["id"]) is not None
    slices = table.snapshot().slices
    assert (ours(table), len(slices), {bool(each.logs) for each in slices}) == (before, 2, {False})
    assert all(each.base.token.split("-")[1] != "0" for each in slices), "the token names a stage"
    assert theirs(tmp_path) == before


def test_a_table_whose_first_rows_cannot_be_written_is_not_left_behind(spark, tmp_path):
    without = rows(spark, [1, 2], 100, "a").withColumn("id", lit(None).cast("string"))
    with pytest.raises(ConstraintError, match="no record key"):
        Table.create(tmp_path / "t", without, format="hudi", keys="id", partition_by="region")
    assert not [path for path in (tmp_path / "t").rglob("*") if path.is_file()]
    made = Table.create(tmp_path / "t", rows(spark, [1, 2], 100, "a"), format="hudi", keys="id", partition_by="region")
    assert len(ours(made)) == 2


@pytest.mark.parametrize("keys", [["id"], ["id", "name"]])
def test_keys_of_which_nothing_has_a_value_are_refused(spark, tmp_path, keys):
    table = made(spark, tmp_path, keys=keys, key_generator="COMPLEX" if len(keys) > 1 else None)
    empty = rows(spark, [1], 100, "a").withColumns({"id": lit(""), "name": lit(None).cast("string")})
    for verb in (table.insert, table.upsert):
        with pytest.raises(ConstraintError, match="no record key"):
            verb(empty)
    with pytest.raises(UnsupportedError, match="cannot be part of a record key"):
        made(spark, tmp_path / "array", keys="tags")
    assert not (tmp_path / "array").exists()


def test_a_delete_by_no_condition_and_a_write_without_a_partition_are_refused(spark, tmp_path):
    table = made(spark, tmp_path)
    given = rows(spark, range(3), 1, "a")
    before = table.insert(given)
    begun = set((tmp_path / ".hoodie").rglob("*"))
    for what in (None, 3, [1], "", "idd = 1", "ts + 1", "rand() < 0.5", given.select("id"), given.select("region")):
        with pytest.raises(InputError):
            table.delete(what)
    for verb in (table.upsert, table.insert, table.overwrite):
        with pytest.raises(SchemaError, match="rows lack column region"):
            verb(given.drop("region"))
    assert set((tmp_path / ".hoodie").rglob("*")) == begun
    assert (table.version, table.to_df().count()) == (before, 3)


@pytest.mark.parametrize("value", [".hoodie", ".hoodie/timeline", "..", "a:b", "__HIVE_DEFAULT_PARTITION__", "x" * 256])
def test_a_row_whose_partition_would_be_something_else_is_refused_and_the_table_stays(spark, tmp_path, value):
    table = made(spark, tmp_path)
    table.upsert(rows(spark, [0], 100, "a"))
    before = sorted(path for path in tmp_path.rglob("*.parquet"))
    bad = rows(spark, [2, 3], 200, "b").withColumn("region", lit(value))
    for write in (table.upsert, table.insert, table.insert_overwrite):
        with pytest.raises(InputError) as refused:
            write(bad)
        assert value[:200] in str(refused.value)
    with pytest.raises(Exception, match=r"cannot be the name of a partition|too long"):
        bad.write.format("halocline").mode("append").save(str(tmp_path))
    assert sorted(path for path in tmp_path.rglob("*.parquet")) == before, "no row was written"
    assert ours(table) == [("k0", 100, "a0")]
    assert lint(open_store(tmp_path)).findings == ()
    table.delete(bad.select("id", "region"))


def test_a_table_that_escapes_and_names_values_holds_every_partition(spark, tmp_path):
    values = [".hoodie", ".hoodie/timeline", ".", "..", "a:b", "a%2Fb", "a=b", "/a", "a//b", "metadata", "a\nb", "_x"]
    table = made(spark, tmp_path, url_encoded=True, hive_style=True)
    frame = spark.createDataFrame([(f"k{number}", value) for number, value in enumerate(values)], "id STRING, r STRING")
    table.upsert(frame.selectExpr("id", "r AS region", "1L AS ts"))
    assert sorted(row[0] for row in table.to_df(columns=["region"]).collect()) == sorted(values)
    for value in values:
        assert table.to_df(where=f"region = {value!r}").count() == 1, "the partition is found by its value"
    batches = HudiTableBuilder.from_base_uri(str(tmp_path)).build().read()
    assert sorted(value for batch in batches for value in batch.to_pydict()["region"]) == sorted(values)


@pytest.mark.parametrize("hive_style", [False, True])
def test_replacing_the_partition_of_empty_text_says_that_it_takes_the_rows_of_null_as_well(spark, tmp_path, hive_style):
    table = made(spark, tmp_path, hive_style=hive_style)
    df = rows(spark, range(3), 100, "a").withColumn("region", lit("").cast("string"))
    regions = "CASE id WHEN 'k0' THEN '' WHEN 'k2' THEN 'eu' END AS region"
    both = df.selectExpr("id", regions, *(name for name in df.columns if name not in ("id", "region")))
    table.insert(both)
    assert {row["id"]: row["region"] for row in table.to_df().collect()} == {"k0": "", "k1": None, "k2": "eu"}
    counts = [table.to_df(where=where).count() for where in ("region = ''", "region IS NULL", "region = 'eu'")]
    assert counts == [1, 1, 1]
    with pytest.warns(SharedPartitionWarning, match="empty text in the same folder as rows where it is null"):
        table.insert_overwrite(df.where("id = 'k0'"))
    assert ours(table) == [("k0", 100, "a0"), ("k2", 100, "a2")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", SharedPartitionWarning)
        table.insert_overwrite(rows(spark, [3], 100, "a"))
        table.overwrite(both)
    (folder,) = {path for path in (each.partition for each in table.snapshot().slices) if path.endswith("__")}
    with pytest.warns(SharedPartitionWarning):
        table.delete_partition(folder)
    assert ours(table) == [("k2", 100, "a2")]
