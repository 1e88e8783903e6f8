"""The change feed, of tables that another client wrote."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from halocline.errors import InputError, NotFoundError
from halocline.formats.delta.actions.action import Add, CommitInfo, Remove, decode_commit, encode_commit
from halocline.formats.delta.actions.deletion_vectors import write_file
from halocline.formats.log.names import DELTA
from halocline.source.data_source import register
from halocline.storage import open_store
from halocline.table import Table
from halocline.table.delta.new_table import column

pytestmark = pytest.mark.connect
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def orders(tmp_path):
    """Version 0 is empty, 1 inserts, 2 updates, 3 deletes a row, 4 appends, 5 compacts."""
    path = str(tmp_path / "orders")
    schema = pa.schema({"id": pa.int64(), "country": pa.string(), "amount": pa.int64()})
    table = DeltaTable.create(path, schema, partition_by=["country"], configuration=FEED)
    first = pa.table({"id": [1, 2, 3], "country": ["de", "de", "at"], "amount": [10, 20, 30]}, schema=schema)
    write_deltalake(path, first, mode="append")
    table.update_incremental()
    table.update(updates={"amount": "amount + 1"}, predicate="id = 1")
    table.delete("id = 3")
    write_deltalake(path, pa.table({"id": [4], "country": ["de"], "amount": [40]}, schema=schema), mode="append")
    table.update_incremental()
    table.optimize.compact()
    return path


def feed(df):
    return sorted((row["_commit_version"], row["_change_type"], row["id"], row["amount"]) for row in df.collect())


def test_changes_of_recorded_and_derived_versions_name_each_row_once(orders, spark):
    changes = Table.for_path(orders, spark).changes(0)
    assert feed(changes) == [
        (1, "insert", 1, 10),
        (1, "insert", 2, 20),
        (1, "insert", 3, 30),
        (2, "update_postimage", 1, 11),
        (2, "update_preimage", 1, 10),
        (3, "delete", 3, 30),
        (4, "insert", 4, 40),
    ]
    assert changes.columns == ["id", "country", "amount", "_change_type", "_commit_version", "_commit_timestamp"]
    assert {row["country"] for row in changes.where("_commit_version = 3").collect()} == {"at"}


def test_a_range_within_the_log_gives_only_its_versions(orders, spark):
    table = Table.for_path(orders, spark)
    assert {version for version, *_ in feed(table.changes(2, 3))} == {2, 3}
    assert feed(table.changes(5, 5)) == [], "compaction changes no row"


def test_times_are_taken_from_the_history(orders, spark):
    table = Table.for_path(orders, spark)
    times = {entry.version: entry.timestamp_ms for entry in table.history()}
    row = table.changes(4, 4).selectExpr("unix_millis(_commit_timestamp)").collect()[0]
    assert row[0] == times[4]


def fed(tmp_path, spark, **properties):
    """Version 1 inserts a row, and later ones are for the test to make."""
    table = Table.create(tmp_path / "t", "id INT, w INT", spark, properties={**FEED, **properties})
    table.append(spark.sql("SELECT 1 id, 7 w"))
    return table


@pytest.mark.parametrize("door", ["Table", "format"])
def test_a_range_that_ends_before_a_column_was_added_has_the_column(tmp_path, spark, door):
    table = fed(tmp_path, spark)
    table.add_columns([column("v", "integer")])
    table.append(spark.sql("SELECT 2 id, 8 w, 9 v"))
    if door == "Table":
        changes = table.changes(0, 1)
    else:
        register(spark)
        reader = spark.read.format("halocline").option("readChangeFeed", "true").option("startingVersion", "0")
        changes = reader.option("endingVersion", "1").load(str(tmp_path / "t"))
    assert changes.columns[:3] == ["id", "w", "v"]
    assert [tuple(row)[:4] for row in changes.collect()] == [(1, 7, None, "insert")]


def test_a_range_that_ends_before_a_column_was_renamed_or_retyped_has_the_columns_of_its_end(tmp_path, spark):
    table = fed(tmp_path / "mapped", spark, **{"delta.columnMapping.mode": "name"})
    table.rename_column("w", "x")
    assert [tuple(row)[:2] for row in table.changes(0, 1).select("id", "w").collect()] == [(1, 7)]
    table = fed(tmp_path / "plain", spark)
    table.overwrite(spark.sql("SELECT 'one' id, 7 w"), schema_mode="overwrite")
    assert [tuple(row)[:2] for row in table.changes(0, 1).select("id", "w").collect()] == [(1, 7)]
    table = fed(tmp_path / "partitioned", spark)
    table.overwrite(spark.sql("SELECT 1 id, 7 w"), schema_mode="overwrite", partition_by=["w"])
    assert [tuple(row)[:2] for row in table.changes(0, 1).select("id", "w").collect()] == [(1, 7)]


def test_another_deletion_vector_shows_exactly_the_rows_that_changed(tmp_path, spark):
    path = str(tmp_path / "orders")
    features = {"delta.enableDeletionVectors": "true", **FEED}
    write_deltalake(path, pa.table({"id": [1, 2, 3, 4], "amount": [1, 2, 3, 4]}), configuration=features)
    store = open_store(path)
    add = decode_commit(store.get(DELTA.commit_path(0)), "0").adds[0]
    first, second = write_file(store, [[0, 1], [1, 3]])
    versions = [(None, first), (first, second)]
    for version, (before, after) in enumerate(versions, start=1):
        now = Add(add.path, {}, add.size, 1, True, add.stats, deletion_vector=after)
        gone = Remove(add.path, 1, True, True, {}, add.size, deletion_vector=before)
        commit = encode_commit([CommitInfo({"operation": "DELETE"}), gone, now])
        store.put_if_absent(DELTA.commit_path(version), commit)
    assert feed(Table.for_path(path, spark).changes(1)) == [
        (1, "delete", 1, 1),
        (1, "delete", 2, 2),
        (2, "delete", 4, 4),
        (2, "insert", 1, 1),
    ]


def test_versions_without_the_feed_are_refused_by_number(tmp_path, spark):
    path = str(tmp_path / "orders")
    write_deltalake(path, pa.table({"id": [1]}))
    table = Table.for_path(path, spark)
    with pytest.raises(InputError, match="off at version 0") as refused:
        table.changes(0)
    assert refused.value.condition == "CHANGE_FEED_OFF"


def test_a_range_outside_the_log_is_refused_with_both_ends(orders, spark):
    table = Table.for_path(orders, spark)
    with pytest.raises(InputError, match="from version 9 to version 5"):
        table.changes(9)
    with pytest.raises(NotFoundError):
        table.changes(0, 99)
