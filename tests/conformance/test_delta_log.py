"""Tables of other implementations, as far as the log tells: protocol, version, properties, rows in the live files.

No JVM: the number of rows comes from the footers of the live files and from their deletion vectors.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.conformance import tables_of

from halocline.errors import HaloclineError, IncompatibleError, MalformedError
from halocline.formats.base import TableFormat, detect_format
from halocline.formats.delta.actions.deletion_vectors import read_positions
from halocline.formats.delta.actions.locations import locate
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.snapshot.history import history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store

TABLES = tables_of("delta")
REFUSED: dict[str, tuple[type[HaloclineError], str]] = {
    "deltalog-invalid-protocol-version": (IncompatibleError, "READER_TOO_OLD"),
    "deltalog-state-reconstruction-without-protocol": (MalformedError, "MALFORMED_LOG"),
    "versions-not-contiguous": (MalformedError, "MALFORMED_LOG"),
}

DAT = sorted(path.parent for path in TABLES.glob("dat/*/expected/*/table_version_metadata.json"))
GOLDEN = sorted(path for path in (TABLES / "golden").iterdir() if path.name not in REFUSED)


def rows_in_live_files(snapshot: Snapshot) -> int:
    files = snapshot.files(columns=["deletion_vector"])
    rows = 0
    for path, vector in zip(files["path"].to_pylist(), vectors_in(files["deletion_vector"]), strict=True):
        store, inner = locate(snapshot.store, path)
        rows += pq.ParquetFile(pa.BufferReader(store.get(inner))).metadata.num_rows
        rows -= 0 if vector is None else len(read_positions(snapshot.store, vector))
    return rows


def rows_expected(folder: Path) -> int:
    return sum(pq.ParquetFile(path).metadata.num_rows for path in folder.rglob("*.parquet"))


def test_all_cases_are_here():
    assert (len(DAT), len(GOLDEN), len(REFUSED)) == (19, 24, 3)


@pytest.mark.parametrize("case", DAT, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_dat_case_agrees(case):
    expected = json.loads((case / "table_version_metadata.json").read_text())
    version = None if case.name == "latest" else int(case.name.removeprefix("v"))
    snapshot = Snapshot.load(open_store(str(case.parents[1] / "delta")), version=version)
    assert snapshot.version == expected["version"]
    assert dict(snapshot.properties) == expected["properties"]
    assert snapshot.protocol.reader == expected["min_reader_version"]
    assert snapshot.protocol.writer == expected["min_writer_version"]
    assert rows_in_live_files(snapshot) == rows_expected(case / "table_content")


@pytest.mark.parametrize("table", GOLDEN, ids=lambda path: path.name)
def test_golden_table_has_its_rows(table):
    store = open_store(str(table / "delta"))
    assert detect_format(store) is TableFormat.DELTA
    snapshot = Snapshot.load(store)
    assert rows_in_live_files(snapshot) == rows_expected(table / "expected")
    assert history(snapshot)[0].version == snapshot.version


@pytest.mark.parametrize("name", REFUSED)
def test_golden_table_that_must_be_refused_is(name):
    error, condition = REFUSED[name]
    with pytest.raises(error) as caught:
        Snapshot.load(open_store(str(TABLES / "golden" / name / "delta"))).files()
    assert caught.value.condition == condition
    assert caught.value.sides
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("table", "where", "files"),
    [
        ("golden/data-skipping-partition-and-data-column", "part = 1", 2),
        ("golden/data-skipping-partition-and-data-column", "part = 1 AND id = 1", 1),
        ("golden/data-skipping-partition-and-data-column", "part = 3", 0),
        ("golden/data-skipping-basic-stats-all-types-columnmapping-id", "as_int = 0", 1),
        ("golden/data-skipping-basic-stats-all-types-columnmapping-id", "as_int = 1", 0),
        ("golden/data-skipping-basic-stats-all-types-columnmapping-id", "as_string > '0'", 0),
        ("golden/data-skipping-basic-stats-all-types-columnmapping-id", "as_big_decimal < 0", 0),
        ("golden/dv-partitioned-with-checkpoint", "part = 0", 1),
    ],
)
def test_statistics_of_other_writers_prune(table, where, files):
    snapshot = Snapshot.load(open_store(str(TABLES / table / "delta")))
    assert snapshot.files(where).num_rows == files, snapshot.files().to_pylist()


def test_typed_statistics_come_back_as_text():
    snapshot = Snapshot.load(open_store(str(TABLES / "dat" / "stats_as_struct" / "delta")))
    for text in snapshot.files()["stats"].to_pylist():
        assert json.loads(text)["numRecords"] > 0
