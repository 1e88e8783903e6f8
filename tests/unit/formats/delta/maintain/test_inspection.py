"""Inspecting tables: also those that this release may not read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.commit_builders import add, metadata
from tests.support.faulty_store import FaultyStore

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import CommitInfo, Metadata, ProtocolAction, encode_commit
from halocline.formats.delta.maintain.inspection import inspect
from halocline.formats.delta.snapshot.writers import writers
from halocline.formats.log.names import DELTA
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore


def info(engine=None, timestamp=None, **more) -> CommitInfo:
    told = {"operation": "WRITE", "engineInfo": engine, "timestamp": timestamp, **more}
    return CommitInfo({key: value for key, value in told.items() if value is not None})


def table(protocol: ProtocolAction | None, *commits, **configuration) -> MemoryStore:
    store = MemoryStore()
    head = [metadata(**configuration)] if protocol is None else [protocol, metadata(**configuration)]
    for version, actions in enumerate([head, *commits]):
        store.put(DELTA.commit_path(version), encode_commit(actions))
    return store


def test_a_plain_table_is_told_in_full():
    store = table(ProtocolAction(1, 4), [info("delta-rs:py-1.6.6", 5), add("a"), add("b")], appendOnly="true")
    found = inspect(store)
    assert (found.version, found.files, found.size, str(found.protocol)) == (1, 2, 200, "(1,4)")
    told = found.to_dict()
    assert told["enabled"] == ["appendOnly"]
    assert told["supported"] == ["appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants"]
    assert found.findings == ()
    assert told["writtenBy"] == [{"release": "deltalake@1.6.6", "commits": 1, "lastVersion": 1, "lastSeen": 5}]


@pytest.mark.parametrize(
    ("protocol", "shown", "reason"),
    [
        (ProtocolAction(99, 7, [], []), "(99,7|R:|W:)", "READER_TOO_OLD"),
        (ProtocolAction(3, 7, ["shiny"], ["shiny"]), "(3,7|R: shiny|W: shiny)", "READER_TOO_OLD"),
        (
            ProtocolAction(1, 7, ["deletionVectors"], ["deletionVectors"]),
            "(1,7|R: deletionVectors|W: deletionVectors)",
            "MALFORMED_PROTOCOL",
        ),
        (None, "(1,1)", "MALFORMED_LOG"),
    ],
    ids=["a newer version", "an unknown feature", "a contradiction", "no protocol"],
)
def test_a_table_that_may_not_be_read_is_told_without_its_files(protocol, shown, reason):
    found = inspect(table(protocol, [info("Apache-Spark/4.0.0 Delta-Lake/4.0.0"), add("a")]))
    assert str(found.protocol) == shown
    assert (found.files, found.size) == (None, None)
    assert found.uncounted.startswith(reason)
    assert [str(each.release) for each in found.writers.observed] == ["delta-spark@4.0.0"]
    assert found.findings


def test_a_checksum_that_contradicts_the_log_is_among_the_findings():
    store = table(ProtocolAction(1, 2), [add("a")])
    store.put("_delta_log/00000000000000000001.crc", b"{}")
    assert [finding.code for finding in inspect(store).findings] == ["CHECKSUM_UNREADABLE"]


def test_an_earlier_version_can_be_inspected():
    store = table(ProtocolAction(1, 2), [info(), add("a")], [info(), add("b"), ProtocolAction(1, 3)])
    assert (str(inspect(store, 1).protocol), inspect(store, 1).files) == ("(1,2)", 1)
    assert (str(inspect(store).protocol), inspect(store).files) == ("(1,3)", 2)


def test_writers_are_counted_and_the_busiest_comes_first():
    spark, rust = "Apache-Spark/3.5.0 Delta-Lake/3.2.0", "delta-rs:py-0.25.5"
    commits = [[info(spark, 10)], [info(rust, 20)], [info(spark, 30)], [info(None, 40)], [info("something else")]]
    found = writers(table(ProtocolAction(1, 2), *commits))
    assert [(str(each.release), each.commits, each.last_version, each.last_ms) for each in found.observed] == [
        ("delta-spark@3.2.0", 2, 3, 30),
        ("deltalake@0.25.5", 1, 2, 20),
    ]
    assert found.unnamed == 3, "the first commit, the one without a name and the one that names no release"


def test_in_commit_timestamps_come_before_the_writers_clock():
    store = table(ProtocolAction(1, 2), [info("delta-rs:py-1.6.6", 5, inCommitTimestamp=9)])
    assert writers(store).observed[0].last_ms == 9


def test_commits_without_a_time_have_that_of_their_file():
    store = table(ProtocolAction(1, 2), [info("delta-rs:py-1.6.6")])
    assert writers(store).observed[0].last_ms == store.head(DELTA.commit_path(1)).modified_ms


def test_commits_that_cleanup_takes_meanwhile_are_left_out():
    store = table(ProtocolAction(1, 2), *([info("delta-rs:py-1.6.6", at)] for at in range(4)))

    class Cleaning(FaultyStore):
        def list(self, prefix="", *, start_after=None, follow_links=True):
            listed = list(super().list(prefix, start_after=start_after))
            store.delete(DELTA.commit_path(1))
            return iter(listed)

    assert writers(Cleaning(store)).observed[0].commits == 3


def test_no_table_and_a_damaged_log_are_typed_errors():
    with pytest.raises(NotFoundError) as missing:
        inspect(MemoryStore())
    assert missing.value.condition == "TABLE_NOT_FOUND"
    with pytest.raises(MalformedError):
        inspect(_without_metadata())


def _without_metadata() -> MemoryStore:
    store = MemoryStore()
    store.put(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 2)]))
    return store


def test_metadata_without_a_schema_is_a_table_without_columns():
    store = MemoryStore()
    store.put(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 2), Metadata("1")]))
    assert inspect(store).files == 0


def test_what_deltalake_wrote_is_recognised(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    for mode in ("error", "append", "append"):
        deltalake.write_deltalake(tmp_path / "orders", pa.table({"id": [1]}), mode=mode)
    found = inspect(open_store(str(tmp_path / "orders")))
    assert [(str(each.release), each.commits) for each in found.writers.observed] == [
        (f"deltalake@{deltalake.__version__}", 3)
    ]
    assert found.files == 3
