"""A table moves between versions while readers read, whatever breaks, and comes back as it was."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

import pytest
from msgspec.structs import replace as replaced
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.hudi_tables import HudiTableMaker, shown
from tests.support.hudi_tables import rows as made_rows

from halocline.compat.breaks import Client, breaks
from halocline.compat.release import Release
from halocline.errors import ConflictError, HaloclineError, InputError, NotYetError, UnavailableError, UnsupportedError
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import HudiTableConfig, TableType
from halocline.formats.hudi.maintain.compaction import schedule_compaction
from halocline.formats.hudi.move.engine import apply_move, finish_move, resume_move, undo_move
from halocline.formats.hudi.move.model import StageKind
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.move.record import PATH, MoveRecord, read_record, write_record_of
from halocline.formats.hudi.move.verification import content
from halocline.formats.hudi.properties import encode, properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore
from halocline.storage.process import process_space

PLAIN = datetime(2026, 11, 15, tzinfo=UTC)
WAYS = [(6, 8), (6, 9), (8, 9), (9, 8), (8, 6), (9, 6)]


def busy_table(version: int, type: TableType) -> HudiTableMaker:
    """Updates, deletes, late rows, a pending compaction with log files behind it, and a write that died."""
    made, store = _busy_table(version, type), MemoryStore()
    for meta in made.store.list():
        store.put(meta.path, made.store.get(meta.path))
        store.set_modified(meta.path, meta.modified_ms)
    return HudiTableMaker(store, made.config, made.schema)


@cache
def _busy_table(version: int, type: TableType) -> HudiTableMaker:
    table = HudiTableMaker.create(MemoryStore(), version, type)
    table.upsert(range(6), 100, "a")
    table.upsert([1, 2], 200, "b", deletes=[3])
    if type is TableType.MERGE_ON_READ:
        schedule_compaction(table.store)
    table.upsert([2, 7], 150, "late")
    failed = table.begin()
    table.write(failed, made_rows([1, 9], 900, "lost"), deletes=[2])
    return table


def move(store: Store, to: int, grace_s: float = 0) -> HudiTableConfig:
    return apply_move(store, plan_move(store, to), grace_s=grace_s)


def rows(store: Store) -> list[tuple[str, int, str]]:
    return shown(HudiSnapshot.load(store).read())


class WatchedStore(FaultyStore):
    """A store that has somebody look after every write."""

    def __init__(self, inner: Store, look: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._look = look

    def _do(self, name, path, action, torn=None):
        result = super()._do(name, path, action, torn)
        if name in WRITES:
            self._look(f"{name} {path}")
        return result


@pytest.mark.parametrize("type", TableType)
@pytest.mark.parametrize(("source", "target"), WAYS)
def test_readers_see_all_rows_after_every_step(source, target, type):
    table = busy_table(source, type)
    before, earlier = rows(table.store), HudiSnapshot.load(table.store)
    planned = HudiSnapshot.load(table.store)
    assert planned.slices
    seen = []

    def look(step: str) -> None:
        assert rows(table.store) == before, f"a new reader after {step}"
        assert shown(planned.read()) == before, f"a reader from before, after {step}"
        seen.append(step)

    apply_move(WatchedStore(table.store, look), plan_move(table.store, target))
    assert properties(table.store)[keys.LAYOUT] == ("2" if target > 7 else "1")
    assert any("hoodie.properties" in step for step in seen)
    assert shown(earlier.read()) == before, "a reader that was opened before and reads only now"
    finish_move(table.store, grace_s=0)
    assert rows(table.store) == before


@pytest.mark.parametrize("type", TableType)
@pytest.mark.parametrize(("source", "target"), [(6, 8), (8, 6), (8, 9), (9, 8)])
def test_a_crash_at_any_step_leaves_all_rows_and_a_move_that_goes_on(source, target, type):
    counted = FaultyStore(busy_table(source, type).store)
    move(counted, target)
    writes = [each for each in counted.operations if each.name in WRITES]
    before = rows(busy_table(source, type).store)
    for number, write in enumerate(writes, 1):
        table = busy_table(source, type)
        with contextlib.suppress(CrashError):
            move(FaultyStore(table.store).crash_after(number, on=WRITES), target)
        step = f"after write {number}, {write}"
        assert rows(table.store) == before, step
        if resume_move(table.store, grace_s=0) is None and HudiSnapshot.load(table.store).config.version == source:
            move(table.store, target)
        assert HudiSnapshot.load(table.store).config.version == target, step
        assert rows(table.store) == before, f"resumed {step}"
        assert finish_move(table.store, grace_s=0)
        assert read_record(table.store).cleanup is None
        assert not table.store.exists(".hoodie/hoodie.properties.backup")


@pytest.mark.parametrize(("source", "target", "type"), [(6, 9, "COPY_ON_WRITE"), (9, 6, "MERGE_ON_READ")])
def test_a_lost_answer_at_any_step_is_a_move_that_goes_on(source, target, type):
    kind = TableType(type)
    counted = FaultyStore(busy_table(source, kind).store)
    move(counted, target)
    before = rows(busy_table(source, kind).store)
    for number in range(1, sum(each.name in WRITES for each in counted.operations) + 1):
        table = busy_table(source, kind)
        with contextlib.suppress(UnavailableError):
            move(FaultyStore(table.store).lose_answer(number, on=WRITES), target)
        assert rows(table.store) == before, f"after write {number}"
        if resume_move(table.store, grace_s=0) is None and HudiSnapshot.load(table.store).config.version == source:
            move(table.store, target)
        assert HudiSnapshot.load(table.store).config.version == target, f"after write {number}"
        assert rows(table.store) == before, f"resumed after write {number}"
        assert finish_move(table.store, grace_s=0)


@pytest.mark.parametrize(("source", "target"), [(6, 8), (8, 6)])
def test_a_move_that_has_not_flipped_can_be_undone(source, target):
    counted = FaultyStore(busy_table(source, TableType.MERGE_ON_READ).store)
    apply_move(counted, plan_move(counted, target))
    writes = [each.name for each in counted.operations if each.name in WRITES]
    before = rows(busy_table(source, TableType.MERGE_ON_READ).store)
    for number in range(1, writes.index("put_if_match")):
        table = busy_table(source, TableType.MERGE_ON_READ)
        with contextlib.suppress(CrashError):
            move(FaultyStore(table.store).crash_before(number + 1, on=WRITES), target)
        undo_move(table.store)
        assert rows(table.store) == before
        assert read_record(table.store) == MoveRecord()
        folder = ".hoodie/timeline" if target == 8 else ".hoodie"
        left = [meta.path for meta in table.store.list(folder) if meta.path.removeprefix(f"{folder}/")[:1].isdigit()]
        assert left == [], f"before write {number + 1}"
    table = busy_table(source, TableType.MERGE_ON_READ)
    with contextlib.suppress(CrashError):
        move(FaultyStore(table.store).crash_after(1, on=["put_if_match"]), target)
    with pytest.raises(ConflictError, match="already"):
        undo_move(table.store)


@pytest.mark.parametrize("grace_s", [0, 1e6])
@pytest.mark.parametrize(("source", "target"), WAYS)
def test_an_applied_plan_applied_again_is_refused_and_changes_nothing(source, target, grace_s):
    table = busy_table(source, TableType.MERGE_ON_READ)
    plan = plan_move(table.store, target)
    config = apply_move(table.store, plan, grace_s=grace_s)
    HudiTableMaker(table.store, config, table.schema).upsert([1, 20], 500, "since")
    before = {meta.path: table.store.get(meta.path) for meta in table.store.list()}
    with pytest.raises(ConflictError, match="since the move was planned"):
        apply_move(table.store, plan, grace_s=grace_s)
    assert {meta.path: table.store.get(meta.path) for meta in table.store.list()} == before
    assert ("k20", 500, "since20") in rows(table.store)
    assert not undo_move(table.store), "nothing is under way"
    assert move(table.store, source).version == source


def test_a_move_that_another_process_has_finished_is_not_finished_twice():
    table = busy_table(6, TableType.MERGE_ON_READ)
    with contextlib.suppress(CrashError):
        move(FaultyStore(table.store).crash_after(1, on=["put_if_match"]), 8)
    left = read_record(table.store)
    write_record_of(table.store, replaced(left, pending=replaced(left.pending, drops_metadata_table=True)))

    @contextlib.contextmanager
    def lock():
        resume_move(table.store, grace_s=0)
        table.store.put(".hoodie/metadata/files/built-since", b"")
        yield

    assert resume_move(table.store, lock=lock()).version == 8
    assert table.store.exists(".hoodie/metadata/files/built-since")


@pytest.mark.parametrize("type", TableType)
def test_the_way_back_restores_every_property(type):
    table = HudiTableMaker.create(MemoryStore(), 6, type)
    table.upsert(range(6), 100, "a")
    table.upsert([1, 2], 200, "b")
    before, names = properties(table.store), sorted(meta.path for meta in table.store.list())
    for to in (7, 8, 9, 8, 7, 6):
        move(table.store, to)
    assert properties(table.store) == before
    assert sorted(meta.path for meta in table.store.list()) == names
    assert read_record(table.store) == MoveRecord()


def test_what_somebody_else_set_meanwhile_stays():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE)
    table.upsert([1], 100, "a")
    move(table.store, 8)
    theirs = {**properties(table.store), "hoodie.table.cdc.enabled": "true", keys.PRECOMBINE_FIELD: "name"}
    table.store.put(".hoodie/hoodie.properties", encode(theirs, PLAIN))
    move(table.store, 6)
    found = properties(table.store)
    assert (found["hoodie.table.cdc.enabled"], found[keys.PRECOMBINE_FIELD]) == ("true", "name")


def test_writes_go_on_at_the_new_version_and_back():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.MERGE_ON_READ)
    table.upsert(range(9), 100, "a")
    table.upsert([1], 200, "b")
    for number, to in enumerate((8, 9, 8, 6, 8), 3):
        table.config = move(table.store, to)
        table.upsert([2, 10 + number], number * 100, "later", deletes=[number])
        assert ("k2", number * 100, "later2") in rows(table.store)
        assert f"k{number}" not in [key for key, *_ in rows(table.store)]


def test_moving_up_merges_no_log_files_that_both_versions_read_alike():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.MERGE_ON_READ)
    table.upsert(range(6), 100, "a")
    table.upsert([1], 200, "b")
    planned = plan_move(table.store, 8)
    assert planned.stage(StageKind.COMPACT) is None
    apply_move(table.store, planned)
    assert any(each.logs for each in table.snapshot.slices)


def test_log_files_that_the_new_rule_would_read_differently_are_merged_by_the_old_one():
    overwrite = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.MERGE_ON_READ)
    pairs = {**properties(table.store), keys.PAYLOAD_CLASS: overwrite}
    table.store.put(".hoodie/hoodie.properties", encode(pairs, PLAIN))
    table.config = HudiTableConfig.parse(pairs, "t")
    table.upsert(range(4), 100, "a")
    table.upsert([1, 2], 600, "first")
    table.upsert([1], 550, "second")
    before = rows(table.store)
    assert ("k1", 600, "first1") in before
    planned = plan_move(table.store, 8)
    assert len(planned.stage(StageKind.COMPACT).subjects) == 1, "the other file group is read alike"
    apply_move(table.store, planned)
    assert rows(table.store) == before
    assert table.snapshot.config.merge_mode == "COMMIT_TIME_ORDERING"


def test_a_table_whose_timeline_was_left_in_place_moves_down_with_all_of_it():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 100, "a")
    watermark = table.upsert([1], 200, "b")
    mixed = plan_move(table.store, 8).target.pairs | {keys.WATERMARK: watermark}
    table.store.put(".hoodie/hoodie.properties", encode(mixed, PLAIN))
    table.config = HudiTableConfig.parse(mixed, "t")
    table.upsert([2], 300, "c")
    before = rows(table.store)
    assert len(before) == 4
    for to in (9, 6, 8):
        move(table.store, to)
        assert rows(table.store) == before, to
        assert len(HudiSnapshot.load(table.store).timeline.writes) == 3


def test_a_move_says_what_it_does_whom_it_breaks_and_how_it_goes_back():
    planned = plan_move(busy_table(6, TableType.MERGE_ON_READ).store, 9)
    text = planned.explain()
    for part in ("roll back", "complete", "copy timeline", "point of no return", "from 9 to 6"):
        assert part in text, text
    assert planned.reverse == (9, 6)
    old = Client(Release.parse("hudi-spark@0.15.0"))
    assert [each.client.release for each in breaks(planned.before, planned.after, [old])] == [old.release]
    assert planned.to_dict()["stages"][0]["subjects"]


def test_what_a_version_cannot_hold_is_named_before_anything_is_changed():
    table = HudiTableMaker.create(MemoryStore(), 9, TableType.COPY_ON_WRITE, ordering_fields=["ts", "name"])
    table.upsert([1], 100, "a")
    with pytest.raises(UnsupportedError, match="2 ordering fields"):
        plan_move(table.store, 8)
    table.store.put(f"{table.config.timeline_folder}/20300101000000000.indexing.requested", b"")
    with pytest.raises(UnsupportedError, match="pending indexing"):
        plan_move(busy_with(table.store, 8), 6)
    with pytest.raises(InputError, match="to 10"):
        plan_move(table.store, 10)


def busy_with(store: Store, version: int) -> Store:
    table = HudiTableMaker.create(MemoryStore(), version, TableType.COPY_ON_WRITE)
    table.upsert([1], 100, "a")
    table.store.put(f"{table.config.timeline_folder}/20300101000000000.indexing.requested", b"")
    return table.store


def test_a_write_whose_writer_is_alive_stands_in_the_way():
    table = busy_table(6, TableType.COPY_ON_WRITE)
    (failed,) = (each for each in table.snapshot.timeline.instants if not each.is_completed)
    table.store.put(f".hoodie/.heartbeat/{failed.time}", b"")
    with pytest.raises(NotYetError, match="under way"):
        plan_move(table.store, 8)


def test_a_write_that_began_after_the_plan_is_not_taken_back_beneath_its_writer():
    table = busy_table(6, TableType.COPY_ON_WRITE)
    planned = plan_move(table.store, 8)
    begun = table.begin()
    table.store.put(f".hoodie/.heartbeat/{begun.time}", b"")
    with pytest.raises(NotYetError, match=begun.time):
        apply_move(table.store, planned)
    pending = [each.time for each in table.snapshot.timeline.instants if not each.is_completed]
    assert begun.time in pending, "its writer would complete it without its files"


def test_a_write_whose_process_has_died_on_this_machine_is_taken_back_by_a_move():
    table = busy_table(6, TableType.COPY_ON_WRITE)
    (failed,) = (each for each in table.snapshot.timeline.instants if not each.is_completed)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    body = json.dumps({"host": process_space(), "pid": process.pid}).encode()
    table.store.put(f".hoodie/.heartbeat/{failed.time}", body)
    before = rows(table.store)
    apply_move(table.store, plan_move(table.store, 8))
    assert rows(table.store) == before


def test_a_write_that_began_before_the_flip_is_fenced():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE)
    table.upsert([1, 2], 100, "a")
    planned = plan_move(table.store, 8)
    write = table.begin()
    stats = table.write(write, made_rows([3], 300, "late"))
    apply_move(table.store, planned)
    with pytest.raises(ConflictError, match="version 8") as caught:
        write.complete(stats, schema=table.schema)
    assert caught.value.condition == "TABLE_MOVED"
    assert len(rows(table.store)) == 2


def test_a_commit_between_the_copy_and_the_flip_is_carried_over():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE)
    table.upsert([1, 2], 100, "a")

    def look(step: str) -> None:
        if step.endswith("properties.backup") and step.startswith("put "):
            table.upsert([3], 300, "late")

    apply_move(WatchedStore(table.store, look), plan_move(table.store, 8))
    assert ("k3", 300, "late3") in rows(table.store)
    assert finish_move(table.store, grace_s=0)
    assert len(rows(table.store)) == 3


def test_a_commit_to_the_old_timeline_after_the_flip_is_found_before_it_would_be_lost():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE)
    table.upsert([1, 2], 100, "a")
    move(table.store, 8, grace_s=3600)
    assert not finish_move(table.store, grace_s=3600), "the grace period is not over"
    table.store.put(".hoodie/20990101000000000.commit", b"{}")
    with pytest.raises(ConflictError, match="20990101000000000") as caught:
        finish_move(table.store, grace_s=0)
    assert caught.value.condition == "TABLE_MOVED"
    table.store.delete(".hoodie/20990101000000000.commit")
    assert finish_move(table.store, grace_s=0)
    assert not [meta for meta in table.store.list(".hoodie") if meta.path.startswith(".hoodie/2")]


def test_a_table_that_would_change_is_not_flipped(monkeypatch):
    table = busy_table(6, TableType.MERGE_ON_READ)
    before = rows(table.store)
    monkeypatch.setattr("halocline.formats.hudi.move.engine.copy_timeline", lambda *given: 0)
    with pytest.raises(ConflictError) as caught:
        move(table.store, 8)
    assert caught.value.condition == "MOVE_UNVERIFIED"
    assert (HudiSnapshot.load(table.store).config.version, rows(table.store)) == (6, before)


def test_two_moves_at_once_are_refused():
    table = busy_table(6, TableType.COPY_ON_WRITE)
    with contextlib.suppress(CrashError):
        move(FaultyStore(table.store).crash_before(1, on=["put_if_match"]), 8)
    with pytest.raises(ConflictError, match="another move"):
        move(table.store, 9)


@pytest.mark.parametrize("grace_s", [-1, -0.5, float("nan")])
def test_a_grace_period_that_is_none_is_refused_before_anything_is_done(grace_s):
    maker = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE)
    maker.upsert([1], 100, "a")
    before = sorted(meta.path for meta in maker.store.list())
    with pytest.raises(InputError, match="cannot stay for"):
        apply_move(maker.store, plan_move(maker.store, 8), grace_s=grace_s)
    with pytest.raises(InputError, match="cannot stay for"):
        finish_move(maker.store, grace_s=grace_s)
    assert sorted(meta.path for meta in maker.store.list()) == before


def test_a_damaged_record_is_told():
    table = busy_table(6, TableType.COPY_ON_WRITE)
    table.store.put(PATH, b"{")
    with pytest.raises(HaloclineError, match="cannot be read"):
        move(table.store, 8)


def test_content_is_the_same_whatever_the_order():
    table = busy_table(8, TableType.MERGE_ON_READ)
    before = content(table.snapshot)
    assert before.rows == len(rows(table.store))
    table.upsert([1], 5000, "changed")
    assert content(table.snapshot).digest != before.digest
