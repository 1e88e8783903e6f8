"""Bucket indexes, tables without meta columns and logged changes: where rows go, and what a crash leaves of them."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.support.faulty_store import CrashError, FaultyStore
from tests.support.hudi_groups import upsert_groups, write_groups
from tests.support.hudi_tables import HudiTableMaker, shown

from halocline.errors import ConflictError, ConstraintError, InputError, MalformedError, UnsupportedError
from halocline.formats.hudi.buckets import BucketIndex, bucket_index, bucket_of
from halocline.formats.hudi.change_data import read_changes
from halocline.formats.hudi.configuration import ChangeLogging, TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.names import LogFile
from halocline.formats.hudi.slices import data_files
from halocline.formats.hudi.write.heartbeat import take_back_failed
from halocline.formats.hudi.write.stream_batch import StreamBatch
from halocline.storage.memory import MemoryStore

KINDS = [
    (6, TableType.MERGE_ON_READ, {"buckets": 3}),
    (9, TableType.COPY_ON_WRITE, {"buckets": 2, "meta_columns": False}),
    (8, TableType.MERGE_ON_READ, {"meta_columns": False}),
    (6, TableType.COPY_ON_WRITE, {"change_logging": ChangeLogging.DATA_BEFORE}),
    (9, TableType.MERGE_ON_READ, {"change_logging": ChangeLogging.DATA_BEFORE_AFTER, "buckets": 1}),
]


def made(version: int, type: TableType, kind: dict) -> HudiTableMaker:
    table = HudiTableMaker.create(MemoryStore(), version, type, **kind)
    upsert_groups(table, range(6), 100, "a")
    return table


def copied(table: HudiTableMaker) -> HudiTableMaker:
    store = MemoryStore()
    for meta in table.store.list():
        store.put(meta.path, table.store.get(meta.path))
    return replace(table, store=store)


@pytest.mark.parametrize(("version", "type", "kind"), KINDS)
def test_a_writer_that_dies_at_any_step_leaves_the_rows_as_they_were_or_as_they_are_to_be(version, type, kind):
    def write(table: HudiTableMaker, store) -> None:
        upsert_groups(replace(table, store=store), [1, 9], 200, "b", deletes=[2])

    first = made(version, type, kind)
    before, done = shown(first.snapshot.read()), copied(first)
    counted = FaultyStore(done.store)
    write(done, counted)
    after = shown(done.snapshot.read())
    assert after != before
    for number in range(1, counted.count + 1):
        table = copied(first)
        with contextlib.suppress(CrashError):
            write(table, FaultyStore(table.store).crash_after(number))
        left = shown(table.snapshot.read())
        assert left in (before, after), f"after operation {number}"
        take_back_failed(table.store, table.config)
        assert shown(table.snapshot.read()) == left, f"taken back after operation {number}"
        assert not table.snapshot.timeline.pending
        upsert_groups(table, [3], 300, "c")
        assert shown(table.snapshot.read()) == sorted([*(row for row in left if row[0] != "k3"), ("k3", 300, "c3")])
        if table.config.change_logging is not None and left == before:
            told = [file for file in data_files(table.store) if isinstance(file, LogFile) and file.is_change_data]
            written = {write.time for write in table.snapshot.timeline.writes}
            assert {file.instant for file in told} <= written, "no change is told of what did not happen"


def test_keys_are_placed_as_apache_hudi_places_them():
    # Where 0.15.0 and 1.2.0 put them, with four and with five buckets.
    assert BucketIndex(4).of(pa.array([f"k{each}" for each in range(8)])).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    composite = BucketIndex(5, named=True).of(pa.array(["id:k0,name:a0", "id:k1,name:a1"]))
    assert composite.tolist() == [_java_hash(["k0", "a0"]) % 5, _java_hash(["k1", "a1"]) % 5]
    assert BucketIndex(7).of(pa.array(["é", "💧", ""])).tolist() == [_java_hash([each]) % 7 for each in ("é", "💧", "")]
    for key, named in (("a:b", False), ("id:a:b,name:c", True), ("id:__null__,name:c", True), ("id:x", False)):
        with pytest.raises(ConstraintError, match="different buckets"):
            BucketIndex(3, named=named).of(pa.array([key]))


def _java_hash(values: list[str]) -> int:
    """The hash of a list of texts, number by number."""
    found = 1
    for value in values:
        text, units = 0, value.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2):
            text = (text * 31 + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
        found = (found * 31 + text) & 0xFFFFFFFF
    return found & 0x7FFFFFFF


def test_writers_that_make_the_same_bucket_are_a_conflict():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE, buckets=1, partition_fields=[])
    first, second = table.begin(), table.begin()
    stats = [write_groups(table, write, [each], 100, "a") for each, write in enumerate((first, second))]
    first.complete(stats[0], schema=table.schema)
    with pytest.raises(ConflictError, match="has changed file group 00000000"):
        second.complete(stats[1], schema=table.schema)
    assert [bucket_of(each.file_id) for each in table.snapshot.slices] == [0]


def test_a_table_of_which_the_buckets_cannot_be_told_is_refused_and_one_with_consistent_hashing_too():
    table = made(8, TableType.COPY_ON_WRITE, {"buckets": 3})
    assert bucket_index(table.snapshot) == BucketIndex(3)
    with pytest.raises(UnsupportedError, match="do not explain as 4"):
        bucket_index(table.snapshot, 4)
    table.store.put(".hoodie/.bucket_index/consistent_hashing_metadata/eu/00000000000000.hashing_meta", b"{}")
    with pytest.raises(UnsupportedError, match="consistent hashing"):
        bucket_index(table.snapshot)
    assert bucket_index(made(8, TableType.COPY_ON_WRITE, {}).snapshot) is None


def test_changes_that_rows_without_meta_columns_do_not_tell_are_refused():
    kind = {"meta_columns": False, "change_logging": ChangeLogging.OP_KEY_ONLY}
    table = made(8, TableType.COPY_ON_WRITE, kind)
    with pytest.raises(UnsupportedError, match="do not tell which of them a write changed"):
        list(read_changes(table.snapshot))
    with pytest.raises(InputError, match="0 buckets"):
        HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE, buckets=0)


@pytest.mark.parametrize("version", [6, 9])
def test_a_micro_batch_is_found_by_what_its_commit_says(version):
    table = HudiTableMaker.create(MemoryStore(), version, TableType.COPY_ON_WRITE)
    for number in (4, 5):
        write = table.begin("INSERT")
        stats = write_groups(table, write, [number], 100, "a")
        write.complete(stats, schema=table.schema, extra=StreamBatch("q", number).told)
    table.upsert([1], 100, "a")
    timeline = table.snapshot.timeline
    assert [StreamBatch("q", each).is_in(timeline) for each in (4, 5, 6)] == [True, True, False]
    assert not StreamBatch("other", 1).is_in(timeline)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("number", [0, 5])
def test_a_micro_batch_is_found_after_its_commit_was_archived(version, number):
    table = HudiTableMaker.create(MemoryStore(), version, TableType.COPY_ON_WRITE)
    for each in range(number + 1):
        write = table.begin("INSERT")
        stats = write_groups(table, write, [each], 100, "a")
        write.complete(stats, schema=table.schema, extra=StreamBatch("q", each).told)
    listed = table.snapshot.timeline
    for each in range(4):
        table.upsert([10 + each], 100, "a")
    moved = {each.time for each in archive(table.store, keep=2, at_most=3)}
    assert moved >= {each.time for each in listed.writes}, "all commits of the query have left the active timeline"
    for timeline in (table.snapshot.timeline, listed):
        assert StreamBatch("q", number).is_in(timeline)
        assert not StreamBatch("q", number + 1).is_in(timeline)
        assert not StreamBatch("other", 0).is_in(timeline)


def test_a_history_that_cannot_tell_of_a_micro_batch_is_no_reason_to_add_it_again():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    for each in range(5):
        table.upsert([each], 100, "a")
    archive(table.store, keep=2, at_most=3)
    (path,) = (meta.path for meta in table.store.list(".hoodie/timeline/history") if meta.path.endswith(".parquet"))
    table.store.put(path, b"damage")
    with pytest.raises(MalformedError):
        StreamBatch("q", 1).is_in(table.snapshot.timeline)
