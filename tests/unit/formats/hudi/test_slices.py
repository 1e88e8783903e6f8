"""Files become the slices that the table version says, and files that did not take effect become none."""

import json

import pytest

from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.names import BaseFile, LogFile, base_file_name, log_file_name, parse_data_file
from halocline.formats.hudi.slices import FileGroup, data_files, file_groups
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.storage.memory import MemoryStore


def groups_of(version: int, instants: list[str], files: list[str], body: bytes = b"{}") -> list[FileGroup]:
    store = MemoryStore()
    folder = ".hoodie/timeline" if version >= 8 else ".hoodie"
    for name in instants:
        store.put(f"{folder}/{name}", body)
    for name in files:
        store.put(name, b"")
    pairs = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": str(version)}
    timeline = HudiTimeline.load(store, HudiTableConfig.parse(pairs, "t"))
    return file_groups(timeline, data_files(store))


def shown(group: FileGroup, as_of: str | None = None) -> tuple[str | None, list[str]] | None:
    found = group.slice_at(as_of)
    if found is None:
        return None
    return found.base and found.base.instant, [f"{log.instant}.{log.version}" for log in found.logs]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a-0_1-2-3_10.parquet", BaseFile("a-0_1-2-3_10.parquet", "", "a-0", "10", "1-2-3", "parquet")),
        ("x=1/y/a-0_1-2-3_10.orc", BaseFile("x=1/y/a-0_1-2-3_10.orc", "x=1/y", "a-0", "10", "1-2-3", "orc")),
        ("p/.a-0_10.log.2_1-2-3", LogFile("p/.a-0_10.log.2_1-2-3", "p", "a-0", "10", 2, "1-2-3")),
        (".a-0_10.log.1_1-2-3.cdc", LogFile(".a-0_10.log.1_1-2-3.cdc", "", "a-0", "10", 1, "1-2-3", True)),
        (".a_b_10.log.1", LogFile(".a_b_10.log.1", "", "a_b", "10", 1)),
        ("..a-0_10.log.2_1-2-3.crc", None),
        (".a-0_1-2-3_10.parquet.crc", None),
        (".hoodie_partition_metadata", None),
        ("part-0000.snappy.parquet", None),
        ("a-0_1-2-3_10_1.log.parquet", None),
    ],
)
def test_names_say_what_a_file_is(path, expected):
    assert parse_data_file(path) == expected


def test_names_are_written_as_they_are_read():
    for name in ("a-0_1-2-3_10.parquet", ".a-0_10.log.2_1-2-3"):
        found = parse_data_file(name)
        again = (
            base_file_name(found.file_id, found.token, found.instant)
            if isinstance(found, BaseFile)
            else log_file_name(found.file_id, found.instant, found.version, found.token)
        )
        assert again == name


def test_files_of_the_timeline_are_no_data_files():
    (group,) = groups_of(
        6, ["10.commit"], ["a_1_10.parquet", ".hoodie/metadata/files/b_1_10.parquet", ".hoodie_partition_metadata"]
    )
    assert group.file_id == "a"


def test_layout_1_puts_a_log_file_where_its_name_says():
    instants = ["10.deltacommit", "20.deltacommit", "30.commit", "40.deltacommit"]
    files = ["a_1_10.parquet", ".a_10.log.2_0-0-2", ".a_10.log.1_0-0-1", "a_1_30.parquet", ".a_30.log.1_0-0-1"]
    (group,) = groups_of(6, instants, files)
    assert shown(group) == ("30", ["30.1"])
    assert shown(group, "29") == ("10", ["10.1", "10.2"])
    assert shown(group, "09") is None


def test_versions_of_log_files_count_as_numbers():
    (group,) = groups_of(6, ["10.commit"], ["a_1_10.parquet", ".a_10.log.10_0-0-1", ".a_10.log.9_0-0-1"])
    assert shown(group) == ("10", ["10.9", "10.10"])


def test_a_slice_without_a_base_file_continues_the_one_before_it():
    instants = ["10.commit", "20.compaction.requested", "30.deltacommit"]
    files = ["a_1_10.parquet", ".a_10.log.1_0-0-1", "a_1_20.parquet", ".a_20.log.1_0-0-1"]
    (group,) = groups_of(6, instants, files)
    assert shown(group) == ("10", ["10.1", "20.1"]), "the base file of the pending compaction does not count"
    (done,) = groups_of(6, [*instants, "20.commit"], files)
    assert shown(done) == ("20", ["20.1"])


def test_base_files_of_failed_writes_do_not_count():
    assert groups_of(6, ["10.commit", "20.inflight"], ["b_1_20.parquet"]) == []
    (group,) = groups_of(6, ["10.commit", "20.inflight"], ["a_1_10.parquet", "a_1_20.parquet"])
    assert shown(group) == ("10", [])


def test_archived_writes_count():
    (group,) = groups_of(6, ["10.commit"], ["a_1_05.parquet", "a_1_10.parquet"])
    assert [each.instant for each in group.slices] == ["05", "10"]


def test_layout_2_puts_a_log_file_on_the_slice_that_was_there_when_its_write_ended():
    instants = ["10_11.deltacommit", "15_35.deltacommit", "20_22.deltacommit", "30_40.commit", "50_51.deltacommit"]
    files = ["a_1_10.parquet", "a_1_30.parquet", *(f".a_{time}.log.1_0-0-1" for time in (15, 20, 50))]
    (group,) = groups_of(8, instants, files)
    assert shown(group) == ("30", ["15.1", "50.1"])
    assert shown(group, "29") == ("10", ["20.1"])


def test_layout_2_leaves_out_log_files_of_failed_writes():
    (group,) = groups_of(8, ["10_11.deltacommit", "20.deltacommit.inflight"], ["a_1_10.parquet", ".a_20.log.1_0-0-1"])
    assert shown(group) == ("10", [])


def test_layout_2_makes_a_slice_of_log_files_alone():
    files = [".a_20.log.1_0-0-1", ".a_10.log.1_0-0-1"]
    (group,) = groups_of(8, ["10_11.deltacommit", "20_21.deltacommit"], files)
    assert shown(group) == (None, ["10.1", "20.1"])
    assert [each.instant for each in group.slices] == ["10"]


def test_log_files_from_before_a_move_to_layout_2_are_known_by_their_slice():
    instants = ["10_11.deltacommit", "20.compaction.requested", "30_31.deltacommit", "40_41.deltacommit"]
    files = ["a_1_10.parquet", ".a_10.log.1_0-0-1", ".a_20.log.1_0-0-1", ".a_40.log.1_0-0-1"]
    (group,) = groups_of(8, instants, files)
    assert shown(group) == ("10", ["10.1", "20.1", "40.1"])


def test_of_two_attempts_the_one_that_the_commit_names_counts():
    files = ["a_0-1-1_10.parquet", "a_0-1-2_10.parquet"]
    for kept in files:
        body = json.dumps({"partitionToWriteStats": {"": [{"fileId": "a", "path": kept}]}}).encode()
        (group,) = groups_of(6, ["10.commit"], files, body)
        assert group.base_at().path == kept


def test_groups_are_told_apart_by_partition_and_id():
    files = ["p/a_1_10.parquet", "q/a_1_10.parquet", "p/b_1_10.parquet"]
    found = groups_of(6, ["10.commit"], files)
    assert [(each.partition, each.file_id) for each in found] == [("p", "a"), ("p", "b"), ("q", "a")]


def test_change_data_is_no_part_of_a_slice():
    (group,) = groups_of(6, ["10.commit"], ["a_1_10.parquet", ".a_10.log.1_0-0-1.cdc"])
    assert shown(group) == ("10", [])


LATE = ["10.commit", "10.commit.requested", "10.inflight"]


def body_naming(*paths: str) -> bytes:
    stats = [{"fileId": path.split("_")[0], "path": path} for path in paths]
    return json.dumps({"partitionToWriteStats": {"": stats}, "operationType": "INSERT"}).encode()


@pytest.mark.parametrize("version", [6, 8])
def test_the_file_of_an_attempt_that_was_late_is_no_group_of_its_own(version):
    names = LATE if version == 6 else ["10_11.commit", "10.commit.requested", "10.commit.inflight"]
    counts = ["a-0_0-5-7_10.parquet", "b-0_1-5-8_10.parquet", "c-0_0-6-9_10.parquet"]
    groups = groups_of(version, names, [*counts, "late-0_1-5-9_10.parquet"], body_naming(*counts))
    assert [each.file_id for each in groups] == ["a-0", "b-0", "c-0"], "tasks of other stages are no attempts"


def test_files_of_one_attempt_count_all_and_nothing_is_left_out_where_the_commit_names_none():
    several = ["a-0_0-5-7_10.parquet", "b-0_0-5-7_10.parquet"]
    assert len(groups_of(6, LATE, several, b"not read")) == 2
    rivals = ["a-0_0-5-7_10.parquet", "b-0_0-5-8_10.parquet"]
    assert len(groups_of(6, LATE, rivals, body_naming("c-0_1-5-9_10.parquet"))) == 2
