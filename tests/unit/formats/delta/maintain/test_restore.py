"""Going back, and cloning: both make a table out of files that exist already."""

from __future__ import annotations

import pytest
from tests.support.columns import field, schema
from tests.support.commit_builders import add, remove, vector

from halocline.errors import ConflictError, NotFoundError
from halocline.formats.delta.actions.action import Add, DomainMetadata, Txn
from halocline.formats.delta.actions.deletion_vectors import write_file
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import alter
from halocline.formats.delta.configuration.identity import identity_columns, with_marks
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.features.drop import drop_feature
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.maintain.restore import restoration
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.memory import MemoryStore

NOW = 1_700_000_000_000


def created(store=None, configuration=None, columns=None, partitions=()):
    store = store or MemoryStore()
    state = new_table(columns or schema("id"), partitions, configuration)
    Transaction.create(store).commit((), "CREATE TABLE", configuration=state)
    return store


def commit(store, *actions, operation="WRITE") -> int:
    for action in actions:
        if isinstance(action, Add) and not store.exists(action.path):
            store.put(action.path, b"data")
    return Transaction(Snapshot.load(store)).commit(actions, operation)


def restore(store, version: int) -> dict[str, int]:
    current, target = Snapshot.load(store), Snapshot.load(store, version=version)
    back = restoration(current, target, now_ms=NOW)
    transaction = Transaction(current)
    transaction.read_whole_table()
    said = CommitDescription("RESTORE", {"version": version, "timestamp": None}, back.metrics)
    transaction.commit(back.actions, said, configuration=back.configuration, row_id_mark=back.row_id_mark)
    return back.metrics


def ids(store) -> dict[str, int | None]:
    files = Snapshot.load(store).files()
    return dict(zip(files["path"].to_pylist(), files["base_row_id"].to_pylist(), strict=True))


def paths(store, **options) -> list[str]:
    return sorted(Snapshot.load(store, **options).files()["path"].to_pylist())


def test_table_is_what_it_was_and_history_grows():
    store = created()
    commit(store, add("a"), add("b"))
    commit(store, remove("a"), add("c"), operation="UPDATE")
    metrics = restore(store, 1)
    assert paths(store) == ["a", "b"]
    assert paths(store, version=2) == ["b", "c"]
    assert Snapshot.load(store).version == 3
    assert metrics == {
        "tableSizeAfterRestore": 200,
        "numOfFilesAfterRestore": 2,
        "numRemovedFiles": 1,
        "numRestoredFiles": 1,
        "removedFilesSize": 100,
        "restoredFilesSize": 100,
    }
    info = Snapshot.load(store).commit_info.values
    assert info["operationParameters"] == {"version": 1, "timestamp": None}
    assert info["isBlindAppend"] is False


def test_file_is_told_from_itself_with_another_vector():
    store = created(configuration={"delta.enableDeletionVectors": "true"})
    commit(store, add("a"))
    (first,) = write_file(store, [[1]])
    commit(store, remove("a"), add("a", deletion_vector=first), operation="DELETE")
    restore(store, 1)
    assert Snapshot.load(store).files()["deletion_vector"].to_pylist() == [None]
    restore(store, 2)
    (found,) = vectors_in(Snapshot.load(store).files()["deletion_vector"])
    assert found == first


@pytest.mark.parametrize("vectors", [False, True], ids=["data file", "vector file"])
def test_missing_files_are_named_and_nothing_is_written(vectors):
    store = created(configuration={"delta.enableDeletionVectors": "true"})
    commit(store, add("a", deletion_vector=vector("ab^-aqEH.-t@S}K{vb[*k^") if vectors else None))
    commit(
        store, remove("a", deletion_vector=vector("ab^-aqEH.-t@S}K{vb[*k^") if vectors else None), operation="DELETE"
    )
    if not vectors:
        store.delete("a")
    with pytest.raises(NotFoundError) as caught:
        restore(store, 1)
    assert caught.value.condition == "DATA_FILES_MISSING"
    assert caught.value.sides["missing"].startswith("ab/deletion_vector_" if vectors else "a")
    assert Snapshot.load(store).version == 2


def test_restoring_the_newest_version_changes_nothing():
    store = created()
    commit(store, add("a"))
    restore(store, 1)
    after = Snapshot.load(store)
    assert (after.version, after.files()["path"].to_pylist()) == (2, ["a"])


def test_protocol_never_goes_back_and_properties_do():
    store = created()
    snapshot = Snapshot.load(store)
    state = alter.set_properties(
        snapshot.configuration,
        {
            "delta.enableDeletionVectors": "true",
            "delta.checkpointInterval": "7",
            "delta.enableInCommitTimestamps": "true",
        },
    )
    commit(store, *state.actions_since(snapshot.configuration), operation="SET TBLPROPERTIES")
    restore(store, 0)
    after = Snapshot.load(store)
    assert after.protocol == state.protocol
    assert "delta.checkpointInterval" not in after.properties
    assert after.properties["delta.enableInCommitTimestamps"] == "true", "timestamps never go back"


def test_identity_marks_only_move_forward():
    notes = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    store = created(columns=schema(field("id", "long", metadata=notes)))
    commit(store, with_marks(Snapshot.load(store).metadata, {"id": 9}), add("a"))
    restore(store, 0)
    assert identity_columns(Snapshot.load(store).metadata.schema)[0].mark == 9
    assert paths(store) == []


def test_domains_go_back_but_for_row_ids():
    store = created(configuration={"delta.enableRowTracking": "true"})
    commit(store, DomainMetadata("kept", "1"))
    commit(store, DomainMetadata("kept", "2"), DomainMetadata("new", "x"), add("a", rows=5))
    restore(store, 1)
    domains = Snapshot.load(store).domains
    assert {name: domain.configuration for name, domain in domains.items()} == {
        "kept": "1",
        "delta.rowTracking": '{"rowIdHighWaterMark":4}',
    }


def test_rows_that_lost_their_ids_have_them_back_and_no_other_row_gets_them():
    store = created(configuration={"delta.enableRowTracking": "true"})
    commit(store, add("a", rows=5), add("b", rows=2))
    commit(store, remove("b"), operation="DELETE")
    drop_feature(Snapshot.load(store), "rowTracking", truncate_history=False, approve=lambda *_: "")
    last = Snapshot.load(store).version
    assert ids(store) == {"a": None}
    commit(store, add("c", rows=5))
    restore(store, 2)
    assert ids(store) == {"a": 0}
    assert Snapshot.load(store).properties.row_tracking
    commit(store, add("d", rows=1))
    assert ids(store) == {"a": 0, "d": 7}, "not those that the deleted rows had"
    restore(store, 1)
    assert ids(store) == {"a": 0, "b": 5}
    restore(store, last)
    assert paths(store) == ["a"]
    assert not Snapshot.load(store).properties.row_tracking


def test_rows_that_were_given_other_ids_have_the_old_ones_back():
    store = created(configuration={"delta.enableRowTracking": "true"})
    commit(store, add("a", rows=5))
    commit(store, add("b", rows=5))
    commit(store, remove("a"), operation="DELETE")
    drop_feature(Snapshot.load(store), "rowTracking", truncate_history=False, approve=lambda *_: "")
    before = Snapshot.load(store)
    state = alter.set_properties(before.configuration, {"delta.enableRowTracking": "true"})
    Transaction(before).commit((), "SET TBLPROPERTIES", configuration=state)
    commit(store, remove("b"), operation="DELETE")
    commit(store, add("b", rows=5), add("c", rows=20))
    assert ids(store) == {"b": 0, "c": 5}
    restore(store, 2)
    assert ids(store) == {"a": 0, "b": 5}
    commit(store, add("d", rows=1))
    assert ids(store)["d"] == 25


def test_ids_come_back_as_they_were_though_another_commit_comes_first():
    store = created(configuration={"delta.enableRowTracking": "true"})
    commit(store, add("a", rows=5), add("b", rows=2))
    drop_feature(Snapshot.load(store), "rowTracking", truncate_history=False, approve=lambda *_: "")
    current, target = Snapshot.load(store), Snapshot.load(store, version=1)
    back = restoration(current, target, now_ms=NOW)
    transaction = Transaction(current)
    transaction.read_whole_table()
    commit(store, Txn("job", 1))
    transaction.commit(back.actions, "RESTORE", configuration=back.configuration, row_id_mark=back.row_id_mark)
    assert ids(store) == {"a": 0, "b": 5}
    commit(store, add("d", rows=1))
    assert ids(store)["d"] == 7


@pytest.mark.parametrize("later", [["b"], []], ids=["files to take out", "nothing to do"])
def test_any_change_in_between_is_a_conflict(later):
    store = created()
    commit(store, add("a"))
    commit(store, *map(add, later))
    current, target = Snapshot.load(store), Snapshot.load(store, version=1)
    back = restoration(current, target, now_ms=NOW)
    commit(store, add("c"))
    transaction = Transaction(current)
    transaction.read_whole_table()
    with pytest.raises(ConflictError):
        transaction.commit(back.actions, CommitDescription("RESTORE", {"version": 1, "timestamp": None}))
