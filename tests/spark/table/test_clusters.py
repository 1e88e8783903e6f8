"""Clustering: rows are brought together by the table's own columns, and what others have clustered is let be."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.support.tables import VECTORS, by_another_client, rows_of

from halocline.errors import InputError
from halocline.formats.delta.log.file_actions import adds_from
from halocline.table import Table
from halocline.table.delta.layout import clusters


@pytest.fixture
def table(tmp_path, spark):
    """Rows in no order, in a table that is clustered by a column and a field of a struct, both under other names."""
    df = spark.range(0, 6000, 1, 3).selectExpr(
        "id", "id * 7919 % 1000 AS a", "named_struct('b', CAST(id * 104729 % 1000 AS INT), 'c', 'x') AS s"
    )
    properties = {**VECTORS, "delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
    found = Table.create(tmp_path / "t", df, spark, cluster_by="a", properties=properties)
    return found


def optimized(table, **how):
    files = table.snapshot().files()
    size = sum(files["size"].to_pylist())
    return table.optimize().execute_compaction(max_file_size=size // 8, **how)


def providers(table) -> set[str | None]:
    return set(table.snapshot().files()["clustering_provider"].to_pylist())


def test_compaction_clusters_rows_names_who_did_it_and_has_nothing_to_do_afterwards(table, tmp_path):
    rows = rows_of(table)
    done = optimized(table)
    files = table.snapshot().files()
    assert (providers(table), done.metrics["numRemovedFiles"]) == ({clusters.PROVIDER}, 3)
    assert len(table.snapshot().files("a BETWEEN 100 AND 150")) < len(files) / 2, "those of other values are left out"
    told = table.history(1)[0].info.values["operationParameters"]
    assert (json.loads(told["clusterBy"]), told["isFull"], json.loads(told["zOrderBy"])) == (["a"], False, [])
    assert rows_of(table) == rows
    assert not optimized(table).committed
    assert not optimized(table, full=True).committed


def test_loose_files_join_small_clusters_and_leave_large_ones_alone(table, spark, monkeypatch):
    optimized(table)
    count = len(table.snapshot().files())
    table.append(table.to_df().limit(10))
    joined = optimized(table)
    assert joined.metrics["numRemovedFiles"] == count + 1
    monkeypatch.setattr(clusters, "SMALL", 1)
    table.append(table.to_df().limit(10))
    assert optimized(table).metrics["numRemovedFiles"] == 1, "the loose file becomes a cluster of its own"
    assert not optimized(table).committed


def test_a_cluster_that_has_lost_many_rows_is_written_again(table):
    optimized(table)
    table.delete("a % 3 = 0")
    assert optimized(table).committed
    assert table.snapshot().files()["deletion_vector"].null_count == len(table.snapshot().files())


def test_clusters_by_other_columns_and_of_others_are_written_again_in_full_only(table, spark):
    rows = rows_of(table)
    optimized(table)
    table.cluster_by("id")
    assert not optimized(table).committed
    assert optimized(table, full=True).committed
    assert not optimized(table, full=True).committed
    files = table.snapshot().files()
    theirs = [
        msgspec.structs.replace(add, clustering_provider="liquid", tags={"ZCUBE_ID": "1"})
        for add in adds_from(files, data_change=False)
    ]
    table.opened.transaction(table.snapshot("write")).commit(theirs, "OPTIMIZE")
    assert providers(table) == {"liquid"}
    assert not optimized(table).committed
    assert optimized(table, full=True).committed
    assert providers(table) == {clusters.PROVIDER}
    assert rows_of(table) == rows


def test_what_cannot_be_clustered_is_refused(table, tmp_path, spark):
    with pytest.raises(InputError, match="optimized that way"):
        table.optimize().where("true").execute_compaction()
    table.cluster_by()
    with pytest.raises(InputError, match="optimized that way") as refused:
        optimized(table, full=True)
    assert refused.value.sides["clustered by"] == "no columns"
    assert table.optimize().execute_compaction().committed, "it is compacted like any other table"


def test_another_client_reads_what_was_clustered(tmp_path, spark):
    found = Table.create(tmp_path / "t", spark.range(0, 100, 1, 2), spark, cluster_by="id")
    optimized(found)
    assert by_another_client(tmp_path / "t") == rows_of(found)
