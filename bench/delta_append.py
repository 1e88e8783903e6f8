"""Promise: an append costs what a plain `df.write.parquet` costs, statistics and commit included.

The same rows are computed and written by Spark alone into a fresh folder, and appended to a Delta table. A tiny frame
is measured as well, without a promise: there the commit and the look into the log are all that counts.

    python bench/delta_append.py          1 million rows
    python bench/delta_append.py --full   6.7 million rows, the promise
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from measuring import report, rows, session, take_turns

from halocline.table import Table

TARGET = 1.15
TASKS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    count = arguments.rows or (6_700_000 if arguments.full else 1_000_000)
    spark = session()
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    number = itertools.count()

    def fresh() -> str:
        return str(root / f"plain-{next(number)}")

    try:
        large = rows(spark, count, TASKS)
        tiny = spark.createDataFrame(pa.table({"id": range(100), "s": [f"name-{n}" for n in range(100)]}))
        for title, df in ((f"{count:,} rows", large), ("100 rows", tiny)):
            folder = root / f"table-{next(number)}"
            table = Table.create(folder, ", ".join(f"{name} {type}" for name, type in df.dtypes), spark)
            variants = {
                "df.write.parquet": lambda d=df: d.write.parquet(fresh()),
                "append": lambda d=df, t=table: t.append(d),
            }
            report(title, take_turns(variants, arguments.repeats, warm_up=2), {"append": TARGET} if df is large else {})
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
