"""Ranges that are read one after the other leave no write out, in whatever order writes are completed."""

from __future__ import annotations

import pytest
from tests.support.hudi_tables import KINDS, HudiTableMaker, rows, shown

from halocline.errors import ConflictError
from halocline.formats.hudi.change_data import read_changes
from halocline.formats.hudi.configuration import ChangeLogging, TableType
from halocline.formats.hudi.incremental import read_range, settled_time
from halocline.formats.hudi.maintain.clustering import run_clustering, schedule_clustering
from halocline.formats.hudi.write import instants
from halocline.formats.hudi.write.instants import put_completed, put_requested
from halocline.formats.hudi.write.times import next_time
from halocline.storage.memory import MemoryStore


def table_of(version: int, type: TableType, **options) -> HudiTableMaker:
    table = HudiTableMaker.create(MemoryStore(), version, type, **options)
    table.upsert([1], 100, "a")
    return table


def names(table: HudiTableMaker, *bounds: str | None) -> list[str]:
    return sorted(name for _, _, name in shown(read_range(table.snapshot, *bounds).read()))


@pytest.mark.parametrize("has_end", [True, False])
@pytest.mark.parametrize(("version", "type"), KINDS)
def test_ranges_one_after_the_other_bring_every_row_once_however_writes_are_completed(version, type, has_end):
    table = table_of(version, type)
    slow = table.begin()
    stats = table.write(slow, rows([2], 101, "slow"))
    table.upsert([3], 102, "fast")
    middle = settled_time(table.snapshot.timeline)
    first = names(table, None, middle if has_end else None)
    slow.complete(stats, schema=table.schema)
    table.upsert([4], 103, "last")
    assert sorted(first + names(table, middle)) == ["a1", "fast3", "last4", "slow2"]
    assert settled_time(table.snapshot.timeline) not in (middle, None)


def test_a_range_that_begins_or_ends_behind_a_write_under_way_is_refused():
    table = table_of(6, TableType.COPY_ON_WRITE, change_logging=ChangeLogging.OP_KEY_ONLY)
    before = table.snapshot.timeline.writes[0].time
    slow = table.begin()
    newest = table.upsert([3], 102, "fast")
    for read in (read_range, lambda *given: list(read_changes(*given))):
        for bounds in ((None, newest), (newest,), (before, newest)):
            with pytest.raises(ConflictError, match=slow.time) as refused:
                read(table.snapshot, *bounds)
            assert refused.value.condition == "RANGE_UNSETTLED"
            assert before in refused.value.next_step
    assert names(table, None, before) == ["a1"]
    assert names(table, before) == []
    slow.complete(table.write(slow, rows([2], 101, "slow")), schema=table.schema)
    assert names(table, before, newest) == ["fast3", "slow2"]


def test_a_clustering_under_way_holds_no_range_up():
    table = table_of(6, TableType.COPY_ON_WRITE)
    table.upsert([3], 102, "b")
    planned = schedule_clustering(table.store)
    assert planned is not None
    newest = table.upsert([2], 103, "c")
    assert settled_time(table.snapshot.timeline) == newest
    assert names(table) == ["a1", "b3", "c2"]
    run_clustering(table.store, planned.time)
    assert names(table) == ["a1", "b3", "c2"]
    assert names(table, newest) == []


@pytest.mark.parametrize("version", [6, 9])
def test_a_write_is_requested_behind_one_that_was_completed_while_its_time_was_chosen(version, monkeypatch):
    table = table_of(version, TableType.COPY_ON_WRITE)
    overtaking = []

    def chosen(timeline):
        """Another write is requested and completed before this one has put its request."""
        time = next_time(timeline)
        if not overtaking:
            overtaking.append(time)
            overtaking.extend(table.upsert([5], number, "faster") for number in (500, 501))
        return time

    config = table.snapshot.config
    with monkeypatch.context() as patched:
        patched.setattr(instants, "next_time", chosen)
        late = put_requested(table.store, config, "commit", b"")
    assert overtaking[0] < overtaking[2] < late.time
    assert [each.time for each in table.snapshot.timeline.instants if not each.is_completed] == [late.time]
    assert put_completed(table.store, config, late, b"{}").time == late.time
