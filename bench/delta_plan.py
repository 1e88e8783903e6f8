"""Promise: a table of 10,000 files is planned in less than a second.

Planning is everything before the first task: opening the table, replaying its log, making the DataFrame and Spark's
physical plan. The peers are Spark's own ways to the same files: listing their folder, and a list of their paths, which
with Spark's defaults starts a job with a task per path (only with --full: it takes a minute).

    python bench/delta_plan.py            10,000 files
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from measuring import report, session, take_turns

from halocline.table import Table

SECONDS = 1.0


def table(folder: Path, files: int, partitions: int) -> None:
    folder.mkdir()
    seed = folder / "seed"
    pq.write_table(pa.table({"id": [1], "v": ["x"]}), seed)
    size = seed.stat().st_size
    fields = [("id", "long"), ("v", "string"), *([("p", "string")] if partitions else [])]
    schema = {"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields]}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "bench",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": ["p"] if partitions else [],
                "configuration": {},
            }
        },
    ]
    for number in range(files):
        group = number % partitions if partitions else 0
        path = f"p=x{group}/part-{number:05}.parquet" if partitions else f"part-{number:05}.parquet"
        (folder / path).parent.mkdir(exist_ok=True)
        os.link(seed, folder / path)
        values = {"p": f"x{group}"} if partitions else {}
        add = {"path": path, "partitionValues": values, "size": size, "modificationTime": 0, "dataChange": True}
        actions.append({"add": {**add, "stats": '{"numRecords":1}'}})
    log = folder / "_delta_log"
    log.mkdir()
    (log / ("0" * 20 + ".json")).write_text("\n".join(map(json.dumps, actions)))
    seed.unlink()


def planned(df) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        df.explain()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    spark = session()
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        for title, partitions in (("no partitions", 0), ("1,000 partitions", 1000)):
            folder = root / str(partitions)
            table(folder, arguments.files, partitions)
            read = spark.read.schema(spark.read.parquet(str(next(folder.rglob("*.parquet")))).schema)
            paths = [str(path) for path in folder.rglob("*.parquet")]
            variants = {
                "spark.read.schema.parquet(folder)": lambda r=read, f=folder: planned(r.parquet(str(f))),
                "to_df": lambda f=folder: planned(Table.for_path(f, spark).to_df()),
                "to_df(where=)": lambda f=folder: planned(Table.for_path(f, spark).to_df(where="id > 7")),
            }
            found = take_turns(variants, arguments.repeats, warm_up=2)
            if arguments.full:
                found |= take_turns(
                    {"spark.read.schema.parquet(*paths)": lambda r=read, p=paths: planned(r.parquet(*p))}, 1, 0
                )
            report(f"planning {arguments.files:,} files, {title}", found, {})
            for name in ("to_df", "to_df(where=)"):
                seconds = found[name][0]
                print(f"  {name}: {seconds:.2f} s  target {SECONDS:.2f} s  {'ok' if seconds < SECONDS else 'MISSED'}")
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
