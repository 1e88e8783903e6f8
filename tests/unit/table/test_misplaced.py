"""Where no table is, the error tells what is there instead, and what to do."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.hudi_tables import HudiTableMaker

import halocline as hc
from halocline.formats.hudi.configuration import TableType
from halocline.storage import open_store


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "loose").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "loose" / "a.parquet")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read.me").write_text("x")
    hc.Table.create(tmp_path / "shop" / "orders", pa.table({"a": [1]}))
    return tmp_path


@pytest.mark.parametrize(
    ("place", "found", "next_step"),
    [
        ("missing", "nothing", "Table.create"),
        ("file.txt", "a file", "not a file in it"),
        ("loose", "Parquet files, and no log", "convert_to_delta"),
        ("notes", "other files, such as read.me", "Check the path"),
        ("shop", "a table below it: orders", "Lake.discover"),
        ("shop/orders/_delta_log", "the log of a table", "Open the folder above it"),
    ],
)
def test_what_is_there_instead_is_told(folder, place, found, next_step):
    with pytest.raises(hc.NotFoundError) as refused:
        hc.Table.for_path(folder / place)
    assert refused.value.condition == "TABLE_NOT_FOUND"
    assert refused.value.sides["found"] == found
    assert next_step in refused.value.next_step


def test_no_table_is_made_where_a_file_is(folder):
    with pytest.raises(hc.AlreadyExistsError, match="there is a file at"):
        hc.Table.create(folder / "file.txt", pa.table({"a": [1]}))
    assert (folder / "file.txt").read_text() == "x"


def test_table_of_another_format_is_told_by_it(tmp_path):
    HudiTableMaker.create(open_store(str(tmp_path)), 8, TableType.COPY_ON_WRITE).upsert(range(2), 1, "a")
    with pytest.raises(hc.UnsupportedError, match="is a hudi table") as refused:
        hc.DeltaLakeTable.for_path(tmp_path)
    assert "Table.for_path" in refused.value.next_step


def test_missing_pyspark_is_named_with_the_extra():
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import halocline as hc\n"
        "try: hc.register\n"
        "except hc.MissingExtraError as error: print(error.extra)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "spark\n", done.stderr
