"""Moving a Hudi table with a long timeline from version 6 to 8 and back, at two sizes of its data.

    python bench/hudi_move.py [--instants 5000]

Printed: seconds for the way up and the way back, for a small table and for one with a hundred times the rows, the ratio
of the two, and the target. The two take turns, and the best of three rounds counts; the old timeline is cleaned in
between, which is not counted. Apache Hudi 1.2.0 needs 28 s and 154 s for 304 instants.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.move.engine import apply_move, finish_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write.base_writer import with_meta_columns, write_base_file
from halocline.formats.hudi.write.creation import NewTable, create_table
from halocline.formats.hudi.write.transaction import begin_write
from halocline.storage import open_store
from halocline.storage.base import Store

TARGET_S = 30.0
SIZES = (10_000, 1_000_000)


def table(folder: Path, rows: int, instants: int) -> Store:
    """A table with that many rows in one file, and that many completed writes."""
    store = open_store(folder)
    data = pa.table({"id": pa.array([f"k{number}" for number in range(rows)]), "value": pa.array(range(rows))})
    schema = avro_schema(data.schema, "orders")
    new = NewTable(name="orders", type=TableType.COPY_ON_WRITE, version=6, schema=schema, record_keys=["id"])
    config = create_table(store, new)
    write = begin_write(store, config, "commit", "INSERT")
    write.prepare_partition("")
    marked = with_meta_columns(data, data["id"].combine_chunks(), "", "f", write.time)
    stat = write_base_file(store, marked, partition="", file_id="a-0", token="0-0-0", instant=write.time)
    write.complete([stat], schema=schema)
    first = folder / ".hoodie"
    bodies = [(first / f"{write.time}.{end}").read_bytes() for end in ("commit.requested", "inflight", "commit")]
    for number in range(instants - 1):
        moment = f"2020{number:013}"
        for end, body in zip(("commit.requested", "inflight", "commit"), bodies, strict=True):
            (first / f"{moment}.{end}").write_bytes(body)
    return store


def moved(store: Store, to: int) -> float:
    start = time.perf_counter()
    apply_move(store, plan_move(store, to))
    took = time.perf_counter() - start
    assert HudiSnapshot.load(store).config.version == to
    assert finish_move(store, grace_s=0)
    return took


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instants", type=int, default=5000)
    instants = parser.parse_args().instants
    folders = {rows: Path(tempfile.mkdtemp(prefix="hudi-move-")) for rows in SIZES}
    try:
        stores = {rows: table(folder, rows, instants) for rows, folder in folders.items()}
        rounds = [{rows: (moved(store, 8), moved(store, 6)) for rows, store in stores.items()} for _ in range(3)]
    finally:
        for folder in folders.values():
            shutil.rmtree(folder)
    found = {rows: tuple(min(each[rows][way] for each in rounds) for way in (0, 1)) for rows in SIZES}
    for rows, (up, back) in found.items():
        print(f"{rows:>9} rows, {instants} instants: up {up:.1f} s, back {back:.1f} s")
    small, large = (sum(found[rows]) for rows in SIZES)
    print(f"large/small {large / small:.2f} (target 1.3: the size of the data does not count)")
    worst = max(max(each) for each in found.values())
    print(f"slowest way {worst:.1f} s (target {TARGET_S:.0f} s for 5000 instants)")


if __name__ == "__main__":
    main()
