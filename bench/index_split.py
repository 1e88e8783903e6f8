"""Promises of a split: built at 20,000 rows per processor second, an index of at most half the size, one row in 0.1 s.

    python bench/index_split.py [--rows 200000]

Log rows of ten columns. The peer is an index built the way IndexTables4Spark does it, in the same run: every column
inverted, fast and stored, so that rows come out of the index. Sizes are of what lies on disk: our index beside the
rows, and theirs without its row store. The search for one row is compared with a scan of its column by Arrow, which is
what answers without an index; opening and unpacking count. Times are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tantivy

from halocline.formats.index.query.bind import SearchedColumns, bind
from halocline.formats.index.query.parse import parse
from halocline.formats.index.search import Search, count_split, search_split
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.fields import OPTIONS_KEY, fields_of
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.writer import SplitWriter
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field, Primitive, Struct
from halocline.storage import open_store

ROWS_PER_SECOND = 20_000
HALF = 0.5
COLUMNS = Struct(
    [
        Field(name, Primitive(type))
        for name, type in (
            ("at", "timestamp"), ("level", "string"), ("service", "string"), ("host", "string"), ("status", "integer"),
            ("latency", "double"), ("bytes", "long"), ("client", "string"), ("trace", "string"), ("message", "string"),
        )
    ]
)  # fmt: skip
OPTIONS = {OPTIONS_KEY: json.dumps({"message": {"type": "text"}, "client": {"type": "ip"}, "trace": {"hashed": True}})}
NAME = "a.split.parquet"
VERBS = ("opened", "closed", "retried", "timed out on", "rejected", "forwarded")


def batch(chance: random.Random, start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    paths = [f"/api/v{chance.randrange(4)}/{chance.choice(('orders', 'users', 'carts'))}" for _ in numbers]
    return pa.record_batch(
        [
            pa.array([1_700_000_000_000_000 + 997 * number for number in numbers], pa.timestamp("us", "UTC")),
            pa.array(chance.choices(("INFO", "WARN", "ERROR", "DEBUG"), (80, 10, 5, 5), k=count)),
            pa.array([f"service-{chance.randrange(20)}" for _ in numbers]),
            pa.array([f"host-{chance.randrange(300):03d}" for _ in numbers]),
            pa.array(chance.choices((200, 201, 404, 500), (90, 5, 4, 1), k=count), pa.int32()),
            pa.array([chance.expovariate(0.02) for _ in numbers]),
            pa.array([chance.randrange(1_000_000) for _ in numbers], pa.int64()),
            pa.array([f"10.{chance.randrange(4)}.{chance.randrange(256)}.{chance.randrange(256)}" for _ in numbers]),
            pa.array([f"{chance.getrandbits(128):032x}" for _ in numbers]),
            pa.array(
                [
                    f"request {number} {chance.choice(VERBS)} connection to {path} after {chance.randrange(5000)} ms"
                    for number, path in zip(numbers, paths, strict=True)
                ]
            ),
        ],
        schema=arrow_schema(COLUMNS.fields),
    )


def stored_index(batches: list[pa.RecordBatch], folder: str) -> dict[str, int]:
    """The peer: every column inverted, fast and stored."""
    builder = tantivy.SchemaBuilder()
    for field in COLUMNS.fields:
        match field.type.name:
            case "string":
                tokenizer = "default" if field.name == "message" else "raw"
                builder.add_text_field(field.name, stored=True, fast=tokenizer == "raw", tokenizer_name=tokenizer)
            case "double":
                builder.add_float_field(field.name, stored=True, indexed=True, fast=True)
            case _:
                builder.add_integer_field(field.name, stored=True, indexed=True, fast=True)
    schema = builder.build()
    writer = tantivy.Index(schema, path=folder).writer(128_000_000, 1)
    for each in batches:
        columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in each.columns]
        for values in zip(*(column.to_pylist() for column in columns), strict=True):
            writer.add_document(tantivy.Document.from_dict(dict(zip(each.schema.names, values, strict=True)), schema))
    writer.commit()
    writer.wait_merging_threads()
    return {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}


def spent(action) -> tuple[float, object]:
    start = time.process_time()
    found = action()
    return time.process_time() - start, found


def best(action, times: int = 5) -> tuple[float, object]:
    return min((spent(action) for _ in range(times)), key=lambda each: each[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    count = parser.parse_args().rows
    chance = random.Random(7)
    batches = [batch(chance, start, 10_000) for start in range(0, count, 10_000)]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as theirs:
        path = os.path.join(folder, NAME)
        fields = fields_of(COLUMNS, OPTIONS)

        def build():
            with open(path, "wb") as sink, SplitWriter(sink, batches[0].schema, fields) as writer:
                for each in batches:
                    writer.write(each)
                return writer.close()

        seconds, built = spent(build)
        peer_seconds, files = spent(lambda: stored_index(batches, theirs))
        rate, peer_rate = count / seconds, count / peer_seconds
        print(f"build      {rate:,.0f} rows per processor second, peer {peer_rate:,.0f}; target {ROWS_PER_SECOND:,}")
        index, rows = built.layout.index_size, built.size - built.layout.index_size
        store = sum(size for name, size in files.items() if name.endswith(".store"))
        peer = sum(files.values())
        print(f"size       index {index / 1e6:.1f} MB, rows {rows / 1e6:.1f} MB")
        print(f"           peer {peer / 1e6:.1f} MB, of which rows {store / 1e6:.1f} MB")
        print(f"           index / peer {index / peer:.2f}, target {HALF}; split / peer {built.size / peer:.2f}")

        lake, split = open_store(folder), built.added(NAME, {}, 0)
        known = SearchedColumns.of(COLUMNS, OPTIONS)
        rare = Search("rare", bind(parse(f"message:{count // 3}"), known))
        absent = Search("absent", bind(parse("message:zebra"), known))
        common = Search("common", bind(parse("message:rejected"), known))

        def fetched():
            hits = search_split(lake, split, rare)
            with OpenedSplit(lake, NAME) as opened:
                return opened.rows(hits.rows).num_rows

        def scanned(text: str):
            column = pq.read_table(path, columns=["message"])["message"]
            return pc.sum(pc.match_substring(column, text)).as_py()

        one, found = best(fetched)
        scan, _ = best(lambda: scanned(f"request {count // 3} "))
        print(
            f"one row    {1000 * one:.1f} ms ({found} row fetched), scan {1000 * scan:.1f} ms, {scan / one:.1f} times"
        )
        none, _ = best(lambda: count_split(lake, split, absent))
        print(f"no row     {1000 * none:.1f} ms: the filter of terms is read, the index is not")
        cache = IndexCache(os.path.join(folder, "cache"))
        warm, found = best(lambda: len(search_split(lake, split, rare, cache=cache).rows))
        print(f"again      {1000 * warm:.1f} ms ({found} row found) with the index unpacked before")
        many, found = best(lambda: count_split(lake, split, common))
        scan, _ = best(lambda: scanned("rejected"))
        print(f"count      {1000 * many:.1f} ms for {found:,} rows, scan {1000 * scan:.1f} ms")


if __name__ == "__main__":
    main()
