"""Two copies of one table: what is done to one by us is done to the other by Apache Hudi, then each goes on with both.

Operations are random, with rows that come late, deletes, replaced and deleted partitions, and services between them.
Rows are compared after every step, and so are the ranges of writes at the end. Ours are written without Spark, by what
its tasks write with.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.incremental import read_range, settled_time
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import Table
from tests.interop_jvm.releases import Engine, writing_options
from tests.support.hudi_conformance import BEGIN, QUERY
from tests.support.hudi_groups import upsert_groups, write_rows
from tests.support.hudi_tables import HudiTableMaker, rows

pytestmark = pytest.mark.timeout(3600)

COLUMNS = ["id", "region", "ts", "name", "amount"]
LISTS = "tags"
LOSES_LISTS = "1.0.2"
"""Its upserts lose lists of base files that its own compaction wrote, also where no other writer was at the table."""

WRITE = "hoodie.datasource.write.operation"
INLINE = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
STEPS = 5
KINDS = [
    (6, TableType.COPY_ON_WRITE, {}, "0.15.0"),
    (6, TableType.MERGE_ON_READ, {}, "0.15.0"),
    (8, TableType.MERGE_ON_READ, {}, "1.0.2"),
    (9, TableType.MERGE_ON_READ, {}, "1.2.0"),
    (6, TableType.MERGE_ON_READ, {"buckets": 2}, "0.15.0"),
    (8, TableType.COPY_ON_WRITE, {}, "1.0.2"),
    (9, TableType.COPY_ON_WRITE, {"buckets": 2}, "1.2.0"),
]


def shown(batches) -> list[list[str]]:
    return sorted([str(value) for value in row.values()] for batch in batches for row in batch.to_pylist())


def ours(path: Path, columns: list[str]) -> list[list[str]]:
    return shown(HudiSnapshot.load(open_store(path)).read(columns))


@dataclass
class Java:
    """A release of Apache Hudi as a writer of tables."""

    engine: Engine
    folder: Path
    written: int = 0

    def write(self, path: Path, ids: list[int], ts: int, tag: str, operation: str, **more: str) -> None:
        self.written += 1
        file = self.folder / f"rows-{self.written}.parquet"
        pq.write_table(rows(ids, ts, tag), file)
        options = writing_options(path, self.engine.release) | {WRITE: operation} | more
        self.engine.ask("write", path=str(path), rows=str(file), options=options)

    @property
    def columns(self) -> list[str]:
        """The columns that it does not lose."""
        return COLUMNS if self.engine.release == LOSES_LISTS else [*COLUMNS, LISTS]

    def read(self, path: Path, **options: str) -> list[list[str]]:
        return self.engine.ask("read", path=str(path), columns=self.columns, options=options)


@dataclass(frozen=True)
class Step:
    """One operation, as each of the two does it."""

    name: str
    by_us: Callable[[Path], object]
    by_java: Callable[[Path], object]


def step(chance: random.Random, java: Java, number: int, type: TableType) -> Step:
    ids = sorted(chance.sample(range(12), chance.randint(1, 4)))
    ts, tag = 1_000 + number, f"s{number}-"

    def written(operation: str, ours: str, ids: list[int] = ids, ts: int = ts, **more: str) -> Step:
        return Step(
            f"{operation} of {ids} at {ts}",
            lambda path: write_rows(Table.for_path(path).opened, ours, ids, ts, tag),
            lambda path: java.write(path, ids, ts, tag, operation, **more),
        )

    def deleted() -> Step:
        return Step(
            f"delete of {ids}",
            lambda path: write_rows(Table.for_path(path).opened, "DELETE", [], ts, tag, ids),
            lambda path: java.write(path, ids, ts, tag, "delete"),
        )

    def served() -> Step:
        merges = type is TableType.MERGE_ON_READ

        def service(path: Path) -> None:
            _ = compact(open_store(path)) if merges else clean(open_store(path), keep=2)

        both = written("upsert", "UPSERT")
        return Step(
            f"{both.name}, and a service",
            lambda path: (both.by_us(path), service(path)),
            lambda path: java.write(path, ids, ts, tag, "upsert", **(INLINE if merges else {})),
        )

    found = {
        "upsert": lambda: written("upsert", "UPSERT"),
        "late": lambda: written("upsert", "UPSERT", ts=50),
        "delete": deleted,
        "insert_overwrite": lambda: written("insert_overwrite", "INSERT_OVERWRITE"),
        "served": served,
    }
    return found[chance.choice(["upsert", "upsert", "late", "delete", "insert_overwrite", "served"])]()


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(("version", "type", "kind", "release"), KINDS, ids=str)
def test_both_come_to_the_same_rows_and_go_on_with_those_of_the_other(
    engines, tmp_path, version, type, kind, release, seed
):
    chance, java = random.Random(seed * 100 + version), Java(engines[release], tmp_path)
    one, other = tmp_path / "one", tmp_path / "other"
    made = HudiTableMaker.create(open_store(one), version, type, **kind)
    upsert_groups(made, range(8), 100, "a")
    shutil.copytree(one, other)
    begins: dict[Path, str] = {}
    for number in range(2 * STEPS):
        if number == STEPS:
            assert java.read(one) == java.read(other) == ours(one, java.columns), (
                "Apache Hudi reads ours, and its own, as we do"
            )
            one, other = other, one
            begins = {path: settled_time(HudiSnapshot.load(open_store(path)).timeline) or "" for path in (one, other)}
        done = step(chance, java, number, type)
        done.by_us(one)
        done.by_java(other)
        assert ours(one, java.columns) == ours(other, java.columns), f"step {number}, {done.name}"
    assert java.read(one) == java.read(other) == ours(one, java.columns)
    for path, begin in begins.items():
        found = read_range(HudiSnapshot.load(open_store(path)), begin)
        asked = str(int(begin) + 1) if release == "1.0.2" else begin
        expected = java.read(path, **{QUERY: "incremental", BEGIN: asked})
        assert shown(found.read(java.columns)) == expected, f"what was written to {path.name} after {begin}"
    if not kind:
        cluster(open_store(one), sort_by=["id"])
        assert java.read(one) == java.read(other), "and what we cluster of what both wrote"
