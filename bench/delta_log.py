"""Log replay against deltalake: from a path to the list of live files.

    python bench/delta_log.py [--full]

Two tables: commits of 100 adds each, and one checkpoint of many adds. Each side opens the table and lists the live
files in a fresh process, in turn; imports are not counted. Printed: medians, the ratio ours/theirs for time and for the
growth of memory, and the target.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        ],
    }
)
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA = {
    "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": SCHEMA,
    "partitionColumns": [],
    "configuration": {},
    "createdTime": 1700000000000,
}
OURS = """
import json, resource, sys, time
import pandas, pyarrow, pyarrow.compute
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store
from halocline.compat.verdict import can; can("halocline@0.1.0", "(1,2)")
store = open_store(sys.argv[1])
def run():
    return Snapshot.load(store).files(columns=["path", "size"]).num_rows
"""
THEIRS = """
import json, resource, sys, time
import pandas, pyarrow, pyarrow.compute
from deltalake import DeltaTable
def run():
    return len(DeltaTable(sys.argv[1]).file_uris())
"""
MEASURE = """
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
files = run()
print(json.dumps({"files": files, "wall": time.perf_counter() - start, "cpu": time.process_time() - cpu,
                  "MB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}))
"""


def add(number: int) -> dict:
    stats = json.dumps(
        {
            "numRecords": 1000,
            "minValues": {"id": number * 1000, "day": "2026-01-01"},
            "maxValues": {"id": number * 1000 + 999, "day": "2026-12-31"},
            "nullCount": {"id": 0, "day": 0},
        }
    )
    return {
        "path": f"part-{number:08}-5fba94ed-9794-4965-ba6e-6ee3c0d22af9-c000.snappy.parquet",
        "partitionValues": {},
        "size": 4096 + number % 1000,
        "modificationTime": 1700000000000 + number,
        "dataChange": True,
        "stats": stats,
    }


def write_commits(table: Path, commits: int) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    for version in range(commits):
        lines = [] if version else [{"protocol": PROTOCOL}, {"metaData": METADATA}]
        lines += [{"add": add(version * 100 + number)} for number in range(100)]
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")


def write_checkpoint(table: Path, adds: int) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    first = [{"commitInfo": {}}, {"protocol": PROTOCOL}, {"metaData": METADATA}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, first)) + "\n")
    text_map = pa.map_(pa.string(), pa.string())
    schema = pa.schema(
        {
            "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
            "metaData": pa.struct(
                {
                    "id": pa.string(),
                    "format": pa.struct({"provider": pa.string(), "options": text_map}),
                    "schemaString": pa.string(),
                    "partitionColumns": pa.list_(pa.string()),
                    "configuration": text_map,
                    "createdTime": pa.int64(),
                }
            ),
            "add": pa.struct(
                {
                    "path": pa.string(),
                    "partitionValues": text_map,
                    "size": pa.int64(),
                    "modificationTime": pa.int64(),
                    "dataChange": pa.bool_(),
                    "stats": pa.string(),
                }
            ),
        }
    )
    with pq.ParquetWriter(log / f"{0:020}.checkpoint.parquet", schema) as writer:
        writer.write_table(pa.Table.from_pylist([{"protocol": PROTOCOL}, {"metaData": METADATA}], schema))
        for start in range(0, adds, 50_000):
            rows = [{"add": add(number)} for number in range(start, min(start + 50_000, adds))]
            writer.write_table(pa.Table.from_pylist(rows, schema))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": adds + 2}))


def measured(code: str, table: Path) -> dict:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code + MEASURE, str(table)], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


def compare(title: str, table: Path, repeats: int) -> None:
    runs = {"ours": [], "theirs": []}
    for _ in range(repeats):
        runs["ours"].append(measured(OURS, table))
        runs["theirs"].append(measured(THEIRS, table))
    assert {run["files"] for side in runs.values() for run in side} == {runs["ours"][0]["files"]}
    ours, theirs = (
        {key: statistics.median(run[key] for run in side) for key in ("wall", "cpu", "MB")} for side in runs.values()
    )
    ratios = {key: ours[key] / theirs[key] for key in ours}
    print(
        f"{title}: {runs['ours'][0]['files']:,} files · ours {ours['wall']:.2f} s, {ours['MB']:.0f} MB · "
        f"deltalake {theirs['wall']:.2f} s, {theirs['MB']:.0f} MB · "
        f"time x{ratios['wall']:.2f} (cpu x{ratios['cpu']:.2f}; target 0.25) · memory x{ratios['MB']:.2f} (target 1)"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="1,000 commits and 1,000,000 adds")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    commits, adds = (1000, 1_000_000) if given.full else (200, 200_000)
    with tempfile.TemporaryDirectory() as folder:
        write_commits(Path(folder, "commits"), commits)
        compare(f"{commits:,} commits of 100 adds", Path(folder, "commits"), given.repeats)
        write_checkpoint(Path(folder, "checkpoint"), adds)
        compare(f"a checkpoint of {adds:,} adds", Path(folder, "checkpoint"), given.repeats)


if __name__ == "__main__":
    main()
