"""Checkpoints that we write: what is in them, and that others read them."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.columns import field, schema
from tests.support.commit_builders import add, metadata, remove, vector

from halocline.formats.delta.actions.action import (
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Txn,
    encode_action,
    encode_commit,
)
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.column_mapping import stored_name
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log import checkpoint_write
from halocline.formats.delta.log.checkpoint_write import SIDECAR_ROWS, classic_path, is_due, write_checkpoint
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.formats.log.pointer import decode_pointer
from halocline.schema.json_edge import dump
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore
from halocline.table import Table

NOW = 1_700_000_000_000
HOUR = 3_600_000


def table_with(store, *commits, start: int = 0) -> None:
    for version, actions in enumerate(commits, start):
        store.put(DELTA.commit_path(version), encode_commit(actions))


def rows_in(store, path: str, column: str) -> list[dict]:
    table = pq.read_table(pa.BufferReader(store.get(path)), columns=[column])
    return [row for row in table[column].to_pylist(maps_as_pydicts="strict") if row is not None]


def without_commits(store, upto: int) -> None:
    """Leaves a log that can only be read through its checkpoint."""
    for version in range(upto + 1):
        store.delete(DELTA.commit_path(version))


@pytest.fixture
def local(tmp_path):
    return open_store(str(tmp_path / "table"))


# ---------------------------------------------------------------------- contents


def test_checkpoint_holds_the_state_and_nothing_else():
    store = MemoryStore()
    table_with(
        store,
        [
            ProtocolAction(1, 7, None, ["domainMetadata", "appendOnly"]),
            metadata(appendOnly="false"),
            add("a"),
            add("b"),
        ],
        [remove("a"), add("c"), Txn("etl", 1), DomainMetadata("x", "{}"), DomainMetadata("gone", "{}")],
        [Txn("etl", 2, 5), DomainMetadata("gone", "{}", removed=True)],
    )
    written = write_checkpoint(store, 2, now_ms=10)
    path = classic_path(2)
    assert sorted(row["path"] for row in rows_in(store, path, "add")) == ["b", "c"]
    assert [row["path"] for row in rows_in(store, path, "remove")] == ["a"]
    assert rows_in(store, path, "txn") == [{"appId": "etl", "version": 2, "lastUpdated": 5}]
    assert rows_in(store, path, "domainMetadata") == [{"domain": "x", "configuration": "{}", "removed": False}]
    assert rows_in(store, path, "protocol") == [
        {
            "minReaderVersion": 1,
            "minWriterVersion": 7,
            "readerFeatures": None,
            "writerFeatures": ["domainMetadata", "appendOnly"],
        }
    ]
    (stored,) = rows_in(store, path, "metaData")
    assert stored["configuration"] == {"delta.appendOnly": "false"}
    assert stored["format"] == {"provider": "parquet", "options": {}}
    assert written.actions == 7
    assert (written.summary.table_size.files, written.summary.table_size.bytes) == (2, 200)


@pytest.mark.parametrize(
    ("protocol", "reader_list", "writer_list"),
    [
        (ProtocolAction(1, 2), None, None),
        (ProtocolAction(1, 7, None, []), None, []),
        (ProtocolAction(3, 7, [], []), [], []),
        (ProtocolAction(2, 7, None, ["columnMapping"]), None, ["columnMapping"]),
    ],
    ids=["numbers", "writer list", "both lists", "reader by number"],
)
def test_feature_lists_are_null_unless_the_numbers_call_for_them(protocol, reader_list, writer_list):
    store = MemoryStore()
    table_with(store, [protocol, metadata()])
    write_checkpoint(store, 0)
    (row,) = rows_in(store, classic_path(0), "protocol")
    assert (row["readerFeatures"], row["writerFeatures"]) == (reader_list, writer_list)


def test_checkpoint_on_top_of_a_checkpoint_says_the_same_as_the_log():
    store = MemoryStore()
    table_with(
        store,
        [ProtocolAction(1, 2), metadata(partitions=("day",)), *(add(f"{n}", day=f"d{n % 3}") for n in range(20))],
        [remove("3", day="d0"), add("x%20y", day="d0")],
    )
    write_checkpoint(store, 1, now_ms=10)
    table_with(
        store, [remove("x%20y", day="d0"), remove("7", day="d1"), add("3", day="d0")], [add("z", day="d2")], start=2
    )
    expected = Snapshot.load(store).files().sort_by("path")
    write_checkpoint(store, 3, now_ms=10)
    without_commits(store, 3)
    store.delete(classic_path(1))
    found = Snapshot.load(store)
    assert found.files().sort_by("path").equals(expected)
    assert sorted(found.tombstones()["path"].to_pylist()) == ["7", "x y"]


def test_paths_keep_their_spelling():
    store = MemoryStore()
    table_with(store, [ProtocolAction(1, 2), metadata(), add("a%3Db"), add("c=d")])
    write_checkpoint(store, 0)
    table_with(store, [add("e")], start=1)
    write_checkpoint(store, 1)
    assert sorted(row["path"] for row in rows_in(store, classic_path(1), "add")) == ["a%3Db", "c=d", "e"]


def test_file_with_a_vector_is_told_from_the_file_without():
    store = MemoryStore()
    protocol = ProtocolAction(3, 7, ["deletionVectors"], ["deletionVectors"])
    table_with(store, [protocol, metadata(), add("a"), add("b", deletion_vector=vector("v1"))])
    write_checkpoint(store, 0, now_ms=10)
    table_with(store, [remove("a"), add("a", deletion_vector=vector("v2", 3))], start=1)
    written = write_checkpoint(store, 1, now_ms=10)
    without_commits(store, 1)
    files = {
        row["path"]: row["deletion_vector"]["path_or_inline_dv"] for row in Snapshot.load(store).files().to_pylist()
    }
    assert files == {"a": "v2", "b": "v1"}
    assert (written.summary.table_size.vectors, written.summary.table_size.deleted) == (2, 4)


def test_tombstones_and_transactions_leave_with_their_retention():
    store = MemoryStore()
    table = metadata(deletedFileRetentionDuration="interval 2 hours", setTransactionRetentionDuration="interval 1 hour")
    table_with(
        store,
        [ProtocolAction(1, 2), table, *(add(name) for name in "abc")],
        [
            Remove("a", NOW - 3 * HOUR),
            Remove("b", NOW - HOUR),
            Remove("c"),
            Txn("old", 1, NOW - 2 * HOUR),
            Txn("new", 1, NOW - 1),
            Txn("undated", 1),
        ],
    )
    write_checkpoint(store, 1, now_ms=NOW)
    assert [row["path"] for row in rows_in(store, classic_path(1), "remove")] == ["b"]
    assert [row["appId"] for row in rows_in(store, classic_path(1), "txn")] == ["new"]
    table_with(store, [add("d")], start=2)
    write_checkpoint(store, 2, now_ms=NOW + 2 * HOUR)
    assert rows_in(store, classic_path(2), "remove") == []


# ---------------------------------------------------------------------- statistics

EVERY_TYPE = schema(
    field("b", "byte"),
    field("s", "short"),
    field("i", "integer"),
    field("l", "long"),
    field("f", "float"),
    field("d", "double"),
    field("c", "decimal(30,10)"),
    field("t", "string"),
    field("day", "date"),
    field("ts", "timestamp"),
    field("ntz", "timestamp_ntz"),
    field("flag", "boolean"),
    field("bin", "binary"),
    field("st", schema(field("x", "long"), field("y", "string"))),
    field("arr", {"type": "array", "elementType": "long", "containsNull": True}),
)
BOUNDS = {
    "b": 1,
    "s": 2,
    "i": 3,
    "l": 4,
    "f": 1.5,
    "d": 2.5,
    "c": 123.4567890123,
    "t": "abc",
    "day": "2024-01-31",
    "ts": "2024-01-31T10:00:00.123Z",
    "ntz": "2024-01-31T10:00:00.123",
    "st": {"x": 7, "y": "q"},
}


def stats_of(**changes) -> str:
    return json.dumps(
        {
            "numRecords": 9,
            "minValues": BOUNDS | changes,
            "maxValues": BOUNDS,
            "nullCount": {"b": 1, "arr": 2, "st": {"x": 3}},
        }
    )


def test_struct_statistics_have_every_type_in_its_form():
    store = MemoryStore()
    protocol = ProtocolAction(3, 7, ["timestampNtz"], ["timestampNtz"])
    table = metadata(columns=EVERY_TYPE)
    table_with(store, [protocol, table, type(add("x"))("a", {}, 1, 1, True, stats=stats_of())])
    write_checkpoint(store, 0)
    (row,) = rows_in(store, classic_path(0), "add")
    assert json.loads(row["stats"]) == json.loads(stats_of())
    parsed = row["stats_parsed"]
    assert parsed["numRecords"] == 9
    assert parsed["minValues"] == {
        "b": 1,
        "s": 2,
        "i": 3,
        "l": 4,
        "f": 1.5,
        "d": 2.5,
        "c": Decimal("123.4567890123"),
        "t": "abc",
        "day": date(2024, 1, 31),
        "ts": datetime(2024, 1, 31, 10, 0, 0, 123000, UTC),
        "ntz": datetime(2024, 1, 31, 10, 0, 0, 123000),
        "st": {"x": 7, "y": "q"},
    }
    counts = parsed["nullCount"]
    assert (counts["b"], counts["arr"], counts["st"], counts["flag"]) == (1, 2, {"x": 3, "y": None}, None)


@pytest.mark.parametrize(
    "damage",
    [{"ts": "yesterday"}, {"b": 1000}, {"f": "NaN"}, {"st": 5}],
    ids=["time", "overflow", "NaN", "not a struct"],
)
def test_bound_that_cannot_be_read_is_unknown_and_the_others_stay(damage):
    store = MemoryStore()
    files = [
        type(add("x"))("good", {}, 1, 1, True, stats=stats_of()),
        type(add("x"))("bad", {}, 1, 1, True, stats=stats_of(**damage)),
        type(add("x"))("none", {}, 1, 1, True),
        type(add("x"))("no json", {}, 1, 1, True, stats="{"),
    ]
    table_with(store, [ProtocolAction(3, 7, ["timestampNtz"], ["timestampNtz"]), metadata(columns=EVERY_TYPE), *files])
    write_checkpoint(store, 0)
    rows = {row["path"]: row["stats_parsed"] for row in rows_in(store, classic_path(0), "add")}
    assert rows["none"] is None
    assert rows["good"]["minValues"]["l"] == rows["bad"]["minValues"]["l"] == 4
    (column,) = damage
    value = rows["bad"]["minValues"][column]
    assert value is None or value != value or value == {"x": None, "y": None}


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({}, {"numRecords", "minValues", "maxValues", "nullCount"}),
        ({"dataSkippingNumIndexedCols": "0"}, {"numRecords"}),
        ({"dataSkippingStatsColumns": "flag"}, {"numRecords", "nullCount"}),
    ],
    ids=["first 32", "none", "no bounds for flags"],
)
def test_struct_statistics_follow_the_indexed_columns(settings, columns):
    store = MemoryStore()
    table = metadata(columns=schema("id", field("flag", "boolean")), **settings)
    table_with(store, [ProtocolAction(1, 2), table, add("a")])
    write_checkpoint(store, 0)
    (row,) = rows_in(store, classic_path(0), "add")
    assert set(row["stats_parsed"]) == columns


def test_statistics_survive_as_structs_only_and_come_back_as_text():
    store = MemoryStore()
    table = metadata(checkpoint__writeStatsAsJson="false")
    stats = '{"numRecords":10,"minValues":{"id":3},"maxValues":{"id":9},"nullCount":{"id":0}}'
    table_with(store, [ProtocolAction(1, 2), table, type(add("x"))("a", {}, 1, 1, True, stats=stats)])
    write_checkpoint(store, 0)
    assert "stats" not in rows_in(store, classic_path(0), "add")[0]
    table_with(store, [metadata(checkpoint__writeStatsAsStruct="false")], start=1)
    write_checkpoint(store, 1)
    (row,) = rows_in(store, classic_path(1), "add")
    assert "stats_parsed" not in row
    assert json.loads(row["stats"]) == json.loads(stats)


@pytest.mark.parametrize("as_json", ["true", "false"])
def test_bounds_from_before_a_column_was_widened_to_double_still_find_its_rows(as_json):
    store = MemoryStore()
    widened = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    columns = schema(field("d", "double", metadata=widened))
    table = metadata(columns=columns, checkpoint__writeStatsAsJson=as_json)
    # The file holds the single-precision value nearest to 0.1, whose shortest text is 0.1.
    stats = '{"numRecords":1,"minValues":{"d":0.1},"maxValues":{"d":0.1},"nullCount":{"d":0}}'
    table_with(store, [ProtocolAction(1, 2), table, type(add("x"))("a", {}, 1, 1, True, stats=stats)])
    write_checkpoint(store, 0)
    snapshot = Snapshot.load(store)
    assert snapshot.files("d = 0.10000000149011612D")["path"].to_pylist() == ["a"]
    assert snapshot.files("d < 0.05D")["path"].to_pylist() == []


def test_struct_names_are_physical_under_column_mapping():
    store = MemoryStore()
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    parted = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-2"}
    columns = schema(field("id", "long", metadata=mapped), field("day", "date", metadata=parted))
    table = Metadata("1", dump(columns), partition_columns=("day",), configuration={"delta.columnMapping.mode": "name"})
    stats = '{"numRecords":1,"minValues":{"col-1":5}}'
    file = type(add("x"))("a", {"col-2": "2024-02-29"}, 1, 1, True, stats=stats)
    table_with(store, [ProtocolAction(2, 5), table, file])
    write_checkpoint(store, 0)
    (row,) = rows_in(store, classic_path(0), "add")
    assert row["stats_parsed"]["minValues"] == {"col-1": 5}
    assert row["partitionValues_parsed"] == {"col-2": date(2024, 2, 29)}


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("integer", "7", 7),
        ("boolean", "true", True),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("timestamp", "2024-02-29 01:02:03", datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        ("timestamp", "2024-02-29T01:02:03.000000Z", datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        ("timestamp_ntz", "2024-02-29 01:02:03.5", datetime(2024, 2, 29, 1, 2, 3, 500000)),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("string", "", None),
        ("string", None, None),
        ("integer", "seven", None),
    ],
)
def test_partition_values_are_typed(type, text, value):
    store = MemoryStore()
    table = metadata(columns=schema("id", field("p", type)), partitions=("p",))
    protocol = ProtocolAction(3, 7, ["timestampNtz"], ["timestampNtz"])
    table_with(store, [protocol, table, add("x").__class__("a", {"p": text}, 1, 1, True)])
    write_checkpoint(store, 0)
    (row,) = rows_in(store, classic_path(0), "add")
    assert row["partitionValues_parsed"] == {"p": value}


# ---------------------------------------------------------------------- V2


def v2_table(store, files: int, **settings) -> None:
    protocol = ProtocolAction(3, 7, ["v2Checkpoint"], ["v2Checkpoint", "appendOnly"])
    table = metadata(checkpointPolicy="v2", **settings)
    table_with(store, [protocol, table, *(add(f"{n}") for n in range(files))], [remove("0"), Txn("etl", 3)])


def test_v2_checkpoint_is_a_top_file_with_sidecars():
    store = MemoryStore()
    v2_table(store, 12)
    written = write_checkpoint(store, 1, now_ms=10)
    without_commits(store, 1)
    assert not store.exists(classic_path(1))
    (mark,) = rows_in(store, written.path, "checkpointMetadata")
    assert mark["version"] == 1
    assert mark["tags"]["numOfAddFiles"] == "11"
    sidecars = rows_in(store, written.path, "sidecar")
    assert rows_in(store, written.path, "add") == []
    (sidecar,) = sidecars
    assert len(rows_in(store, f"_delta_log/_sidecars/{sidecar['path']}", "add")) == 11
    assert sidecar["sizeInBytes"] == store.head(f"_delta_log/_sidecars/{sidecar['path']}").size
    assert Snapshot.load(store).files().num_rows == 11
    pointer = json.loads(store.get(DELTA.pointer_path))
    assert pointer["v2Checkpoint"]["path"] == written.path.rpartition("/")[2]
    assert [each["path"] for each in pointer["v2Checkpoint"]["sidecarFiles"]] == [sidecar["path"]]
    kinds = {key for action in pointer["v2Checkpoint"]["nonFileActions"] for key in action}
    assert kinds == {"protocol", "metaData", "txn", "checkpointMetadata"}


def test_v2_checkpoint_now_and_then_has_the_classic_name_too():
    store = MemoryStore()
    v2_table(store, 3, checkpointInterval="1")
    table_with(store, *([] for _ in range(9)), start=2)
    for version in (9, 10):
        store.put(DELTA.commit_path(version), encode_commit([Txn("etl", version)]))
    for version in range(2, 9):
        store.put(DELTA.commit_path(version), encode_commit([Txn("etl", version)]))
    write_checkpoint(store, 9)
    assert not store.exists(classic_path(9))
    written = write_checkpoint(store, 10)
    assert store.get(classic_path(10)) == store.get(written.path)
    assert decode_pointer(store.get(DELTA.pointer_path)).version == 10


def test_few_files_share_a_row_group_wherever_they_come_from():
    store = MemoryStore()
    table_with(store, [ProtocolAction(1, 2), metadata()], [add("a"), add("b")], [add("c")])
    write_checkpoint(store, 1)
    written = write_checkpoint(store, 2)
    assert pq.read_metadata(pa.BufferReader(store.get(written.path))).num_row_groups == 1
    assert {row["path"] for row in rows_in(store, written.path, "add")} == {"a", "b", "c"}


def test_many_files_are_spread_over_sidecars():
    store = MemoryStore()
    v2_table(store, SIDECAR_ROWS + 10)
    written = write_checkpoint(store, 1)
    assert len(rows_in(store, written.path, "sidecar")) == 2
    without_commits(store, 1)
    assert Snapshot.load(store).files(columns=["path"]).num_rows == SIDECAR_ROWS + 9


# ---------------------------------------------------------------------- pointer and time


def test_pointer_names_the_newest_checkpoint_and_carries_its_checksum():
    store = MemoryStore()
    table_with(store, [ProtocolAction(1, 2), metadata()], [add("a")], [add("b")])
    write_checkpoint(store, 2)
    write_checkpoint(store, 1)
    pointer = decode_pointer(store.get(DELTA.pointer_path))
    assert (pointer.version, pointer.num_of_add_files, pointer.size) == (2, 2, 4)
    assert pointer.checksum is not None
    assert list(json.loads(store.get(DELTA.pointer_path)))[:2] == ["version", "size"]


def test_checkpoint_is_due_every_so_many_versions():
    assert [version for version in range(21) if is_due(version, TableProperties({}))] == [10, 20]


def test_checkpoint_of_many_files_is_due_less_often_unless_the_table_says_how_often():
    def due(files: int, **properties: str) -> list[int]:
        found = TableProperties({f"delta.{key}": value for key, value in properties.items()})
        return [version for version in range(1001) if is_due(version, found, files)]

    assert due(9_999) == due(0) == list(range(10, 1001, 10))
    assert due(12_000) == list(range(20, 1001, 20))
    assert due(10_000_000) == list(range(100, 1001, 100)), "whoever opens the table reads the commits since"
    assert due(10_000_000, checkpointInterval="10") == due(0), "the table says it"


def test_commit_writes_the_checkpoint_that_is_due_for_the_files_that_live(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_write, "FILES_PER_INTERVAL", 5)
    rows = pa.table({"id": pa.array([1], pa.int64())})
    table = Table.create(tmp_path, rows)
    for _ in range(100):
        table.append_arrow(rows)
    written = sorted(int(each.name[:20]) for each in (tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    assert written == [100], "11 files make it every 20th, 21 files every 40th, and 50 or more every 100th"


def test_unreadable_previous_checkpoint_is_left_out():
    store = MemoryStore()
    table_with(store, [ProtocolAction(1, 2), metadata(), add("a")], [add("b")])
    store.put(classic_path(0), b"PAR1 torn")
    write_checkpoint(store, 1)
    without_commits(store, 1)
    assert Snapshot.load(store).files().num_rows == 2


# ---------------------------------------------------------------------- any history

NAMES = st.sampled_from(["a", "b%20c", "d=1/e", "file:///tmp/x", "f"])
CHANGES = st.lists(
    st.tuples(NAMES, st.sampled_from(["add", "remove", "vector"])), max_size=4, unique_by=lambda each: each[0]
)


def actions_of(changes, live: dict, version: int) -> list:
    """What a commit of these changes holds; `live` maps each live path to its vector and is kept up to date."""
    actions: list = [Txn(f"app{version % 2}", version)]
    for name, change in changes:
        if name in live and (change != "add" or live[name] is not None):
            actions.append(remove(name, deletion_vector=live.pop(name)))
        elif change == "remove":
            actions.append(remove(name))
        if change != "remove":
            live[name] = vector(f"v{version}") if change == "vector" else None
            actions.append(add(name, deletion_vector=live[name]))
    return actions


@settings(deadline=None, max_examples=60)
@given(history=st.lists(st.tuples(CHANGES, st.booleans()), max_size=8))
def test_any_history_reads_the_same_with_and_without_checkpoints(history):
    plain, checked, live = MemoryStore(), MemoryStore(), {}
    first = [ProtocolAction(3, 7, ["deletionVectors"], ["deletionVectors"]), metadata(), Txn("app", 0)]
    for version, (changes, is_checkpoint) in enumerate([((), False), *history]):
        actions = actions_of(changes, live, version) if version else first
        table_with(plain, actions, start=version)
        table_with(checked, actions, start=version)
        if is_checkpoint:
            written = write_checkpoint(checked, version, now_ms=1)
            without_commits(checked, version)
            assert (written.summary.table_size.files, written.summary.table_size.bytes) == Snapshot.load(plain).totals
    expected, found = Snapshot.load(plain), Snapshot.load(checked)
    assert expected.totals[0] == len(live)
    assert found.files().sort_by("path").equals(expected.files().sort_by("path"))
    assert found.txns == expected.txns
    keys = ["path", "deletion_vector"]
    tombstones = [sorted(map(str, each.tombstones().select(keys).to_pylist())) for each in (expected, found)]
    assert tombstones[0] == tombstones[1]


# ---------------------------------------------------------------------- others read it


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"delta.checkpoint.writeStatsAsJson": "false"},
        {"delta.checkpoint.writeStatsAsStruct": "false"},
        {"delta.checkpointPolicy": "v2"},
        {"delta.columnMapping.mode": "name"},
        {"delta.enableDeletionVectors": "true"},
    ],
    ids=["default", "structs only", "text only", "v2", "column mapping", "deletion vectors"],
)
def test_deltalake_reads_the_table_through_our_checkpoint_alone(local, configuration):
    columns = schema("id", field("name", "string"), field("at", "timestamp"), field("day", "date"))
    state = new_table(columns, ["day"], {**configuration, "delta.checkpointInterval": "3"})
    Transaction.create(local).commit((), "CREATE TABLE", configuration=state)
    names = {each.name: stored_name(each) or each.name for each in state.schema.fields}
    for number in range(3):
        rows = pa.table(
            {
                names["id"]: pa.array([number, number + 10]),
                names["name"]: pa.array(["a", None]),
                names["at"]: pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
            }
        )
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        data = sink.getvalue().to_pybytes()
        local.put(f"part-{number}.parquet", data)
        stats = {
            "numRecords": 2,
            "minValues": {names["id"]: number, names["at"]: "2024-01-01T00:00:00.000Z"},
            "maxValues": {names["id"]: number + 10, names["at"]: "2024-01-01T00:00:00.000Z"},
            "nullCount": {names["id"]: 0, names["name"]: 1, names["at"]: 0},
        }
        file = type(add("x"))(
            f"part-{number}.parquet",
            {names["day"]: f"2024-01-0{number + 1}"},
            len(data),
            1,
            True,
            stats=json.dumps(stats),
        )
        transaction = Transaction(Snapshot.load(local))
        transaction.commit([file], "WRITE")
        assert transaction.outcome.problems == ()
    without_commits(local, 2)
    table = deltalake.DeltaTable(local.folder)
    assert table.version() == 3
    rows = (
        deltalake.QueryBuilder().register("t", table).execute("select * from t where id >= 11 order by id").read_all()
    )
    assert [value.as_py() for value in pa.table(rows)["id"]] == [11, 12]
    assert sorted(Snapshot.load(local).files("id = 12")["path"].to_pylist()) == ["part-2.parquet"]


# ---------------------------------------------------------------------- size


def test_large_state_streams_through():
    store = MemoryStore()
    lines = [encode_action(ProtocolAction(1, 2)), encode_action(metadata())]
    stats = '{"numRecords":1000,"minValues":{"id":1},"maxValues":{"id":1000},"nullCount":{"id":0}}'
    files = 100_000
    lines += (
        encode_action(type(add("x"))(f"part-{n:08d}-c000.snappy.parquet", {}, n, 1, True, stats=stats))
        for n in range(files)
    )
    store.put(DELTA.commit_path(0), b"\n".join(lines))
    del lines
    write_checkpoint(store, 0)
    without_commits(store, -1)
    table_with(store, [add("one more")], start=1)
    tracemalloc.start()
    written = write_checkpoint(store, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written.summary.table_size.files == files + 1
    assert peak < 30_000_000, f"peak of {peak:,} bytes of Python memory for {files:,} files"
