"""Streams and listings that show less of a log than one before: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import pytest
from tests.support.hudi_tables import COLUMNS as HUDI_COLUMNS
from tests.support.hudi_tables import HudiTableMaker
from tests.support.streamed_tables import DeltaStreams, IndexStreams, opened

from halocline.errors import NotFoundError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.write.rollback import roll_back
from halocline.formats.log.names import INDEX
from halocline.formats.log.segment import find_segment
from halocline.schema.arrow import struct_of_arrow
from halocline.source.hudi import HudiStreamReader
from halocline.source.options import SourceOptions
from halocline.spark.types.columns import spark_schema
from halocline.storage import open_store
from halocline.storage.local import LocalStore


@pytest.fixture
def hidden(monkeypatch):
    """Paths that listings do not show."""
    paths: set[str] = set()
    listed = LocalStore.list

    def showing_less(self, *given, **named):
        return (meta for meta in listed(self, *given, **named) if meta.path not in paths)

    monkeypatch.setattr(LocalStore, "list", showing_less)
    return paths


def walked(table, hidden, *, says_start, restarts):
    """What a query delivers whose listings do not show the newest commit every other time."""
    table.add("a")
    reader = opened(table)
    start, delivered = reader.initialOffset(), []
    for number, name in enumerate(("b", "c", "d", None, None)):
        if name is not None:
            table.add(name)
        hidden.clear()
        if number % 2 == 1:
            newest = find_segment(table.store, table.layout).version
            hidden |= {table.layout.commit_path(each) for each in range(1, newest + 1)}
        if number == 2 and restarts:
            reader = opened(table)
        end = reader.latestOffset(start) if says_start else reader.latestOffset()
        if end != start:
            delivered += table.names(reader.partitions(start, end))
            assert table.names(reader.partitions(start, end)) == table.names(reader.partitions(start, end))
            start = end
    return delivered


@pytest.mark.parametrize("kind", [IndexStreams, DeltaStreams])
@pytest.mark.parametrize("says_start", [True, False], ids=["Spark 4.2", "Spark 4.0"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_listing_that_shows_less_than_before_repeats_and_loses_nothing(tmp_path, hidden, kind, says_start, restarts):
    table = kind(tmp_path)
    assert walked(table, hidden, says_start=says_start, restarts=restarts) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", [IndexStreams, DeltaStreams])
def test_the_end_of_a_batch_is_read_though_a_listing_does_not_show_it(tmp_path, hidden, kind):
    table = kind(tmp_path)
    for name in ("a", "b"):
        table.add(name)
    reader = opened(table)
    start, end = reader.initialOffset(), reader.latestOffset(reader.initialOffset())
    hidden |= {table.layout.commit_path(2)}
    assert sorted(table.names(reader.partitions(start, end))) == ["a", "b"]
    hidden |= {table.layout.commit_path(1)}
    assert sorted(table.names(opened(table).partitions(start, end))) == ["a", "b"]


def test_a_version_that_was_never_made_is_missing_after_one_look(tmp_path, hidden):
    table = IndexStreams(tmp_path)
    with pytest.raises(NotFoundError, match="version 7 is not in the log"):
        find_segment(table.store, INDEX, 7)


def test_a_stream_that_starts_at_a_version_to_come_waits_for_it(tmp_path):
    table = IndexStreams(tmp_path)
    table.add("a")
    reader = opened(table, startingversion="3")
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert table.names(reader.partitions(start, end)) == []
    for name in ("b", "c"):
        table.add(name)
    assert table.names(reader.partitions(end, reader.latestOffset(end))) == ["c"]


@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("says_start", [True, False], ids=["Spark 4.2", "Spark 4.0"])
def test_a_timeline_that_shows_less_than_before_repeats_and_loses_nothing(tmp_path, hidden, version, says_start):
    maker = HudiTableMaker.create(open_store(tmp_path), version, TableType.COPY_ON_WRITE)
    maker.upsert([0], 100, "a")
    asked = SourceOptions.read({"path": str(tmp_path)})
    reader = HudiStreamReader(asked, spark_schema(struct_of_arrow(HUDI_COLUMNS).fields), None)
    start, delivered, before = reader.initialOffset(), [], set()
    for number in range(1, 6):
        if number < 4:
            before = {meta.path for meta in maker.store.list(".hoodie")}
            maker.upsert([number], 100 + number, "a")
        hidden.clear()
        if number % 2 == 0:
            # A write that is all but hidden is damage, and refused; one that still seems to be pending is not.
            made = {meta.path for meta in maker.store.list(".hoodie")} - before
            hidden |= {each for each in made if not each.endswith((".requested", ".inflight"))}
        end = reader.latestOffset(start) if says_start else reader.latestOffset()
        if end != start:
            parts = reader.partitions(start, end)
            delivered += [key for part in parts for batch in reader.read(part) for key in batch["id"].to_pylist()]
            start = end
    assert sorted(delivered) == ["k0", "k1", "k2", "k3"]


def two_writes(path, version):
    """A table of two writes, what completed the second one, and what a batch up to it delivers."""
    maker = HudiTableMaker.create(open_store(path), version, TableType.COPY_ON_WRITE)
    maker.upsert([0], 100, "a")
    before = {meta.path for meta in maker.store.list(".hoodie")}
    maker.upsert([1], 101, "a")
    made = {meta.path for meta in maker.store.list(".hoodie")} - before
    asked = SourceOptions.read({"path": str(path)})
    reader = HudiStreamReader(asked, spark_schema(struct_of_arrow(HUDI_COLUMNS).fields), None)
    start = reader.initialOffset()
    end = reader.latestOffset(start)

    def delivered():
        batches = (each for part in reader.partitions(start, end) for each in reader.read(part))
        return sorted(key for each in batches for key in each["id"].to_pylist())

    return maker, {each for each in made if not each.endswith((".requested", ".inflight"))}, delivered


@pytest.mark.parametrize("version", [6, 8])
def test_a_batch_whose_end_the_timeline_does_not_show_is_refused(tmp_path, hidden, version):
    _, completed, delivered = two_writes(tmp_path, version)
    hidden |= completed
    with pytest.raises(NotFoundError, match="does not show the write at"):
        delivered()
    hidden.clear()
    assert delivered() == ["k0", "k1"]


@pytest.mark.parametrize("version", [6, 8])
def test_a_batch_whose_end_was_taken_back_delivers_the_rest(tmp_path, version):
    maker, completed, delivered = two_writes(tmp_path, version)
    for path in completed:
        maker.store.delete(path)
    snapshot = maker.snapshot
    failed = next(each for each in snapshot.timeline.instants if not each.is_completed)
    roll_back(maker.store, snapshot.config, failed)
    assert delivered() == ["k0"]
