"""The one opener: every write is an operation of the fleet, every version opened is told, leases are asked."""

from __future__ import annotations

from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.columns import field, schema

from halocline.errors import ConflictError, InputError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.spark.session import settings
from halocline.spark.session.settings import Settings
from halocline.storage.memory import MemoryStore
from halocline.table import Table, gatekeeper
from halocline.table.delta.opened import Opened
from halocline.table.gatekeeper import Alone
from halocline.table.opening import as_operation

SCHEMA = schema("id", "amount")


class Fleet(Alone):
    """A gatekeeper that notes what begins and ends, and what is opened."""

    def __init__(self, level: int = 4, leased: bool = True) -> None:
        self.operations: list[str] = []
        self.running: list[str] = []
        self.uses: list[tuple[str, bool]] = []
        self.standing = level
        self.leased = leased

    @contextmanager
    def operation(self, name):
        self.operations.append(name)
        self.running.append(name)
        try:
            yield Begun(self, self.standing)
        finally:
            self.running.remove(name)

    def note_use(self, table, operation):
        self.uses.append((operation, bool(self.running)))

    def opened(self, snapshot, operation, *, newest):
        self.note_use(snapshot.store.root, operation)
        return self.standing


class Begun:
    def __init__(self, fleet: Fleet, level: int) -> None:
        self.fleet, self.begun_at = fleet, level

    def gate(self, ladder, level):
        return level <= self.begun_at

    def level(self, ladder):
        return self.begun_at

    def may_commit(self):
        return self.fleet.leased


@pytest.fixture
def fleet():
    joined = Fleet()
    before = gatekeeper.install(joined)
    yield joined
    gatekeeper.install(before)


@pytest.fixture
def table(tmp_path, fleet):
    made = Table.create(tmp_path / "orders", [field("id", "long"), field("amount", "long")])
    made.set_properties({"owner": "me"})
    fleet.operations.clear()
    fleet.uses.clear()
    return made


WRITES = {
    "add_columns": lambda t, path: t.add_columns([field("more", "long")]),
    "add_constraint": lambda t, path: t.add_constraint("positive", "id > 0"),
    "add_feature_support": lambda t, path: t.add_feature_support("checkConstraints"),
    "clone": lambda t, path: t.shallow_clone(path / "clone"),
    "convert": lambda t, path: Table.convert_to_delta(_folder(path / "loose")),
    "create": lambda t, path: Table.create(path / "new", [field("id", "long")]),
    "drop_feature_support": lambda t, path: t.drop_feature_support("v2Checkpoint"),
    "replace": lambda t, path: Table.replace(path / "orders", [field("id", "long")]),
    "restore": lambda t, path: t.restore(0),
    "set_properties": lambda t, path: t.set_properties({"owner": "you"}),
    "set_properties of rows": lambda t, path: t.set_properties({"delta.enableRowTracking": "true"}),
    "vacuum": lambda t, path: t.vacuum(dry_run=False),
}


def _folder(path):
    path.mkdir()
    pq.write_table(pa.table({"id": [1]}), path / "a.parquet")
    return path


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_one_operation_from_its_first_look_to_its_commit(table, fleet, tmp_path, name):
    if name == "drop_feature_support":
        table.set_properties({"delta.checkpointPolicy": "v2"})
        fleet.operations.clear()
        fleet.uses.clear()
    WRITES[name](table, tmp_path)
    assert len(fleet.operations) == 1, fleet.operations
    outside = [operation for operation, inside in fleet.uses if not inside and operation.startswith("write")]
    assert outside == [], "opened for writing before the operation began"
    assert fleet.running == []


def test_reading_is_told_and_is_no_operation(table, fleet):
    table.history()
    table.detail()
    assert fleet.operations == []
    assert [operation for operation, _ in fleet.uses] == ["read", "read"]


def test_an_operation_keeps_the_level_that_it_began_with(fleet):
    store = MemoryStore()
    Opened(store).transaction().commit([Add("a.parquet", {}, 9, 1, True)], "CREATE TABLE", configuration=_state())
    seen = []

    @as_operation
    def work(table):
        fleet.standing = 5
        seen.append(table.snapshot().level)

    work(Opened(store))
    assert seen == [4], "the fleet rose meanwhile, and the operation did not"
    assert Opened(store).snapshot().level == 5


def _state():
    return new_table(SCHEMA)


def test_what_uses_a_level_is_not_committed_without_a_lease_and_the_rest_is(table, fleet):
    fleet.leased = False
    before = table.version
    assert table.set_properties({"owner": "you"}).version == before + 1
    with pytest.raises(ConflictError, match="lease") as refused:
        table.add_feature_support("checkConstraints")
    assert refused.value.condition == "INCARNATION_ENDED"
    assert table.version == before + 1


def test_an_error_ends_the_operation(table, fleet):
    with pytest.raises(InputError):
        table.unset_properties(["nobody"])
    assert fleet.running == []


def test_settings_are_in_force_while_a_verb_runs(table):
    seen = []
    opened = Opened(table.store, settings=Settings.read({"halocline.scan.mode": "paths"}))
    as_operation(lambda _: seen.append(settings.in_force(None).scan_mode))(opened)
    assert seen == ["paths"]
    assert settings.in_force(None).scan_mode == "auto"
