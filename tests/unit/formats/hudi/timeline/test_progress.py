"""How far somebody has read a Hudi table is a set of writes: what is completed late is unread, whatever its time."""

import pytest
from tests.support.hudi_tables import HudiTableMaker, rows

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.timeline.progress import ReadProgress
from halocline.storage.memory import MemoryStore

VERSIONS = (6, 8, 9)


def timeline(table: HudiTableMaker):
    return table.snapshot.timeline


def table_of(version: int, writes: int) -> HudiTableMaker:
    table = HudiTableMaker.create(MemoryStore(), version, TableType.COPY_ON_WRITE)
    for number in range(writes):
        table.upsert([number % 4], 100 + number, "a")
    return table


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_that_is_completed_after_a_later_one_is_unread(version):
    table = table_of(version, 1)
    slow = table.begin()
    stats = table.write(slow, rows([8], 500, "slow"))
    table.upsert([9], 600, "fast")
    progress = ReadProgress.at(timeline(table))
    assert progress.pending == {slow.time}
    assert progress.is_whole(timeline(table))
    slow.complete(stats, schema=table.schema)
    assert [each.time for each in progress.unread(timeline(table))] == [slow.time]
    assert not progress.is_whole(timeline(table))


@pytest.mark.parametrize("version", VERSIONS)
def test_archiving_leaves_a_progress_as_it_is_and_a_write_that_was_archived_unseen_is_missed(version):
    table = table_of(version, 6)
    progress = ReadProgress.at(timeline(table))
    oldest = timeline(table).writes[0].time
    unseen = ReadProgress(progress.completed - {oldest}, frozenset({oldest}))
    assert archive(table.store, keep=2, at_most=3)
    assert progress.is_whole(timeline(table))
    assert progress.taken_back(timeline(table)) == frozenset()
    assert unseen.missed(timeline(table)) == {oldest}
    assert not unseen.is_whole(timeline(table))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_that_was_taken_back_is_told(version):
    table = table_of(version, 3)
    progress = ReadProgress.at(timeline(table))
    last = timeline(table).writes[-1]
    table.store.delete(last.path)
    assert progress.taken_back(timeline(table)) == {last.time}
    assert not progress.is_whole(timeline(table))
    assert progress.shares_write(timeline(table)), "it still is the same table"


@pytest.mark.parametrize("version", VERSIONS)
def test_two_tables_share_no_write_and_one_shares_its_writes_with_its_history(version):
    table, other = table_of(version, 2), table_of(version, 2)
    progress = ReadProgress.at(timeline(table))
    for number in range(6):
        table.upsert([number % 4], 200 + number, "b")
    assert archive(table.store, keep=2, at_most=3)
    assert progress.completed.isdisjoint(each.time for each in timeline(table).writes)
    assert progress.shares_write(timeline(table))
    assert not progress.shares_write(timeline(other))


def test_times_that_every_bootstrapped_table_has_identify_none():
    table = HudiTableMaker.create(MemoryStore(), 6, TableType.COPY_ON_WRITE)
    table.store.put(".hoodie/00000000000002.commit", b"{}")
    progress = ReadProgress.at(timeline(table))
    assert progress.completed == {"00000000000002"}
    assert progress.own_times == frozenset()
    assert not progress.shares_write(timeline(table))
