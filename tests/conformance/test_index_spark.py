"""Tables of IndexTables4Spark 0.5.4 on Spark, through the same doors as Halocline's own.

The tables lie beside the project and are never copied into it; without them these tests skip.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.conformance import tables_of
from tests.support.index_conformance import read

from halocline import Count
from halocline.cli import main
from halocline.errors import IncompatibleError, UnsupportedError
from halocline.source.data_source import register
from halocline.table import IndexTable, Table

TABLES = tables_of("index")
NAMES = sorted(path.name for path in TABLES.iterdir())


@pytest.fixture
def table(spark):
    def opened(name: str) -> Table:
        return Table.for_path(TABLES / name, spark)

    return opened


def test_every_table_gives_its_rows_through_both_doors(spark, table):
    register(spark)
    for name in NAMES:
        found = table(name)
        assert isinstance(found, IndexTable)
        expected = read(name)
        rows = sorted((row.asDict() for row in found.to_df().collect()), key=lambda each: each["id"])
        assert rows == expected, name
    loaded = spark.read.format("halocline").load(str(TABLES / "04_partitioned"))
    assert sorted(row["date"] for row in loaded.collect()) == [row["date"] for row in read("04_partitioned")]


def test_conditions_leave_splits_out_and_never_rows(table):
    part = table("04_partitioned")
    assert sorted(row["id"] for row in part.to_df(where="date = '2024-01-02' AND score > 10").collect()) == [3, 4]
    assert part.aggregate({"n": Count()}, by="date").count() == 3
    large = table("10_large_batch").to_df(where="id BETWEEN 10 AND 20", columns=["text"])
    assert large.count() == 11


def test_what_cannot_be_right_is_refused(spark, table, tmp_path):
    large = table("10_large_batch")
    with pytest.raises(IncompatibleError, match="tantivySstable"):
        large.search("text:document_1")
    shutil.copytree(TABLES / "10_large_batch", tmp_path / "copy")
    copy = Table.for_path(tmp_path / "copy", spark)
    for write in (lambda: copy.append(copy.to_df()), lambda: copy.reindex(), lambda: copy.delete("id = 1")):
        with pytest.raises((IncompatibleError, UnsupportedError), match="avroState"):
            write()
    assert main.run(["lint", str(Path(tmp_path) / "copy")]) in (0, 2)
