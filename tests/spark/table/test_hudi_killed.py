"""Every verb of a Hudi table, killed with the process at some step: the table is as before it or as after it.

Each case starts a JVM of its own, so they run only with `HALOCLINE_TEST_TABLES=all`; `test_hudi_write` has a small one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact, pending_compactions
from halocline.formats.hudi.move.engine import resume_move
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import Table

if os.environ.get("HALOCLINE_TEST_TABLES") != "all":
    pytest.skip("a JVM for each case: HALOCLINE_TEST_TABLES=all", allow_module_level=True)

KINDS = {
    "plain": {"version": 6, "kind": "mor"},
    "bucket": {"version": 8, "kind": "mor", "buckets": 2},
    "nometa": {"version": 9, "kind": "cow", "meta_columns": False},
    "logged": {"version": 6, "kind": "cow", "change_log": "data_before_after"},
}
VERBS = {
    "insert": "table.insert(rows('7, 8, 9', 200))",
    "upsert": "table.upsert(rows('1, 2, 9', 200))",
    "delete": "table.delete('id < 3')",
    "insert_overwrite": "table.insert_overwrite(rows('2, 4', 200))",
    "overwrite": "table.overwrite(rows('2, 5', 200))",
    "delete_partition": "table.delete_partition('p1')",
    "compact": "table.compact()",
    "cluster": "table.cluster()",
    "clean": "table.clean(keep=1)",
    "archive": "table.archive(keep=1, at_most=1)",
    "upgrade": "table.upgrade(9 if version == 8 else 8) if version < 9 else table.downgrade(8)",
}
DYING = """
    import os, signal, sys
    from pyspark.sql import SparkSession
    from halocline.storage.local import LocalStore
    from halocline.table import Table

    path, verb, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())

    def rows(ids, ts):
        made = spark.sql(f"SELECT explode(array({ids})) AS id")
        name, part = f"concat('{verb[6:9]}', id) AS name", "concat('p', id % 2) AS part"
        return made.selectExpr("CAST(id AS BIGINT) AS id", part, f"{ts}L AS ts", name)

    table = Table.for_path(path, spark)
    version = table.detail()["tableVersion"]
    left = [steps]

    def counted(name):
        real = getattr(LocalStore, name)
        def call(self, *given, **named):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, *given, **named)
        setattr(LocalStore, name, call)

    for name in ("put", "put_if_absent", "put_if_match", "delete", "delete_many"):
        counted(name)
    eval(verb)
"""


def shown(path: Path) -> list[tuple[int, int, str]]:
    batches = HudiSnapshot.load(open_store(path)).read(["id", "ts", "name"])
    return sorted((row["id"], row["ts"], row["name"]) for batch in batches for row in batch.to_pylist())


def ran(path: Path, verb: str, steps: int) -> int:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DYING), str(path), verb, str(steps)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        timeout=400,
        check=False,
    ).returncode


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_killed_is_done_or_not_done(spark, tmp_path, kind, verb):
    if (kind, verb) in (("bucket", "cluster"), ("nometa", "compact"), ("logged", "compact")):
        pytest.skip("there is no such service for the table")

    def rows(ids: str, ts: int):
        made = spark.sql(f"SELECT explode(array({ids})) AS id")
        part = "concat('p', id % 2) AS part"
        return made.selectExpr("CAST(id AS BIGINT) AS id", part, f"{ts}L AS ts", "concat('a', id) AS name")

    def made(name: str) -> Path:
        declared = {"keys": "id", "ordering": "ts", "partition_by": "part", **KINDS[kind]}
        table = Table.create(tmp_path / name, rows("1, 2, 3, 4", 100), format="hudi", **declared)
        table.insert(rows("5, 6", 100))
        table.upsert(rows("1, 5", 150))
        return tmp_path / name

    done = made("done")
    before = shown(done)
    assert ran(done, VERBS[verb], 10_000) == 0
    after = shown(done)
    for steps in (1, 4, 7, 11):
        path = made(f"killed-{steps}")
        code = ran(path, VERBS[verb], steps)
        assert code in (0, -signal.SIGKILL)
        assert shown(path) in (before, after), f"{verb} killed at step {steps}"
        store = open_store(path)
        resume_move(store)
        Table.for_path(path, spark).upsert(rows("3", 900))
        if pending_compactions(HudiSnapshot.load(store).timeline):
            compact(store)
        if kind != "bucket":
            cluster(store)
        expected = [[row for row in each if row[0] != 3] + [(3, 900, "a3")] for each in (before, after)]
        assert shown(path) in [sorted(each) for each in expected], (
            f"{verb} killed at step {steps}, and a write after it"
        )
        assert not HudiSnapshot.load(store).timeline.pending, "nothing is left pending"
        if code == 0:
            break
