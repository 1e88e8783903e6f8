"""Promise: an upsert rewrites only the file groups that hold the keys it changes.

A copy-on-write table in forty file groups is changed by an upsert of 1 % of its keys, all of which lie in one of them,
and for comparison written anew as a whole. Nothing tells the upsert where they lie. Counted from the timeline: the file
groups that it wrote, and their bytes.

    python bench/hudi_upsert.py            200,000 keys
    python bench/hudi_upsert.py --full     2 million keys, the promise
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from measuring import report, rows, session, take_turns

from halocline.table import Table

GROUPS = 40
VERSION = 8


def written(table):
    """The file groups that the newest write wrote, and its bytes."""
    timeline = table.snapshot().timeline
    stats = [stat for _, stat in timeline.commit_metadata(timeline.writes[-1]).stats]
    return {stat.file_id for stat in stats}, sum(stat.file_size_in_bytes or 0 for stat in stats)


def holding(table, where):
    """The file groups that hold rows."""
    names = table.to_df(where=where, columns=["_hoodie_file_name"]).distinct().collect()
    return {name.split("_")[0] for (name,) in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    count = arguments.rows or (2_000_000 if arguments.full else 200_000)
    spark = session()
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        table = Table.create(root / "t", rows(spark, 0, 1), format="hudi", version=VERSION, keys="id", ordering="ts")
        data = rows(spark, count, GROUPS)
        table.bulk_insert(data, rows_per_group=count // GROUPS)
        # Two in five rows of one file group, as files of their own, because the table is about to change.
        group = min(holding(table, "true"))
        some = table.to_df(columns=[*data.columns, "_hoodie_file_name"])
        some = some.where(f"startswith(_hoodie_file_name, '{group}') AND pmod(id, 5) < 2").drop("_hoodie_file_name")
        some.withColumn("s", some["s"].substr(1, 3)).write.parquet(str(root / "changed"))
        changed = spark.read.parquet(str(root / "changed"))
        ids = changed.count()
        holds = {group}
        table.upsert(changed)
        groups, size = written(table)
        everything = len(table.snapshot().slices)
        assert table.to_df(where="s = 'nam'").count() == ids
        assert table.to_df().count() == count
        print(f"{count:,} keys in {everything} file groups, table version {VERSION}, load {os.getloadavg()[0]:.0f}")
        agree = "ok" if groups == holds else "MISSED"
        print(
            f"  1 % of the keys lie in {len(holds)} file groups, the upsert wrote {len(groups)}  target equal  {agree}"
        )
        table.overwrite(data)
        print(f"  it wrote {size / 1e6:.2f} MB, and all of the table is {written(table)[1] / 1e6:.2f} MB")
        variants = {"everything written anew": lambda: table.overwrite(data), "upsert": lambda: table.upsert(changed)}
        report("upsert of 1 %", take_turns(variants, arguments.repeats, warm_up=1), {})
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
