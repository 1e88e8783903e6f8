"""Verbs that write rows of a Hudi table from Spark, whose driver is killed: as before it or as after it, and goes on.

The drivers share one Spark Connect server. Each verb is killed at the steps around the one that makes it count; every
other step is in `tests/unit/table/hudi/test_killed.py`, without Spark. They take minutes, so they run only with
`HALOCLINE_TEST_TABLES=all`; `test_hudi_write` has a small one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hudi_groups import upsert_groups, write_rows
from tests.support.hudi_killed import NEVER, WRITES, killed
from tests.support.hudi_tables import HudiTableMaker, shown
from tests.unit.table.hudi.test_killed import KINDS, ended

from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import Table

if os.environ.get("HALOCLINE_TEST_TABLES") != "all":
    pytest.skip("minutes for each case: HALOCLINE_TEST_TABLES=all", allow_module_level=True)

pytestmark = pytest.mark.timeout(3600)

SOME_KINDS = ("plain-6", "bucket-8", "nometa-9", "logged-6")
SOME_STEPS = (5, 9)
"""One while tasks write or before, and one around the completion; a bucket index and log files shift them a little."""

SERVER = """
    import os, sys
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1", "spark.connect.grpc.binding.port": sys.argv[1],
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
def tables(tmp_path_factory) -> dict[str, Path]:
    """A table of each kind, after two writes."""
    found = {}
    for name in SOME_KINDS:
        version, type, kind = KINDS[name]
        found[name] = tmp_path_factory.mktemp("hudi") / name
        table = HudiTableMaker.create(open_store(found[name]), version, type, **kind)
        upsert_groups(table, range(6), 100, "a")
        upsert_groups(table, [1, 5], 150, "b")
    return found


def rows(path: Path) -> list[tuple[str, int, str]]:
    return shown(HudiSnapshot.load(open_store(path)).read(["id", "ts", "name"]))


@pytest.mark.parametrize("kind", SOME_KINDS)
@pytest.mark.parametrize("verb", WRITES)
def test_a_write_of_spark_that_is_killed_is_done_or_not_done(server, tables, tmp_path, kind, verb):
    before = rows(tables[kind])
    ((_, whole, _),) = killed(tables[kind], tmp_path, verb, server=server, steps=(NEVER,))
    after = rows(whole)
    assert after != before
    table = Table.for_path(shutil.copytree(tables[kind], tmp_path / "alone"))
    operation, ids, deletes = WRITES[verb]
    write_rows(table.opened, operation, ids, 200, verb[:3], deletes)
    assert rows(tmp_path / "alone") == after, "what is killed at every step writes the same rows"
    for step, path, _ in killed(tables[kind], tmp_path, verb, server=server, steps=SOME_STEPS):
        found = rows(path)
        assert found in (before, after), f"killed at step {step}"
        write_rows(Table.for_path(path).opened, "UPSERT", [4], 900, "z")
        expected = sorted([*(row for row in found if row[0] != "k4"), ("k4", 900, "z4")])
        assert rows(path) == expected, f"killed at step {step}, and a write after it"
        ended(path, kind)
        assert rows(path) == expected
