"""Searching an index table on Spark: against the same question as a scan of the same rows with LIKE, in one run.

    python bench/index_search.py [--rows 5000000] [--repeats 5]

Promises: a search for one row in a million at least 50 times as fast as the scan, a term that one row in ten has not
slower than it, and at least 20,000 rows built into splits per processor second. Both sides read the same files, the
scan with Spark's own Parquet reader. Searches are warm: the indexes have been unpacked by the first round, as they are
for everybody who searches a table twice. The first search of all, cold, is told apart.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time

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
    asked = parser.parse_args()
    spark = session()
    import halocline as hc

    folder = tempfile.mkdtemp(prefix="halocline-bench-")
    try:
        options = {"halocline.index.cacheFolder": f"{folder}/cache"}
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
        wanted = asked.rows // 3
        start = time.perf_counter()
        assert len(logs.search(f"message:{wanted}").collect()) == 1
        print(f"cold   {time.perf_counter() - start:.2f} s for the first search")

        def scanned(text):
            return logs.to_df().where(f"message LIKE '%{text}%'")

        def drained(df):
            df.write.format("noop").mode("overwrite").save()

        rare = {
            "scan with LIKE": lambda: scanned(f"request {wanted} ").collect(),
            "search": lambda: logs.search(f"message:{wanted}").collect(),
        }
        report("one row of all", take_turns(rare, asked.repeats), {"search": 1 / 50})
        many = {
            "scan with LIKE": lambda: drained(scanned("rejected")),
            "search": lambda: drained(logs.search("message:rejected")),
        }
        report("one row in ten", take_turns(many, asked.repeats), {"search": 1.0})
        counts = {
            "scan with LIKE": lambda: scanned("rejected").count(),
            "count": lambda: logs.count("message:rejected"),
        }
        report("how many rows have it", take_turns(counts, asked.repeats), {"count": 1.0})
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
