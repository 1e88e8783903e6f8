"""Promise: an hour of 200 small appends a minute does not slow a table down.

Threads append a few rows each, without Spark, to one table, as programs do that deliver as rows come. What could grow
with the log is what each append does besides: listing, replay, checkpoints, clean-up. Printed: the median and the worst
tenth of the time that an append takes, for each tenth of the run, the median of its processor time and the mean, which
has a share of every checkpoint, and the ratio of the last tenth to the first.

    python bench/delta_appends.py                      1,000 appends, one right after the other
    python bench/delta_appends.py --full               12,000: as many as in an hour
    python bench/delta_appends.py --full --rate 200    in an hour
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from halocline.table import Table

WRITERS = 4
TARGET = 1.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="12,000 appends")
    parser.add_argument("--appends", type=int)
    parser.add_argument("--rate", type=float, default=0, help="appends a minute; 0 for no pause")
    parser.add_argument("--writers", type=int, default=WRITERS)
    given = parser.parse_args()
    appends = given.appends or (12_000 if given.full else 1_000)
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    path = str(root / "table")
    Table.create(path, pa.table({"id": [0], "v": ["first"]}))
    own = threading.local()
    begin = time.perf_counter()

    def append(number: int) -> tuple[float, float]:
        if given.rate:
            time.sleep(max(0.0, begin + number * 60 / given.rate - time.perf_counter()))
        if not hasattr(own, "table"):
            own.table = Table.for_path(path)
        start, used = time.perf_counter(), time.thread_time()
        own.table.append_arrow(pa.table({"id": [number], "v": [f"row {number}"]}))
        return time.perf_counter() - start, time.thread_time() - used

    try:
        with ThreadPoolExecutor(given.writers) as pool:
            taken = list(pool.map(append, range(1, appends + 1)))
        tenth = max(1, len(taken) // 10)
        medians, means = [], []
        for at in range(0, tenth * 10, tenth):
            wall, used = (sorted(part) for part in zip(*taken[at : at + tenth], strict=True))
            medians.append(statistics.median(used))
            means.append(statistics.mean(used))
            print(
                f"appends {at + 1:>6,} to {at + tenth:>6,}: median {statistics.median(wall) * 1000:6.1f} ms, worst "
                f"tenth {wall[-max(1, tenth // 10)] * 1000:6.1f} ms, {medians[-1] * 1000:5.1f} ms of processor, "
                f"{means[-1] * 1000:5.1f} with checkpoints",
                flush=True,
            )
        rows = Table.for_path(path).count()
        ratio = medians[-1] / medians[0]
        judged = "ok" if ratio <= TARGET and rows == appends + 1 else "MISSED"
        print(f"last tenth to first: {ratio:.2f} of the processor (target {TARGET})  {rows:,} rows  {judged}")
        print(f"the same with checkpoints: {means[-1] / means[0]:.2f}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
