"""Two writers of ours and one of Apache Hudi on one table at once, under the lock that they share.

Whoever is overtaken is told and leaves no row; what a writer was told that it wrote is there, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from halocline.errors import ConflictError
from halocline.formats.hudi.maintain.locks import LOCK_FILE
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import Table
from tests.interop_jvm.releases import Engine, writing_options

pytestmark = pytest.mark.timeout(3600)

LOCKED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.expire": "15",
    "hoodie.write.lock.wait_time_ms": "60000",
    "hoodie.write.lock.wait_time_ms_between_retry": "200",
}
DDL = "id STRING, region STRING, ts BIGINT, name STRING"


def rows(spark, values: list[tuple[str, str, int, str]]):
    return spark.createDataFrame(values, DDL).coalesce(1)


def shown(path: Path) -> list[list[str]]:
    batches = HudiSnapshot.load(open_store(path)).read(["id", "ts", "name"])
    return sorted([str(value) for value in row.values()] for batch in batches for row in batch.to_pylist())


def written(write: Callable[[int], bool], rounds: int) -> tuple[list[int], list[int]]:
    """The rounds that were written, and those refused because others were faster."""
    outcomes = [(number, write(number)) for number in range(rounds)]
    return [number for number, done in outcomes if done], [number for number, done in outcomes if not done]


@pytest.mark.parametrize(
    ("version", "kind", "release"),
    [(6, "cow", "0.15.0"), (6, "mor", "1.2.0"), (8, "mor", "1.0.2"), (9, "cow", "1.2.0"), (9, "mor", "1.1.1")],
)
def test_what_each_writer_was_told_is_what_is_there(spark, engines, tmp_path, version, kind, release):
    engine: Engine = engines[release]
    first = [(f"k{number}", "ap" if number % 2 else "eu", 100, "a") for number in range(6)]
    declared = {"keys": "id", "ordering": "ts", "partition_by": "region", "version": version, "kind": kind}
    Table.create(tmp_path, rows(spark, first), format="hudi", **declared)
    options = writing_options(tmp_path, release) | LOCKED

    def by_us(who: int) -> Callable[[int], bool]:
        def write(number: int) -> bool:
            shared = ("k1", "ap", 1_000 * (number + 1) + who, f"ours-{who}-{number}")
            try:
                Table.for_path(tmp_path, spark).upsert(
                    rows(spark, [shared, (f"o{who}-{number}", "ap", 100, f"ours-{who}-{number}")])
                )
            except ConflictError:
                return False
            return True

        return write

    def by_java(number: int) -> bool:
        row = {"id": f"j{number}", "name": f"java-{number}"}
        answer = engine.do("upsert", path=str(tmp_path), where="id = 'k1'", set=row, options=options)
        assert answer["outcome"] == "done" or "WriteConflict" in answer["note"], answer["note"]
        return bool(answer["outcome"] == "done")

    found: dict[str, tuple[list[int], list[int]]] = {}
    writers = {"o0": (by_us(0), 6), "o1": (by_us(1), 6), "j": (by_java, 4)}

    def run(name: str) -> None:
        found[name] = written(*writers[name])

    threads = [threading.Thread(target=run, args=(name,)) for name in writers]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found.keys() == writers.keys(), "a writer failed in another way than by a conflict"
    assert by_java(writers["j"][1]), "Apache Hudi is not kept out for good"
    found["j"][0].append(writers["j"][1])
    ids = [row[0] for row in shown(tmp_path)]
    expected = [f"k{number}" for number in range(6)]
    expected += [f"o{who}-{number}" for who in (0, 1) for number in found[f"o{who}"][0]]
    expected += [f"j{number}" for number in found["j"][0]]
    assert ids == sorted(expected), found
    latest = max((1_000 * (number + 1) + who for who in (0, 1) for number in found[f"o{who}"][0]), default=100)
    assert [row[1] for row in shown(tmp_path) if row[0] == "k1"] == [str(latest)]
    assert engine.ask("read", path=str(tmp_path), columns=["id", "ts", "name"]) == shown(tmp_path)
    assert not open_store(tmp_path).exists(LOCK_FILE)
    assert found["o0"][0] or found["o1"][0], "nor are we"
    print(f"{release} at {version}, {kind}: {found}")
