"""Deleted rows stay away, and only they, however large a vector is and however a file is split."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import functions as F
from tests.support import columns

from halocline.errors import InputError
from halocline.spark.scan import deleted_rows
from halocline.spark.scan.row_columns import RowColumns

ID = columns.schema("id")
MODES = ["auto", "paths", "arrow"]


def ids(df) -> list[int]:
    return sorted(row["id"] for row in df.collect())


@pytest.fixture(params=MODES)
def mode(request, conf) -> str:
    conf("spark.halocline.scan.mode", request.param)
    return request.param


PATTERNS = {
    "first": [0],
    "last": [199],
    "word edges": [63, 64, 127, 128],
    "sign bits": [63, 127, 191],
    "all": list(range(200)),
    "all but one": [n for n in range(200) if n != 130],
    "beyond the file": [5, 5000],
}


@pytest.fixture(params=["in the plan", "joined"])
def bitmaps(request, monkeypatch) -> str:
    """How bitmaps reach the executors."""
    if request.param == "joined":
        monkeypatch.setattr(deleted_rows, "CONSTANT", 0)
    return request.param


def test_deleted_rows_are_gone(spark, lake, mode, bitmaps):
    for at, (name, deleted) in enumerate(PATTERNS.items()):
        lake.add(f"{name}.parquet", pa.table({"id": range(1000 * at, 1000 * at + 200)}), deleted=deleted)
    lake.add("clean.parquet", pa.table({"id": [9000, 9001]}))

    found = ids(df := lake.scan(spark, ID))

    for at, (name, deleted) in enumerate(PATTERNS.items()):
        left = [n - 1000 * at for n in found if n // 1000 == at]
        assert left == [n for n in range(200) if n not in deleted], name
    assert [n for n in found if n >= 9000] == [9000, 9001]
    assert df.count() == len(found)


def test_vectors_belong_to_their_own_files(spark, lake, mode, bitmaps, types):
    random.seed(7)
    expected = []
    for number in range(12):
        rows = random.randint(1, 3000)
        deleted = random.sample(range(rows), random.randint(0, rows)) if number % 3 else []
        expected += [number * 10_000 + n for n in range(rows) if n not in set(deleted)]
        content = pa.table({"id": pa.array(range(number * 10_000, number * 10_000 + rows), pa.int64())})
        lake.add(f"{number}.parquet", content, deleted=deleted, values={"p": str(number)}, row_group_size=500)

    df = lake.scan(spark, types.struct(id="long", p="integer"), partition_columns=["p"])

    assert ids(df) == expected
    assert df.where("id DIV 10000 <> p").count() == 0
    assert ids(df.where("p = 7")) == [n for n in expected if n // 10_000 == 7]


def test_splits_and_skipped_row_groups_do_not_move_positions(spark, lake, conf, bitmaps):
    conf("spark.sql.files.maxPartitionBytes", "30000")
    deleted = [n for n in range(60_000) if n % 7 == 0]
    lake.add("1.parquet", pa.table({"id": range(60_000)}), deleted=deleted, row_group_size=1000)

    df = lake.scan(spark, ID)

    assert df.where("id >= 50000").count() == len([n for n in range(50_000, 60_000) if n % 7])
    assert df.where("id % 7 = 0").count() == 0
    assert df.count() == 60_000 - len(deleted)


def test_positions_count_deleted_rows(spark, lake, mode):
    lake.add("1.parquet", pa.table({"id": range(10)}), deleted=[0, 4])

    df = lake.scan(spark, ID, rows=RowColumns(file="f", place="r"))

    assert sorted((row["id"], row["r"]) for row in df.collect()) == [(n, n) for n in range(10) if n not in (0, 4)]


MADE_OF_IT = {
    "nothing kept": lambda df: df.selectExpr("0L AS id"),
    "limit": lambda df: df.where("id = 7").limit(1),
    "limit of a constant": lambda df: df.selectExpr("0L AS id").limit(1),
    "no rows": lambda df: df.where("1 = 0"),
    "nothing found": lambda df: df.where("id = 3"),
    "counted": lambda df: df.groupBy().count().selectExpr("count AS id"),
    "distinct": lambda df: df.selectExpr("id % 2 AS id").distinct(),
    "joined with itself": lambda df: df.join(df.selectExpr("id AS other"), df["id"] + 1 == F.col("other")).select("id"),
    "beside itself": lambda df: df.unionAll(df),
    "cached": lambda df: df.where("id > 5").cache(),
    "sorted": lambda df: df.orderBy(F.desc("id")).limit(2),
    "in a subquery": lambda df: df.where(f"id = (SELECT max(id) FROM {_view(df)})"),
    "sampled": lambda df: df.sample(1.0),
}


def _view(df) -> str:
    df.createOrReplaceTempView("halocline_test_deletes")
    return "halocline_test_deletes"


@pytest.mark.parametrize("made", MADE_OF_IT.values(), ids=MADE_OF_IT.keys())
def test_deleted_rows_are_gone_whatever_is_made_of_the_frame(spark, lake, tmp_path, made):
    lake.add("1.parquet", pa.table({"id": range(10)}), deleted=[3])
    lake.add("2.parquet", pa.table({"id": range(10, 20)}), deleted=[0, 9])
    pq.write_table(pa.table({"id": [n for n in range(20) if n not in (3, 10, 19)]}), tmp_path / "living.parquet")

    living = made(spark.read.parquet(str(tmp_path / "living.parquet")))

    assert ids(made(lake.scan(spark, ID))) == ids(living)


@pytest.mark.parametrize("made", MADE_OF_IT.values(), ids=MADE_OF_IT.keys())
def test_rows_with_places_that_nobody_asks_for_are_there_whatever_is_made_of_the_frame(spark, lake, tmp_path, made):
    lake.add("1.parquet", pa.table({"id": range(10)}))
    lake.add("2.parquet", pa.table({"id": range(10, 20)}), deleted=[0, 9])
    pq.write_table(pa.table({"id": [n for n in range(20) if n not in (10, 19)]}), tmp_path / "living.parquet")

    living = made(spark.read.parquet(str(tmp_path / "living.parquet")))

    assert ids(made(lake.scan(spark, ID, rows=RowColumns(place="p")).select("id"))) == ids(living)


def test_session_that_reads_whole_structures_misses_no_deleted_row(spark, lake, conf):
    conf("spark.sql.optimizer.nestedSchemaPruning.enabled", "false")
    lake.add("1.parquet", pa.table({"id": range(10)}), deleted=[3])
    lake.add("2.parquet", pa.table({"id": range(10, 20)}))

    placed = lake.scan(spark, ID, rows=RowColumns(place="p"))
    assert ids(lake.scan(spark, ID).where("id < 5")) == [0, 1, 2, 4]
    assert lake.scan(spark, ID).count() == 19
    assert sorted(row["p"] & 0xFF for row in placed.collect()) == sorted([*range(3), *range(4, 10), *range(10)])
    assert placed.count() == 19


def test_clean_files_are_scanned_without_a_join(spark, lake, capsys):
    lake.add("clean.parquet", pa.table({"id": range(10)}))
    lake.add("empty vector.parquet", pa.table({"id": range(10)}))
    lake.deleted[1] = BitMap64()

    lake.scan(spark, ID).explain()

    plan = capsys.readouterr().out
    assert plan.count("FileScan") == 1, plan
    assert all(word not in plan for word in ("Join", "_metadata", "row_index", "Union")), plan


def test_small_vectors_cost_no_join(spark, lake, capsys):
    for number in range(3):
        lake.add(f"{number}.parquet", pa.table({"id": range(10)}), deleted=[number])

    lake.scan(spark, ID).explain()

    plan = capsys.readouterr().out
    assert "Join" not in plan, plan
    assert "Broadcast" not in plan, plan


def test_vectors_beyond_the_budget_are_applied_by_workers(spark, lake, conf, capsys, monkeypatch):
    conf("spark.halocline.scan.maxBitmapBytes", "100")
    monkeypatch.setattr(deleted_rows, "CONSTANT", 0)
    lake.add("small.parquet", pa.table({"id": range(100)}), deleted=[3, 99])
    lake.add("large.parquet", pa.table({"id": range(100, 5000)}), deleted=[0, 4899])

    df = lake.scan(spark, ID)
    df.explain()

    plan = capsys.readouterr().out
    assert "MapInArrow" in plan, plan
    assert "BroadcastHashJoin" in plan, plan
    assert ids(df) == sorted(set(range(5000)) - {3, 99, 100, 4999})


def test_budget_that_is_no_number_is_refused(spark, lake, conf):
    conf("spark.halocline.scan.maxBitmapBytes", "plenty")
    lake.add("1.parquet", pa.table({"id": [1]}))

    with pytest.raises(InputError, match="plenty"):
        lake.scan(spark, ID)


def test_budget_is_spent_on_small_vectors_first():
    vectors = {0: BitMap64([10**6]), 1: BitMap64([63]), 2: BitMap64([64]), 3: BitMap64([0])}

    assert deleted_rows.within(vectors, 8 + 8 + 16) == {1, 2, 3}
    assert deleted_rows.within(vectors, 31) == {1, 3}
    assert deleted_rows.within(vectors, 0) == set()
    assert deleted_rows.within({}, 100) == set()


def test_words_hold_one_bit_per_position():
    positions = [0, 1, 63, 64, 1000]

    words = deleted_rows.words_of(BitMap64(positions)).astype(np.uint64).tolist()

    assert [n for n in range(64 * len(words)) if words[n // 64] >> (63 - n % 64) & 1] == positions
    column = deleted_rows.words_column({4: BitMap64([1]), 9: BitMap64([64])}, [9, 4])
    assert column.to_pylist() == [[0, -(1 << 63)], [1 << 62]]
