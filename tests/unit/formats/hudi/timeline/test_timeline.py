"""The timeline tells what took effect from what did not, in both layouts and in a mix of them."""

import json

import pytest

from halocline.errors import MalformedError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.timeline.timeline import HudiTimeline, active_writes
from halocline.storage.memory import MemoryStore

FILES = {
    6: [
        ".hoodie/.aux/x",
        ".hoodie/20250101000000000.commit",
        ".hoodie/20250101000000000.commit.requested",
        ".hoodie/20250101000000000.inflight",
        ".hoodie/20250102000000.deltacommit",
        ".hoodie/20250103000000000.deltacommit.inflight",
        ".hoodie/archived/.commits_.archive.1_1-0-1",
        ".hoodie/hoodie.properties",
        ".hoodie/metadata/.hoodie/20240101000000000.deltacommit",
    ],
    8: [
        ".hoodie/.temp/20250101000000000/MARKERS0",
        ".hoodie/hoodie.properties",
        ".hoodie/metadata/.hoodie/timeline/20240101000000000_20240101000000001.deltacommit",
        ".hoodie/timeline/20250101000000000.commit.requested",
        ".hoodie/timeline/20250101000000000.inflight",
        ".hoodie/timeline/20250101000000000_20250101000000900.commit",
        ".hoodie/timeline/20250102000000_20250102000001.deltacommit",
        ".hoodie/timeline/20250103000000000.deltacommit.inflight",
        ".hoodie/timeline/history/manifest_1",
    ],
}


def loaded(version: int, names: list[str], body: bytes = b"{}", **pairs: str) -> HudiTimeline:
    store = MemoryStore()
    for name in names:
        store.put(name, body)
    whole = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": str(version)}
    return HudiTimeline.load(store, HudiTableConfig.parse({**whole, **pairs}, "t"))


def texts(timeline: HudiTimeline) -> list[str]:
    return [str(each) for each in timeline.instants]


@pytest.mark.parametrize("version", FILES)
def test_each_instant_stands_in_its_furthest_state(version):
    found = loaded(version, FILES[version])
    assert texts(found) == [
        "20250101000000000.commit",
        "20250102000000.deltacommit",
        "20250103000000000.deltacommit.inflight",
    ]
    assert found.pending == {"20250103000000000"}
    assert [each.time for each in found.writes] == ["20250101000000000", "20250102000000"]


@pytest.mark.parametrize("version", FILES)
def test_writes_are_found_without_knowing_what_the_table_is(version):
    found = active_writes(loaded(version, FILES[version]).store)
    assert [(each.time, each.action) for each in found] == [
        ("20250101000000000", "commit"),
        ("20250102000000", "deltacommit"),
    ]
    assert all(each.written_ms > 0 for each in found)


def test_a_compaction_is_pending_until_its_commit_is_there():
    plan, begun = ".hoodie/20250101000000005.compaction.requested", ".hoodie/20250101000000005.compaction.inflight"
    assert loaded(6, [plan, begun]).pending_compactions == {"20250101000000005"}
    done = loaded(6, [plan, begun, ".hoodie/20250101000000005.commit"])
    assert (texts(done), done.pending_compactions, done.pending) == (["20250101000000005.commit"], set(), set())


def test_a_clustering_of_layout_2_ends_as_a_replace_commit():
    names = ["20250101000000005.clustering.requested", "20250101000000005_20250101000000009.replacecommit"]
    assert texts(loaded(8, [f".hoodie/timeline/{name}" for name in names])) == ["20250101000000005.replacecommit"]


def test_layout_2_is_in_order_of_completion():
    names = ["20250101000000001_20250101000000009.commit", "20250101000000002_20250101000000003.commit"]
    found = loaded(8, [f".hoodie/timeline/{name}" for name in names])
    assert [each.time for each in found.writes] == ["20250101000000002", "20250101000000001"]


def test_what_is_older_than_the_active_timeline_was_completed_unless_it_is_pending():
    found = loaded(
        6,
        [
            ".hoodie/20250101000000001.savepoint",
            ".hoodie/20250101000000001.commit",
            ".hoodie/20250101000000003.deltacommit.inflight",
            ".hoodie/20250101000000005.commit",
            ".hoodie/20250101000000007.commit.requested",
        ],
    )
    assert found.start == "20250101000000005"
    committed = {time: f"2025010100000000{time}" in found.committed for time in range(9)}
    assert committed == {0: True, 1: True, 2: True, 3: False, 4: True, 5: True, 6: False, 7: False, 8: False}


def test_without_any_write_nothing_is_committed():
    found = loaded(8, [".hoodie/timeline/20250101000000005.commit.requested"])
    assert (found.start, "20250101000000001" in found.committed) == (None, False)


def test_older_instants_count_below_the_watermark_and_take_effect_when_their_file_was_written():
    names = [
        ".hoodie/20250101000000001.commit",
        ".hoodie/20250101000000004.commit",
        ".hoodie/20250101000000009.commit",
        ".hoodie/timeline/20250101000000004_20250101000000005.commit",
        ".hoodie/timeline/20250101000000007_20250101000000008.commit",
    ]
    plain = loaded(8, names)
    assert [each.time for each in plain.writes] == ["20250101000000004", "20250101000000007"]
    mixed = loaded(8, names, **{"hoodie.table.version.upgrade.commit.time": "20250101000000004"})
    assert {each.time: each.path for each in mixed.writes} == {
        "20250101000000001": ".hoodie/20250101000000001.commit",
        "20250101000000004": ".hoodie/timeline/20250101000000004_20250101000000005.commit",
        "20250101000000007": ".hoodie/timeline/20250101000000007_20250101000000008.commit",
    }
    assert mixed.completion_of("20250101000000001") > "20250101000000001"


def test_a_completed_instant_without_completion_time_is_taken_in_layout_2_as_well():
    found = loaded(8, [".hoodie/timeline/20990101000000001.commit"])
    assert found.completion_of("20990101000000001") == "20990101000000001", "never before it began"


def test_bodies_are_told_apart_by_their_first_bytes():
    schema = {"type": "record", "name": "r", "fields": [{"name": "operationType", "type": ["null", "string"]}]}
    for body in (
        b'{"operationType": "INSERT"}',
        b'\n {"operationType" : "INSERT", "new": 1}',
        write_record(schema, {"operationType": "INSERT"}),
    ):
        for version, name in ((6, ".hoodie/1.commit"), (8, ".hoodie/timeline/1_2.commit")):
            found = loaded(version, [name], body)
            assert found.commit_metadata(found.writes[0]).operation_type == "INSERT"


@pytest.mark.parametrize("body", [b"", b"\0\0", b'{"a"', b"Obj\x01", b'{"partitionToWriteStats": 5}', b"[1]"])
def test_torn_bodies_are_malformed(body):
    found = loaded(6, [".hoodie/1.commit"], body)
    with pytest.raises(MalformedError, match=r"\.hoodie/1\.commit"):
        found.commit_metadata(found.writes[0])


def test_groups_are_replaced_as_of_the_first_instant_that_says_so():
    body = json.dumps({"partitionToReplaceFileIds": {"p": ["a", "b"]}}).encode()
    found = loaded(6, [".hoodie/1.replacecommit", ".hoodie/2.replacecommit", ".hoodie/3.replacecommit.requested"], body)
    assert found.replaced_groups() == {("p", "a"): "1", ("p", "b"): "1"}
    assert found.replaced_groups(as_of="0") == {}
