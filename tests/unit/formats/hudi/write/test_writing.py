"""What is written is read again, counts only when it is completed, and can be taken back."""

import contextlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.hudi_tables import COLUMNS, KINDS, HudiTableMaker, rows, shown

from halocline.errors import AlreadyExistsError, ConflictError, ConstraintError, InputError, UnsupportedError
from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.avro.types import arrow_schema
from halocline.formats.hudi.configuration import HudiTableConfig, MergeMode, TableType
from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.properties import checksum, properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.metadata import RollbackMetadata
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.base_writer import with_meta_columns
from halocline.formats.hudi.write.bloom_filter import bloom_filter
from halocline.formats.hudi.write.heartbeat import take_back_failed
from halocline.formats.hudi.write.markers import MarkerKind, marked_files
from halocline.formats.hudi.write.rollback import failed_writes, roll_back
from halocline.formats.hudi.write.transaction import HudiWrite, begin_write
from halocline.storage.memory import MemoryStore

ids = pytest.mark.parametrize(("version", "type"), KINDS)


@ids
def test_rows_come_back_as_they_were_written(version, type):
    table = HudiTableMaker.create(MemoryStore(), version, type)
    new = rows(range(6), 100, "a")
    write = table.begin("INSERT")
    write.complete(table.write(write, new), schema=table.schema)
    found = pa.Table.from_batches(table.snapshot.read(list(COLUMNS.names))).sort_by("id")
    assert found.to_pylist() == new.to_pylist()
    assert found.schema.equals(COLUMNS)


@ids
def test_updates_deletes_and_older_instants_are_read(version, type):
    table = HudiTableMaker.create(MemoryStore(), version, type)
    first = table.upsert(range(4), 100, "a")
    table.upsert([1, 2, 7], 200, "b", deletes=[3])
    assert shown(table.snapshot.read()) == [("k0", 100, "a0"), ("k1", 200, "b1"), ("k2", 200, "b2"), ("k7", 200, "b7")]
    assert len(shown(HudiSnapshot.load(table.store, as_of=first).read())) == 4
    begin = first if version == 6 else table.snapshot.timeline.completion_of(first)
    assert shown(read_range(table.snapshot, begin).read()) == [("k1", 200, "b1"), ("k2", 200, "b2"), ("k7", 200, "b7")]


@ids
def test_a_write_counts_only_when_it_is_completed(version, type):
    table = HudiTableMaker.create(MemoryStore(), version, type)
    table.upsert(range(4), 100, "a")
    before = shown(table.snapshot.read())
    write = table.begin()
    stats = table.write(write, rows([1, 9], 200, "b"))
    assert shown(table.snapshot.read()) == before
    changed = MarkerKind.APPEND if type is TableType.MERGE_ON_READ else MarkerKind.MERGE
    assert {kind for _, kind in marked_files(table.store, write.time)} == {changed, MarkerKind.CREATE}
    write.complete(stats, schema=table.schema)
    assert len(shown(table.snapshot.read())) == 5
    assert marked_files(table.store, write.time) == []


@ids
def test_a_write_that_did_not_finish_is_taken_back_without_a_trace_in_the_rows(version, type):
    table = HudiTableMaker.create(MemoryStore(), version, type)
    table.upsert(range(4), 100, "a")
    before = shown(table.snapshot.read())
    failed = table.begin()
    table.write(failed, rows([1, 9], 200, "lost"), deletes=[2])
    (found,) = failed_writes(table.snapshot.timeline)
    assert found.time == failed.time

    done = roll_back(table.store, table.config, found)

    timeline = table.snapshot.timeline
    assert failed_writes(timeline) == ()
    assert marked_files(table.store, failed.time) == []
    said = RollbackMetadata.parse(timeline.body(done).record, "the rollback")
    assert said.commits_rollback == [failed.time]
    assert shown(table.snapshot.read()) == before
    table.upsert([1], 300, "c")
    assert ("k1", 300, "c1") in shown(table.snapshot.read())
    left = [meta.path for meta in table.store.list() if failed.time in meta.path]
    assert left == [], "its own files are gone; blocks in log files of version 6 are taken back by a command"


@ids
def test_taking_back_is_repeatable(version, type):
    table = HudiTableMaker.create(MemoryStore(), version, type)
    table.upsert(range(4), 100, "a")
    before = shown(table.snapshot.read())
    failed = table.begin()
    table.write(failed, rows([1], 200, "lost"))
    for _ in range(2):
        roll_back(table.store, table.config, failed.instant)
        assert shown(table.snapshot.read()) == before


@ids
def test_taking_back_that_is_cut_short_is_gone_on_with_and_nothing_stays_pending(version, type):
    def failing() -> tuple[HudiTableMaker, HudiWrite]:
        table = HudiTableMaker.create(MemoryStore(), version, type)
        table.upsert(range(4), 100, "a")
        failed = table.begin()
        table.write(failed, rows([1], 200, "lost"))
        return table, failed

    table, failed = failing()
    before, counted = shown(table.snapshot.read()), FaultyStore(table.store)
    roll_back(counted, table.config, failed.instant)
    for number in range(1, sum(each.name in WRITES for each in counted.operations) + 1):
        table, failed = failing()
        for _ in range(2):
            with contextlib.suppress(CrashError):
                roll_back(FaultyStore(table.store).crash_after(number, on=WRITES), table.config, failed.instant)
        take_back_failed(table.store, table.config)
        assert shown(table.snapshot.read()) == before
        assert not table.snapshot.timeline.pending, f"cut short after write {number}, twice"
        plan_move(table.store, 8 if version == 6 else 6)


def test_two_writes_to_one_file_group_conflict_and_to_two_do_not():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 100, "a")
    one, two, three = table.begin(), table.begin(), table.begin()
    even, odd, again = (
        table.write(write, rows([number], 200, "b")) for write, number in ((one, 0), (two, 1), (three, 2))
    )
    one.complete(even, schema=table.schema)
    two.complete(odd, schema=table.schema)
    with pytest.raises(ConflictError, match="has changed file group") as caught:
        three.complete(again, schema=table.schema)
    assert one.time in caught.value.sides["other write"]
    assert ("k2", 100, "a2") in shown(table.snapshot.read())


def test_times_are_never_used_twice():
    table = HudiTableMaker.create(MemoryStore(), 9, TableType.COPY_ON_WRITE)
    writes = [table.begin() for _ in range(5)]
    assert len({write.time for write in writes}) == 5
    ends = [write.complete([], schema=table.schema).completion for write in writes]
    assert ends == sorted(set(ends))
    assert max(write.time for write in writes) < min(ends)


def test_an_overwrite_hides_what_it_replaces():
    for version in (6, 8, 9):
        table = HudiTableMaker.create(MemoryStore(), version, TableType.COPY_ON_WRITE)
        first = table.upsert(range(4), 100, "a")
        replaced = {each.partition: [each.file_id] for each in table.snapshot.slices if each.partition == "eu"}
        begin_write(table.store, table.config, "replacecommit", "DELETE_PARTITION").complete(
            [], schema=table.schema, replaced=replaced
        )
        assert shown(table.snapshot.read()) == [("k0", 100, "a0"), ("k2", 100, "a2")]
        assert len(shown(HudiSnapshot.load(table.store, as_of=first).read())) == 4


@pytest.mark.parametrize(
    ("version", "there", "not_there"),
    [
        (
            6,
            {"hoodie.table.precombine.field": "ts", "hoodie.timeline.layout.version": "1"},
            {"hoodie.record.merge.mode"},
        ),
        (
            8,
            {"hoodie.table.precombine.field": "ts", "hoodie.table.initial.version": "8"},
            {"hoodie.table.ordering.fields"},
        ),
        (
            9,
            {"hoodie.table.ordering.fields": "ts", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"},
            {"hoodie.compaction.payload.class"},
        ),
    ],
)
def test_a_new_table_has_the_properties_of_its_version_and_no_others(version, there, not_there):
    table = HudiTableMaker.create(MemoryStore(), version, TableType.MERGE_ON_READ)
    found = properties(table.store)
    assert {key: found.get(key) for key in there} == there
    assert not_there.isdisjoint(found)
    assert found["hoodie.table.checksum"] == checksum(found)


def test_a_table_is_made_once_and_only_as_it_can_be():
    store = MemoryStore()
    HudiTableMaker.create(store, 8, TableType.COPY_ON_WRITE)
    with pytest.raises(AlreadyExistsError, match="there is a Hudi table"):
        HudiTableMaker.create(store, 8, TableType.COPY_ON_WRITE)
    for options in (
        {"version": 7},
        {"version": 10},
        {"version": 8, "ordering_fields": ["ts", "id"]},
        {"version": 9, "record_keys": []},
        {"version": 9, "merge_mode": MergeMode.CUSTOM},
        {"version": 9, "merge_mode": MergeMode.EVENT_TIME_ORDERING, "ordering_fields": []},
    ):
        with pytest.raises(InputError, match="cannot be made"):
            HudiTableMaker.create(MemoryStore(), type=TableType.COPY_ON_WRITE, **options)


def test_commits_say_what_was_written():
    for version in (6, 8):
        table = HudiTableMaker.create(MemoryStore(), version, TableType.MERGE_ON_READ)
        table.upsert(range(4), 100, "a")
        table.upsert([0], 200, "b", deletes=[2])
        timeline = table.snapshot.timeline
        first, second = (timeline.commit_metadata(each) for each in timeline.writes)
        assert first.schema == table.schema
        stat = dict(second.stats)["ap"]
        assert (stat.num_writes, stat.num_deletes, stat.log_version, stat.log_offset) == (1, 1, 1, 0)
        assert stat.prev_commit == (timeline.writes[0].time if version == 6 else timeline.writes[1].time)
        assert table.store.head(stat.path).size == stat.file_size_in_bytes
        body = table.store.get(timeline.writes[1].path)
        assert body.startswith(b"{" if version == 6 else b"Obj\x01")
        assert version == 8 or json.loads(body)["partitionToWriteStats"]["ap"][0]["recordsStats"] == {"val": None}


def test_base_files_carry_what_the_bloom_index_reads():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE, partition_fields=[])
    table.upsert(range(3), 100, "a")
    (slice,) = table.snapshot.slices
    file = pq.ParquetFile(pa.BufferReader(table.store.get(slice.base.path)))
    footer = file.metadata.metadata
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (b"k0", b"k2")
    assert footer[b"org.apache.hudi.bloomfilter"].decode() == bloom_filter(["k0", "k1", "k2"])
    first = file.read().to_pylist()[0]
    assert first["_hoodie_file_name"] == slice.base.path
    assert first["_hoodie_commit_seqno"] == f"{slice.instant}_0_0"
    assert b"partitionDepth=0" in table.store.get(".hoodie_partition_metadata")


def test_the_filter_is_the_one_that_apache_hudi_writes():
    # From the footer of a file by Apache Hudi 1.2.0, for the keys of a complex key generator.
    keys = ["id:k003,qty:103"]
    head = "/////wAAAAcBAAAHfgAAAMgAAAABAAAAAf////8AAAAHAQAAB34A"
    found = bloom_filter(keys, 0.01, 200)
    assert found.startswith(head)
    assert bloom_filter(keys, 0.01, 200) != bloom_filter(["id:k004,qty:103"], 0.01, 200)


def test_a_row_without_a_key_is_refused():
    with pytest.raises(ConstraintError, match="1 of 2 rows have no record key"):
        with_meta_columns(pa.table({"a": [1, 2]}), pa.array(["k", None]), "", "f", "10")


def test_schemas_go_to_avro_and_back():
    assert arrow_schema(avro_schema(COLUMNS, "t")).equals(COLUMNS)
    with pytest.raises(UnsupportedError, match="column u has type uint64"):
        avro_schema(pa.schema([("u", pa.uint64())]), "t")


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ({}, ["a b/c", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"]),
        ({"urlencode": "true"}, ["a b%2Fc", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"]),
        ({"hive": "true"}, ["p=a b/c", "p=__HIVE_DEFAULT_PARTITION__", "p=__HIVE_DEFAULT_PARTITION__"]),
    ],
)
def test_partition_paths_are_made_as_key_generators_make_them(pairs, expected):
    config = HudiTableConfig.parse(
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "8",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.table.partition.fields": "p",
            "hoodie.datasource.write.partitionpath.urlencode": pairs.get("urlencode", "false"),
            "hoodie.datasource.write.hive_style_partitioning": pairs.get("hive", "false"),
        },
        "t",
    )
    assert partition_paths(pa.table({"p": ["a b/c", None, ""]}), config) == expected


def test_a_pending_clustering_is_no_failed_write():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    table.store.put(".hoodie/timeline/20990101000000000.clustering.requested", b"")
    table.store.put(".hoodie/timeline/20990101000000001.compaction.requested", b"")
    assert failed_writes(HudiTimeline.load(table.store, table.config)) == ()
