"""Promise: a Hudi table costs what its base files cost, and log files that change 5 % of the rows at most twice that.

The same rows as a copy-on-write table, and as a merge-on-read table in which one row in twenty was changed since. Each
is read by Spark alone (`spark.read.parquet` of the base files), as a Hudi table, and by hudi-rs into Arrow, which uses
as many cores. Every measured run opens the table and makes the DataFrame anew. Apache Hudi 1.2.0 takes 4.1 to 6.3 times
Parquet for such a merge-on-read table.

    python bench/hudi_scan.py            half a million rows
    python bench/hudi_scan.py --full     5 million rows, the promise
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from hudi import HudiReadOptions, HudiTableBuilder
from measuring import report, rows, session, take_turns

from halocline.table import Table

GROUPS = 4
VERSION = 8
COW, MOR = 1.05, 2.0
PEER = "hudi-rs, into Arrow"


def table(spark, folder, count, kind):
    """A table with as many file groups as there are partitions of the rows; of a merge-on-read one 5 % are changed."""
    made = Table.create(
        folder, rows(spark, count, GROUPS), spark, format="hudi", version=VERSION, kind=kind, keys="id", ordering="ts"
    )
    if kind == "mor":
        changed = rows(spark, count, GROUPS).where("id % 20 = 7")
        made.upsert(changed.selectExpr(*[n for n in changed.columns if n != "s"], "concat('new-', id) AS s"))
    return made


def bases(made):
    return [made.store.address(each.base.path) for each in made.snapshot().slices if each.base]


def rust(folder):
    return sum(batch.num_rows for batch in HudiTableBuilder.from_base_uri(str(folder)).build().read(HudiReadOptions()))


QUERIES = {
    "full scan": lambda df: df.write.format("noop").mode("overwrite").save(),
    "sum of one column": lambda df: df.agg({"k": "sum"}).collect(),
    "count": lambda df: df.count(),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kind", choices=["cow", "mor"])
    arguments = parser.parse_args()
    count = arguments.rows or (5_000_000 if arguments.full else 500_000)
    spark = session()
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        print(f"{count:,} rows, {GROUPS} file groups, table version {VERSION}, Spark {spark.version}")
        for kind in ("cow", "mor") if arguments.kind is None else (arguments.kind,):
            folder = root / kind
            made = table(spark, folder, count, kind)
            paths = bases(made)
            logs = sum(log.size for each in made.snapshot().slices for log in each.logs)
            print(f"{kind}: {len(paths)} base files, {logs / 1e6:.0f} MB of log files")
            assert made.to_df().count() == count == rust(folder)
            targets = {"Hudi table": COW if kind == "cow" else MOR}
            for title, query in QUERIES.items():
                variants = {
                    "spark.read.parquet": lambda q=query, p=paths: q(spark.read.parquet(*p)),
                    "Hudi table": lambda q=query, f=folder: q(Table.for_path(f, spark).to_df()),
                }
                if title == "full scan":
                    variants[PEER] = lambda f=folder: rust(f)
                    if kind == "mor":
                        variants["Hudi table, read-optimised"] = lambda q=query, f=folder: q(
                            Table.for_path(f, spark).to_df(query="read_optimized")
                        )
                report(f"{kind}, {title}", take_turns(variants, arguments.repeats, warm_up=2), targets)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
