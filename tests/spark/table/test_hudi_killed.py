"""Every verb of a Hudi table, killed with the process: the table is as before it or as after it, and goes on.

Verbs that need no rows run without Spark and are killed at every storage step. Those that write rows have a driver of
their own on one Spark Connect server, and are killed at some. They take minutes, so they run only with
`HALOCLINE_TEST_TABLES=all`; `test_hudi_write` has a small one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact, pending_compactions
from halocline.formats.hudi.move.engine import resume_move
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import Table

if os.environ.get("HALOCLINE_TEST_TABLES") != "all":
    pytest.skip("minutes for each case: HALOCLINE_TEST_TABLES=all", allow_module_level=True)

pytestmark = pytest.mark.timeout(3600)

KINDS = {
    "plain": {"version": 6, "kind": "mor"},
    "bucket": {"version": 8, "kind": "mor", "buckets": 2},
    "nometa": {"version": 9, "kind": "cow", "meta_columns": False},
    "logged": {"version": 6, "kind": "cow", "change_log": "data_before_after"},
}
SERVICES = {
    "compact": "table.compact()",
    "cluster": "table.cluster()",
    "clean": "table.clean(keep=1)",
    "archive": "table.archive(keep=1, at_most=1)",
    "delete_partition": "table.delete_partition('p1')",
    "upgrade": "table.upgrade(9 if version == 8 else 8) if version < 9 else table.downgrade(8)",
    "move": "table.upgrade(9) if version < 9 else table.downgrade(6)",
}
WRITES = {
    "insert": "table.insert(rows('7, 8, 9', 200))",
    "upsert": "table.upsert(rows('1, 2, 9', 200))",
    "delete": "table.delete('id < 3')",
    "insert_overwrite": "table.insert_overwrite(rows('2, 4', 200))",
    "overwrite": "table.overwrite(rows('2, 5', 200))",
}
SOME_STEPS = (3, 6, 9, 12)

DYING = """
    import os, shutil, signal, sys
    from halocline.storage.local import LocalStore
    from halocline.table import Table

    source, copies, verb, server, steps = sys.argv[1:]

    def rows(ids, ts):
        made = spark.sql(f"SELECT explode(array({ids})) AS id")
        name, part = f"concat('{verb[6:9]}', id) AS name", "concat('p', id % 2) AS part"
        return made.selectExpr("CAST(id AS BIGINT) AS id", part, f"{ts}L AS ts", name)

    def counted(name, left):
        real = getattr(LocalStore, name)
        def call(self, *given, **named):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, *given, **named)
        setattr(LocalStore, name, call)

    def died(path, step):
        child = os.fork()
        if child:
            status = os.waitpid(child, 0)[1]
            return os.waitstatus_to_exitcode(status)
        try:
            global spark
            if server:
                from pyspark.sql import SparkSession
                spark = SparkSession.builder.remote(server).getOrCreate()
            table = Table.for_path(path, spark if server else None)
            version = table.detail()["tableVersion"]
            left = [step]
            for name in ("put", "put_if_absent", "put_if_match", "delete", "delete_many"):
                counted(name, left)
            eval(verb, globals(), {"table": table, "version": version})
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)

    for step in map(int, steps.split(",")) if steps else range(1000):
        path = f"{copies}/{step}"
        shutil.copytree(source, path)
        code = died(path, step)
        print(step, code, flush=True)
        if code == 0:
            break
"""

SERVER = """
    import os, sys
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2", "spark.connect.grpc.binding.port": sys.argv[1],
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder.getOrCreate()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A Spark Connect server in a process of its own, for drivers that die."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = secrets.token_hex(16)
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield f"sc://localhost:{port}"
        process.terminate()
    del os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"]


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> dict[str, Path]:
    """A table of each kind, after three writes."""
    found = {}
    for name, kind in KINDS.items():
        found[name] = tmp_path_factory.mktemp("hudi") / name
        declared = {"keys": "id", "ordering": "ts", "partition_by": "part", **kind}
        table = Table.create(found[name], rows(spark, "1, 2, 3, 4", 100), format="hudi", **declared)
        table.insert(rows(spark, "5, 6", 100))
        table.upsert(rows(spark, "1, 5", 150))
    return found


def rows(spark, ids: str, ts: int):
    made = spark.sql(f"SELECT explode(array({ids})) AS id")
    part = "concat('p', id % 2) AS part"
    return made.selectExpr("CAST(id AS BIGINT) AS id", part, f"{ts}L AS ts", "concat('a', id) AS name")


def shown(path: Path) -> list[tuple[int, int, str]]:
    batches = HudiSnapshot.load(open_store(path)).read(["id", "ts", "name"])
    return sorted((row["id"], row["ts"], row["name"]) for batch in batches for row in batch.to_pylist())


def killed(source: Path, copies: Path, verb: str, server: str = "", steps: str = "") -> Iterator[Path]:
    """Copies of a table in which a verb was killed, at one step each; the last may be one in which it ended."""
    command = [sys.executable, "-c", textwrap.dedent(DYING), str(source), str(copies), verb, server, steps]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for line in done.stdout.splitlines():
        step, code = map(int, line.split())
        assert code in (0, -signal.SIGKILL), done.stderr[-2000:]
        yield copies / str(step)


def ended(path: Path, kind: str) -> None:
    """Ends what is pending, as the next services would."""
    store = open_store(path)
    clean(store)
    if pending_compactions(HudiSnapshot.load(store).timeline):
        compact(store)
    if kind != "bucket":
        cluster(store)
    assert not HudiSnapshot.load(store).timeline.pending, f"{path} has something pending"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", SERVICES)
def test_a_verb_without_rows_that_is_killed_at_any_step_is_done_or_not_done(tables, tmp_path, kind, verb):
    if (kind, verb) in (("bucket", "cluster"), ("nometa", "compact"), ("logged", "compact")):
        pytest.skip("there is no such service for the table")
    before, seen = shown(tables[kind]), 0
    after = [row for row in before if row[0] % 2 == 0] if verb == "delete_partition" else before
    for path in killed(tables[kind], tmp_path, SERVICES[verb]):
        found = shown(path)
        assert found in (before, after), f"killed at step {path.name}"
        resume_move(open_store(path))
        assert shown(path) == found, f"killed at step {path.name}, and gone on with"
        if verb == "cluster":
            ended(path, kind)  # until then its file groups may not be changed
        Table.for_path(path).delete_partition("p0")
        assert shown(path) == [row for row in found if row[0] % 2], f"killed at step {path.name}, and a write after it"
        ended(path, kind)
        assert shown(path) == [row for row in found if row[0] % 2]
        seen += 1
    assert seen > 2
    assert found == after, "the last one ran to its end"
    print(f"{verb} of {kind}: {seen - 1} kills")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", WRITES)
def test_a_write_that_is_killed_is_done_or_not_done(spark, server, tables, tmp_path, kind, verb):
    done = shutil.copytree(tables[kind], tmp_path / "whole")
    before = shown(done)
    (whole,) = killed(done, tmp_path, WRITES[verb], server, "10000")
    after = shown(whole)
    assert after != before
    for path in killed(tables[kind], tmp_path, WRITES[verb], server, ",".join(map(str, SOME_STEPS))):
        assert shown(path) in (before, after), f"killed at step {path.name}"
        Table.for_path(path, spark).upsert(rows(spark, "3", 900))
        expected = [sorted([row for row in each if row[0] != 3] + [(3, 900, "a3")]) for each in (before, after)]
        assert shown(path) in expected, f"killed at step {path.name}, and a write after it"
        ended(path, kind)
        assert shown(path) in expected
