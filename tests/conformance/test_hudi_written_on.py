"""Tables that Apache Hudi made, written on from Spark: another client reads the same rows, and nothing pending breaks.

The tables lie beside the project; without them these tests skip.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hudi import HudiReadOptions, HudiTableBuilder
from tests.support.hudi_conformance import SPARK, unpack

from halocline.errors import ConflictError, IncompatibleError, UnsupportedError
from halocline.formats.hudi.maintain.compaction import run_compaction
from halocline.table import HudiTable
from halocline.table.hudi.writing import MetadataTableWarning

if not SPARK.is_dir():
    pytest.skip(f"the conformance tables are not here: {SPARK}", allow_module_level=True)


def opened(spark, folder: Path, name: str) -> tuple[Path, HudiTable]:
    path = unpack(SPARK / f"{name}.zip", folder)
    return path, HudiTable.for_path(path, spark)


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
    ["v6_cow_hive_mdt", "v6_mor_logs", "v6_cow_complex1", "v8_mor_compacted_mdt", "v9_cow_complex2", "v9_mor_logs"],
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


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("v6_cow_cdc", IncompatibleError, "changeDataCapture"),
        ("v8_mor_bucket_logonly", UnsupportedError, "hash of their keys"),
        ("v6_cow_nometa", UnsupportedError, "keys are not made of stored fields"),
    ],
)
def test_tables_that_cannot_be_kept_right_are_not_written(spark, tmp_path, name, error, message):
    _, table = opened(spark, tmp_path, name)
    rows = table.to_df().drop(*[each for each in table.to_df().columns if each.startswith("_hoodie_")])
    with pytest.raises(error, match=message):
        table.upsert(rows)
    assert table.snapshot().timeline.pending == frozenset() or name == "v8_mor_bucket_logonly"
