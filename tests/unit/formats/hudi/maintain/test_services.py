"""Cleaning, archiving and clustering change files and instants, never rows; locks let one in at a time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from functools import cache

import pytest
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.hudi_tables import KINDS, HudiTableMaker, shown
from tests.support.hudi_tables import rows as made_rows

from halocline.errors import ConflictError, InputError, NotFoundError, UnavailableError, UnsupportedError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.maintain import compaction, running
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import CleaningPolicy, clean, plan_cleaning
from halocline.formats.hudi.maintain.clustering import (
    cancel_clustering,
    cluster,
    run_clustering,
    schedule_clustering,
)
from halocline.formats.hudi.maintain.compaction import compact, run_compaction, schedule_compaction
from halocline.formats.hudi.maintain.locks import LOCK_FILE, FileSystemLock
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import encode, properties
from halocline.formats.hudi.slices import data_files
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write import schemas
from halocline.formats.hudi.write.heartbeat import beating
from halocline.formats.hudi.write.metadata_table import METADATA_FOLDERS
from halocline.storage.base import Store
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore
from halocline.storage.process import process_space


@cache
def _long_lived(version: int, type: TableType) -> HudiTableMaker:
    """A table with many writes and, where there are log files, a compaction among them."""
    table = HudiTableMaker.create(MemoryStore(), version, type)
    table.upsert(range(6), 100, "a")
    for number in range(1, 6):
        table.upsert([number], 100 + number, f"u{number}-")
        if number == 3 and type is TableType.MERGE_ON_READ:
            compact(table.store)
    return table


def long_lived(version: int, type: TableType) -> HudiTableMaker:
    made, store = _long_lived(version, type), MemoryStore()
    for meta in made.store.list():
        store.put(meta.path, made.store.get(meta.path))
        store.set_modified(meta.path, meta.modified_ms)
    return HudiTableMaker(store, made.config, made.schema)


def rows(store: Store, **options: str) -> list[tuple[str, int, str]]:
    return shown(HudiSnapshot.load(store, **options).read())


def data(store: Store) -> set[str]:
    return {meta.path for meta in store.list() if not meta.path.startswith(".hoodie") and "_20" in meta.path}


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_cleaning_keeps_what_the_last_writes_need(version, type):
    table = long_lived(version, type)
    writes = [each.time for each in table.snapshot.timeline.writes]
    before, there = {time: rows(table.store, as_of=time) for time in writes[-3:]}, data(table.store)
    done = clean(table.store, keep=3)
    assert data(table.store) < there
    for time, expected in before.items():
        assert rows(table.store, as_of=time) == expected, time
    with pytest.raises(NotFoundError, match="cleaned"):
        HudiSnapshot.load(table.store, as_of=writes[0])
    assert clean(table.store, keep=3) is None, "nothing is left to clean"
    assert done.action == "clean"
    table.upsert([1], 900, "after")
    assert ("k1", 900, "after1") in rows(table.store)


def test_cleaning_removes_what_killed_writers_left_half_written(tmp_path):
    table = HudiTableMaker.create(LocalStore(tmp_path), 9, TableType.COPY_ON_WRITE)
    table.upsert([1], 100, "a")
    (tmp_path / "eu").mkdir(exist_ok=True)
    old, young, theirs = (tmp_path / "eu" / name for name in (".~halocline-0a.tmp", ".~halocline-0b.tmp", ".x.tmp"))
    for file in (old, young, theirs):
        file.write_bytes(b"1")
    for file in (old, theirs):
        os.utime(file, (1, 1))
    assert clean(table.store) is None, "there is nothing of the table to clean"
    assert (old.exists(), young.exists(), theirs.exists()) == (False, True, True)


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_cleaning_by_versions_keeps_the_newest_of_each_group(version, type):
    table = long_lived(version, type)
    before = rows(table.store)
    clean(table.store, policy=CleaningPolicy.VERSIONS, keep=1)
    assert rows(table.store) == before
    kept = {path for each in table.snapshot.slices for path in ([each.base.path] if each.base else [])}
    assert {path for path in data(table.store) if path.endswith(".parquet")} == kept


@pytest.mark.parametrize(("version", "type"), [(6, TableType.MERGE_ON_READ), (9, TableType.COPY_ON_WRITE)])
def test_a_cleaning_that_was_cut_short_is_finished(version, type):
    counted = FaultyStore(long_lived(version, type).store)
    clean(counted, keep=2)
    after = data(counted.inner)
    for number in range(1, sum(each.name in WRITES for each in counted.operations) + 1):
        table = long_lived(version, type)
        before = rows(table.store)
        with contextlib.suppress(CrashError):
            clean(FaultyStore(table.store).crash_after(number, on=WRITES), keep=2)
        assert rows(table.store) == before
        clean(table.store, keep=2)
        assert (data(table.store), rows(table.store)) == (after, before), f"after write {number}"


def test_cleaning_spares_what_a_savepoint_names_and_a_plan_is_to_rewrite():
    table = long_lived(8, TableType.MERGE_ON_READ)
    first = min(data(table.store))
    partition, _, name = first.rpartition("/")
    kept = {"partitionPath": partition, "savepointDataFile": [name]}
    said = {"savepointedBy": "me", "savepointedAt": 1, "comments": "", "partitionMetadata": {partition: kept}}
    time = table.snapshot.timeline.writes[0].time
    path = f".hoodie/timeline/{time}_{time}.savepoint"
    table.store.put(path, write_record(schemas.SAVEPOINT, said | {"version": 1}))
    plan = plan_cleaning(table.snapshot, CleaningPolicy.COMMITS, 1)
    assert first not in {path for paths in plan.files.values() for path in paths}
    table.store.delete(path)
    plan = plan_cleaning(table.snapshot, CleaningPolicy.COMMITS, 1)
    assert first in {path for paths in plan.files.values() for path in paths}


def test_nothing_can_be_kept_of_a_policy_that_is_not_there():
    with pytest.raises(InputError, match="cannot be kept"):
        clean(long_lived(8, TableType.COPY_ON_WRITE).store, keep=0)
    with pytest.raises(InputError, match="KEEP_ALL"):
        clean(long_lived(8, TableType.COPY_ON_WRITE).store, policy="KEEP_ALL")


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_archived_instants_stay_in_the_history_with_what_they_did(version, type):
    table = long_lived(version, type)
    before, writes = rows(table.store), [each.time for each in table.snapshot.timeline.writes]
    moved = archive(table.store, keep=2, at_most=3)
    assert [each.time for each in moved] == writes[: len(moved)]
    assert moved
    timeline = table.snapshot.timeline
    assert [each.time for each in timeline.history()] == [each.time for each in moved]
    assert all(each.body["partitionToWriteStats"] for each in timeline.history())
    assert [each.time for each in timeline.writes] == writes[len(moved) :]
    assert rows(table.store) == before
    assert shown(read_range(table.snapshot, "0").read()), "the history serves what lies before the active timeline"
    assert archive(table.store, keep=2, at_most=30) == ()
    table.upsert([1], 900, "after")
    assert ("k1", 900, "after1") in rows(table.store)


@pytest.mark.parametrize("version", [6, 9])
def test_what_was_completed_since_a_running_write_began_stays_where_it_is_compared_with(version):
    table = HudiTableMaker.create(MemoryStore(), version, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 100, "a")
    before, running = table.begin(), table.begin()
    stats = table.write(running, made_rows([1], 300, "c"))
    before.complete(table.write(before, made_rows([1], 200, "b")), schema=table.schema)
    for number in range(3):
        table.upsert([2], 400 + number, "d")
    archive(table.store, keep=1, at_most=1)
    with pytest.raises(ConflictError, match=f"{before.time} has changed file group"):
        running.complete(stats, schema=table.schema)


@pytest.mark.parametrize("version", [6, 9])
def test_archiving_cut_short_shows_every_instant_once(version):
    counted = FaultyStore(long_lived(version, TableType.COPY_ON_WRITE).store)
    archive(counted, keep=2, at_most=3)
    for number in range(1, sum(each.name in WRITES for each in counted.operations) + 1):
        table = long_lived(version, TableType.COPY_ON_WRITE)
        before, writes = rows(table.store), {each.time for each in table.snapshot.timeline.writes}
        with contextlib.suppress(CrashError):
            archive(FaultyStore(table.store).crash_after(number, on=WRITES), keep=2, at_most=3)
        for again in (False, True):
            if again:
                archive(table.store, keep=2, at_most=2)
            timeline = table.snapshot.timeline
            found = [*(each.time for each in timeline.history()), *(each.time for each in timeline.writes)]
            assert sorted(found) == sorted(writes), f"after write {number}, again: {again}"
            assert rows(table.store) == before


@pytest.mark.parametrize("version", [6, 9])
def test_an_archive_moves_with_its_table_and_comes_back(version):
    table = long_lived(version, TableType.COPY_ON_WRITE)
    archive(table.store, keep=2, at_most=3)
    before = [(each.time, each.action, each.completion, each.body) for each in table.snapshot.timeline.history()]
    assert before
    for stop in (9, 6, 8, version) if version == 6 else (6, 8, 9):
        apply_move(table.store, plan_move(table.store, stop), grace_s=0)
        found = [(each.time, each.action, each.completion) for each in table.snapshot.timeline.history()]
        assert found == [each[:3] for each in before], stop
    stats = [each.body["partitionToWriteStats"] for each in table.snapshot.timeline.history()]
    assert [sorted(each) for each in stats] == [sorted(each[3]["partitionToWriteStats"]) for each in before]


def test_many_archivings_are_merged_into_one_file():
    table = HudiTableMaker.create(MemoryStore(), 9, TableType.COPY_ON_WRITE)
    times = [table.upsert([1], number, "a") for number in range(24)]
    for kept in range(23, 1, -1):
        archive(table.store, keep=kept, at_most=kept)
    assert [each.time for each in table.snapshot.timeline.history()] == times[:22]
    files = [meta.path for meta in table.store.list(".hoodie/timeline/history") if meta.path.endswith(".parquet")]
    assert len([each for each in files if each.endswith("_1.parquet")]) >= 1
    assert len(files) < 22, files


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_clustering_puts_small_files_together_and_rows_keep_their_instants(version, type):
    table = HudiTableMaker.create(MemoryStore(), version, type)
    table.upsert(range(4), 100, "a")
    table.upsert(range(4, 8), 200, "b")
    table.upsert([1, 5], 300, "c", deletes=[2])
    before = rows(table.store)
    written = {(row["id"], row["_hoodie_commit_time"]) for each in table.snapshot.read() for row in each.to_pylist()}
    assert len(table.snapshot.slices) == 4
    requested = schedule_clustering(table.store, sort_by=["ts", "id"])
    assert schedule_clustering(table.store) is None, "groups of a pending plan are not planned again"
    assert rows(table.store) == before
    done = run_clustering(table.store, requested.time)
    assert (done.action, len(table.snapshot.slices), rows(table.store)) == ("replacecommit", 2, before)
    batches = [each.to_pylist() for each in table.snapshot.read()]
    assert {(row["id"], row["_hoodie_commit_time"]) for each in batches for row in each} == written
    assert all([row["ts"] for row in each] == sorted(row["ts"] for row in each) for each in batches)
    table.upsert([1, 3], 900, "after", deletes=[5])
    assert ("k1", 900, "after1") in rows(table.store)
    clean(table.store, keep=1)
    after = rows(table.store)
    archive(table.store, keep=1, at_most=1)
    assert rows(table.store) == after, "replaced files do not come back once the replace commit is archived"


def test_a_write_to_a_group_that_is_being_clustered_is_a_conflict(monkeypatch):
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 100, "a")
    table.upsert(range(4, 8), 200, "b")
    requested = schedule_clustering(table.store)
    real = run_clustering.__globals__["_check_untouched"]

    def meanwhile(*given):
        monkeypatch.setitem(run_clustering.__globals__, "_check_untouched", real)
        table.upsert([1], 900, "meanwhile")
        return real(*given)

    monkeypatch.setitem(run_clustering.__globals__, "_check_untouched", meanwhile)
    with pytest.raises(ConflictError, match="while it was clustered"):
        run_clustering(table.store, requested.time)
    before = rows(table.store)
    assert ("k1", 900, "meanwhile1") in before
    run_clustering(table.store, requested.time)
    assert (rows(table.store), len(table.snapshot.slices)) == (before, 2)


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_clustering_that_was_cut_short_is_run_again_by_the_next_one(version, type):
    def made() -> HudiTableMaker:
        table = HudiTableMaker.create(MemoryStore(), version, type)
        table.upsert(range(4), 100, "a")
        table.upsert(range(4, 8), 200, "b")
        return table

    counted = FaultyStore(made().store)
    cluster(counted)
    for number in range(1, counted.count + 1):
        table = made()
        before = rows(table.store)
        with contextlib.suppress(CrashError):
            cluster(FaultyStore(table.store).crash_after(number))
        assert rows(table.store) == before
        cluster(table.store)  # the last crashes come after the clustering is completed
        assert (rows(table.store), len(table.snapshot.slices)) == (before, 2), f"after {number} operations"
        assert table.snapshot.timeline.pending == frozenset()
        files = [each for each in data_files(table.store) if each.instant == table.snapshot.timeline.writes[-1].time]
        assert len(files) == 2, "nothing is left of the attempt"


@pytest.mark.parametrize("version", [6, 8])
def test_a_clustering_that_is_cancelled_lets_its_groups_be_written_to(version):
    table = HudiTableMaker.create(MemoryStore(), version, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 100, "a")
    table.upsert(range(4, 8), 200, "b")
    before = rows(table.store)
    requested = schedule_clustering(table.store)
    with beating(table.store, requested.time):
        for run in (run_clustering, cancel_clustering):
            with pytest.raises(ConflictError, match="somebody is running"):
                run(table.store, requested.time)
        assert cluster(table.store) is None, "what somebody else is at is left alone"
    assert cancel_clustering(table.store, requested.time).action == "rollback"
    assert (rows(table.store), table.snapshot.timeline.pending) == (before, frozenset())
    with pytest.raises(NotFoundError, match="no clustering"):
        cancel_clustering(table.store, requested.time)
    assert cluster(table.store) is not None


def test_a_compaction_that_somebody_runs_is_not_run_twice():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 200, "b")
    requested = schedule_compaction(table.store)
    with beating(table.store, requested.time):
        with pytest.raises(ConflictError, match="somebody is running"):
            run_compaction(table.store, requested.time)
        assert compact(table.store) == ()
    assert len(compact(table.store)) == 1


def test_of_two_that_find_a_compaction_that_nobody_runs_one_runs_it(monkeypatch):
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 200, "b")
    before, requested = rows(table.store), schedule_compaction(table.store)
    real, refused = running.is_alive, []

    def run() -> None:
        try:
            run_compaction(table.store, requested.time, lock=FileSystemLock(table.store))
        except ConflictError as error:
            refused.append(error)

    other = threading.Thread(target=run)

    def looks(store, instant):
        monkeypatch.setattr(running, "is_alive", real)
        found = real(store, instant)
        other.start()
        other.join(0.3)  # it would be completed by then
        return found

    monkeypatch.setattr(running, "is_alive", looks)
    run()
    other.join()
    assert (len(refused), rows(table.store), table.snapshot.timeline.pending) == (1, before, frozenset())


def test_a_compaction_that_somebody_has_just_completed_is_not_run_again(monkeypatch):
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 200, "b")
    before, requested = rows(table.store), schedule_compaction(table.store)
    real = compaction.retire_metadata_table

    def meanwhile(store, config):
        monkeypatch.setattr(compaction, "retire_metadata_table", real)
        run_compaction(table.store, requested.time)
        return real(store, config)

    monkeypatch.setattr(compaction, "retire_metadata_table", meanwhile)
    with pytest.raises(ConflictError, match="just completed"):
        run_compaction(table.store, requested.time)
    assert rows(table.store) == before


def test_nothing_is_planned_beside_a_log_compaction():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 200, "b")
    table.store.put(".hoodie/timeline/20990101000000000.logcompaction.requested", b"")
    for service in (compact, cluster):
        with pytest.raises(UnsupportedError, match=r"log compaction .* is pending"):
            service(table.store)


def test_a_lock_is_renewed_for_as_long_as_its_holder_lives():
    store = MemoryStore()
    with FileSystemLock(store, wait_s=0, expires_s=0.3):
        first = store.head(LOCK_FILE).etag
        late = FileSystemLock(store, wait_s=1.5, expires_s=0.3)
        with pytest.raises(UnavailableError) as told, late:
            pass
        assert store.head(LOCK_FILE).etag != first, "it was renewed"
    assert f"{process_space()}/{os.getpid()}/MainThread (halocline)" in str(told.value), "who holds it is said"
    with late:
        pass


def test_only_columns_of_the_table_are_sorted_by():
    with pytest.raises(InputError, match="nope"):
        cluster(long_lived(8, TableType.COPY_ON_WRITE).store, sort_by=["nope"])


def test_a_metadata_table_that_nobody_keeps_up_goes_before_the_first_write():
    table = long_lived(8, TableType.MERGE_ON_READ)
    pairs = {**properties(table.store), "hoodie.table.metadata.partitions": "files,column_stats"}
    table.store.put(".hoodie/hoodie.properties", encode(pairs, datetime(2026, 1, 1, tzinfo=UTC)))
    table.store.put(f"{METADATA_FOLDERS[0]}/.hoodie/hoodie.properties", b"x")
    compact(table.store)
    assert "hoodie.table.metadata.partitions" not in properties(table.store)
    assert not list(table.store.list(METADATA_FOLDERS[0]))


def test_one_holder_at_a_time():
    store, order, inside = MemoryStore(), [], threading.Lock()

    def work(number: int) -> None:
        with FileSystemLock(store, wait_s=30):
            assert inside.acquire(blocking=False), "two holders at once"
            order.append(number)
            inside.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(order) == list(range(8))
    assert not store.exists(LOCK_FILE)


def test_writers_that_share_a_lock_never_both_change_a_file_group():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 100, "a")
    done, refused = [], []

    def work(number: int) -> None:
        write = table.begin()
        stats = table.write(write, made_rows([1], 200 + number, f"w{number}-"))
        try:
            write.complete(stats, schema=table.schema, lock=FileSystemLock(table.store))
            done.append(number)
        except ConflictError:
            refused.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted([*done, *refused]) == [0, 1, 2, 3]
    times = [each.time for each in table.snapshot.timeline.instants]
    assert len(set(times)) == len(times), "no two instants of one time"
    assert next(row for row in rows(table.store) if row[0] == "k1")[1] in {200 + number for number in done}


def test_a_lock_of_a_process_of_this_machine_that_has_died_is_taken_over_at_once():
    store = MemoryStore()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for holder, is_free in (
        (f"{process_space()}/{gone.pid}/MainThread", True),
        (f"elsewhere/{gone.pid}/x", False),
    ):
        store.put(LOCK_FILE, json.dumps({"lockThreadName": holder}).encode())
        lock = FileSystemLock(store, wait_s=0, expires_s=900)
        with contextlib.nullcontext() if is_free else pytest.raises(UnavailableError, match=holder), lock:
            pass


def test_a_lock_of_a_killed_process_that_nobody_has_asked_for_is_taken_over_at_once(unreaped):
    store = MemoryStore()
    store.put(LOCK_FILE, json.dumps({"lockThreadName": f"{process_space()}/{unreaped}/MainThread"}).encode())
    with FileSystemLock(store, wait_s=0, expires_s=900):
        pass


def test_a_lock_that_nobody_gives_back_is_waited_for_and_expires():
    store = MemoryStore()
    FileSystemLock(store).__enter__()
    with pytest.raises(UnavailableError, match="another writer"), FileSystemLock(store, wait_s=0):
        pass
    store.set_modified(LOCK_FILE, 0)
    with FileSystemLock(store, wait_s=0, expires_s=60):
        late = FileSystemLock(store, wait_s=0, expires_s=60)
        with pytest.raises(UnavailableError):
            late.__enter__()
    assert not store.exists(LOCK_FILE)


def test_a_lock_that_was_taken_over_is_told():
    store = MemoryStore()
    first = FileSystemLock(store)
    first.__enter__()
    store.set_modified(LOCK_FILE, 0)
    with FileSystemLock(store, wait_s=0, expires_s=60), pytest.raises(ConflictError, match="expired"):
        first.__exit__(None, None, None)
