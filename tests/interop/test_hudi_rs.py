"""One Hudi table, two clients: what is written here, hudi-rs reads row for row."""

from importlib.metadata import version as installed

import pytest
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder
from tests.support.hudi_tables import KINDS, HudiTableMaker, rows, shown

from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write.rollback import roll_back
from halocline.storage import open_store


def theirs(path, options: HudiReadOptions | None = None) -> list[tuple[str, int, str]]:
    return shown(HudiTableBuilder.from_base_uri(str(path)).build().read(options or HudiReadOptions()))


def test_release_under_test_is_the_one_that_the_facts_are_about():
    assert installed("hudi") == "0.5.0"


@pytest.mark.parametrize("fields", [["region"], []], ids=["partitioned", "plain"])
@pytest.mark.parametrize(("version", "type"), KINDS)
def test_they_read_what_we_write(tmp_path, version, type, fields):
    table = HudiTableMaker.create(open_store(tmp_path), version, type, partition_fields=fields, hive_style=bool(fields))
    first = table.upsert(range(6), 100, "a")
    second = table.upsert([1, 2, 7], 200, "b", deletes=[3])
    table.upsert([2], 150, "late")

    assert theirs(tmp_path) == shown(table.snapshot.read()), "snapshot"
    for time in (first, second):
        ours = shown(HudiSnapshot.load(table.store, as_of=time).read())
        assert theirs(tmp_path, HudiReadOptions().with_as_of_timestamp(time)) == ours, f"as of {time}"
    begin = first if version == 6 else table.snapshot.timeline.completion_of(first)
    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
    assert theirs(tmp_path, options) == shown(read_range(table.snapshot, begin).read()), "incremental"


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_they_see_neither_unfinished_writes_nor_those_taken_back(tmp_path, version, type):
    table = HudiTableMaker.create(open_store(tmp_path), version, type)
    table.upsert(range(4), 100, "a")
    before = theirs(tmp_path)
    failed = table.begin()
    table.write(failed, rows([1, 9], 200, "lost"), deletes=[2])
    assert theirs(tmp_path) == before
    roll_back(table.store, table.config, failed.instant)
    assert theirs(tmp_path) == before
    table.upsert([1], 300, "c")
    assert theirs(tmp_path) == shown(table.snapshot.read())
