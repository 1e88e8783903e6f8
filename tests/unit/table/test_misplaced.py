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

ROWS = pa.table({"a": [1]})


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


@pytest.mark.parametrize(
    "make",
    [
        lambda at: hc.Table.create(at, ROWS),
        lambda at: hc.Table.create(at, ROWS, exist_ok=True),
        lambda at: hc.Table.create(at, ROWS.schema),
        lambda at: hc.Table.replace(at, ROWS, or_create=True),
        lambda at: hc.Table.create(at, ROWS.schema, format="hudi", keys="a"),
        lambda at: hc.Table.create(at, ROWS.schema, format="index"),
        lambda at: hc.Table.for_path(at.parent / "shop" / "orders").shallow_clone(at),
        lambda at: hc.Table.for_path(at.parent / "shop" / "orders").deep_clone(at),
    ],
)
@pytest.mark.parametrize(
    ("place", "loose", "next_step"),
    [("loose", "a.parquet", "convert_to_delta"), ("notes", "read.me", "Choose another folder")],
)
def test_no_table_is_made_among_loose_files_which_its_vacuum_would_delete(folder, place, loose, next_step, make):
    with pytest.raises(hc.AlreadyExistsError, match="holds files and is no table") as refused:
        make(folder / place)
    assert refused.value.sides["found"] == loose
    assert next_step in refused.value.next_step
    assert [path.name for path in (folder / place).iterdir()] == [loose]


def test_files_under_a_partition_folder_with_an_underscore_are_loose_ones_too(tmp_path):
    (tmp_path / "t" / "_day=1").mkdir(parents=True)
    pq.write_table(ROWS, tmp_path / "t" / "_day=1" / "a.parquet")
    with pytest.raises(hc.AlreadyExistsError, match="holds files and is no table"):
        hc.Table.create(tmp_path / "t", ROWS)


def test_hidden_and_empty_files_and_folders_do_not_keep_a_table_away(tmp_path):
    at = tmp_path / "t"
    (at / "_temporary" / "0").mkdir(parents=True)
    (at / "_temporary" / "0" / "part.parquet").write_bytes(b"x")
    (at / "empty").mkdir()
    for name in ("_SUCCESS", ".part.crc", "marker_$folder$"):
        (at / name).write_bytes(b"" if "$" in name else b"x")
    assert hc.Table.create(at, ROWS).version == 0


def test_a_table_that_could_not_be_made_is_made_by_the_next_try(tmp_path):
    at, calls = tmp_path / "t", []

    def broken():
        yield from ROWS.to_batches()
        calls.append(1)
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        hc.Table.create(at, pa.RecordBatchReader.from_batches(ROWS.schema, broken()))
    assert calls
    assert hc.Table.create(at, ROWS).version == 0


def kill_a_creation(at, source=None):
    """Ends a process before the first commit of a table, made from rows or as a clone."""
    program = (
        "import os, sys, pyarrow as pa, halocline as hc\n"
        "from halocline.formats.delta.commit.transaction import Transaction\n"
        "Transaction.commit = lambda *_, **__: os._exit(9)\n"
        "if sys.argv[2:]: hc.Table.for_path(sys.argv[2]).deep_clone(sys.argv[1])\n"
        "hc.Table.create(sys.argv[1], pa.table({'a': [1]}))\n"
    )
    command = [sys.executable, "-c", program, str(at), *([str(source)] if source else [])]
    assert subprocess.run(command, check=False).returncode == 9


@pytest.mark.parametrize("again", ["rows", "columns", "a clone"])
def test_a_creation_that_was_killed_does_not_keep_the_next_one_away(folder, again):
    at, source = folder / "t", hc.Table.for_path(folder / "shop" / "orders")
    kill_a_creation(at, folder / "shop" / "orders" if again == "a clone" else None)
    left = [path for path in at.rglob("*.parquet") if path.is_file()]
    assert left, "rows were written"
    with pytest.raises(OSError, match="the source is gone"):
        hc.Table.create(at, pa.RecordBatchReader.from_batches(ROWS.schema, _broken()))
    make = {
        "rows": lambda: hc.Table.create(at, ROWS),
        "columns": lambda: hc.Table.create(at, ROWS.schema),
        "a clone": lambda: source.deep_clone(at),
    }
    assert make[again]().version == 0
    assert all(path.exists() for path in left), "a vacuum takes them, when they are old enough"
    assert not [path for path in at.iterdir() if path.name.startswith("_halocline")]


def test_files_of_others_beside_those_of_a_killed_creation_are_loose_ones(tmp_path):
    at = tmp_path / "t"
    kill_a_creation(at)
    (at / ("f" * 32)).mkdir()
    pq.write_table(ROWS, at / ("f" * 32) / "theirs.parquet")
    with pytest.raises(hc.AlreadyExistsError, match="holds files and is no table") as refused:
        hc.Table.create(at, ROWS)
    assert refused.value.sides["found"].endswith("theirs.parquet")


def _broken():
    yield from ROWS.to_batches()
    raise OSError("the source is gone")


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
