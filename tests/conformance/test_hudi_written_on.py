"""Tables that Apache Hudi made, written on from Spark: another client reads the same rows, and nothing pending breaks.

The tables lie beside the project; without them these tests skip.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder
from pyspark.sql.functions import lit
from tests.support.conformance import tables_of
from tests.support.hudi_conformance import SPARK, unpack

from halocline.errors import ConflictError
from halocline.formats.hudi.base_file import open_base_file
from halocline.formats.hudi.key_lookup import FILTER, FILTER_CODE, candidate_keys
from halocline.formats.hudi.maintain.compaction import run_compaction
from halocline.formats.hudi.record_keys import RECORD_KEY
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import HudiTable
from halocline.table.hudi.writing import MetadataTableWarning

tables_of("hudi-jvm")


def opened(spark, folder: Path, name: str) -> tuple[Path, HudiTable]:
    path = unpack(SPARK / f"{name}.zip", folder)
    return path, HudiTable.for_path(path, spark, options={"halocline.hudi.dropIndexes": "true"})


def ours(table: HudiTable) -> dict[str, float]:
    rows = table.to_df(columns=["_hoodie_record_key", "price"]).collect()
    assert len({row[0] for row in rows}) == len(rows), "no key twice"
    return {row[0]: row[1] for row in rows}


def theirs(path: Path) -> dict[str, float]:
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read(HudiReadOptions())
    return {row["_hoodie_record_key"]: row["price"] for batch in batches for row in batch.to_pylist()}


def changed(table: HudiTable) -> tuple[dict[str, float], dict[str, float]]:
    """Updates one row, adds one and deletes one; the rows before and as they have to be then."""
    before = ours(table)
    rows = table.to_df().drop("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
    first, second = sorted(before)[:2]
    by_ordering = table.snapshot().config.ordering_fields
    later = [f"{name} + 100000 AS {name}" for name in by_ordering]
    kept = [name for name in rows.columns if name not in (*by_ordering, "price") and not name.startswith("_hoodie_")]
    update = rows.where(f"_hoodie_record_key = '{first}'").selectExpr(*kept, *later, "777.0D AS price")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetadataTableWarning)
        table.upsert(update)
        table.delete(f"_hoodie_record_key = '{second}'")
    return before, {key: 777 if key == first else price for key, price in before.items() if key != second}


@pytest.mark.parametrize(
    "name",
    [
        "v6_cow_cdc",
        "v6_mor_bucket_logonly",
        "v8_mor_bucket_logonly",
        "v6_cow_hive_mdt",
        "v6_mor_logs",
        "v6_cow_complex1",
        "v8_mor_compacted_mdt",
        "v9_cow_complex2",
        "v9_mor_logs",
    ],
)
def test_rows_are_changed_and_deleted_where_they_are(spark, tmp_path, name):
    path, table = opened(spark, tmp_path, name)
    _, expected = changed(table)
    assert ours(table) == expected
    assert theirs(path) == expected


@pytest.mark.parametrize("name", ["v6_mor_pending", "v9_mor_pending"])
def test_a_pending_compaction_keeps_what_is_written_behind_it(spark, tmp_path, name):
    _, table = opened(spark, tmp_path, name)
    (pending,) = table.snapshot().timeline.pending_compactions
    _, expected = changed(table)
    assert ours(table) == expected
    run_compaction(table.store, pending)
    assert ours(table) == expected, "the compaction takes nothing of it away"


def test_a_group_that_is_about_to_be_clustered_is_not_changed(spark, tmp_path):
    _, table = opened(spark, tmp_path, "v6_cow_pending_clustering")
    before = ours(table)
    rows = table.to_df().drop(*[name for name in table.to_df().columns if name.startswith("_hoodie_")])
    with pytest.raises(ConflictError, match="about to be clustered"):
        table.upsert(rows)
    assert ours(table) == before


def test_rows_without_meta_columns_are_changed_where_they_are(spark, tmp_path):
    path, table = opened(spark, tmp_path, "v6_cow_nometa")
    before = {row.id: row.price for row in table.to_df().collect()}
    first, second = sorted(before)[:2]
    table.upsert(table.to_df(where=f"id = '{first}'").selectExpr("*").withColumns({"price": lit(777.0)}))
    table.delete(f"id = '{second}'")
    expected = {key: 777.0 if key == first else price for key, price in before.items() if key != second}
    assert {row.id: row.price for row in table.to_df().collect()} == expected
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read(HudiReadOptions())
    assert {row["id"]: row["price"] for batch in batches for row in batch.to_pylist()} == expected


def test_filters_that_apache_hudi_wrote_hold_every_key_of_their_file(tmp_path):
    files = 0
    for name in ("v6_cow_hive_mdt", "v6_mor_bucket_logonly", "v9_cow_complex2"):
        store = open_store(unpack(SPARK / f"{name}.zip", tmp_path / name))
        for slice in HudiSnapshot.load(store).slices:
            opened_file = open_base_file(store, slice.base)
            keys = pa.concat_arrays([batch.column(0) for batch in opened_file.batches([RECORD_KEY])])
            assert candidate_keys(opened_file.footer, keys) == keys
            others = pa.array([f"{key}-" for key in keys.to_pylist()])
            filter_alone = {FILTER: opened_file.footer[FILTER], FILTER_CODE: opened_file.footer[FILTER_CODE]}
            assert len(candidate_keys(filter_alone, others)) == 0
            files += 1
    assert files > 3


def test_what_a_write_changed_is_logged_as_the_table_s_own_writer_does(spark, tmp_path):
    _, table = opened(spark, tmp_path, "v6_cow_cdc")
    begin = str(table.version)
    changed(table)
    told = table.changes(begin).selectExpr("op", "before.price AS was", "after.price AS now").collect()
    assert sorted((row.op, row.was is None, row.now) for row in told) == [("d", False, None), ("u", False, 777.0)]
    stats = [stat for write in table.snapshot().timeline.writes[-2:] for stat in stats_of(table, write)]
    assert all(stat.cdc_stats for stat in stats), "each rewritten base file names its change file"


def stats_of(table: HudiTable, write) -> list:
    return [stat for _, stat in table.snapshot().timeline.commit_metadata(write).stats]
