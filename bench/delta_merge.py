"""Promise: MERGE of 1 % of the rows reads and rewrites only the files that hold them.

A table of many files gets new values for 1 % of its rows, all of which lie in a few files; the same is then done by
rewriting the whole table, which is what a merge without any pruning costs. With deletion vectors not even those few
files are rewritten. A last merge spreads the same number of rows over every file: all of them have to be looked into,
and without vectors all have to be rewritten.

    python bench/delta_merge.py            1 million rows in 50 files
    python bench/delta_merge.py --full     10 million rows in 100 files
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from measuring import report, rows, session, take_turns

from halocline.table import Table


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    count, files = (10_000_000, 100) if asked.full else (1_000_000, 50)
    spark = session()
    folder = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        vectors = {"delta.enableDeletionVectors": "true"}
        df = rows(spark, count, files)
        tables = {
            "copies": Table.create(folder / "copies", df, spark),
            "vectors": Table.create(folder / "vectors", df, spark, properties=vectors),
        }
        near = spark.range(count // 2, count // 2 + count // 100).selectExpr("id", "-1.0 AS d")
        far = spark.range(0, count, 100).selectExpr("id", "-2.0 AS d")
        told = {}

        def merged(name, source):
            def run():
                table = tables[name]
                if table.version:
                    table.restore(0)
                merge = table.merge(source, "t.id = s.id")
                metrics = merge.when_matched_update(set={"d": "s.d"}).execute().metrics
                told[name, source is near] = metrics

            return run

        def everything():
            df = tables["copies"].to_df(version=0)
            changed = df.selectExpr("*").withColumnRenamed("d", "old").selectExpr("*", "if(k < 0, -1.0, old) AS d")
            changed.drop("old").write.mode("overwrite").parquet(str(folder / "all"))

        found = take_turns(
            {
                "rewrite all": everything,
                "merge, rows near": merged("copies", near),
                "merge, rows near, vectors": merged("vectors", near),
                "merge, rows far": merged("copies", far),
                "merge, rows far, vectors": merged("vectors", far),
            },
            asked.repeats,
        )
        report(f"1 % of {count:,} rows in {files} files", found, {})
        for (name, is_near), metrics in told.items():
            print(
                f"{'near' if is_near else 'far':5} {name:8} "
                f"files read {metrics['numTargetFilesScanned']:4} of {files}, "
                f"rewritten {metrics['numTargetFilesRemoved']:4}, "
                f"marked {metrics['numTargetDeletionVectorsAdded']:4}, "
                f"rows copied {metrics['numTargetRowsCopied']:,}"
            )
        few = told["copies", True]
        assert few["numTargetFilesScanned"] <= 2, "only files that hold the rows are read"
        assert few["numTargetFilesRemoved"] <= 2, "only files that hold the rows are rewritten"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main()
