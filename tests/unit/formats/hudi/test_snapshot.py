"""A snapshot exists only where its rows can be read right; everything else is an error that says what is in the way."""

import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.support.hudi_tables import KINDS, HudiTableMaker, shown

from halocline.errors import (
    HaloclineError,
    IncompatibleError,
    InputError,
    MalformedError,
    NotFoundError,
    UnsupportedError,
)
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.change_data import read_changes
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.properties import encode, properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage.memory import MemoryStore

CLEAN = {"type": "record", "name": "c", "fields": [{"name": "earliestCommitToRetain", "type": "string"}]}


def made(version: int = 8, type: TableType = TableType.MERGE_ON_READ, **options) -> HudiTableMaker:
    table = HudiTableMaker.create(MemoryStore(), version, type, **options)
    table.upsert(range(4), 100, "a")
    table.upsert([1, 2], 200, "b")
    return table


def with_properties(table: HudiTableMaker, **pairs: str | None) -> HudiTableMaker:
    """The same table, with other properties."""
    changed = properties(table.store) | {f"hoodie.{key}": value for key, value in pairs.items()}
    kept = {key: value for key, value in changed.items() if value is not None}
    table.store.put(".hoodie/hoodie.properties", encode(kept, datetime(2025, 1, 1, tzinfo=UTC)))
    return table


@pytest.mark.parametrize("version", ["0", "5", "10", "42"])
def test_versions_that_are_not_read_are_refused_with_both_sides(version):
    table = with_properties(made(), **{"table.version": version})
    with pytest.raises(IncompatibleError, match=f"table version {version}") as caught:
        table.snapshot  # noqa: B018
    assert f"hudi({version})" in caught.value.sides["table"]
    assert "table version 8" in caught.value.sides["you are"]


def test_another_release_is_judged_by_what_is_known_of_it():
    table = made(9)
    assert HudiSnapshot.load(table.store, release="hudi@1.2.0").config.version == 9
    with pytest.raises(IncompatibleError, match="table version 9"):
        HudiSnapshot.load(table.store, release="hudi@0.15.0")


def test_version_7_is_read_as_6():
    table = with_properties(made(6), **{"table.version": "7"})
    assert len(shown(table.snapshot.read())) == 4


def test_a_table_that_nothing_was_written_to_is_empty():
    table = HudiTableMaker.create(MemoryStore(), 9, TableType.COPY_ON_WRITE)
    assert (table.snapshot.slices, list(table.snapshot.read())) == ((), [])
    assert "name" in table.snapshot.schema.columns.names


def test_columns_are_chosen_by_name():
    (batch,) = made(8, TableType.COPY_ON_WRITE, partition_fields=[]).snapshot.read(["name", "id"])
    assert batch.schema.names == ["name", "id"]
    with pytest.raises(InputError) as caught:
        list(made().snapshot.read(["nam"]))
    assert caught.value.condition == "COLUMN_NOT_FOUND"


@pytest.mark.parametrize("query", ["snapshot", "read_optimized"])
def test_columns_that_only_the_merge_needs_are_not_given(query):
    batches = list(made().snapshot.read(["name"], query=query))
    assert {tuple(batch.schema.names) for batch in batches} == {("name",)}
    assert sum(batch.num_rows for batch in batches) > 0


def test_a_dialect_is_one_of_two():
    with pytest.raises(InputError, match="no dialect"):
        HudiSnapshot.load(made().store, dialect="2.x")


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_an_instant_whose_files_were_cleaned_is_refused(version, type):
    table = made(version, type)
    first, second = (each.time for each in table.snapshot.timeline.writes)
    body, folder = write_record(CLEAN, {"earliestCommitToRetain": second}), table.config.timeline_folder
    table.store.put(f"{folder}/29990101000000000{'_29990101000000001' if version > 6 else ''}.clean", body)
    assert len(shown(HudiSnapshot.load(table.store, as_of=second).read())) == 4
    with pytest.raises(NotFoundError, match="have been cleaned") as caught:
        HudiSnapshot.load(table.store, as_of=first)
    assert (caught.value.condition, caught.value.sides["asked for"]) == ("VERSION_NOT_FOUND", first)


def test_a_base_file_that_is_gone_or_damaged_is_an_error():
    for damage, error in ((None, NotFoundError), (b"PAR1 or not", MalformedError)):
        table = made(8, TableType.COPY_ON_WRITE)
        snapshot, path = table.snapshot, table.snapshot.slices[0].base.path
        slices = snapshot.slices
        table.store.delete(path)
        if damage:
            table.store.put(path, damage)
        with pytest.raises(error):
            list(snapshot.reader().read(table.store, slices[0]))


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_log_file_of_a_completed_write_that_was_cut_short_is_an_error(cut):
    for version in (6, 8):
        table = made(version)
        path = next(log.path for each in table.snapshot.slices for log in each.logs)
        table.store.put(path, table.store.get(path)[:-cut])
        with pytest.raises(MalformedError, match="is damaged") as caught:
            list(table.snapshot.read())
        assert "wrote" in caught.value.sides["commit"]


def test_base_files_of_other_formats_are_refused_by_name():
    table = made(8, TableType.COPY_ON_WRITE, partition_fields=[])
    slice = table.snapshot.slices[0]
    other = replace(slice, base=replace(slice.base, format="orc"))
    with pytest.raises(UnsupportedError, match="format orc"):
        list(table.snapshot.reader().read(table.store, other))


def test_columns_that_may_have_been_renamed_are_refused():
    table = made(6)
    instant = table.snapshot.timeline.writes[-1]
    body = json.loads(table.store.get(instant.path))
    body["extraMetadata"]["latest_schema"] = "{}"
    table.store.put(instant.path, json.dumps(body).encode())
    with pytest.raises(UnsupportedError, match="renamed"):
        list(table.snapshot.read())


def test_a_custom_rule_is_refused_for_merging_and_not_for_base_files():
    table = with_properties(made(8), **{"record.merge.strategy.id": "1897ef5f-18bc-4557-939c-9d6a8afd1519"})
    with pytest.raises(UnsupportedError, match="1897ef5f"):
        list(table.snapshot.read())
    assert len(shown(table.snapshot.read(query="read_optimized"))) == 4


def test_ordering_by_a_nested_field_is_refused_and_by_one_that_no_row_has_is_by_time_of_writing():
    with pytest.raises(UnsupportedError, match=r"ordered by point\.x"):
        list(with_properties(made(8), **{"table.precombine.field": "point.x"}).snapshot.read())
    table = with_properties(made(8), **{"table.precombine.field": "nowhere"})
    table.upsert([1], 50, "late")
    assert ("k1", 50, "late1") in shown(table.snapshot.read())


def test_a_torn_commit_is_an_error():
    for torn in (b"", b"{", b"Obj\x01\x02"):
        table = made(8)
        table.store.put(table.snapshot.timeline.writes[-1].path, torn)
        with pytest.raises(HaloclineError) as caught:
            list(table.snapshot.read())
        assert caught.value.condition == "MALFORMED_LOG"


def test_side_files_of_local_disks_are_left_alone():
    table = made(6)
    before = shown(table.snapshot.read())
    for meta in list(table.store.list()):
        folder, _, name = meta.path.rpartition("/")
        table.store.put(f"{folder}/.{name}.crc" if folder else f".{name}.crc", b"crc\0")
    assert shown(table.snapshot.read()) == before


def test_a_requested_time_is_refused_where_completion_times_count():
    table = made(9)
    first = table.snapshot.timeline.writes[0]
    with pytest.raises(InputError, match="was requested") as caught:
        read_range(table.snapshot, first.time)
    assert first.completion in caught.value.next_step
    assert len(read_range(table.snapshot, first.completion).writes) == 1
    assert len(read_range(made(6).snapshot, "0").writes) == 2


@pytest.mark.parametrize(("version", "type"), [KINDS[0], KINDS[3]])
def test_a_range_that_ends_before_it_begins_or_counts_from_one_is_refused(version, type):
    maker = HudiTableMaker.create(MemoryStore(), version, type)
    times = [maker.upsert([each], 100 + each, "a") for each in range(2)]
    if version > 6:
        times = [maker.snapshot.timeline.completion_of(each) for each in times]
    with pytest.raises(InputError, match="ends before it begins"):
        read_range(maker.snapshot, times[1], times[0])
    with pytest.raises(InputError, match="is no instant"):
        read_range(maker.snapshot, "1")
    assert read_range(maker.snapshot, times[0], times[0]).writes == ()


def test_a_range_needs_the_meta_columns():
    table = with_properties(made(8, TableType.COPY_ON_WRITE), **{"populate.meta.fields": "false"})
    with pytest.raises(InputError, match="do not say which write"):
        list(read_range(table.snapshot).read())


def test_changes_need_a_table_that_logs_them():
    with pytest.raises(InputError) as caught:
        list(read_changes(made().snapshot))
    assert caught.value.condition == "CHANGE_FEED_OFF"


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_changes_are_told_by_comparing_slices(version, type):
    table = with_properties(made(version, type), **{"table.cdc.enabled": "true"})
    table.upsert([2, 9], 300, "c", deletes=[3])
    second = table.snapshot.timeline.writes[1]
    found = [
        row
        for batch in read_changes(table.snapshot, second.time if version == 6 else second.completion)
        for row in batch.to_pylist()
    ]
    changes = sorted(
        (row["op"], row["before"] and row["before"]["name"], row["after"] and row["after"]["name"]) for row in found
    )
    assert changes == [("d", "a3", None), ("i", None, "c9"), ("u", "b2", "c2")]
    assert {row["ts_ms"] for row in found} == {table.snapshot.timeline.writes[2].time}


def test_a_timeline_of_both_layouts_is_read_below_and_above_its_watermark():
    """A table that was moved to version 8 by its properties alone, as the bridge document asks."""
    table = made(6)
    before = shown(table.snapshot.read())
    mark = table.snapshot.timeline.writes[-1].time
    moved = {"table.version": "8", "timeline.layout.version": "2", "table.version.upgrade.commit.time": mark}
    with_properties(table, **moved)
    assert shown(table.snapshot.read()) == before
    newer = HudiTableMaker(table.store, table.snapshot.config, table.schema)
    newer.upsert([1], 300, "new", deletes=[2])
    assert shown(newer.snapshot.read()) == [("k0", 100, "a0"), ("k1", 300, "new1"), ("k3", 100, "a3")]
    layouts = {each.path.startswith(".hoodie/timeline/") for each in newer.snapshot.timeline.writes}
    assert layouts == {True, False}


def test_a_reader_travels_without_the_table():
    table = made(8)
    reader = pickle.loads(pickle.dumps(table.snapshot.reader(["id", "name"])))
    slices = pickle.loads(pickle.dumps(table.snapshot.slices))
    found = pa.Table.from_batches([batch for slice in slices for batch in reader.read(table.store, slice)])
    assert found.num_rows == 4
