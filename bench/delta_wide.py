"""What a table of thousands of columns costs beside plain Parquet files of them.

Spark's own analysis grows with the columns; what is added to it (types, rules, statistics, the log) must not grow
beyond it. A narrow query names one column, a filter on it included.

    python bench/delta_wide.py          1,000 columns
    python bench/delta_wide.py --full   5,000 columns
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
from pathlib import Path

from measuring import report, session, take_turns

from halocline.table import Table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--columns", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    width = arguments.columns or (5_000 if arguments.full else 1_000)
    spark = session()
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    number = itertools.count()

    def fresh() -> str:
        return str(root / f"table-{next(number)}")

    try:
        df = spark.range(10).selectExpr(*[f"id + {n} AS c{n}" for n in range(width)])
        plain, folder = fresh(), fresh()
        df.write.parquet(plain)
        table = Table.create(folder, df, spark)
        creating = {
            "df.write.parquet": lambda: df.write.parquet(fresh()),
            "Table.create": lambda: Table.create(fresh(), df, spark),
            "append": lambda: table.append(df),
        }
        reading = {
            "spark.read.parquet": lambda: spark.read.parquet(plain).select("c1").where("c1 > 3").collect(),
            "to_df(columns, where)": lambda: table.to_df(columns=["c1"], where="c1 > 3").collect(),
        }
        for title, variants in (("write", creating), ("narrow query", reading)):
            report(f"{title} of {width:,} columns", take_turns(variants, arguments.repeats), {})
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
