"""Transactions: what a commit writes, what it refuses, and what it does when others were first."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pytest
from tests.support.columns import field, schema
from tests.support.commit_builders import add, metadata, remove, vector
from tests.support.faulty_store import FaultyStore

import halocline
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.errors import ConflictError, DeniedError, IncompatibleError, InputError, InternalError, SchemaError
from halocline.formats.delta.actions.action import (
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Txn,
    decode_commit,
    encode_commit,
)
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import alter
from halocline.formats.delta.configuration.identity import with_marks
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore

NOW = 1_700_000_000_000


def clock() -> int:
    return NOW


def created(configuration=None, partitions=(), columns=None, **options) -> MemoryStore:
    store = MemoryStore()
    columns = schema("id", *(field(name, "string") for name in partitions)) if columns is None else columns
    state = new_table(columns, partitions, configuration, **options)
    Transaction.create(store, clock=clock).commit((), "CREATE TABLE", configuration=state)
    return store


def begin(store, **options) -> Transaction:
    options.setdefault("clock", clock)
    return Transaction(Snapshot.load(store), **options)


def state_of(store) -> TableConfiguration:
    snapshot = Snapshot.load(store)
    return snapshot.configuration


def commit_at(store, version: int):
    return decode_commit(store.get(DELTA.commit_path(version)), str(version))


# ---------------------------------------------------------------------- what a commit holds


def test_provenance_is_what_spark_writes_and_stands_first():
    store = created()
    begin(store, engine="Apache-Spark/4.0.0 Halocline/1").commit(
        [add("a")],
        CommitDescription(
            "WRITE",
            {"mode": "Append", "partitionBy": []},
            {"numFiles": 1, "numOutputRows": 10},
            user_metadata="nightly",
            tags={"team": "etl"},
        ),
    )
    line = json.loads(store.get(DELTA.commit_path(1)).splitlines()[0])
    assert list(line["commitInfo"]) == [
        "timestamp",
        "operation",
        "operationParameters",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "operationMetrics",
        "userMetadata",
        "tags",
        "engineInfo",
        "txnId",
    ]
    assert line["commitInfo"] | {"txnId": "?"} == {
        "timestamp": NOW,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": "10"},
        "userMetadata": "nightly",
        "tags": {"team": "etl"},
        "engineInfo": "Apache-Spark/4.0.0 Halocline/1",
        "txnId": "?",
    }


def test_engine_is_halocline_with_its_version_by_default():
    store = created()
    assert commit_at(store, 0).commit_info.engine_info == f"Halocline/{halocline.__version__}"
    assert "readVersion" not in commit_at(store, 0).commit_info.values


@pytest.mark.parametrize(
    ("actions", "reads", "blind", "isolation"),
    [
        ([add("a")], False, True, "Serializable"),
        ([add("a")], True, False, "Serializable"),
        ([remove("a"), add("b")], True, False, "Serializable"),
        ([remove("a", data_change=False), add("b", data_change=False)], True, False, "SnapshotIsolation"),
        ([], False, True, "SnapshotIsolation"),
    ],
    ids=["blind append", "append after reading", "rewrite", "compaction", "nothing"],
)
def test_isolation_and_blindness_follow_from_what_is_done(actions, reads, blind, isolation):
    store = created()
    transaction = begin(store)
    if reads:
        transaction.read_files(["a"], "id = 3")
    info = commit_at(store, transaction.commit(actions, "WRITE")).commit_info
    assert (info.is_blind_append, info.values["isolationLevel"]) == (blind, isolation)


def test_committed_files_are_there_and_removed_ones_are_not():
    store = created(partitions=("day",))
    begin(store).commit([add("mon/a", day="mon"), add("tue/b", day="tue")], "WRITE")
    transaction = begin(store)
    assert transaction.files("day = 'mon'")["path"].to_pylist() == ["mon/a"]
    assert transaction.commit([remove("mon/a", day="mon"), add("mon/c", day="mon")], "UPDATE") == 2
    assert sorted(Snapshot.load(store).files()["path"].to_pylist()) == ["mon/c", "tue/b"]
    assert not commit_at(store, 2).commit_info.is_blind_append


def test_transaction_commits_once():
    transaction = begin(created())
    transaction.commit([], "WRITE")
    with pytest.raises(InternalError, match="committed version 1 already"):
        transaction.commit([], "WRITE")


# ---------------------------------------------------------------------- the gate


@pytest.mark.parametrize(
    "protocol",
    [
        ProtocolAction(1, 99, None, []),
        ProtocolAction(3, 7, ["shiny"], ["shiny"]),
        ProtocolAction(1, 7, None, ["shiny"]),
    ],
    ids=["writer 99", "unknown reader feature", "unknown writer feature"],
)
def test_table_beyond_this_release_is_refused_and_nothing_written(protocol):
    store = MemoryStore()
    store.put(DELTA.commit_path(0), encode_commit([protocol, metadata()]))
    with pytest.raises(IncompatibleError) as caught:
        begin(store).commit([add("a")], "WRITE")
    assert caught.value.condition in ("WRITER_TOO_OLD", "READER_TOO_OLD")
    assert [meta.path for meta in store.list()] == [DELTA.commit_path(0)]


def test_commit_that_would_lock_us_out_is_refused():
    store = created()
    with pytest.raises(IncompatibleError, match="icebergCompatV2"):
        begin(store).commit([action_of(Protocol.delta(1, 2).upgraded("icebergCompatV2"))], "UPGRADE PROTOCOL")
    assert Snapshot.load(store).version == 0


def test_gate_is_for_the_release_that_acts():
    store = created({"delta.feature.rowTracking": "supported"})
    snapshot = Snapshot.load(store, release="deltalake@1.6.6")
    assert snapshot.release == Release.parse("deltalake@1.6.6")
    with pytest.raises(IncompatibleError, match="rowTracking"):
        Transaction(snapshot).commit([add("a")], "WRITE")


def test_protocol_cannot_lose_features_unless_the_commit_says_which():
    store = created({"delta.minWriterVersion": "4"})
    smaller = Protocol.delta(1, 4).without_feature("checkConstraints")
    with pytest.raises(IncompatibleError, match="lacks checkConstraints") as caught:
        begin(store).commit([action_of(smaller)], "DROP FEATURE")
    assert caught.value.condition == "PROTOCOL_NOT_DOWNGRADABLE"
    begin(store).commit([action_of(smaller)], "DROP FEATURE", dropped_feature="checkConstraints")
    assert not Snapshot.load(store).protocol.supports("checkConstraints")


def test_legacy_table_without_protocol_gets_one_on_the_first_write():
    store = MemoryStore()
    store.put(DELTA.commit_path(0), encode_commit([metadata(), add("a")]))
    with pytest.warns(UserWarning, match="no protocol"):
        snapshot = Snapshot.load(store, legacy_protocol=True)
    Transaction(snapshot).commit([add("b")], "WRITE")
    assert commit_at(store, 1).protocol == ProtocolAction(1, 1)
    assert Snapshot.load(store).files().num_rows == 2


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([add("a"), add("a")], "a is added twice"),
        ([remove("a"), remove("a")], "a is removed twice"),
        ([remove("a"), add("a")], "both added and removed"),
        ([ProtocolAction(1, 2), ProtocolAction(1, 2)], "at most one protocol"),
        ([metadata(), metadata()], "at most one metaData"),
        ([Txn("etl", 1), Txn("etl", 2)], "versions 1 and 2 at once"),
        ([add("a", day="mon")], "partition values for other columns"),
        ([Cdc("_change_data/a", {}, 1, True)], "dataChange false"),
        ([CommitInfo({})], "written by the transaction itself"),
        ([add("a", deletion_vector=vector())], "does not support"),
        ([DomainMetadata("billing", "{}")], "needs the feature domainMetadata"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_actions_that_cannot_be_one_commit_are_refused(actions, message):
    store = created()
    with pytest.raises(InputError, match=message):
        begin(store).commit(actions, "WRITE")
    assert Snapshot.load(store).version == 0


def test_same_path_with_another_vector_is_one_commit():
    store = created({"delta.enableDeletionVectors": "true"})
    begin(store).commit([add("a")], "WRITE")
    begin(store).commit([remove("a"), add("a", deletion_vector=vector())], "DELETE")
    assert Snapshot.load(store).files()["deletion_vector"].to_pylist()[0]["cardinality"] == 1


@pytest.mark.parametrize("rows", [None, 0], ids=["unknown", "fewer than deleted"])
def test_vector_without_exact_row_count_is_refused(rows):
    store = created({"delta.enableDeletionVectors": "true"})
    bad = add("a", rows=rows or 0, deletion_vector=vector())
    if rows is None:
        bad = type(bad)(bad.path, {}, 1, 1, True, deletion_vector=vector())
    with pytest.raises(InputError, match="exact number of rows"):
        begin(store).commit([bad], "WRITE")


def test_first_commit_needs_protocol_and_metadata():
    for actions in ([ProtocolAction(1, 2)], [metadata()]):
        with pytest.raises(InputError, match="first commit"):
            Transaction.create(MemoryStore()).commit(actions, "CREATE TABLE")


def test_append_only_table_takes_rows_and_rearranges_them_but_loses_none():
    store = created({"delta.appendOnly": "true"})
    begin(store).commit([add("a")], "WRITE")
    with pytest.raises(InputError, match="append-only") as caught:
        begin(store).commit([remove("a")], "DELETE")
    assert caught.value.condition == "TABLE_APPEND_ONLY"
    assert begin(store).commit([remove("a", data_change=False), add("b", data_change=False)], "OPTIMIZE") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"configuration": {"delta.feature.deletionVectors": "supported"}}, "never stored"),
        ({"configuration": {"delta.checkpointInterval": "often"}}, "cannot be 'often'"),
        ({"configuration": {"delta.enableChangeDataFeed": "true"}}, "disagree"),
        ({"configuration": {"delta.columnMapping.mode": "id"}}, "from none to id"),
        ({"partition_columns": ("nope",)}, "not a column"),
        ({"partition_columns": ("id",)}, "every column is a partition column"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_metadata_that_no_table_may_have_is_refused(change, message):
    store = created()
    broken = Metadata(**{name: getattr(Snapshot.load(store).metadata, name) for name in Metadata.__slots__} | change)
    with pytest.raises((InputError, SchemaError), match=message):
        begin(store).commit([broken], "SET TBLPROPERTIES")
    assert Snapshot.load(store).version == 0


# ---------------------------------------------------------------------- numbers that follow the version


def test_row_ids_are_handed_out_above_the_mark_and_counted_on():
    store = created({"delta.enableRowTracking": "true"})
    begin(store).commit([add("a", rows=10), add("b", rows=5)], "WRITE")
    begin(store).commit([add("c", rows=1)], "WRITE")
    rows = {row["path"]: row for row in Snapshot.load(store).files().to_pylist()}
    assert {path: row["base_row_id"] for path, row in rows.items()} == {"a": 0, "b": 10, "c": 15}
    assert {path: row["default_row_commit_version"] for path, row in rows.items()} == {"a": 1, "b": 1, "c": 2}
    assert json.loads(Snapshot.load(store).domains["delta.rowTracking"].configuration) == {"rowIdHighWaterMark": 15}


def test_row_tracking_needs_row_counts_and_keeps_its_mark_to_itself():
    store = created({"delta.enableRowTracking": "true"})
    with pytest.raises(InputError, match="no row count"):
        begin(store).commit([type(add("a"))("a", {}, 1, 1, True)], "WRITE")
    with pytest.raises(DeniedError, match="never set by hand"):
        begin(store).commit([DomainMetadata("delta.rowTracking", '{"rowIdHighWaterMark":7}')], "WRITE")


def test_domains_of_users_are_kept_until_their_tombstone():
    store = created({"delta.feature.domainMetadata": "supported"})
    begin(store).commit([DomainMetadata("billing", '{"owner":"a"}')], "WRITE")
    assert Snapshot.load(store).domains["billing"].configuration == '{"owner":"a"}'
    begin(store).commit([DomainMetadata("billing", '{"owner":"a"}', removed=True)], "WRITE")
    assert dict(Snapshot.load(store).domains) == {}


def test_in_commit_timestamps_increase_whatever_the_clock_says():
    store = created({"delta.enableInCommitTimestamps": "true"})
    begin(store, clock=lambda: NOW - 5000).commit([add("a")], "WRITE")
    first, second = (commit_at(store, version).commit_info.in_commit_timestamp for version in (0, 1))
    assert (first, second) == (NOW, NOW + 1)
    assert store.get(DELTA.commit_path(1)).startswith(b'{"commitInfo":{"inCommitTimestamp":')
    assert Snapshot.load(store).timestamp_ms == NOW + 1
    assert "delta.inCommitTimestampEnablementVersion" not in Snapshot.load(store).properties


def test_enabling_timestamps_later_notes_since_when():
    store = created()
    state = alter.set_properties(state_of(store), {"delta.enableInCommitTimestamps": "true"})
    future = Snapshot.load(store).timestamp_ms + 60_000
    begin(store, clock=lambda: future).commit((), "SET TBLPROPERTIES", configuration=state)
    configuration = Snapshot.load(store).properties
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "1"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(future)


def test_identity_marks_are_a_metadata_change_with_its_tag():
    notes = {"delta.identity.start": 1, "delta.identity.step": 2, "delta.identity.allowExplicitInsert": False}
    store = created(columns=schema(field("id", "long", metadata=notes)))
    marked = with_marks(Snapshot.load(store).metadata, {"id": 7})
    begin(store).commit([marked, add("a")], "WRITE")
    assert commit_at(store, 1).commit_info.values["tags"] == {"delta.identity.schemaUpdate": "true"}
    with pytest.raises(InputError, match="cannot be the high-water mark"):
        with_marks(marked, {"id": 8})
    assert with_marks(marked, {"id": 3}) == marked


def test_batch_of_an_application_is_committed_once():
    store = created()
    first = begin(store)
    assert first.commit([add("a")], CommitDescription("STREAMING UPDATE", txn=("stream", 4))) == 1
    assert first.outcome.committed
    assert commit_at(store, 1).txns == [Txn("stream", 4, NOW)]
    for version in (4, 3):
        again = begin(store)
        assert again.commit([add("b")], CommitDescription("STREAMING UPDATE", txn=("stream", version))) == 1
        assert not again.outcome.committed
    assert begin(store).commit([add("b")], CommitDescription("STREAMING UPDATE", txn=("stream", 5))) == 2


# ---------------------------------------------------------------------- others were first


def test_append_behind_others_rebases_and_counts_its_losses():
    store = created()
    late = begin(store)
    for name in "abc":
        begin(store).commit([add(name)], "WRITE")
    assert late.commit([add("d")], "WRITE") == 4
    assert late.outcome.losses == 3
    assert commit_at(store, 4).commit_info.values["readVersion"] == 0


@pytest.mark.parametrize(
    ("stats", "conflicts"),
    [
        ('{"numRecords":1,"minValues":{"id":5},"maxValues":{"id":9},"nullCount":{"id":0}}', False),
        ('{"numRecords":1,"minValues":{"id":5},"maxValues":{"id":150},"nullCount":{"id":0}}', True),
        ('{"numRecords":1}', True),
        (None, True),
    ],
)
def test_appended_file_whose_statistics_rule_out_the_predicate_is_no_conflict(stats, conflicts):
    store = created()
    begin(store).commit([add("a")], "WRITE")
    ours, theirs = begin(store), begin(store)
    ours.files("id BETWEEN 100 AND 200")
    theirs.commit([Add("b", {}, 100, 1, True, stats=stats)], "WRITE")
    if not conflicts:
        assert ours.commit([remove("a"), add("c")], "MERGE") == 3
        return
    with pytest.raises(ConflictError) as caught:
        ours.commit([remove("a"), add("c")], "MERGE")
    assert caught.value.condition == "CONCURRENT_APPEND"


def test_update_behind_an_append_to_its_partition_conflicts_and_to_another_does_not():
    store = created(partitions=("day",))
    begin(store).commit([add("mon/a", day="mon")], "WRITE")
    ours, theirs = begin(store), begin(store)
    ours.files("day = 'mon' AND id > 0")
    theirs.commit([add("tue/b", day="tue")], "WRITE")
    assert ours.commit([remove("mon/a", day="mon"), add("mon/c", day="mon")], "UPDATE") == 3
    ours, theirs = begin(store), begin(store)
    ours.files("day = 'mon'")
    theirs.commit([add("mon/d", day="mon")], "WRITE")
    with pytest.raises(ConflictError) as caught:
        ours.commit([remove("mon/c", day="mon")], "DELETE")
    assert caught.value.condition == "CONCURRENT_APPEND"
    assert "day=mon" in caught.value.message


def test_winner_that_raises_the_protocol_beyond_us_stops_the_commit():
    store = created()
    late = begin(store)
    store.put(DELTA.commit_path(1), encode_commit([ProtocolAction(1, 99, None, [])]))
    with pytest.raises(IncompatibleError, match="writer version 99"):
        late.commit([add("a")], "WRITE")
    assert not store.exists(DELTA.commit_path(2))


def test_two_creators_of_one_table_leave_one_table():
    store = created()
    with pytest.raises(ConflictError) as caught:
        Transaction.create(store).commit((), "CREATE TABLE", configuration=new_table(schema("id")))
    assert caught.value.condition == "CONCURRENT_PROTOCOL_CHANGE"


def test_commit_whose_answer_was_lost_is_recognised_by_its_id():
    inner = created()
    store = FaultyStore(inner).lose_answer(1, on=["put_if_absent"])
    assert Transaction(Snapshot.load(store)).commit([add("a")], "WRITE") == 1
    assert Snapshot.load(inner).version == 1


def test_removal_keeps_what_others_need_to_undo_it():
    store = created(partitions=("day",))
    begin(store).commit([add("day=a%2520b/x%20y", day="a b", tags={"k": "v"})], "WRITE")
    files = Snapshot.load(store).files()
    (gone,) = removes_from(files, timestamp_ms=NOW, data_change=True)
    assert gone == Remove("day=a%2520b/x%20y", NOW, True, True, {"day": "a b"}, 100, {"k": "v"})
    begin(store).commit([gone], "DELETE")
    assert Snapshot.load(store).files().num_rows == 0


def test_paths_that_deltalake_wrote_are_removed_in_its_spelling(tmp_path):
    values = [
        "a b",
        "x/y",
        "ü",
        "a%b",
        "a:b",
        "a=b",
        "*~",
        'q?#[]{}|^`"<>\\',
        "日本",
        "a+b&c",
        "'q'",
        "tab\there",
        None,
    ]
    rows = pa.table({"p": pa.array(values, pa.string()), "id": list(range(len(values)))})
    deltalake.write_deltalake(str(tmp_path), rows, partition_by=["p"])
    store = LocalStore(tmp_path)
    transaction = begin(store)
    removes = list(removes_from(transaction.files(), timestamp_ms=NOW, data_change=True))
    assert {each.path for each in removes} == {each.path for each in commit_at(store, 0).adds}
    transaction.commit(removes, "DELETE")
    assert deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 0


# ---------------------------------------------------------------------- a table that is made anew meanwhile


def made_anew(store: MemoryStore, versions: int) -> None:
    """Deletes a table and makes another one in its place."""
    for each in list(store.list()):
        store.delete(each.path)
    state = new_table(schema("id"), (), None)
    Transaction.create(store, clock=clock).commit((), "CREATE TABLE", configuration=state)
    for number in range(1, versions):
        begin(store).commit([add(f"theirs{number}")], "WRITE")


@pytest.mark.parametrize("versions", [2, 3, 5])
def test_transaction_does_not_land_in_a_table_that_was_made_anew_in_the_same_place(versions):
    store = created()
    begin(store).commit([add("theirs1")], "WRITE")  # as long as the commit of the new table
    ours = begin(store)
    made_anew(store, versions)
    with pytest.raises(ConflictError, match="is not the one that was read"):
        ours.commit([add("ours")], "WRITE")
    assert "ours" not in Snapshot.load(store).files()["path"].to_pylist()


def test_transaction_lands_in_a_table_whose_files_were_copied_meanwhile():
    store = created()
    begin(store).commit([add("first")], "WRITE")
    ours = begin(store)
    for each in list(store.list()):
        data = store.get(each.path)
        store.delete(each.path)
        store.put(each.path, data)
    assert ours.commit([add("ours")], "WRITE") == 2
