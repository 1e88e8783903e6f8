"""A rollout on whatever cluster Spark is told of, as `spark-submit` runs it: survey, plan, apply, rollback.

    spark-submit --master URL --py-files halocline.zip on_cluster.py FOLDER

The tables need code of Halocline on the executors: a Hudi table whose logs are merged, and a Delta table with rows that
are deleted by vectors, and whose files are copied because few rows change. What was seen is written to
`FOLDER/seen.json`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from halocline.cli.main import run
from halocline.table import Table

MEMBERS = """
[[members]]
name = "report"
release = "trino@470"
reads = ["orders"]

[[members]]
name = "load"
release = "hudi@1.2.0"
writes = ["trips"]
"""


def where_code_runs(rows: Any) -> Any:
    """In a worker: the folder of its executor, and where it has Halocline from."""
    import pandas as pd

    import halocline

    for _ in rows:
        yield pd.DataFrame({"folder": [os.getcwd()], "halocline": [halocline.__file__]})


def told(*arguments: object) -> tuple[int, str]:
    """A command, as people call it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run([*map(str, arguments)])
    return code, out.getvalue()


def protocols(lake: Path) -> dict[str, str]:
    return {name: str(Table.for_path(lake / name).terms.protocol) for name in ("orders", "trips")}


def main(folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    lake, plan, members = folder / "lake", folder / "rollout.plan", folder / "members.toml"
    members.write_text(MEMBERS)
    rows = spark.range(0, 1000, 1, 2).selectExpr("id", "id * 7 AS amount")
    orders = Table.create(lake / "orders", rows, spark)
    hudi = {"format": "hudi", "version": 6, "kind": "mor", "keys": "id", "ordering": "amount"}
    trips = Table.create(lake / "trips", rows, spark, **hudi)
    trips.upsert(rows.where("id < 100").selectExpr("id", "amount + 1 AS amount"))
    seen: dict[str, Any] = {"before": protocols(lake)}
    spread = spark.range(0, 4, 1, 4).mapInPandas(where_code_runs, "folder string, halocline string")
    seen["workers"] = sorted({tuple(row) for row in spread.collect()})
    seen["survey"] = told("survey", lake, "--output", "json")
    target = ["--enable", "deletionVectors", "--table-version", "8", "--members", members]
    seen["plan"] = told("plan", lake, *target, "--out", plan)
    seen["apply"] = told("apply", plan, "--verify", "full", "--no-wait")
    seen["applied"] = protocols(lake)
    orders.delete("id % 3 = 0")
    seen["rollback"] = told("rollback", plan, "--no-wait")
    seen["after"] = protocols(lake)
    orders.update({"amount": "-amount"}, where="id % 100 = 1")
    files = orders.snapshot().files()["path"].to_pylist()
    seen["written by"] = sorted({pq.read_metadata(lake / "orders" / file).created_by for file in files})
    seen["updated"] = orders.to_df(where="amount < 0").count(), orders.count()
    (folder / "seen.json").write_text(json.dumps(seen))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
