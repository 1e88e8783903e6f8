"""Rows of the splits that IndexTables4Spark 0.5.4 wrote, and ranges over their numbers.

The tables lie beside the project and are never copied into it; without them these tests skip.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.conformance import tables_of
from tests.support.index_conformance import read

from halocline.errors import HaloclineError, IncompatibleError, MalformedError
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.bundle import Bundle, FastRange
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore

TABLES = tables_of("index")

NAMES = sorted(path.name for path in TABLES.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_read_and_lies_within_the_bounds_of_the_log(name):
    snapshot = IndexSnapshot.load(open_store(str(TABLES / name)))
    assert len(read(name)) == snapshot.rows
    for add in snapshot.files.values():
        with Bundle(snapshot.store, add, snapshot.schema) as bundle:
            ids = bundle.rows(["id"])["id"].to_pylist()
        if add.min_values is None:  # a merge does not record bounds
            continue
        assert (min(ids), max(ids)) == (int(add.min_values["id"]), int(add.max_values["id"]))


def test_rows_have_the_types_and_values_of_the_table():
    assert read("04_partitioned") == [
        {"id": number, "text": f"doc{number}", "score": 10.0 * number, "date": f"2024-01-0{1 + (number - 1) // 2}"}
        for number in range(1, 6)
    ]
    large = read("10_large_batch")
    assert large == [{"id": n, "text": f"document_{n}", "score": 1.5 * n} for n in range(1, 501)]


def test_ranges_over_numbers_are_answered_by_the_index():
    chosen = read(
        "10_large_batch", ranges=[FastRange("id", 10, 20), FastRange("score", high=24.0, includes_high=False)]
    )
    assert [each["id"] for each in chosen] == list(range(10, 16))


def test_words_are_refused_by_the_name_of_what_is_missing():
    with pytest.raises(IncompatibleError, match="tantivySstable"):
        read("10_large_batch", ranges=[FastRange("text", 1, 2)])


def test_a_flipped_byte_is_an_error_or_changes_nothing():
    snapshot = IndexSnapshot.load(open_store(str(TABLES / "14_after_merge")))
    (add,) = snapshot.files.values()
    data = snapshot.store.get(add.path)

    def rows(content: bytes) -> pa.Table:
        store = MemoryStore()
        store.put(add.path, content)
        with Bundle(store, add, snapshot.schema) as bundle:
            return bundle.rows()

    expected, errors = rows(data), 0
    for place in range(0, len(data), 53):
        try:
            found = rows(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        except HaloclineError:
            errors += 1
        else:
            assert found.equals(expected), f"byte {place}"
    assert errors > 20
    for length in (0, 3, 100, len(data) - 1):
        with pytest.raises(MalformedError):
            rows(data[:length])
