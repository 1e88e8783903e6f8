"""Promise: a table of 10 million files is planned, and its checkpoint written, on one driver with bounded memory.

The table is a checkpoint in 100 parts with statistics in typed columns, as a large lake has it, and no data. Each
question runs in a fresh process: a filter that keeps 100 files, by an id and by a partition, one that keeps a tenth of
all files, and a checkpoint of the next version. Printed: processor time, wall time and the most memory, with targets.
The peer is deltalake, which opens the same table. With --spark, Spark's tasks list the same files
(`halocline.log.replay=spark`) in turns with the driver.

    python bench/delta_files.py             100,000 files in 10 parts
    python bench/delta_files.py --full      10 million files in 100 parts
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DAYS = 1000
"""How many partitions there are."""
ROWS = 1000
"""How many rows a file is said to have."""
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": type, "nullable": True, "metadata": {}}
            for name, type in (("id", "long"), ("amount", "double"), ("name", "string"), ("day", "date"))
        ],
    }
)
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA = {
    "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": SCHEMA,
    "partitionColumns": ["day"],
    "configuration": {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    },
    "createdTime": 1700000000000,
}
MAP = pa.map_(pa.string(), pa.string())
VALUES = pa.struct({"id": pa.int64(), "amount": pa.float64(), "name": pa.string()})
COUNTS = pa.struct({"id": pa.int64(), "amount": pa.int64(), "name": pa.int64()})
STATS = pa.struct({"numRecords": pa.int64(), "minValues": VALUES, "maxValues": VALUES, "nullCount": COUNTS})
ADD = pa.struct(
    {
        "path": pa.string(),
        "partitionValues": MAP,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "partitionValues_parsed": pa.struct({"day": pa.date32()}),
        "stats_parsed": STATS,
    }
)
HEADER = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": MAP}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": MAP,
                "createdTime": pa.int64(),
            }
        ),
        "add": ADD,
    }
)
BEGIN = """
import json, resource, sys, time
import pyarrow, pyarrow.compute
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.spark.scan.frames import LISTED
from halocline.storage import open_store
from halocline.compat.verdict import can; can("halocline@0.1.0", "(1,2)")
import sqlglot.dialects.databricks
store = open_store(sys.argv[1])
def run():
    return %s
before, cpu = time.perf_counter(), time.process_time()
files = run()
print(json.dumps({"files": files, "wall": time.perf_counter() - before, "cpu": time.process_time() - cpu,
                  "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
THEIRS = """
import json, resource, sys, time
from deltalake import DeltaTable
before, cpu = time.perf_counter(), time.process_time()
table = DeltaTable(sys.argv[1])
print(json.dumps({"files": 0, "wall": time.perf_counter() - before, "cpu": time.process_time() - cpu,
                  "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def adds(start: int, end: int, files: int) -> pa.Array:
    """Files in the order of their ids, as a load day by day leaves them."""
    numbers = np.arange(start, end)
    count = len(numbers)
    text = pa.array(numbers).cast(pa.string())
    days = numbers * DAYS // files
    day = pa.array(days.astype(np.int32), pa.int32()).cast(pa.date32())
    named = day.cast(pa.string())
    keys = pa.array(["day"] * count, pa.string())
    # A cheap way to names that do not compress well, as the names of files do not.
    hashed = pa.array((numbers * np.int64(2654435761)) & 0x7FFFFFFFFFFF).cast(pa.string())
    paths = pc.binary_join_element_wise("day=", named, "/part-", text, "-", hashed, "-c000.snappy.parquet", "")
    values = [pa.array(numbers * ROWS), pa.array(numbers % 977 / 7), pc.binary_join_element_wise("n", hashed, "")]
    highest = [
        pa.array(numbers * ROWS + ROWS - 1),
        pa.array(numbers % 977 / 7 + 100),
        pc.binary_join_element_wise("o", hashed, ""),
    ]
    zeros = pa.array(np.zeros(count, np.int64))
    stats = [
        pa.array(np.full(count, ROWS)),
        pa.StructArray.from_arrays(values, fields=list(VALUES)),
        pa.StructArray.from_arrays(highest, fields=list(VALUES)),
        pa.StructArray.from_arrays([zeros] * 3, fields=list(COUNTS)),
    ]
    columns = [
        paths,
        pa.MapArray.from_arrays(pa.array(np.arange(count + 1), pa.int32()), keys, named),
        pa.array(4096 + numbers % 1000),
        pa.array(1700000000000 + numbers),
        pa.repeat(pa.scalar(False), count),
        pa.StructArray.from_arrays([day], names=["day"]),
        pa.StructArray.from_arrays(stats, fields=list(STATS)),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ADD))


def write_table(table: Path, files: int, parts: int) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    first = [{"commitInfo": {}}, {"protocol": PROTOCOL}, {"metaData": METADATA}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, first)) + "\n")
    each = files // parts
    for part in range(parts):
        path = log / f"{0:020}.checkpoint.{part + 1:010}.{parts:010}.parquet"
        with pq.ParquetWriter(path, HEADER) as writer:
            if part == 0:
                writer.write_table(pa.Table.from_pylist([{"protocol": PROTOCOL}, {"metaData": METADATA}], HEADER))
            structs = adds(part * each, (part + 1) * each, files)
            nothing = [pa.nulls(len(structs), HEADER.field(name).type) for name in ("protocol", "metaData")]
            writer.write_table(pa.Table.from_arrays([*nothing, structs], schema=HEADER))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": files + 2, "parts": parts}))
    add = {"path": "day=1970-01-01/last.parquet", "partitionValues": {"day": "1970-01-01"}, "size": 1}
    line = {"add": {**add, "modificationTime": 0, "dataChange": True, "stats": '{"numRecords":1}'}}
    (log / f"{1:020}.json").write_text(json.dumps(line) + "\n")


def measured(code: str, table: Path) -> dict:
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(table)], capture_output=True, text=True)
    return json.loads(run.stdout) if run.returncode == 0 else {"error": run.stderr.strip().splitlines()[-1][:200]}


def on_spark(table: Path, where: str) -> None:
    """The same question answered by the driver and by tasks, in turns."""
    from measuring import report, session, take_turns

    from halocline.spark.scan.frames import LISTED
    from halocline.table import Table

    spark = session()
    found: dict[str, set] = {"driver": set(), "spark": set()}

    def listed(who: str) -> None:
        opened = Table.for_path(table, spark, options={"halocline.log.replay": who})
        found[who] = set(opened.snapshot().files(where, LISTED)["path"].to_pylist())

    report("files listed by", take_turns({who: lambda w=who: listed(w) for who in found}, 3), {})
    print(f"  the same {len(found['driver']):,} files: {found['driver'] == found['spark']}")
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="10 million files in 100 parts")
    parser.add_argument("--files", type=int)
    parser.add_argument("--table", type=Path, help="a folder that keeps the table between runs")
    parser.add_argument("--peer", action="store_true", help="deltalake as well: it takes many GiB of memory")
    parser.add_argument("--spark", action="store_true", help="the driver and Spark's tasks in turns, nothing else")
    given = parser.parse_args()
    files, parts = given.files or (10_000_000 if given.full else 100_000), 100 if given.full else 10
    table = given.table or Path(tempfile.mkdtemp(prefix="halocline-bench-")) / "table"
    few, tenth = f"id BETWEEN {files // 2 * ROWS} AND {(files // 2 + 100) * ROWS - 1}", f"id < {files // 10 * ROWS}"
    questions = {
        "keep 100 files by id": (f"Snapshot.load(store).files({few!r}, LISTED).num_rows", 10, 2048),
        "keep a partition": ("Snapshot.load(store).files(\"day = '1971-01-01'\", LISTED).num_rows", 10, 2048),
        "keep a tenth": (f"Snapshot.load(store).files({tenth!r}, LISTED).num_rows", 20, 4096),
        "write a checkpoint": ("write_checkpoint(store, 1).actions", None, 2048),
    }
    try:
        if not table.exists():
            write_table(table, files, parts)
        if given.spark:
            on_spark(table, few)
            return
        for title, (code, seconds, memory) in questions.items():
            found = measured(BEGIN % code, table)
            if "error" in found:
                print(f"{title}: {found['error']}", flush=True)
                continue
            limits = f"target {f'{seconds} s of processor, ' if seconds else ''}{memory} MiB"
            print(
                f"{title}: {found['files']:,} files · {found['cpu']:.1f} s of processor, {found['wall']:.1f} s, "
                f"{found['MiB']:.0f} MiB ({limits})",
                flush=True,
            )
            for made in (table / "_delta_log").glob(f"{1:020}.checkpoint*"):
                made.unlink()
        if given.peer:
            print(f"deltalake opens it: {measured(THEIRS, table)}")
    finally:
        if given.table is None:
            shutil.rmtree(table.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
