"""What log files change, as positions that do not hold any more and rows that do, beside the rows as a whole.

The tables lie beside the project; without them these tests skip.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.support.conformance import tables_of
from tests.support.hudi_conformance import EXPECTED, SPARK, rows, unpack

from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store

tables_of("hudi-jvm")


@pytest.mark.parametrize("name", [name for name in EXPECTED if "_mor_" in name])
def test_both_halves_make_the_whole(name, tmp_path):
    snapshot = HudiSnapshot.load(open_store(unpack(SPARK / f"{name}.zip", tmp_path)))
    for columns in (None, ["id"]):
        reader, base = snapshot.reader(columns), snapshot.reader(columns, merging=False)
        assert rows(_halves(snapshot, reader, base)) == rows(snapshot.read(columns)), columns


def _halves(snapshot: HudiSnapshot, reader: SliceReader, base: SliceReader) -> Iterator[pa.RecordBatch]:
    for slice in snapshot.slices:
        halves = reader.halves(snapshot.store, slice)
        if halves is None:
            yield from reader.read(snapshot.store, slice)
            continue
        if slice.base is not None:
            held = pa.Table.from_batches(base.read(snapshot.store, slice), base.output)
            kept = [at for at in range(held.num_rows) if at not in halves.gone]
            yield from held.take(pa.array(kept, pa.int64())).to_batches()
        yield from reader.read_changed(snapshot.store, slice, halves.beaten)
