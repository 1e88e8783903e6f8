"""Damaged splits, dying workers and panics of the library: an error with a name, or the right answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.index_tables import append, table_of
from tests.support.splits import row

import halocline as hc
from halocline.errors import MalformedError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.search import Search, search_split
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.file import SplitFile
from halocline.formats.index.split.reader import OpenedSplit
from halocline.storage import open_store

ROWS = [row(number) for number in range(60)]


@pytest.fixture
def made(tmp_path):
    """A table of three splits, and the bytes of the first."""
    store = open_store(str(tmp_path))
    snapshot = table_of(ROWS[:20], ROWS[20:40], ROWS[40:], store=store)
    path = min(snapshot.files, key=lambda each: snapshot.files[each].min_values["id"].zfill(3))
    return snapshot, tmp_path / path


def flipped(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x40
    path.write_bytes(bytes(data))


def ids(df) -> list[int]:
    return sorted(row["id"] for row in df.select("id").collect())


def test_a_damaged_index_is_built_anew_for_the_search_or_refused(spark, made):
    snapshot, path = made
    with OpenedSplit(snapshot.store, path.name) as opened:
        blob = max(opened.layout.blobs, key=lambda each: each.length)
    flipped(path, blob.offset + blob.length // 2)
    table = hc.Table.for_path(path.parent, spark)
    assert ids(table.search("request", columns=["id"])) == list(range(60))
    assert table.count("message:7") == 1
    with pytest.raises(MalformedError, match=path.name):
        table.count("request", damaged="refuse")
    assert ids(table.to_df()) == list(range(60)), "the rows never need the index"
    report = table.merge_splits()
    assert report.skipped.keys() == {path.name}
    assert "rests" in str(table.explain_search("request"))
    assert table.count("request") == 60


class Breaking:
    """Writes splits whose dictionaries are nonsense from some place on, under checksums that hold."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.blob = SplitFile._blob

    def __call__(self, name: str, pieces: Any) -> Any:
        return self.blob(self.file, name, map(self._broken, pieces) if name.endswith(".term") else pieces)

    def __get__(self, file: SplitFile, _: Any) -> Breaking:
        self.file = file
        return self

    def _broken(self, piece: bytes) -> bytes:
        end = self.place + 24
        return piece[: self.place] + bytes(each ^ 0xFF for each in piece[self.place : end]) + piece[end:]


def test_a_panic_inside_the_library_is_damage_like_any_other(spark, tmp_path, monkeypatch):
    def broken_at(place: int, snapshot: IndexSnapshot) -> SplitAdd:
        with monkeypatch.context() as patched:
            patched.setattr(SplitFile, "_blob", Breaking(place))
            return append(snapshot, ROWS[20:40])

    def panics(place: int) -> bool:
        tried = table_of()
        try:
            search_split(tried.store, broken_at(place, tried), Search.of(tried, "request"))
        except MalformedError as error:
            return "panicked" in error.message
        return False

    place = next(place for place in range(1140, 0, -60) if panics(place))
    snapshot = table_of(ROWS[:20], store=open_store(str(tmp_path)))
    broken_at(place, snapshot)
    table = hc.Table.for_path(tmp_path, spark)
    assert ids(table.search("request", columns=["id"])) == list(range(40))
    with pytest.raises(MalformedError, match="panicked"):
        table.count("request", damaged="refuse")


def test_a_flipped_byte_in_the_rows_is_an_error_or_changes_nothing(spark, made):
    snapshot, path = made
    whole = path.read_bytes()
    with OpenedSplit(snapshot.store, path.name) as opened:
        end = min(each.offset for each in opened.layout.blobs)
    expected = sorted(map(str, hc.Table.for_path(path.parent, spark).to_df().toArrow().to_pylist()))
    errors = 0
    for place in range(40, end, end // 6):
        flipped(path, place)
        table = hc.Table.for_path(path.parent, spark)
        for frame in (table.to_df, partial(table.search, "request")):
            try:
                found = frame().toArrow().to_pylist()
            except Exception:
                errors += 1
            else:
                assert sorted(map(str, found)) == expected, f"byte {place}"
        path.write_bytes(whole)
    assert errors > 4


def test_a_worker_that_dies_in_the_middle_of_a_write_leaves_the_table_as_it_was(spark, made):
    _, path = made
    table = hc.Table.for_path(path.parent, spark)
    before = table.version
    frame = table.to_df(columns=["id", "message"])

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        os._exit(3)

    with pytest.raises(Exception, match=r"(?i)worker"):
        table.append(frame.mapInArrow(dying, frame.schema))
    assert table.version == before
    assert ids(table.search("request", columns=["id"])) == list(range(60))
