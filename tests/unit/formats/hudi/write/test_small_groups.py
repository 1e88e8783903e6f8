"""Which file groups take new rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.hudi_tables import HudiTableMaker

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.write.small_groups import FULL, room_in_groups, row_size
from halocline.storage import open_store

LIMIT = 100 * 1024 * 1024


def made(path: Path, type: TableType) -> HudiTableMaker:
    maker = HudiTableMaker.create(open_store(path), 8, type)
    maker.upsert(range(4), 100, "a")
    maker.upsert([5, 7, 9], 100, "b")  # a second group of the one partition
    return maker


def room(maker: HudiTableMaker, limit: int = LIMIT, rows: int = 1000, **more) -> dict[str, list[tuple[str, int]]]:
    snapshot = maker.snapshot
    found = room_in_groups(snapshot, snapshot.slices, limit, rows, **more)
    return {path: [(snapshot.slices[number].file_id, rows) for number, rows in each] for path, each in found.items()}


def test_every_small_base_file_takes_rows_and_the_smallest_first(tmp_path):
    maker = made(tmp_path, TableType.COPY_ON_WRITE)
    sizes = {each.file_id: each.base.size for each in maker.snapshot.slices}
    found = room(maker, rows=100_000)
    assert {path: len(each) for path, each in found.items()} == {"ap": 1, "eu": 2}
    assert [sizes[each] for each, _ in found["eu"]] == sorted(sizes[each] for each, _ in found["eu"])
    taken = {file_id: rows for each in found.values() for file_id, rows in each}
    assert all(rows == min((FULL - sizes[each]) // 1024, 100_000 - sizes[each] // 1024) for each, rows in taken.items())


def test_nothing_takes_rows_that_is_not_below_the_limit_or_is_full_or_is_being_served(tmp_path):
    maker = made(tmp_path, TableType.COPY_ON_WRITE)
    assert room(maker, limit=0) == {}
    assert room(maker, limit=min(each.base.size for each in maker.snapshot.slices)) == {}
    assert room(maker, rows=1) == {}, "a group that has as many rows as it may"
    served = {(each.partition, each.file_id) for each in maker.snapshot.slices if each.partition == "eu"}
    assert list(room(maker, taken=served)) == ["ap"]


def test_a_merge_on_read_table_has_one_such_group_per_partition_and_none_with_log_files(tmp_path):
    maker = made(tmp_path, TableType.MERGE_ON_READ)
    first = room(maker)
    assert {path: len(each) for path, each in first.items()} == {"ap": 1, "eu": 1}
    maker.upsert([0], 200, "c")
    assert list(room(maker)) == ["eu"], "the other group has a log file now"


@pytest.mark.parametrize("enough", [0, LIMIT])
def test_how_large_a_row_is_the_last_large_write_tells(tmp_path, enough):
    maker = made(tmp_path, TableType.COPY_ON_WRITE)
    write = maker.snapshot.timeline.writes[-1]
    ((_, stat),) = maker.snapshot.timeline.commit_metadata(write).stats
    assert row_size(maker.snapshot.timeline, enough) == (1024 if enough else stat.total_write_bytes // 3)
