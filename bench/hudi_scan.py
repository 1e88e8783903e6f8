"""Promise: a Hudi table costs what its base files cost, and log files that change 5 % of the rows at most twice that.

The same rows as a copy-on-write table, and as a merge-on-read table in which one row in twenty was changed since. Each
is read by Spark alone (`spark.read.parquet` of the base files) and as a Hudi table. Every measured run opens the table
and makes the DataFrame anew. Apache Hudi 1.2.0 takes 4.1 to 6.3 times Parquet for such a merge-on-read table.

hudi-rs gives Arrow batches, all in memory, and uses every core. So it is asked the same twice: all rows as Arrow
batches, against our reader without Spark in as many threads as there are cores; and all rows in Spark, where its
batches become a DataFrame, as far as the driver's memory holds them.

    python bench/hudi_scan.py            half a million rows
    python bench/hudi_scan.py --full     5 million rows, the promise
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hudi import HudiReadOptions, HudiTableBuilder
from measuring import report, session, take_turns

from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write.base_writer import with_meta_columns, write_base_file
from halocline.formats.hudi.write.creation import NewTable, create_table
from halocline.formats.hudi.write.log_writer import write_log_file
from halocline.formats.hudi.write.transaction import begin_write
from halocline.storage import open_store
from halocline.table import Table

GROUPS = 4
MOST_IN_SPARK = 1_000_000  # rows of hudi-rs that the driver holds twice, with 4 GB
VERSION = 8
TYPES = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ}
TARGETS = {"cow": {"Hudi table": 1.05}, "mor": {"Hudi table": 2.0}}


def rows(ids, tag):
    """Eight columns of the usual kinds."""
    chance, text = np.random.default_rng(7), pa.array(ids).cast(pa.string())
    return pa.table(
        {
            "id": pa.array(ids),
            "k": pa.array(ids % 1000),
            "d": pa.array(chance.random(len(ids))),
            "f": pa.array(chance.random(len(ids), np.float32)),
            "s": pc.binary_join_element_wise(tag, pa.array(ids % 5000).cast(pa.string()), "-"),
            "h": pc.utf8_lpad(pc.binary_join_element_wise(text, pc.utf8_reverse(text), "x"), 40, "0"),
            "dt": pa.array((ids % 365).astype(np.int32)).cast(pa.date32()),
            "ts": pa.array(ids * 1_000_000).cast(pa.timestamp("us", "UTC")),
        }
    )


def table(folder, count, kind):
    """A table in some file groups; in a merge-on-read one every twentieth row is changed by a second write."""
    store = open_store(folder)
    schema = avro_schema(rows(np.arange(1), "a").schema, "bench")
    new = NewTable(
        name="bench",
        type=TYPES[kind],
        version=VERSION,
        schema=schema,
        record_keys=["id"],
        ordering_fields=["ts"],
    )
    config = create_table(store, new)
    groups = {f"{number:08}-0000-0000-0000-000000000000-0": number for number in range(GROUPS)}

    def write(action, operation, ids, written):
        under_way = begin_write(store, config, action, operation)
        under_way.prepare_partition("")
        stats = []
        for name, number in groups.items():
            data = rows(ids(number * count // GROUPS, (number + 1) * count // GROUPS), operation)
            keys = data["id"].cast(pa.string()).combine_chunks()
            stats.append(written(with_meta_columns(data, keys, "", name, under_way.time), name, under_way.time))
        under_way.complete(stats, schema=schema)

    def base(data, name, instant):
        return write_base_file(store, data, partition="", file_id=name, token="0-0-0", instant=instant)

    write("commit" if kind == "cow" else "deltacommit", "INSERT", np.arange, base)
    if kind == "mor":
        slices = {each.file_id: each for each in HudiSnapshot.load(store).slices}

        def log(data, name, instant):
            return write_log_file(
                store, data, [], schema=schema, slice=slices[name], layout=config.layout, token="1-0-0", instant=instant
            )

        write("deltacommit", "UPSERT", lambda first, last: np.arange(first + 7, last, 20), log)
    return HudiSnapshot.load(store)


def by_hudi_rs(folder):
    return sum(batch.num_rows for batch in HudiTableBuilder.from_base_uri(str(folder)).build().read(HudiReadOptions()))


def hudi_rs_in_spark(spark, folder):
    batches = HudiTableBuilder.from_base_uri(str(folder)).build().read(HudiReadOptions())
    return spark.createDataFrame(pa.Table.from_batches(batches))


def without_spark(folder):
    snapshot = HudiSnapshot.load(open_store(folder))
    reader = snapshot.reader()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        read = list(pool.map(lambda each: list(reader.read(snapshot.store, each)), snapshot.slices))
    return sum(batch.num_rows for batches in read for batch in batches)


QUERIES = {
    "full scan": lambda df: df.write.format("noop").mode("overwrite").save(),
    "sum of one column": lambda df: df.agg({"k": "sum"}).collect(),
    "count": lambda df: df.count(),
}


def variants(spark, folder, bases, title, kind, count):
    query = QUERIES[title]
    found = {
        "spark.read.parquet": lambda: query(spark.read.parquet(*bases)),
        "Hudi table": lambda: query(Table.for_path(folder, spark).to_df()),
    }
    if kind == "mor":
        found["Hudi table, read-optimised"] = lambda: query(Table.for_path(folder, spark).to_df(query="read_optimized"))
    if title == "full scan" and count <= MOST_IN_SPARK:
        found["hudi-rs, into Spark"] = lambda: query(hudi_rs_in_spark(spark, folder))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kind", choices=list(TYPES))
    arguments = parser.parse_args()
    count = arguments.rows or (5_000_000 if arguments.full else 500_000)
    spark = session()
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        print(f"{count:,} rows, {GROUPS} file groups, table version {VERSION}, Spark {spark.version}", flush=True)
        for kind in TYPES if arguments.kind is None else (arguments.kind,):
            folder = root / kind
            snapshot = table(folder, count, kind)
            bases = [snapshot.store.address(each.base.path) for each in snapshot.slices]
            logs = sum(log.size for each in snapshot.slices for log in each.logs)
            print(f"{kind}: {len(bases)} base files, {logs / 1e6:.0f} MB of log files, load {os.getloadavg()[0]:.0f}")
            counts = (Table.for_path(folder, spark).to_df().count(), by_hudi_rs(folder), without_spark(folder))
            assert counts == (count, count, count), counts
            for title in QUERIES:
                found = take_turns(variants(spark, folder, bases, title, kind, count), arguments.repeats, warm_up=2)
                report(f"{kind}, {title}", found, TARGETS[kind] if title == "full scan" or kind == "cow" else {})
            arrow = {"hudi-rs": lambda: by_hudi_rs(folder), "Hudi table": lambda: without_spark(folder)}  # noqa: B023
            report(f"{kind}, all rows as Arrow batches", take_turns(arrow, arguments.repeats), {"Hudi table": 1.0})
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
