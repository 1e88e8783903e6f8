"""Apache Hudi reads each row once, though an attempt of a task was done with its file after the write was completed."""

from __future__ import annotations

import pytest

from halocline.formats.hudi.configuration import TableType
from halocline.schema.arrow import struct_of_arrow
from halocline.source.hudi_writer import HudiWriter
from halocline.source.options import SourceOptions
from halocline.storage import open_store
from tests.support.hudi_tables import COLUMNS, HudiTableMaker, rows

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.parametrize(
    ("version", "type"), [(6, TableType.COPY_ON_WRITE), (8, TableType.MERGE_ON_READ), (9, TableType.COPY_ON_WRITE)]
)
def test_an_attempt_that_came_too_late_is_not_read(version, type, engines, tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path), version, type)
    asked = SourceOptions.read({"path": str(tmp_path)})
    writer = HudiWriter.open(asked, struct_of_arrow(COLUMNS), overwrite=False)
    batches = rows(range(6), 100, "a").to_batches()
    writer.commit([writer.write(iter(batches))])
    writer.write(iter(batches))  # as the attempt that lost does
    maker.upsert([0], 200, "b")
    expected = sorted([f"k{each}", "b0" if each == 0 else f"a{each}"] for each in range(6))
    for engine in engines.of(version):
        read = engine.ask("read", path=str(tmp_path), columns=["id", "name"])
        assert sorted(list(row) for row in read) == expected, f"Hudi {engine.release}"
