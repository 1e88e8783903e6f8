"""What the benches on Spark share: a session, runs that take turns, and a line per figure.

Variants take turns in one process, in an order that moves on every round, so that what else the machine does meets all
of them. A ratio is between medians. Processor time counts this process, the JVM and the Python workers.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def session(**more):
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("halocline-bench")
    for key, value in (settings | more).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark, count, files):
    """Eight columns of the usual kinds."""
    return spark.range(0, count, 1, files).selectExpr(
        "id",
        "id % 1000 AS k",
        "rand(1) AS d",
        "float(rand(2)) AS f",
        "concat('name-', id % 5000) AS s",
        "sha1(string(id)) AS h",
        "date_add(DATE'2020-01-01', int(id % 365)) AS dt",
        "timestamp_micros(id * 1000000) AS ts",
    )


def cpu():
    """Processor seconds of this process and all below it."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:  # ended meanwhile
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


def take_turns(variants, repeats, warm_up=1):
    """Seconds of wall and processor time per variant."""
    names = list(variants)
    found = {name: ([], []) for name in names}
    for turn in range(repeats + warm_up):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            before, start = cpu(), time.perf_counter()
            variants[name]()
            wall, used = time.perf_counter() - start, cpu() - before
            if turn >= warm_up:
                found[name][0].append(wall)
                found[name][1].append(used)
    return {name: tuple(statistics.median(part) for part in parts) for name, parts in found.items()}


def report(title, found, targets):
    """A line per variant: ratio of wall time to the first one, and its target."""
    base_wall, base_cpu = next(iter(found.values()))
    print(f"\n{title}  ({base_wall:.2f} s)")
    for name, (wall, used) in found.items():
        ratio, target = wall / base_wall, targets.get(name)
        judged = "" if target is None else f"  target {target:.2f}  {'ok' if ratio <= target else 'MISSED'}"
        print(f"  {name:<34} {ratio:6.2f}x wall  {used / max(base_cpu, 0.01):6.2f}x processor{judged}", flush=True)
