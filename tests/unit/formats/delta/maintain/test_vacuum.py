"""Vacuum: nothing that anybody needs is deleted, and nothing by accident."""

from __future__ import annotations

import os

import pytest
from tests.support.commit_builders import add, metadata, remove, schema

from halocline.errors import IncompatibleError, InputError, UnavailableError
from halocline.formats.delta.actions.action import ProtocolAction, encode_commit
from halocline.formats.delta.actions.deletion_vectors import file_path, write_file
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.schema_edit import field
from halocline.formats.delta.configuration.table_state import new_table
from halocline.formats.delta.maintain.vacuum import is_hidden, vacuum
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.storage.faulty import FaultyStore
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore

HOUR = 3_600_000
WEEK = 7 * 24 * HOUR


def created(store, configuration=None, partitions=()) -> None:
    columns = schema("id", *(field(name, "string") for name in partitions))
    Transaction.create(store).commit(new_table(columns, partitions, configuration).actions, "CREATE TABLE")


def commit(store, *actions, operation="WRITE") -> None:
    Transaction(Snapshot.load(store)).commit(actions, operation)


def later(hours: float):
    """A clock that is so many hours ahead."""
    import time

    return lambda: int(time.time() * 1000 + hours * HOUR)


def found(store, **options) -> list[str]:
    return [meta.path for meta in vacuum(Snapshot.load(store), **options).files]


@pytest.fixture
def store():
    store = MemoryStore()
    created(store, {"delta.enableDeletionVectors": "true"})
    return store


def test_only_files_that_nobody_needs_are_found(store):
    for name in (
        "live",
        "removed now",
        "removed long ago",
        "never committed",
        "_hidden/x",
        ".hidden",
        "_change_data/c",
    ):
        store.put(name, b"data")
    commit(store, add("live"), add("removed%20now"), add("removed%20long%20ago"))
    now = later(0)()
    gone = [remove("removed%20now"), remove("removed%20long%20ago")]
    gone = [type(gone[0])(each.path, at, True, True, {}, 100) for each, at in zip(gone, (now + WEEK, 5), strict=True)]
    commit(store, *gone, operation="DELETE")
    assert found(store, clock=later(24 * 7 + 1)) == ["_change_data/c", "never committed", "removed long ago"]


def test_young_files_stay_whatever_the_log_says(store):
    store.put("just written", b"data")
    assert found(store, clock=later(24 * 7 - 1)) == []
    assert found(store, clock=later(24 * 7 + 1)) == ["just written"]


def test_vector_files_are_needed_as_long_as_their_data_files(store):
    vectors = [write_file(store, [[1, 2]])[0] for _ in range(3)]
    live, removed, orphan = (file_path(store, each) for each in vectors)
    for name in "ab":
        store.put(name, b"data")
    commit(store, add("a", deletion_vector=vectors[0]), add("b", deletion_vector=vectors[1]))
    future = later(24 * 30)()
    tombstone = remove("b", deletion_vector=vectors[1])
    commit(store, type(tombstone)("b", future, True, True, {}, 100, deletion_vector=vectors[1]), operation="DELETE")
    paths = found(store, clock=lambda: future + HOUR)
    assert paths == [orphan]
    assert found(store, clock=lambda: future + WEEK + HOUR) == sorted(["b", removed, orphan])
    assert live not in paths


def test_dry_run_is_the_default_and_deletes_nothing(store):
    store.put("old", b"12345")
    result = vacuum(Snapshot.load(store), clock=later(24 * 8))
    assert (result.deleted, result.bytes) == (False, 5)
    assert store.exists("old")
    assert Snapshot.load(store).version == 0


def test_deleting_is_recorded_at_its_beginning_and_end(store):
    store.put("old/a", b"12345")
    store.put("old/b", b"1")
    result = vacuum(Snapshot.load(store), dry_run=False, clock=later(24 * 8))
    assert result.deleted
    assert not store.exists("old/a")
    start, end = (Snapshot.load(store, version=version).commit_info.values for version in (1, 2))
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationParameters"] == {"retentionCheckEnabled": True, "defaultRetentionMillis": WEEK}
    assert start["operationMetrics"] == {"numFilesToDelete": "2", "sizeOfDataToDelete": "6"}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "2", "numVacuumedDirectories": "1"}
    assert start["isolationLevel"] == "SnapshotIsolation"


def test_deleting_without_record_leaves_the_log_alone(store):
    store.put("old", b"1")
    vacuum(Snapshot.load(store), dry_run=False, record=False, clock=later(24 * 8))
    assert Snapshot.load(store).version == 0
    assert not store.exists("old")


def test_failure_is_recorded_and_raised(store):
    store.put("old", b"1")
    faulty = FaultyStore(store).transient(1, on=["delete"])
    with pytest.raises(UnavailableError):
        vacuum(Snapshot.load(faulty), dry_run=False, clock=later(24 * 8))
    assert Snapshot.load(store).commit_info.values["operationParameters"] == {"status": "FAILED"}


@pytest.mark.parametrize("retention_ms", [0, WEEK - 1], ids=["nothing", "a bit less"])
def test_shorter_retention_than_promised_needs_to_be_allowed(store, retention_ms):
    with pytest.raises(InputError) as caught:
        vacuum(Snapshot.load(store), retention_ms=retention_ms)
    assert caught.value.condition == "RETENTION_TOO_SHORT"
    assert caught.value.sides["table"].endswith("168 h")
    store.put("new", b"1")
    assert found(store, retention_ms=retention_ms, allow_short_retention=True, clock=later(24 * 7)) == ["new"]


def test_longer_retention_is_always_fine(store):
    store.put("old", b"1")
    assert found(store, retention_ms=2 * WEEK, clock=later(24 * 8)) == []


def test_retention_of_the_table_counts():
    store = MemoryStore()
    created(store, {"delta.deletedFileRetentionDuration": "interval 1 hour"})
    store.put("old", b"1")
    assert found(store, clock=later(2)) == ["old"]


def test_file_brought_back_meanwhile_is_spared(store):
    store.put("old", b"1")
    stale = Snapshot.load(store)
    commit(store, add("old"))
    result = vacuum(stale, dry_run=False, clock=later(24 * 8))
    assert result.files == ()
    assert store.exists("old")


def test_gate_is_the_one_for_writing():
    store = MemoryStore()
    protocol = ProtocolAction(3, 7, ["vacuumProtocolCheck"], ["vacuumProtocolCheck", "shiny"])
    store.put(DELTA.commit_path(0), encode_commit([protocol, metadata()]))
    store.put("old", b"1")
    with pytest.raises(IncompatibleError, match="shiny"):
        vacuum(Snapshot.load(store), clock=later(24 * 8))


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("_delta_log/0.json", True),
        ("_temporary/x/part", True),
        (".part.crc", True),
        ("a/.b/c", True),
        ("_day=1/part", False),
        ("_other=1/part", True),
        ("_change_data/day=1/cdc", False),
        ("part", False),
    ],
)
def test_hidden_names_are_not_data(path, hidden):
    assert is_hidden(path, ("_day=",)) is hidden


def test_absolute_paths_below_the_root_are_needed_and_others_are_left_alone(tmp_path):
    outside = tmp_path / "elsewhere" / "x.parquet"
    outside.parent.mkdir()
    outside.write_bytes(b"1")
    store = LocalStore(tmp_path / "a table")
    created(store)
    for name in ("inside", "relative", "nobody's"):
        store.put(name, b"1")
    commit(store, add(f"file://{tmp_path}/a%20table/inside"), add("relative"), add(f"file://{outside}"))
    vacuum(Snapshot.load(store), dry_run=False, record=False, clock=later(24 * 8))
    assert sorted(name for name in os.listdir(store.folder) if not name.startswith(("_", "."))) == [
        "inside",
        "relative",
    ]
    assert outside.exists()
