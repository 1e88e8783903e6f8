"""Version checksums: right or absent."""

from __future__ import annotations

import json

import pytest
from tests.support.columns import field, schema
from tests.support.commit_builders import add, metadata, remove, vector

from halocline.formats.delta.actions.action import Add, Commit, Metadata, ProtocolAction, Remove, Txn, encode_commit
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log import checksum
from halocline.formats.delta.log.checksum import decode_summary, path_of, read_summary
from halocline.formats.delta.log.table_size import BOUNDARIES, TableSize, bin_of
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.storage.memory import MemoryStore


def created(**configuration) -> MemoryStore:
    store = MemoryStore()
    settings = {f"delta.{key}": value for key, value in configuration.items()}
    Transaction.create(store).commit((), "CREATE TABLE", configuration=new_table(schema("id"), (), settings))
    return store


def commit(store, *actions, operation: str = "WRITE", **options) -> int:
    return Transaction(Snapshot.load(store)).commit(actions, operation, **options)


def content(store, version: int) -> dict:
    return json.loads(store.get(path_of(version)))


def assert_right(store) -> None:
    """Every checksum that exists says what replaying the log says."""
    checked = 0
    for meta in store.list(DELTA.folder):
        if not meta.path.endswith(".crc"):
            continue
        checked += 1
        version = int(meta.path.rpartition("/")[2][:20])
        snapshot, found = Snapshot.load(store, version=version), content(store, version)
        assert (found["numFiles"], found["tableSizeBytes"]) == snapshot.totals, f"version {version}"
        assert Metadata.from_json(found["metadata"]) == snapshot.metadata
        assert found["protocol"]["minWriterVersion"] == snapshot.protocol.writer
        if "setTransactions" in found:
            assert {each["appId"]: each["version"] for each in found["setTransactions"]} == {
                name: txn.version for name, txn in snapshot.txns.items()
            }
        if "domainMetadata" in found:
            assert {each["domain"] for each in found["domainMetadata"]} == set(snapshot.domains)
        assert sum(found["fileSizeHistogram"]["fileCounts"]) == found["numFiles"]
        assert sum(found["fileSizeHistogram"]["totalBytes"]) == found["tableSizeBytes"]
    assert checked, "no checksum was written at all"


def test_every_commit_leaves_a_right_checksum():
    store = created(enableDeletionVectors="true")
    commit(store, add("a"), add("b"), Txn("etl", 1))
    commit(store, remove("a"), add("a", deletion_vector=vector(cardinality=4)), operation="DELETE")
    commit(store, remove("b"), add("c"), Txn("etl", 2), Txn("other", 9))
    assert_right(store)
    found = content(store, 3)
    assert (found["numDeletionVectorsOpt"], found["numDeletedRecordsOpt"]) == (1, 4)
    assert (found["numMetadata"], found["numProtocol"]) == (1, 1)
    assert found["txnId"] == Snapshot.load(store).commit_info.txn_id
    assert "inCommitTimestampOpt" not in found


def test_timestamp_is_in_the_checksum_where_commits_carry_one():
    store = created(enableInCommitTimestamps="true")
    commit(store, add("a"))
    assert content(store, 1)["inCommitTimestampOpt"] == Snapshot.load(store).timestamp_ms


def test_checksum_is_carried_on_past_commits_of_others():
    store = created()
    late = Transaction(Snapshot.load(store))
    for version, name in enumerate("ab", 1):
        store.put(DELTA.commit_path(version), encode_commit([add(name)]))
    assert late.commit([add("c")], "WRITE") == 3
    assert content(store, 3)["numFiles"] == 3
    assert not store.exists(path_of(2))
    assert_right(store)


@pytest.mark.parametrize(
    "theirs",
    [[Remove("a")], [add("a", data_change=False)]],
    ids=["a removal without its size", "a file added again"],
)
def test_nothing_is_written_after_a_commit_that_cannot_be_counted(theirs):
    store = created()
    commit(store, add("a"))
    store.put(DELTA.commit_path(2), encode_commit(theirs))
    assert commit(store, add("b")) == 3
    assert not store.exists(path_of(3))
    assert_right(store)


def test_checkpoint_counts_anew():
    store = created(checkpointInterval="4")
    commit(store, add("a"))
    store.put(DELTA.commit_path(2), encode_commit([Remove("a")]))
    commit(store, add("b"))
    assert not store.exists(path_of(3))
    assert commit(store, add("c")) == 4
    assert content(store, 4)["numFiles"] == 2
    assert commit(store, add("d")) == 5
    assert_right(store)


@pytest.mark.parametrize("operation", ["COMPUTE STATS", "ROW TRACKING BACKFILL", "Manual Update"])
def test_operation_that_adds_files_again_leaves_no_checksum(operation):
    store = created()
    commit(store, add("a"))
    commit(store, add("a", data_change=True), operation=operation)
    assert not store.exists(path_of(2))
    assert_right(store)


def test_existing_checksum_is_never_overwritten():
    store = created()
    store.put(path_of(1), b"somebody else's")
    commit(store, add("a"))
    assert store.get(path_of(1)) == b"somebody else's"


def test_checksum_that_contradicts_the_log_is_not_carried_on():
    store = created()
    wrong = content(store, 0)
    wrong["metadata"]["id"] = "another table"
    store.put(path_of(0), json.dumps(wrong).encode())
    commit(store, add("a"))
    assert not store.exists(path_of(1))


def test_expiring_transactions_are_left_out():
    store = created(setTransactionRetentionDuration="interval 1 day")
    commit(store, add("a"), Txn("etl", 1, 1))
    assert "setTransactions" not in content(store, 1)


def test_long_lists_are_left_out_as_a_whole():
    store = created()
    commit(store, *(Txn(f"app{n}", n) for n in range(checksum.LONGEST_LIST + 1)))
    assert "setTransactions" not in content(store, 1)
    assert content(store, 1)["domainMetadata"] == []


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"numFiles":"1"}',
        b'{"numFiles":-1,"tableSizeBytes":0,"metadata":{"id":"1"},"protocol":{}}',
    ],
    ids=["empty", "torn", "list", "nothing", "text", "negative"],
)
def test_damaged_checksum_reads_as_none(damage):
    assert decode_summary(damage) is None


def test_histogram_that_does_not_add_up_reads_as_none():
    store = created()
    commit(store, add("a"))
    wrong = content(store, 1)
    wrong["numFiles"] += 1
    assert decode_summary(json.dumps(wrong).encode()) is None
    assert read_summary(store, 1).table_size.files == 1


def test_histogram_under_its_old_name_is_read():
    store = created()
    commit(store, add("a"))
    old = content(store, 1)
    old["histogramOpt"] = old.pop("fileSizeHistogram")
    assert decode_summary(json.dumps(old).encode()).table_size.histogram.counts[0] == 1


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 0), (8191, 0), (8192, 1), (4 << 20, 10), (8 << 20, 11), (1 << 50, len(BOUNDARIES) - 1)]
)
def test_file_falls_into_the_bin_that_begins_at_or_below_its_size(size, expected):
    assert bin_of(size) == expected


def test_tally_that_would_fall_below_nothing_is_refused():
    assert TableSize().after(Commit("", (Remove("a", size=10),))) is None


def test_first_version_needs_protocol_and_metadata():
    assert checksum.first(Commit("", (add("a"),))) is None
    both = (ProtocolAction(1, 2), metadata(columns=schema(field("id", "long"))), Add("a", {}, 7, 1, True))
    assert checksum.first(Commit("", both)).table_size.bytes == 7
