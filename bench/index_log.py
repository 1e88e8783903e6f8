"""A promise of the log of an index table: one with 10,000 splits is open in less than a second.

    python bench/index_log.py [--splits 10000]

Splits are added a hundred to a commit, with bounds for ten columns. Each opening is a process of its own; imports are
not counted. The peer is a reader that does nothing but parse the newest checkpoint as JSON, in the same process, after.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time

TARGET = 1.0


def made(folder: str, splits: int) -> None:
    from halocline.formats.index.log.actions import SplitAdd
    from halocline.formats.index.snapshot import IndexSnapshot
    from halocline.formats.index.transaction import IndexTransaction
    from halocline.schema.types import Field, Primitive, Struct
    from halocline.storage import open_store

    store = open_store(folder)
    columns = Struct([Field(f"column_{number}", Primitive("long")) for number in range(10)])
    IndexTransaction.create(store, columns).commit([], "CREATE TABLE")
    low = {field.name: "1000000" for field in columns.fields}
    snapshot = IndexSnapshot.load(store)
    for start in range(0, splits, 100):
        adds = [
            SplitAdd(
                f"part-{number:08d}.split.parquet", {}, 10**8, 1, True, min_values=low, max_values=low,
                num_records=10**6, footer_start_offset=9, footer_end_offset=10, has_footer_offsets=True,
            )
            for number in range(start, start + 100)
        ]  # fmt: skip
        IndexTransaction(snapshot).commit(adds, "WRITE")
        snapshot = snapshot.newest()


def opened(folder: str) -> None:
    from halocline.formats.index.log.encodings import decoded
    from halocline.formats.index.snapshot import IndexSnapshot
    from halocline.storage import open_store

    store = open_store(folder)
    start = time.process_time(), time.perf_counter()
    count = len(IndexSnapshot.load(store).files)
    spent = time.process_time() - start[0], time.perf_counter() - start[1]
    again = time.process_time()
    newest = max(meta.path for meta in store.list("_transaction_log") if "checkpoint.json" in meta.path)
    [json.loads(line) for line in decoded(store.get(newest), newest).splitlines()]
    print(count, *spent, time.process_time() - again)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10_000)
    parser.add_argument("--opened")
    asked = parser.parse_args()
    if asked.opened is not None:
        return opened(asked.opened)
    with tempfile.TemporaryDirectory() as folder:
        made(folder, asked.splits)
        command = [sys.executable, __file__, "--opened", folder]
        runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)]
    found = [[float(part) for part in run.split()] for run in runs]
    count, used, wall, peer = min(found, key=lambda each: each[1])
    verdict = "ok" if used <= TARGET else "MISSED"
    print(
        f"open  {count:,.0f} splits  {used:.2f} s processor, {wall:.2f} s wall  target {TARGET}  {verdict}"
        f"  (the checkpoint parsed as JSON: {peer:.2f} s)"
    )


if __name__ == "__main__":
    main()
