"""A promise of the writer of splits: its memory hardly grows with the rows of a split, up to the largest that it makes.

    python bench/index_memory.py [--rows 400000 1000000]
    python bench/index_memory.py --spark [--rows 1000000 2500000]

Log rows of ten columns, made batch by batch, each size in a process of its own. Printed is how much the memory of the
process has grown at its peak over that before the first row, while rows are added and while the split is closed. The
first size is large enough to fill the memory that the index may have; the second is the most that a split gets where
nobody says otherwise. What is left to grow, some thirty bytes a row, is what the library keeps while it merges segments
and what Parquet remembers of row groups until the file ends.

With `--spark` a table is created of so many rows in one task, in splits of at most a million, and what is printed is
the memory of the largest Python worker, over that of one which has just begun. There, the first size fills one split,
and the second makes the task build several.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

FLAT = 1.25
HEAP = 64_000_000


def resident() -> int:
    """What the process holds itself; pages of files that are mapped into it belong to the machine."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


def built(rows: int) -> None:
    """Builds a split of so many rows and prints the growth at the peak, and when it was reached."""
    from index_split import COLUMNS, OPTIONS, batch

    from halocline.formats.index.split.fields import fields_of
    from halocline.formats.index.split.writer import SplitWriter
    from halocline.schema.arrow import arrow_schema

    chance = random.Random(7)
    peaks = {"rows": 0, "close": 0}
    phase, done = "rows", False

    def watch() -> None:
        while not done:
            peaks[phase] = max(peaks[phase], resident())
            time.sleep(0.005)

    with tempfile.TemporaryDirectory() as folder:
        before = resident()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        with (
            open(os.path.join(folder, "a.split.parquet"), "wb") as sink,
            SplitWriter(sink, arrow_schema(COLUMNS.fields), fields_of(COLUMNS, OPTIONS), heap_bytes=HEAP) as writer,
        ):
            for start in range(0, rows, 10_000):
                writer.write(batch(chance, start, 10_000))
            phase = "close"
            made = writer.close()
        done = True
        watcher.join()
    print(*(peaks[each] - before for each in ("rows", "close")), made.size)


def held(pid: str) -> int:
    """What another process holds itself; 0 if it is none of our Python workers."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"pyspark" not in file.read():
                return 0
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def below(pid: int) -> list[str]:
    """The processes that a process has started, and those that these have."""
    found, waiting = [], [str(pid)]
    while waiting:
        try:
            with open(f"/proc/{waiting[0]}/task/{waiting[0]}/children", encoding="ascii") as file:
                waiting += file.read().split()
        except OSError:
            pass
        found.append(waiting.pop(0))
    return found[1:]


def built_on_spark(rows: int) -> None:
    """Builds a table of so many rows in one task, and prints how much the largest worker has grown."""
    from index_search import FIELDS, lines
    from measuring import session

    import halocline as hc

    spark = session()
    peak, done = 0, False

    def watch() -> None:
        nonlocal peak
        while not done:
            peak = max([peak, *map(held, below(os.getpid()))])
            time.sleep(0.02)

    with tempfile.TemporaryDirectory() as folder:
        hc.Table.create(f"{folder}/first", lines(spark, 1000, 1), format="index", fields=FIELDS)
        before = max(map(held, below(os.getpid())))
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        table = hc.Table.create(f"{folder}/logs", lines(spark, rows, 1), format="index", fields=FIELDS)
        done = True
        watcher.join()
        print(peak - before, 0, table.detail()["sizeInBytes"])
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--built", type=int)
    asked = parser.parse_args()
    if asked.built is not None:
        return built_on_spark(asked.built) if asked.spark else built(asked.built)
    first = None
    for rows in asked.rows or ([1_000_000, 2_500_000] if asked.spark else [400_000, 1_000_000]):
        found = subprocess.run(
            [sys.executable, __file__, "--built", str(rows), *(["--spark"] if asked.spark else [])],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        adding, closing, size = map(int, found)
        peak = max(adding, closing)
        first = first or peak
        verdict = "ok" if peak <= FLAT * first else "MISSED"
        print(
            f"{rows:>10,} rows  {size / 1e6:8.1f} MB written  peak {peak / 1e6:6.0f} MB "
            f"(rows {adding / 1e6:.0f}, close {closing / 1e6:.0f})  {peak / first:.2f}x  target {FLAT}  {verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
