"""Tables that another implementation writes: the same live files, the same rows left after pruning."""

import json
import math
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.local import LocalStore

PARTITIONS = ["plain", "with space", "sla/sh", "per%cent", "co:lon", "é", "a=b", None]
START = datetime(2024, 1, 1)
LATE = pa.scalar(START + timedelta(seconds=500, microseconds=500), pa.timestamp("us", "UTC"))


def rows(partition: str | None, base: int) -> pa.Table:
    numbers = range(base, base + 5)
    return pa.table(
        {
            "p": pa.array([partition] * 5, pa.string()),
            "id": pa.array(numbers, pa.int64()),
            "price": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(12, 2)),
            "score": pa.array([math.nan if n % 7 == 0 else n / 3 for n in numbers], pa.float64()),
            "name": pa.array([None if n % 3 == 0 else f"name-{n:04d}" + "x" * 40 for n in numbers], pa.string()),
            "day": pa.array([date(2024, 1, 1) + timedelta(n) for n in numbers], pa.date32()),
            "at": pa.array([START + timedelta(microseconds=n * 1_000_001) for n in numbers], pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Several commits, a checkpoint in their middle, deletes before and after it."""
    path = str(tmp_path_factory.mktemp("deltalake") / "orders")
    for number, partition in enumerate(PARTITIONS):
        write_deltalake(path, rows(partition, number * 10), mode="append", partition_by=["p"])
    DeltaTable(path).delete("id = 3")
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, rows("late", 500), mode="append", partition_by=["p"])
    DeltaTable(path).delete("p = 'with space'")
    return path


def listed(path: str, version: int | None = None, **options) -> set[str]:
    snapshot = Snapshot.load(LocalStore(path), version=version)
    return set(snapshot.files(**options)["path"].to_pylist())


def expected(path: str, version: int | None = None) -> set[str]:
    return {uri.partition("/orders/")[2] for uri in DeltaTable(path, version=version).file_uris()}


def test_the_newest_version_lists_the_same_files(table):
    assert listed(table) == expected(table)


@pytest.mark.parametrize("version", range(11))
def test_every_version_lists_the_same_files(table, version):
    assert listed(table, version) == expected(table, version)


def test_files_are_where_the_list_says(table):
    store, paths = LocalStore(table), listed(table)
    assert [path for path in paths if not store.exists(path)] == []
    assert len(paths) == len(PARTITIONS)


@pytest.mark.parametrize(
    ("where", "matches", "prunes"),
    [
        ("id = 42", lambda t: pc.equal(t["id"], 42), True),
        ("id BETWEEN 12 AND 31", lambda t: pc.and_(pc.greater_equal(t["id"], 12), pc.less_equal(t["id"], 31)), True),
        ("price > 125.5", lambda t: pc.greater(t["price"], Decimal("125.50")), True),
        ("score > 1000", lambda t: pc.or_(pc.is_nan(t["score"]), pc.greater(t["score"], 1000)), False),
        ("name LIKE 'name-004%'", lambda t: pc.starts_with(t["name"].cast(pa.string()), "name-004"), True),
        ("name IS NULL", lambda t: pc.is_null(t["name"]), False),
        ("day < DATE '2024-01-05'", lambda t: pc.less(t["day"], date(2024, 1, 5)), True),
        ("at > TIMESTAMP '2024-01-01T00:08:20.0005Z'", lambda t: pc.greater(t["at"], LATE), True),
        ("p = 'per%cent'", lambda t: pc.equal(t["p"], "per%cent"), True),
        ("p IS NULL", lambda t: pc.is_null(t["p"]), True),
        ("p IS NOT NULL AND id < 5", lambda t: pc.and_(pc.is_valid(t["p"]), pc.less(t["id"], 5)), True),
    ],
)
def test_pruned_files_hold_every_matching_row(table, where, matches, prunes):
    def count(paths: set[str], values: dict[str, str | None]) -> int:
        total = 0
        for path in paths:
            data = pq.ParquetFile(f"{table}/{path}").read()
            data = data.append_column("p", pa.array([values[path]] * data.num_rows, pa.string()))
            total += pc.sum(pc.fill_null(matches(data), False)).as_py() or 0
        return total

    files = Snapshot.load(LocalStore(table)).files()
    values = {row["path"]: dict(row["partition_values"])["p"] for row in files.to_pylist()}
    pruned = listed(table, where=where)
    assert count(pruned, values) == count(set(values), values) > 0
    # NaN has no place in bounds, and every file has a row without a name.
    assert (len(pruned) < len(values)) == prunes


def test_statistics_come_back_from_its_checkpoint(table):
    texts = Snapshot.load(LocalStore(table)).files()["stats"].to_pylist()
    counts = [json.loads(text)["numRecords"] for text in texts]
    assert len(counts) == len(expected(table))
    # Each partition has a row for each of its five numbers, but one that was deleted, and one partition that was.
    assert sum(counts) == 5 * len(PARTITIONS) - 1


@pytest.mark.parametrize("is_in_checkpoint", [False, True])
def test_long_decimals_are_found_though_their_bounds_are_rounded(tmp_path, is_in_checkpoint):
    path = str(tmp_path / "orders")
    values = [Decimal("1234567890123456.7891"), Decimal("-99999999999999999999999999999999.9999"), Decimal("7.5")]
    for value in values:
        exact = pa.array([value], pa.decimal128(38, 4))
        whole = pa.array([int(value.scaleb(4))], pa.decimal128(38, 0))
        write_deltalake(path, pa.table({"price": exact, "cents": whole}), mode="append")
    if is_in_checkpoint:
        write_checkpoint(LocalStore(path), len(values) - 1)
    for value in values:
        for condition in (f"price = {value}", f"cents = {int(value.scaleb(4))}"):
            assert any(
                pq.read_table(f"{path}/{file}")["price"][0].as_py() == value for file in listed(path, where=condition)
            ), f"{condition}: the file is left out"
