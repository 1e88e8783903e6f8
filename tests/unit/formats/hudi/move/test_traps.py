"""Where moves of Apache Hudi itself go wrong, and the little things of a table that a move must not lose."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.hudi_groups import write_rows
from tests.support.hudi_tables import HudiTableMaker, shown

from halocline.errors import UnsupportedError
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import HudiTableConfig, KeyGeneratorType, MergeMode, TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.clustering import run_clustering, schedule_clustering
from halocline.formats.hudi.maintain.compaction import compact, pending_clusterings
from halocline.formats.hudi.move.engine import apply_move, resume_move
from halocline.formats.hudi.move.model import StageKind
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import encode, properties
from halocline.formats.hudi.timeline.instant import HudiInstant, InstantState, file_name
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore
from halocline.table.hudi.opened import HudiOpened

MOR, COW = TableType.MERGE_ON_READ, TableType.COPY_ON_WRITE


def move(store: Store, *versions: int) -> HudiTableConfig:
    for to in versions:
        config = apply_move(store, plan_move(store, to), grace_s=0)
    return config


def completions(table: HudiTableMaker) -> dict[str, str | None]:
    return {each.time: each.completion for each in table.snapshot.timeline.writes}


def with_properties(table: HudiTableMaker, **changed: str | None) -> None:
    pairs = {**properties(table.store), **{key.replace("__", "."): value for key, value in changed.items()}}
    pairs = {key: value for key, value in pairs.items() if value is not None}
    table.store.put(".hoodie/hoodie.properties", encode(pairs, datetime.now(UTC)))
    table.config = HudiTableConfig.parse(pairs, "t")


def test_completion_times_come_back_from_version_6_wherever_the_move_was_cut_short():
    made = HudiTableMaker.create(MemoryStore(), 8, COW)
    for number in range(3):
        made.upsert([number], 100, "a")
    before = completions(made)
    counted = FaultyStore(_copied(made).store)
    apply_move(counted, plan_move(counted, 6), grace_s=0)
    for number in range(1, sum(each.name in WRITES for each in counted.operations) + 1):
        table = _copied(made)
        with contextlib.suppress(CrashError):
            faulty = FaultyStore(table.store).crash_after(number, on=WRITES)
            apply_move(faulty, plan_move(faulty, 6), grace_s=0)
        if resume_move(table.store, grace_s=0) is None and table.snapshot.config.version == 8:
            move(table.store, 6)
        move(table.store, 8)
        assert completions(table) == before, f"cut short after write {number}"


def _copied(table: HudiTableMaker) -> HudiTableMaker:
    store = MemoryStore()
    for meta in table.store.list():
        store.put(meta.path, table.store.get(meta.path))
        store.set_modified(meta.path, meta.modified_ms)
    return HudiTableMaker(store, table.config, table.schema)


def test_completion_times_are_those_of_files_but_never_before_the_request_and_never_decrease():
    table = HudiTableMaker.create(MemoryStore(), 6, COW)
    times = [table.upsert([number], 100, "a") for number in range(4)]
    moments = [
        int(datetime.strptime(f"{time}000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC).timestamp() * 1000) for time in times
    ]
    # A copy of the table lost the time of the first, and the third was written before the second.
    for time, moment in zip(times, (0, moments[3] + 9_000, moments[2] + 1, moments[3] + 20_000), strict=True):
        table.store.set_modified(f".hoodie/{time}.commit", moment)
    move(table.store, 8)
    found = [str(completions(table)[time]) for time in times]
    assert found[0] == times[0], "never before it was requested"
    assert found == sorted(found), "never before that of an earlier one"
    assert found[1] == found[2] < found[3]


def test_a_complex_key_generator_with_one_field_is_refused_where_keys_would_change():
    table = HudiTableMaker.create(MemoryStore(), 6, COW, key_generator=KeyGeneratorType.COMPLEX)
    table.upsert([0], 100, "a")
    with pytest.raises(UnsupportedError, match="complex key generator with the one key field id") as refused:
        plan_move(table.store, 9)
    assert "complex.keygen.new.encoding" in refused.value.next_step
    move(table.store, 8, 6)


def test_a_table_whose_latest_write_used_to_win_goes_on_like_that_and_says_so():
    table = HudiTableMaker.create(MemoryStore(), 6, COW)
    with_properties(table, **{keys.PAYLOAD_CLASS.replace(".", "__"): None})
    table.upsert([1], 600, "a")
    planned = plan_move(table.store, 8)
    assert planned.target.merge_mode is MergeMode.COMMIT_TIME_ORDERING, "the original forces event time"
    assert any("names no payload class" in each for each in planned.warnings)
    move(table.store, 8, 9, 8, 6)
    assert keys.PAYLOAD_CLASS not in properties(table.store)


@pytest.mark.parametrize("version", [6, 8])
def test_a_pending_clustering_is_pending_on_the_other_side_under_its_name_there_and_runs(version):
    table = HudiTableMaker.create(MemoryStore(), version, COW)
    for each in (0, 2, 4):
        write_rows(HudiOpened(table.store), "INSERT", [each], 100, "a")  # a file group of its own
    before = shown(table.snapshot.read())
    planned = schedule_clustering(table.store)
    assert planned is not None
    other = 8 if version == 6 else 6
    names = {
        6: f".hoodie/{planned.time}.replacecommit.requested",
        8: f".hoodie/timeline/{planned.time}.clustering.requested",
    }
    for to in (other, version, other):
        table.config = move(table.store, to)
        assert table.store.exists(names[to]), f"at version {to}"
        assert [each.time for each, _ in pending_clusterings(table.snapshot.timeline)] == [planned.time]
        assert shown(table.snapshot.read()) == before
    run_clustering(table.store, planned.time)
    assert shown(table.snapshot.read()) == before
    assert len(table.snapshot.slices) == 1


def test_a_replace_commit_that_is_no_clustering_is_not_renamed_to_one():
    table = HudiTableMaker.create(MemoryStore(), 6, COW)
    table.upsert([1, 2], 100, "a")
    table.begin("INSERT_OVERWRITE")
    planned = plan_move(table.store, 8)
    assert planned.stage(StageKind.ROLL_BACK) is not None
    move(table.store, 8)
    assert not [meta.path for meta in table.store.list() if "clustering" in meta.path]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_index_that_was_built_goes_along_and_one_that_is_being_built_is_in_the_way(version):
    table = HudiTableMaker.create(MemoryStore(), version, COW)
    table.upsert([1, 2], 100, "a")
    before = shown(table.snapshot.read())
    folder, completion = table.config.timeline_folder, "20200101000000900" if version > 6 else None
    for state in InstantState:
        done = HudiInstant(
            "20200101000000000", "indexing", state, completion if state is InstantState.COMPLETED else None
        )
        table.store.put(f"{folder}/{file_name(done)}", b"")
    for to in {6: (8, 9, 6), 8: (6, 9, 8), 9: (6, 8, 9)}[version]:
        table.config = move(table.store, to)
        assert shown(table.snapshot.read()) == before
        found = [each for each in table.snapshot.timeline.instants if each.action == "indexing"]
        assert [each.is_completed for each in found] == [True], f"at version {to}"
    table.store.put(f"{table.config.timeline_folder}/20300101000000000.indexing.requested", b"")
    other = 6 if version > 6 else 8
    with pytest.raises(UnsupportedError, match="pending indexing 20300101000000000") as refused:
        plan_move(table.store, other)
    assert "Let the indexing end" in refused.value.next_step


@pytest.mark.parametrize("type", TableType)
def test_the_way_back_leaves_each_archived_action_once_and_no_history(type):
    table = HudiTableMaker.create(MemoryStore(), 6, type)
    for number in range(6):
        table.upsert([0], 100 + number, "a")
        if type is MOR:
            compact(table.store)  # what is not merged yet is not archived
    archive(table.store, keep=2, at_most=2)
    before, pairs = _history(table), properties(table.store)
    assert len(before) == len(set(before)) > 0
    for _ in range(2):
        move(table.store, 8, 9, 8, 6)
        assert _history(table) == before
        assert not [meta.path for meta in table.store.list(".hoodie/timeline")]
        assert properties(table.store) == pairs


def _history(table: HudiTableMaker) -> list[tuple[str, str]]:
    timeline = HudiTimeline.load(table.store, table.snapshot.config)
    return sorted((each.time, each.action) for each in timeline.history())


def test_the_dry_run_lists_files_bytes_who_is_affected_and_the_point_of_no_return():
    table = HudiTableMaker.create(MemoryStore(), 6, MOR)
    for number in range(4):
        table.upsert([1], 100 + number, "a")
        compact(table.store)
    archive(table.store, keep=2, at_most=2)
    files = {meta.path: (meta.size, meta.modified_ms) for meta in table.store.list()}
    planned = plan_move(table.store, 8)
    told = {each["stage"]: each for each in planned.to_dict()["stages"]}
    active = [path for path in files if path.removeprefix(".hoodie/")[:1].isdigit()]
    old = [path for path in files if path.startswith(".hoodie/archived/")]
    assert (told["copy timeline"]["files"], told["copy timeline"]["bytes"]) == (
        len(active),
        sum(files[path][0] for path in active),
    )
    assert told["clean"]["files"] == len(active) + len(old)
    assert told["flip"]["files"] == 1
    text = planned.explain()
    assert text.index("flip") < text.index("point of no return") < text.index("would break")
    assert planned.to_dict()["wouldBreak"] == [str(each.client.release) for each in planned.clients.broken()]
    assert planned.to_dict()["reverse"] == [8, 6]
    assert {meta.path: (meta.size, meta.modified_ms) for meta in table.store.list()} == files, "and changes nothing"


def test_no_checksum_of_a_local_disk_is_left_beside_a_file_that_a_move_changed(tmp_path):
    table = HudiTableMaker.create(open_store(tmp_path), 6, COW)
    table.upsert([1, 2], 100, "a")

    def with_checksums() -> None:
        for path in (tmp_path / ".hoodie").rglob("*"):
            if path.is_file() and not path.name.endswith(".crc"):
                path.with_name(f".{path.name}.crc").write_bytes(b"crc\0 of this very content")

    for to in (8, 9, 8, 6):
        with_checksums()
        before = {path: path.read_bytes() for path in (tmp_path / ".hoodie").rglob("*") if path.is_file()}
        table.config = move(table.store, to)
        assert any(path.name.endswith(".crc") for path in before)
        for path in (tmp_path / ".hoodie").rglob(".*.crc"):
            beside = path.with_name(path.name.removeprefix(".").removesuffix(".crc"))
            assert before.get(beside) == beside.read_bytes(), f"{path.name} is that of another {beside.name}"


@pytest.mark.parametrize("type", TableType)
def test_the_ordering_field_has_the_key_that_readers_of_the_version_know(type):
    table = HudiTableMaker.create(MemoryStore(), 9, type)
    table.upsert([1], 100, "a")
    for to in (9, 8, 7, 6, 8, 9):
        if to != table.config.version:
            table.config = move(table.store, to)
        pairs = properties(table.store)
        expected = (None, "ts") if to < 9 else ("ts", None)
        assert (pairs.get(keys.ORDERING_FIELDS), pairs.get(keys.PRECOMBINE_FIELD)) == expected, f"at version {to}"
        if to in (6, 8, 9):
            made = properties(HudiTableMaker.create(MemoryStore(), to, type).store)
            assert (made.get(keys.ORDERING_FIELDS), made.get(keys.PRECOMBINE_FIELD)) == expected
