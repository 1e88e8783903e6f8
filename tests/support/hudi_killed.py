"""Verbs of a Hudi table in a process that is killed at a storage step: `killed` copies a table for every step.

The process is a child of this module run as a program, so that it ends as a driver does whose machine is gone: nothing
is given back, no handler runs. Rows are written by what Spark's tasks write with, in the same process, so every storage
step of a write can be one to die at; with a Spark Connect server they are written by Spark.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from halocline.storage.local import LocalStore
from halocline.table import HudiTable, Table
from tests.support.hudi_groups import write_rows

ROOT = Path(__file__).parents[2]
STEPS = ("put", "put_if_absent", "put_if_match", "delete", "set_modified")
NEVER = 10_000

SERVICES: dict[str, Callable[[HudiTable, int], object]] = {
    "compact": lambda table, version: table.compact(),
    "cluster": lambda table, version: table.cluster(),
    "clean": lambda table, version: table.clean(keep=1),
    "archive": lambda table, version: table.archive(keep=1, at_most=1),
    "delete_partition": lambda table, version: table.delete_partition("eu"),
    "step": lambda table, version: table.downgrade(8) if version == 9 else table.upgrade(9 if version == 8 else 8),
    "move": lambda table, version: table.downgrade(6) if version == 9 else table.upgrade(9),
}
WRITES: dict[str, tuple[str, list[int], list[int]]] = {
    "insert": ("INSERT", [7, 8, 9], []),
    "upsert": ("UPSERT", [1, 2, 9], []),
    "delete": ("DELETE", [], [1, 2]),
    "insert_overwrite": ("INSERT_OVERWRITE", [2, 4], []),
    "overwrite": ("INSERT_OVERWRITE_TABLE", [2, 5], []),
}
"""What each verb that writes rows is called in the timeline, the rows it is given, and those that it takes out."""

TS = 200


def killed(
    source: Path, copies: Path, verb: str, *, server: str = "", steps: tuple[int, ...] = ()
) -> Iterator[tuple[int, Path, bool]]:
    """Copies of a table in which a verb was killed, at one step each; the last may be one in which it ended.

    Args:
        source: The table.
        copies: Where the copies go.
        verb: One of `SERVICES` or `WRITES`.
        server: A Spark Connect server, which writes the rows.
        steps: The steps to die at; every one until it ends, if none are given.

    Yields:
        The step, the copy, and whether it ended.
    """
    command = [sys.executable, "-m", __name__, str(source), str(copies), verb, server, ",".join(map(str, steps))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    for line in done.stdout.splitlines():
        step, code = map(int, line.split())
        assert code in (0, -signal.SIGKILL), f"{verb} at step {step}: {done.stderr[-2000:]}"
        yield step, copies / f"{verb}-{step}", code == 0


def perform(table: HudiTable, verb: str, spark: Any = None) -> None:
    """Does a verb."""
    if verb in SERVICES:
        SERVICES[verb](table, table.detail()["tableVersion"])
        return
    operation, ids, deletes = WRITES[verb]
    if spark is None:
        write_rows(table.opened, operation, ids, TS, verb[:3], deletes)
    elif deletes:
        table.delete(f"id IN ({', '.join(repr(f'k{each}') for each in deletes)})")
    else:
        getattr(table, verb)(rows_of(spark, ids, TS, verb[:3]))


def rows_of(spark: Any, ids: list[int], ts: int, tag: str) -> Any:
    """The rows that `write_rows` writes, as a DataFrame."""
    from tests.support.hudi_tables import rows

    return spark.createDataFrame(rows(ids, ts, tag)).coalesce(1)


def _counted(name: str, left: list[int]) -> None:
    real = getattr(LocalStore, name)

    def call(self: LocalStore, *given: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *given, **named)

    setattr(LocalStore, name, call)


def _code_of_child(path: str, step: int, verb: str, server: str) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        spark = None
        if server:
            from pyspark.sql import SparkSession

            spark = SparkSession.builder.remote(server).getOrCreate()
        table = Table.for_path(path, spark)
        table.detail()
        left = [step]
        for name in STEPS:
            _counted(name, left)
        perform(table, verb, spark)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Kills a verb at one step after another, each on a copy, and prints how each child ended."""
    source, copies, verb, server, steps = sys.argv[1:]
    for step in map(int, steps.split(",")) if steps else range(NEVER):
        path = f"{copies}/{verb}-{step}"
        shutil.copytree(source, path)
        code = _code_of_child(path, step, verb, server)
        print(step, code, flush=True)
        if code == 0:
            break


if __name__ == "__main__":
    main()
