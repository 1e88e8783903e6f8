"""Searching an index table on Spark: against the same question as a scan of the same rows with LIKE, in one run.

    python bench/index_search.py [--rows 5000000] [--repeats 5] [--keep FOLDER]

Promises: a search for one row in a million at least 50 times as fast as the scan, a term that one row in ten has not
slower than it, and at least 20,000 rows built into splits per processor second. Both sides read the same files, the
scan with Spark's own Parquet reader, and both give the same rows with all of their columns to Python. The first search
of all, cold, is told apart, beside the first scan. The others are warm, as they are for everybody who has searched a
table for a while: the indexes of all splits have been unpacked, and both sides have been run until the JVM has compiled
what they do, a scan of millions of rows a few times, a search of milliseconds some hundred times: the processor time of
one falls until then. Every round looks for another row in another split.
Where the milliseconds of a warm search go is told as well: until there is a DataFrame, and for collecting that.
`--keep` leaves the table and its unpacked indexes in a folder; a later run with the same one builds nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from itertools import count

from measuring import cpu, report, session, take_turns

ROWS_PER_SECOND = 20_000
FIELDS = {"message": "text", "client": "ip", "trace": {"hashed": True}}


def lines(spark, count, tasks):
    """A log of ten columns; one row in ten is rejected."""
    return spark.range(0, count, 1, tasks).selectExpr(
        "timestamp_micros(1700000000000000 + id * 997) AS at",
        "element_at(array('INFO', 'INFO', 'INFO', 'WARN', 'ERROR'), int(id % 5) + 1) AS level",
        "concat('service-', id % 20) AS service",
        "concat('host-', id % 300) AS host",
        "int(element_at(array(200, 200, 201, 404, 500), int(id % 5) + 1)) AS status",
        "rand(1) * 100 AS latency",
        "bigint(rand(2) * 1000000) AS bytes",
        "concat('10.', id % 4, '.', id % 251, '.', id % 241) AS client",
        "md5(string(id)) AS trace",
        "concat('request ', id, if(id % 10 = 0, ' rejected', ' forwarded'), ' connection to /api/v', id % 4,"
        " ' after ', id % 5000, ' ms') AS message",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", help="a folder that the table stays in")
    asked = parser.parse_args()
    spark = session()
    import halocline as hc

    folder = asked.keep or tempfile.mkdtemp(prefix="halocline-bench-")
    try:
        options = {"halocline.index.cacheFolder": f"{folder}/cache"}
        if not os.path.exists(f"{folder}/logs"):
            before, start = cpu(), time.perf_counter()
            frame = lines(spark, asked.rows, 2)
            hc.Table.create(f"{folder}/logs", frame, format="index", fields=FIELDS, options=options)
            used, wall = cpu() - before, time.perf_counter() - start
            rate = asked.rows / used
            judged = "ok" if rate >= ROWS_PER_SECOND else "MISSED"
            print(f"build  {rate:,.0f} rows per processor second (target {ROWS_PER_SECOND:,}: {judged}), {wall:.0f} s")
        logs = hc.Table.for_path(f"{folder}/logs", spark, options=options)
        detail = logs.detail()
        print(f"table  {detail['numSplits']} splits, {detail['sizeInBytes'] / 1e6:.0f} MB")
        numbers = (step * 1_234_567 % asked.rows for step in count(1))
        wanted = next(numbers)
        start = time.perf_counter()
        found = logs.search(f'message:"request {wanted}"').collect()
        print(f"cold   {time.perf_counter() - start:.2f} s for the first search", end="")
        start = time.perf_counter()
        known = logs.to_df().where(f"message LIKE '%request {wanted} %'").collect()
        print(f", {time.perf_counter() - start:.2f} s for the first scan")
        assert found == known, "both have to find the same row"

        logs.count("message:request")  # unpacks every index

        def scanned(text):
            return logs.to_df().where(f"message LIKE '%{text}%'")

        def drained(df):
            df.write.format("noop").mode("overwrite").save()

        def scan_for_one():
            (row,) = scanned(f"request {next(numbers)} ").collect()
            return row

        def search_for_one():
            (row,) = logs.search(f'message:"request {next(numbers)}"').collect()
            return row

        rare = {"scan with LIKE": scan_for_one, "search": search_for_one}
        for warm, runs in ((scan_for_one, asked.repeats), (search_for_one, 100 * asked.repeats)):
            for _ in range(runs):
                warm()
        found = take_turns(rare, asked.repeats)
        report("one row of all", found, {"search": 1 / 50})
        scan, search = (found[name][0] for name in rare)
        print(f"  {scan / search:.0f} times as fast: {1000 * search:.1f} ms in place of {1000 * scan:.0f} ms")
        parts = {"search": [], "collect": []}
        for _ in range(20):
            start = time.perf_counter()
            df = logs.search(f'message:"request {next(numbers)}"')
            middle = time.perf_counter()
            df.collect()
            parts["search"].append(middle - start)
            parts["collect"].append(time.perf_counter() - middle)
        spent = {name: 1000 * statistics.median(times) for name, times in parts.items()}
        print(
            f"  a search takes {spent['search']:.1f} ms until there is a DataFrame, and {spent['collect']:.1f} ms more"
        )
        many = {
            "scan with LIKE": lambda: drained(scanned("rejected")),
            "search": lambda: drained(logs.search("message:rejected")),
        }
        report("one row in ten", take_turns(many, asked.repeats, warm_up=asked.repeats), {"search": 1.0})
        counts = {
            "scan with LIKE": lambda: scanned("rejected").count(),
            "count": lambda: logs.count("message:rejected"),
        }
        report("how many rows have it", take_turns(counts, asked.repeats), {"count": 1.0})
    finally:
        spark.stop()
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
