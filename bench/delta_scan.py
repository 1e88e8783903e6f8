"""Promise: `to_df` costs what `spark.read.parquet` of the same files costs, and deleted rows little more.

The same Parquet files are read by Spark alone and as Delta tables: without deletion vectors, with 1 % of the rows
deleted in three of twelve files, and in all of them. Every measured run opens the table and makes the DataFrame anew.
`spark.read.parquet` has to infer the schema; the line after it is given one.

    python bench/delta_scan.py            2 million rows
    python bench/delta_scan.py --full     20 million rows, the promise
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from measuring import report, rows, session, take_turns

from halocline.formats.delta.actions.deletion_vectors import write_file
from halocline.storage import open_store
from halocline.table import Table

FILES = 12
CLEAN, LOOSE, TIGHT = 1.05, 1.3, 2.5


def table(folder, data, schema, share):
    """A Delta table over the data files, the given share of which have 1 % of their rows deleted."""
    store = open_store(folder)
    chance = np.random.default_rng(7)
    paths = sorted(data.glob("*.parquet"))
    counts = [pq.read_metadata(path).num_rows for path in paths]
    dirty = range(int(len(paths) * share))
    vectors = write_file(store, [chance.choice(counts[n], counts[n] // 100, replace=False).tolist() for n in dirty])
    features = ["deletionVectors"] if share else None
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    actions = [
        {"protocol": protocol if share else {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "bench",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema.json(),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    for number, path in enumerate(paths):
        add = {
            "path": path.as_uri(),
            "partitionValues": {},
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": counts[number]}),
        }
        if number in dirty:
            vector = vectors[number]
            add["deletionVector"] = {
                "storageType": vector.storage_type,
                "pathOrInlineDv": vector.path_or_inline_dv,
                "offset": vector.offset,
                "sizeInBytes": vector.size_in_bytes,
                "cardinality": vector.cardinality,
            }
        actions.append({"add": add})
    store.put("_delta_log/" + "0" * 20 + ".json", "\n".join(map(json.dumps, actions)).encode())
    return folder


QUERIES = {
    "count(*)": lambda df: df.count(),
    "sum(one column)": lambda df: df.agg({"k": "sum"}).collect(),
    "filter 1 %, 3 columns": lambda df: df.where("k < 10").agg({"id": "sum", "s": "max"}).collect(),
    "full scan": lambda df: df.write.format("noop").mode("overwrite").save(),
}
TARGETS = {
    "count(*)": {"no vectors": CLEAN},
    "sum(one column)": {"no vectors": CLEAN, "vectors in all files": TIGHT},
    "filter 1 %, 3 columns": {"no vectors": CLEAN},
    "full scan": {"no vectors": CLEAN, "vectors in all files": LOOSE},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    count = arguments.rows or (20_000_000 if arguments.full else 2_000_000)
    spark = session()
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        data = root / "data"
        rows(spark, count, FILES).write.parquet(str(data))
        schema = spark.read.parquet(str(data)).schema
        tables = {
            "no vectors": table(root / "clean", data, schema, 0),
            "vectors in a quarter of the files": table(root / "quarter", data, schema, 0.25),
            "vectors in all files": table(root / "all", data, schema, 1),
        }
        print(f"{count:,} rows, {FILES} files, Spark {spark.version}")
        for title, query in QUERIES.items():
            variants = {
                "spark.read.parquet": lambda q=query: q(spark.read.parquet(str(data))),
                "spark.read.schema.parquet": lambda q=query: q(spark.read.schema(schema).parquet(str(data))),
            }
            for name, folder in tables.items():
                variants[name] = lambda q=query, f=folder: q(Table.for_path(f, spark).to_df())
            report(title, take_turns(variants, arguments.repeats, warm_up=3), TARGETS[title])
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
