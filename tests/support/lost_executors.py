"""Verbs whose executors are killed as soon as these keep rows that were computed once.

    python lost_executors.py FOLDER CHECKPOINTS

`CHECKPOINTS` is a folder for reliable checkpoints, or `-` for none. What was seen is written to `FOLDER/seen.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from halocline.spark.session import pinning
from halocline.table import Table

CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.stage.maxConsecutiveAttempts": "20",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def executors() -> list[int]:
    """The executors that this process has started, by way of its JVM."""
    lines = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in lines.splitlines()[1:]]
    below = {os.getpid()}
    for _ in range(8):
        below |= {int(pid) for pid, parent, *_ in rows if int(parent) in below}
    return [int(row[0]) for row in rows if int(row[0]) in below and "CoarseGrainedExecutorBackend" in row[-1]]


@contextlib.contextmanager
def losing(times: int) -> Iterator[list[bool]]:
    """Kills an executor after each of the first checkpoints; tells of each of them whether it is a reliable one."""
    kept, real = list[bool](), pinning._checkpointed

    def checkpointed(df: Any, *, eager: bool) -> Any:
        rows = real(df, eager=eager)
        kept.append(pinning._is_reliable(df.sparkSession))
        if len(kept) <= times:
            os.kill(executors()[0], signal.SIGKILL)
        return rows

    pinning._checkpointed = checkpointed
    try:
        yield kept
    finally:
        pinning._checkpointed = real


def main(folder: Path, checkpoints: str) -> None:
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for key, value in {**CONF, "spark.sql.warehouse.dir": str(folder)}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if checkpoints != "-":
        spark.sparkContext.setCheckpointDir(checkpoints)
    rows = spark.range(0, 400, 1, 4).selectExpr("id", "concat('v', id) AS v")
    source = spark.range(200, 600, 1, 4).selectExpr("id", "'m' AS v")
    delta = Table.create(folder / "delta", rows, spark)
    hudi = Table.create(folder / "hudi", rows, spark, format="hudi", version=8, keys="id")
    merge = delta.merge(source, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all()
    seen: dict[str, Any] = {}
    for name, table, do in (("merge", delta, merge.execute), ("upsert", hudi, lambda: hudi.upsert(source))):
        with losing(2) as kept:
            do()
        df = table.to_df()
        seen[name] = {"rows": df.count(), "changed": df.where("v = 'm'").count(), "reliable": kept}
        seen[name]["keys"] = df.select("id").distinct().count()
        # What a try that failed had begun is taken back, which Hudi's timeline tells.
        seen[name]["writes"] = sum(each.operation is not None for each in table.history())
    (folder / "seen.json").write_text(json.dumps(seen))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
