"""Promise: merges are done beside appends, and none is refused for rows that it did not look at.

Four processes with a session each write to one table for a while: two append rows with keys of their own, two merge
into keys of theirs. Everything is counted from outside afterwards: each appended key once, each merge that was reported
done in the row it counts up, none that was refused. The peer is `deltalake` with the same work.

    python bench/delta_writers.py          40 s for each
    python bench/delta_writers.py --seconds 120
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KEYS = 1_000
"""Keys that each merging writer has for itself."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--engine", choices=sorted(ENGINES), help=argparse.SUPPRESS)
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(write(ENGINES[arguments.engine](arguments.path), arguments.writer, arguments.path)))
        return
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        for engine in ENGINES:
            path = root / engine
            prepare(path)
            print(engine + ": " + told(path, run(engine, path, arguments.seconds)), flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def prepare(path):
    """The table: two files, each with the keys of one merging writer."""
    import pyarrow as pa
    from deltalake import write_deltalake

    for writer in (0, 1):
        keys = pa.array(range(writer * KEYS, (writer + 1) * KEYS), pa.int64())
        table = pa.table({"id": keys, "n": pa.array([0] * KEYS, pa.int64())})
        write_deltalake(str(path), table, mode="append")


def run(engine, path, seconds):
    """What each writer says that it did."""
    writers = ("append-0", "append-1", "merge-0", "merge-1")
    command = [sys.executable, __file__, "--engine", engine, "--path", str(path), "--writer"]
    started = {each: subprocess.Popen([*command, each], stdout=subprocess.PIPE, text=True) for each in writers}
    while not all((path.parent / f"{engine}-{each}.ready").exists() for each in writers):
        time.sleep(0.1)
        if any(each.poll() is not None for each in started.values()):
            raise SystemExit("a writer ended before it began")
    (path.parent / f"{engine}.go").write_text(str(time.time() + seconds))
    return {each: json.loads(process.communicate()[0].splitlines()[-1]) for each, process in started.items()}


def write(engine, writer, path):
    """One writer's loop: appends, or merges, until the time is over."""
    kind, number = writer.split("-")
    place = Path(path)
    engine.warm_up(kind, int(number))
    place.with_name(f"{place.name}-{writer}.ready").touch()
    go = place.with_name(f"{place.name}.go")
    while not go.exists() or not go.read_text():
        time.sleep(0.05)
    until, done, refused, turn = float(go.read_text()), 0, [], 0
    while time.time() < until:
        turn += 1
        try:
            if kind == "append":
                first = (1 + int(number)) * 1_000_000 + turn * 100
                engine.append(range(first, first + 100))
            else:
                engine.merge(merged_keys(int(number)))
            done += 1
        except Exception as error:
            refused.append(f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
    return {"done": done, "refused": len(refused), "why": sorted(set(refused))[:3]}


def merged_keys(number):
    return range(number * KEYS, number * KEYS + 100)


class Halocline:
    def __init__(self, path):
        from measuring import session

        from halocline.table import Table

        self.path = path
        self.spark = session()
        self.table = Table.for_path(path, self.spark)

    def warm_up(self, kind, number):
        """The first call of a session takes seconds: it happens before the clock runs, on a table of its own."""
        own = f"{self.path}-{kind}-{number}"
        prepare(Path(own))
        warm = Halocline(own)
        for _ in range(3):
            warm.append(range(5_000_000, 5_000_100)) if kind == "append" else warm.merge(merged_keys(number))

    def append(self, keys):
        import pyarrow as pa

        columns = {"id": pa.array(keys, pa.int64()), "n": pa.array([0] * len(keys), pa.int64())}
        self.table.append(self.spark.createDataFrame(pa.table(columns)))

    def merge(self, keys):
        import pyarrow as pa

        source = self.spark.createDataFrame(pa.table({"id": pa.array(keys, pa.int64())}))
        bounds = f"t.id >= {keys[0]} AND t.id <= {keys[-1]}"
        merge = self.table.merge(source, f"t.id = s.id AND {bounds}", source_alias="s", target_alias="t")
        merge.when_matched_update(set={"n": "t.n + 1"}).execute()


class Deltalake:
    def __init__(self, path):
        self.path = path

    def warm_up(self, kind, number):
        """Nothing is slow the first time."""

    def append(self, keys):
        import pyarrow as pa
        from deltalake import write_deltalake

        columns = {"id": pa.array(keys, pa.int64()), "n": pa.array([0] * len(keys), pa.int64())}
        write_deltalake(self.path, pa.table(columns), mode="append")

    def merge(self, keys):
        import pyarrow as pa
        from deltalake import DeltaTable

        table, source = DeltaTable(self.path), pa.table({"id": pa.array(keys, pa.int64())})
        bounds = f"t.id >= {keys[0]} AND t.id <= {keys[-1]}"
        merge = table.merge(source, f"t.id = s.id AND {bounds}", source_alias="s", target_alias="t")
        merge.when_matched_update({"n": "t.n + 1"}).execute()


ENGINES = {"halocline": Halocline, "deltalake": Deltalake}


def told(path, writers):
    """One line on what was done and refused, after the rows have been counted."""
    from deltalake import DeltaTable

    rows = DeltaTable(str(path)).to_pyarrow_table().to_pydict()
    found = dict(zip(rows["id"], rows["n"], strict=True))
    appended = sum(each["done"] for name, each in writers.items() if name.startswith("append"))
    wrong = []
    if len(rows["id"]) != len(found) or len(found) != 2 * KEYS + 100 * appended:
        wrong.append(f"{len(rows['id'])} rows, {len(found)} keys, expected {2 * KEYS + 100 * appended}")
    for number in (0, 1):
        counts = {found[key] for key in range(number * KEYS, number * KEYS + 100)}
        if counts != {writers[f"merge-{number}"]["done"]}:
            wrong.append(f"merge-{number} reports {writers[f'merge-{number}']['done']} merges, its rows say {counts}")
    parts = []
    for kind in ("append", "merge"):
        of_kind = [each for name, each in writers.items() if name.startswith(kind)]
        reasons = sorted({why for each in of_kind for why in each["why"]})
        refused = sum(each["refused"] for each in of_kind)
        parts.append(f"{sum(each['done'] for each in of_kind)} {kind}s done, {refused} refused {reasons or ''}".strip())
    if wrong:
        raise SystemExit(f"WRONG ROWS: {wrong}; {parts}")
    return "; ".join(parts) + "; every row as reported"


if __name__ == "__main__":
    main()
