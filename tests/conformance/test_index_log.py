"""Logs that IndexTables4Spark 0.5.4 wrote: live splits, columns, partition values and counts of every version.

The tables lie beside the project and are never copied into it; without them these tests skip.
"""

from __future__ import annotations

import pytest
from tests.support.conformance import tables_of

from halocline.cli import main
from halocline.errors import IncompatibleError, NotFoundError
from halocline.formats.base import TableFormat, detect_format
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.storage import open_store

TABLES = tables_of("index")

# Newest version, live splits, rows, columns and partition columns.
EXPECTED = {
    "01_single_write": (1, 2, 3, "id: integer not null, text: string, score: double not null", ()),
    "03_with_removes": (4, 1, 1, "id: integer not null, text: string", ()),
    "04_partitioned": (
        1, 3, 5, "id: integer not null, date: string, text: string, score: double not null", ("date",),
    ),
    "06_schema_dedup": (
        12, 24, 60, "id: integer not null, title: string, body: string, rating: double not null", (),
    ),
    "10_large_batch": (1, 2, 500, "id: integer not null, text: string, score: double not null", ()),
    "12_partition_drop": (2, 2, 4, "id: integer not null, date: string, text: string", ("date",)),
    "14_after_merge": (5, 1, 40, "id: integer not null, text: string, score: double not null", ()),
    "16_with_skip_actions": (6, 12, 30, "id: integer not null, text: string", ()),
}  # fmt: skip


def test_every_table_is_expected():
    assert {path.name for path in TABLES.iterdir()} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_newest_version_is_what_its_writer_left(name):
    version, splits, rows, columns, partitions = EXPECTED[name]
    store = open_store(str(TABLES / name))
    assert detect_format(store) is TableFormat.INDEX
    snapshot = IndexSnapshot.load(store)
    assert (snapshot.version, len(snapshot.files), snapshot.rows) == (version, splits, rows)
    assert (str(snapshot.schema), snapshot.metadata.partition_columns) == (f"struct<{columns}>", partitions)
    assert str(snapshot.protocol) == "index(4,4)"
    for add in snapshot.files.values():
        assert store.head(add.path).size == add.size, "every live split is there, as long as the log says"
        assert snapshot.doc_mapping(add), "its index schema is found"


@pytest.mark.parametrize("name", EXPECTED)
def test_every_version_that_has_a_state_is_read(name):
    store = open_store(str(TABLES / name))
    for version in range(1, EXPECTED[name][0] + 1):
        assert IndexSnapshot.load(store, version=version).version == version
    with pytest.raises(NotFoundError):
        IndexSnapshot.load(store, version=EXPECTED[name][0] + 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("04_partitioned", {"2024-01-01", "2024-01-02", "2024-01-03"}),
        ("12_partition_drop", {"2024-01-01", "2024-01-03"}),
    ],
)
def test_partition_values_are_those_of_the_live_splits(name, expected):
    snapshot = IndexSnapshot.load(open_store(str(TABLES / name)))
    assert {add.partition_values["date"] for add in snapshot.files.values()} == expected
    assert all(add.path.startswith(f"date={add.partition_values['date']}/") for add in snapshot.files.values())


@pytest.mark.parametrize("name", EXPECTED)
def test_such_a_table_is_not_written_and_the_error_says_why(name):
    with pytest.raises(IncompatibleError, match="avroState") as refused:
        IndexSnapshot.load(open_store(str(TABLES / name)), operation="write")
    assert refused.value.sides["still possible"] == "reading it"


def test_who_infers_the_release_that_wrote_it(capsys):
    for name in EXPECTED:
        assert main.run(["who", str(TABLES / name)]) == 0
        told = capsys.readouterr().out
        assert "indextables4spark@0.4.5 reads and writes inferred" in " ".join(told.split())


def test_inspect_tells_what_it_is(capsys):
    assert main.run(["inspect", str(TABLES / "06_schema_dedup")]) == 0
    printed = capsys.readouterr().out
    assert "index · version 12 · 24 splits · 60 rows" in printed
    assert "protocol    (4,4)" in printed
