"""Compaction merges log files by the rule that readers merge by, and loses nothing that is written meanwhile."""

import contextlib

import pytest
from tests.support.faulty_store import CrashError, FaultyStore
from tests.support.hudi_tables import HudiTableMaker, shown

from halocline.errors import ConflictError, UnsupportedError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain import compaction
from halocline.formats.hudi.maintain.compaction import compact, run_compaction, schedule_compaction
from halocline.storage.memory import MemoryStore

VERSIONS = (6, 8, 9)


def with_logs(version: int) -> HudiTableMaker:
    table = HudiTableMaker.create(MemoryStore(), version, TableType.MERGE_ON_READ)
    table.upsert(range(6), 100, "a")
    table.upsert([1, 2], 200, "b", deletes=[3])
    table.upsert([2], 150, "late")
    return table


def logs(table: HudiTableMaker) -> int:
    return sum(len(each.logs) for each in table.snapshot.slices)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_the_same_without_log_files(version):
    table = with_logs(version)
    before, times = shown(table.snapshot.read()), [each.time for each in table.snapshot.timeline.writes]
    (done,) = compact(table.store)
    assert (logs(table), shown(table.snapshot.read())) == (0, before)
    assert shown(table.snapshot.read(query="read_optimized")) == before
    written = {row["_hoodie_commit_time"] for batch in table.snapshot.read() for row in batch.to_pylist()}
    assert written <= set(times), "rows keep the write that brought them"
    assert done.action == "commit"
    assert table.snapshot.timeline.commit_metadata(done).operation_type == "COMPACT"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_written_while_it_is_pending_stays(version):
    table = with_logs(version)
    requested = schedule_compaction(table.store)
    table.upsert([1, 8], 300, "meanwhile", deletes=[4])
    before = shown(table.snapshot.read())
    assert schedule_compaction(table.store) is None, "groups of a pending plan are not planned again"
    run_compaction(table.store, requested.time)
    assert shown(table.snapshot.read()) == before
    table.upsert([2], 400, "after")
    assert ("k2", 400, "after2") in shown(table.snapshot.read())
    before = shown(table.snapshot.read())
    compact(table.store)
    assert (logs(table), shown(table.snapshot.read())) == (0, before)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_crash_at_every_step_leaves_the_rows_and_a_compaction_that_can_be_run_again(version):
    counted = FaultyStore(with_logs(version).store)
    compact(counted)
    for number in range(1, counted.count + 1):
        table = with_logs(version)
        before = shown(table.snapshot.read())
        with contextlib.suppress(CrashError):
            compact(FaultyStore(table.store).crash_after(number))
        assert shown(table.snapshot.read()) == before, f"after operation {number}"
        compact(table.store)
        assert (logs(table), shown(table.snapshot.read())) == (0, before), f"again after operation {number}"
        names = [path.rpartition("/")[2] for path in (meta.path for meta in table.store.list()) if "parquet" in path]
        assert len({(name.split("_")[0], name.split("_")[2]) for name in names}) == len(names), names


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_that_comes_while_it_is_planned_is_planned_as_well(version, monkeypatch):
    table = with_logs(version)
    real = compaction.put_requested

    def meanwhile(*given):
        monkeypatch.setattr(compaction, "put_requested", real)
        table.upsert([1], 900, "meanwhile")
        return real(*given)

    monkeypatch.setattr(compaction, "put_requested", meanwhile)
    compact(table.store)
    assert (logs(table), ("k1", 900, "meanwhile1") in shown(table.snapshot.read())) == (0, True)


def test_only_what_is_wanted_is_merged():
    table = with_logs(8)
    compact(table.store, wanted=lambda slice: slice.partition == "eu")
    assert {each.partition for each in table.snapshot.slices if each.logs} == {"ap"}


def test_nothing_is_scheduled_beside_a_write_that_may_still_append_to_the_slices():
    table = with_logs(6)
    table.begin()
    with pytest.raises(ConflictError, match="under way"):
        schedule_compaction(table.store)


def test_a_table_without_log_files_by_its_type_is_refused():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    with pytest.raises(UnsupportedError, match="no log files"):
        schedule_compaction(table.store)
