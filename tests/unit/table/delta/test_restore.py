import time

import pyarrow as pa
import pytest
from tests.support.tables import their_rows

from halocline.errors import ConflictError, IncompatibleError, InputError, NotFoundError, SchemaError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.alter import add_columns, set_properties
from halocline.formats.delta.configuration.column_mapping import field_id
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.maintain.lint import lint
from halocline.formats.delta.maintain.restore import restoration
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema import Field, Primitive, Struct
from halocline.spark.session.settings import Settings
from halocline.storage import open_store
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore
from halocline.table import Table, gatekeeper
from halocline.table.delta.opened import Opened
from halocline.table.delta.restore import restore_version


class Lake:
    """A table whose data files are only names and bytes."""

    def __init__(self, configuration=None, named=()):
        self.store = MemoryStore()
        schema = Struct([Field("id", Primitive("long"))])
        new = new_table(schema, (), configuration, named=named)
        Transaction.create(self.store).commit((), "CREATE TABLE", configuration=new)

    def snapshot(self, version=None):
        return Snapshot.load(self.store, version=version)

    def commit(self, actions, operation="WRITE"):
        return Transaction(self.snapshot()).commit(actions, operation)

    def add(self, *names):
        for name in names:
            self.store.put(name, b"x" * 10)
        return self.commit([Add(name, {}, 10, 1, True, stats='{"numRecords":3}') for name in names])

    def remove(self, *names):
        files = self.snapshot().files()
        chosen = files.filter([path in names for path in files["path"].to_pylist()])
        return self.commit(removes_from(chosen, timestamp_ms=5, data_change=True), "DELETE")

    def evolve(self, change, operation="ALTER TABLE"):
        before = self.snapshot()
        return Transaction(before).commit((), operation, configuration=change(before.configuration))

    def paths(self, version=None):
        return sorted(self.snapshot(version).files()["path"].to_pylist())

    def restore(self, *arguments, **named):
        return restore_version(Opened(self.store), *arguments, **named)


def test_restoring_brings_back_files_columns_and_properties():
    lake = Lake({"delta.enableChangeDataFeed": "true", "owner": "me"})
    lake.add("a.parquet", "b.parquet")
    lake.evolve(lambda state: add_columns(state, [Field("new", Primitive("date"))]))
    lake.evolve(lambda state: set_properties(state, {"owner": "you"}))
    lake.remove("a.parquet")
    lake.add("c.parquet")
    restored = lake.restore(1)
    snapshot = lake.snapshot()
    assert lake.paths() == ["a.parquet", "b.parquet"]
    assert snapshot.schema.names == ("id",)
    assert snapshot.properties["owner"] == "me"
    assert (restored.version, restored.restored_files, restored.removed_files, restored.files) == (6, 1, 1, 2)
    info = snapshot.commit_info.values
    assert info["operation"] == "RESTORE"
    assert info["operationParameters"]["version"] == 1
    assert info["operationMetrics"] == {
        "tableSizeAfterRestore": "20",
        "numOfFilesAfterRestore": "2",
        "numRemovedFiles": "1",
        "numRestoredFiles": "1",
        "removedFilesSize": "10",
        "restoredFilesSize": "10",
    }


def test_restoring_by_time_takes_the_version_that_held_then():
    lake = Lake()
    time.sleep(0.01)
    lake.add("a.parquet")
    moment = lake.snapshot().timestamp_ms
    time.sleep(0.01)
    lake.remove("a.parquet")
    lake.restore(timestamp=moment)
    assert lake.paths() == ["a.parquet"]


def test_vacuumed_version_is_refused_and_nothing_is_committed():
    lake = Lake()
    lake.add("a.parquet", "b.parquet")
    version = lake.remove("a.parquet")
    lake.store.delete("a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet") as caught:
        lake.restore(1)
    assert caught.value.condition == "DATA_FILES_MISSING"
    assert lake.snapshot().version == version


def test_append_only_table_is_refused_if_rows_would_go():
    lake = Lake({"delta.appendOnly": "true"})
    version = lake.add("a.parquet")
    with pytest.raises(InputError) as caught:
        lake.restore(0)
    assert caught.value.condition == "TABLE_APPEND_ONLY"
    assert lake.snapshot().version == version


@pytest.mark.parametrize(("arguments", "error"), [((), InputError), ((99,), NotFoundError)])
def test_version_that_is_missing_or_not_given_is_refused(arguments, error):
    with pytest.raises(error):
        Lake().restore(*arguments)


def test_features_that_come_back_are_asked_for_first():
    class Strict(gatekeeper.Alone):
        def approve_change(self, change):
            raise IncompatibleError(f"somebody cannot read {sorted(change.gained)}")

    lake = Lake({"delta.feature.vacuumProtocolCheck": "supported"})
    lake.add("a.parquet")
    dropped = lake.snapshot()
    smaller = action_of(dropped.protocol.without_feature("vacuumProtocolCheck"))
    Transaction(dropped).commit([smaller], "DROP FEATURE", dropped_feature="vacuumProtocolCheck")
    with pytest.raises(InputError, match="would gain vacuumProtocolCheck"):
        lake.restore(1)
    upgrading = Opened(lake.store, settings=Settings(auto_upgrade=True))
    before = gatekeeper.install(Strict())
    try:
        with pytest.raises(IncompatibleError, match="vacuumProtocolCheck"):
            restore_version(upgrading, 1)
    finally:
        gatekeeper.install(before)
    assert lake.snapshot().version == 2
    restore_version(upgrading, 1)
    assert "vacuumProtocolCheck" in lake.snapshot().protocol.features


def test_partitioned_version_comes_back_after_the_table_was_clustered(tmp_path):
    rows = pa.table({"id": [1, 2], "country": ["at", "nz"]})
    table = Table.create(tmp_path, rows, partition_by="country")
    Table.replace(tmp_path, pa.table({"id": [3]}), cluster_by="id")
    with pytest.raises(InputError, match="excludes partition columns"):
        Table.replace(tmp_path, rows, partition_by="country")
    table.restore(0)
    table.set_properties({"owner": "me"})
    table.append_arrow(rows)
    snapshot = table.snapshot()
    assert (snapshot.partition_columns, snapshot.protocol.supports("clustering")) == (("country",), True)
    assert sorted(table.to_arrow().read_all()["id"].to_pylist()) == [1, 1, 2, 2]
    with pytest.raises(SchemaError, match="partitioned or clustered"):
        table.cluster_by("id")
    assert lint(open_store(str(tmp_path))).findings == ()


def test_version_from_before_column_mapping_comes_back_with_its_names(tmp_path):
    table = Table.create(tmp_path, pa.table({"id": [1], "word": ["a"]}))
    table.set_properties({"delta.columnMapping.mode": "name"})
    table.rename_column("word", "text")
    table.append_arrow(pa.table({"id": [2], "text": ["b"]}))
    table.restore(0)
    table.append_arrow(pa.table({"id": [3], "word": ["c"]}))
    assert sorted(map(tuple, their_rows(tmp_path, "id", "word"))) == [(1, "a"), (3, "c")]
    table.set_properties({"delta.columnMapping.mode": "name"})
    table.rename_column("id", "key")
    found = table.to_arrow().read_all().sort_by("key")
    assert found.to_pydict() == {"key": [1, 3], "word": ["a", "c"]}
    assert min(field_id(field) for field in table.snapshot().schema.fields) > 2, "no id is given out twice"


def with_an_old_file(path):
    """A table that has 1, and in version 1 had 2 as well, in a file that a vacuum takes."""
    short = {"delta.deletedFileRetentionDuration": "interval 1 milliseconds"}
    table = Table.create(path, pa.table({"id": [1]}), properties=short)
    table.append_arrow(pa.table({"id": [2]}))
    table.restore(0)
    time.sleep(0.05)
    return table


def test_a_vacuum_between_the_look_for_files_and_the_commit_is_a_conflict(tmp_path, monkeypatch):
    table = with_an_old_file(tmp_path / "t")

    def planned(*arguments, **named):
        found = restoration(*arguments, **named)
        assert len(Table.for_path(tmp_path / "t").vacuum(dry_run=False).files) == 1
        return found

    monkeypatch.setattr("halocline.table.delta.restore.restoration", planned)
    with pytest.raises(ConflictError, match="it deletes files"):
        table.restore(1)
    assert table.to_arrow().read_all()["id"].to_pylist() == [1]


def test_nothing_comes_back_while_a_vacuum_deletes(tmp_path, monkeypatch):
    table = with_an_old_file(tmp_path / "t")
    delete, killed = LocalStore.delete_many, []

    def deleting(store, paths):
        if killed:
            raise KeyboardInterrupt
        with pytest.raises(ConflictError, match="is under way, and may delete"):
            Table.for_path(tmp_path / "t").restore(1)
        return delete(store, paths)

    monkeypatch.setattr(LocalStore, "delete_many", deleting)
    table.vacuum(dry_run=False)
    assert table.to_arrow().read_all()["id"].to_pylist() == [1]
    table.append_arrow(pa.table({"id": [3]}))
    table.restore(0)
    time.sleep(0.05)
    killed.append(True)
    with pytest.raises(KeyboardInterrupt):
        table.vacuum(dry_run=False)
    killed.clear()
    monkeypatch.setattr(LocalStore, "delete_many", delete)
    with pytest.raises(ConflictError, match="vacuum once more") as told:
        table.restore(5)
    assert "without an end" in told.value.sides["vacuum"]
    table.vacuum(dry_run=False)
    with pytest.raises(NotFoundError, match="1 of its files no longer exist"):
        table.restore(5)
