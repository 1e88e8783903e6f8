"""A fleet in front of tables: who is asked before a table requires more, and what it hears."""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest
from tests.support.fleets import SCHEMA, SWITCH, declared, make_table, raise_to, running, until, users_of

import halocline as hc
from halocline.compat.breaks import breaks
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.errors import ConflictError, IncompatibleError, UnavailableError
from halocline.fleet.core.ladders import shipped
from halocline.fleet.core.state import Provenance
from halocline.fleet.member.gatekeeper import level_of, table_level
from halocline.fleet.usage.users import User
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.table.delta.rows.files import LEVEL

DAY_MS = 24 * 3_600_000
BEFORE = Terms(Protocol.delta(1, 2), frozenset())
AFTER = Terms(BEFORE.protocol.upgraded("deletionVectors"), frozenset({"deletionVectors"}))


# ---------------------------------------------------------------------- users as they are judged


@pytest.mark.parametrize(
    ("release", "operation", "why"),
    [
        ("deltalake@1.0.2", "read", "refused: reads deletionVectors from 1.3.2"),
        ("deltalake@1.3.2", "write.append", "refused: writes (append) deletionVectors from 1.4.0"),
        ("never-heard-of@3.1", "read", "unknown: nothing is known about never-heard-of"),
        ("no release at all", "read", "unknown: nothing is known about no release at all"),
    ],
)
def test_user_that_lacks_the_feature_breaks(release, operation, why):
    user = User("x", release, (operation,), Provenance.DECLARED)
    (broken,) = breaks(BEFORE, AFTER, [user.client])
    assert (broken.client.name, str(broken.verdict)) == ("x", why)


@pytest.mark.parametrize(
    ("release", "operations"),
    [("deltalake@1.6.6", ("read", "write")), ("trino@469", ("read",)), ("halocline@0.1.0", ("write",))],
)
def test_user_that_has_the_feature_does_not_break(release, operations):
    user = User("x", release, operations, Provenance.REPORTED)
    assert breaks(BEFORE, AFTER, [user.client]) == ()


def test_writing_decides_where_both_are_refused():
    user = User("x", "deltalake@1.0.2", ("read", "write"), Provenance.OBSERVED)
    (broken,) = breaks(BEFORE, AFTER, [user.client])
    assert broken.verdict.operation == "write"
    assert broken.verdict.fix.upgrade.version.text == "1.4.0"


# ---------------------------------------------------------------------- levels


def test_every_feature_of_a_rung_has_its_level():
    for name, each in shipped().items():
        for level, features in each.features.items():
            assert {feature: level_of(name, [feature]) for feature in features} == dict.fromkeys(features, level)


def test_marking_rows_begins_at_the_level_that_brings_deletion_vectors():
    assert level_of("delta", ["deletionVectors"]) == LEVEL


@pytest.mark.parametrize(
    ("protocol", "level"),
    [
        ("(1,2)", 1),
        ("(1,4)", 2),
        ("(2,5)", 5),
        (str(AFTER.protocol), 4),
        ("(1,7|W: appendOnly,checkpointProtection,invariants)", 1),
    ],
)
def test_a_table_has_the_level_of_its_highest_feature(protocol, level):
    assert table_level(Protocol.parse(protocol)) == level


# ---------------------------------------------------------------------- asking


@pytest.fixture(scope="module")
def fleet():
    with running() as (hosting, admin):
        yield hosting, admin


def test_enabling_is_refused_and_names_who_would_break(fleet, tmp_path):
    hosting, admin = fleet
    url = make_table(tmp_path / "orders", "delta-rs:py-1.0.2")
    with (
        hc.connect(hosting.address, name="ops") as ops,
        hc.connect(hosting.address, name="finance", release="deltalake@1.0.2", role="reader", install=False) as finance,
    ):
        with finance.acting():
            hc.Table.for_path(url, release="deltalake@1.0.2")
        until(lambda: "finance" in users_of(admin, url))
        table = hc.Table.for_path(url)
        with pytest.raises(IncompatibleError) as caught:
            table.set_properties(SWITCH)
        assert ops.gatekeeper.member.contact.status == "joined"
    error = caught.value
    assert error.condition == "WOULD_BREAK_USERS"
    assert "2 of 3 who use it" in error.message
    assert "deltalake@1.0.2 reads it (reported)" in error.sides["finance"]
    assert any("(observed)" in text for text in error.sides.values())
    assert "deltalake to 1.4.0" in error.next_step
    assert table.version == 0


@pytest.mark.parametrize(
    "gain",
    [
        lambda table: table.set_properties(SWITCH),
        lambda table: table.add_feature_support("deletionVectors"),
        lambda table: table.upgrade_table_protocol(2, 5),
    ],
    ids=["property", "feature", "numbers"],
)
def test_every_way_to_gain_a_feature_asks_the_gate(fleet, tmp_path, gain):
    hosting, _ = fleet
    url = make_table(tmp_path / "orders")
    with hc.connect(hosting.address, name="ops"):
        table = hc.Table.for_path(url)
        with pytest.raises(IncompatibleError) as caught:
            gain(table)
    assert caught.value.condition == "GATE_CLOSED"
    assert "gates are open up to level 1" in caught.value.sides["fleet"]
    assert "--dry-run" in caught.value.next_step


def test_many_features_that_are_gained_at_once_are_counted_and_programs_get_them_all(fleet, tmp_path):
    hosting, _ = fleet
    with hc.connect(hosting.address, name="ops"), pytest.raises(IncompatibleError) as caught:
        hc.Table.create(tmp_path / "new", SCHEMA, format="hudi", keys="id", version=9)
    error = caught.value
    gained = error.to_dict()["data"]["gained"]
    assert error.condition == "GATE_CLOSED"
    assert len(gained) > 20
    assert f"{', '.join(gained[:5])} and {len(gained) - 5} more" in error.message
    assert len(str(error)) < 800


def test_creating_with_a_feature_asks_the_gate(fleet, tmp_path):
    hosting, _ = fleet
    with hc.connect(hosting.address, name="ops"), pytest.raises(IncompatibleError) as caught:
        hc.Table.create(tmp_path / "new", SCHEMA, properties=SWITCH)
    assert caught.value.condition == "GATE_CLOSED"
    assert not hc.Table.is_table(tmp_path / "new")


def test_an_open_gate_agrees_and_says_who_was_checked(tmp_path):
    url = make_table(tmp_path / "orders", "Apache-Spark/3.5.0 Delta-Lake/3.2.0")
    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        table = hc.Table.for_path(url)
        altered = table.set_properties(SWITCH)
        assert "ops (halocline@0.1.0)" in altered.approval.checked
        assert "delta-spark@3.2.0" in altered.approval.checked
        assert "delta is at level 4" in altered.approval.checked
        assert table.features()["deletionVectors"] == "enabled"


def test_a_declared_member_counts_until_it_is_removed(tmp_path):
    url = make_table(tmp_path / "orders")
    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        admin.observe(declared("powerbi", "trino@400", url))
        table = hc.Table.for_path(url)
        with pytest.raises(IncompatibleError) as caught:
            table.set_properties(SWITCH)
        assert "(declared)" in caught.value.sides["powerbi"]
        admin.remove_member("powerbi", "switched off")
        assert "powerbi" not in table.set_properties(SWITCH).approval.checked


def test_an_observed_member_is_forgotten_after_the_window(tmp_path):
    long_ago = int(time.time() * 1000) - 40 * DAY_MS
    url = make_table(tmp_path / "orders", "delta-rs:py-1.0.2", long_ago)
    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        assert "deltalake" not in hc.Table.for_path(url).set_properties(SWITCH).approval.checked


# ---------------------------------------------------------------------- the table's level


def recorded(admin, url):
    answer = admin.table_users(url)
    return {each.ladder: each.level for each in answer.levels}


def test_the_level_of_a_table_follows_its_migration(tmp_path):
    url = make_table(tmp_path / "orders")
    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        table = hc.Table.for_path(url)
        assert table.snapshot().level == 1
        table.set_properties(SWITCH)
        until(lambda: table.snapshot().level == 4)
        until(lambda: recorded(admin, url) == {"delta": 4})
        table.drop_feature_support("deletionVectors")
        assert table.snapshot().level == 1
        until(lambda: recorded(admin, url) == {"delta": 1})


def test_a_level_that_the_fleet_did_not_take_is_told_again_when_it_stands_elsewhere(tmp_path):
    url = make_table(tmp_path / "orders")
    hc.Table.for_path(url).set_properties(SWITCH)
    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        table = hc.Table.for_path(url)
        assert table.snapshot().level == 1, "the table has more, and the gate is closed"
        until(lambda: any(each.refused_at for each in ops.gatekeeper._tables.values()))
        assert recorded(admin, url) == {}
        raise_to(admin, 4)
        until(lambda: table.snapshot().level == 4)
        until(lambda: recorded(admin, url) == {"delta": 4})


def test_a_closing_gate_lowers_the_level_of_new_snapshots(tmp_path):
    url = make_table(tmp_path / "orders")
    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        table = hc.Table.for_path(url)
        table.set_properties(SWITCH)
        assert table.snapshot().level == 4
        held = table.snapshot()
        admin.start_downgrade("delta", 3, "test")
        until(lambda: not ops.gate("delta", 4))
        assert table.snapshot().level == 3
        assert not table.snapshot().gate(LEVEL)
        assert held.gate(LEVEL), "an operation keeps the level it began with"


def test_a_table_alone_has_no_level_and_an_open_gate(tmp_path):
    snapshot = hc.Table.for_path(make_table(tmp_path / "orders")).snapshot()
    assert snapshot.level is None
    assert snapshot.gate(99)


def test_an_older_version_does_not_tell_the_level(tmp_path):
    url = make_table(tmp_path / "orders")
    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        table = hc.Table.for_path(url)
        table.set_properties(SWITCH)
        until(lambda: table.snapshot().level == 4)
        assert table.snapshot(version=0).level == 4


# ---------------------------------------------------------------------- unreachable


def test_without_the_fleet_reads_go_on_and_nothing_new_is_enabled(tmp_path):
    url = make_table(tmp_path / "orders")
    with hc.connect("grpc://127.0.0.1:1", name="ops", wait=0.3) as ops:
        table = hc.Table.for_path(url)
        assert table.snapshot().level == 0
        assert not ops.gate("delta", 1)
        with pytest.raises(UnavailableError) as caught:
            table.set_properties(SWITCH)
        assert table.set_properties({"owner": "finance"}).committed
    assert "not reached since 20" in caught.value.sides["fleet"]
    assert "deletionVectors" in caught.value.message


def test_losing_the_fleet_closes_gates_and_says_since_when(tmp_path):
    url = make_table(tmp_path / "orders")
    with running() as (hosting, admin):
        raise_to(admin, 4)
        ops = hc.connect(hosting.address, name="ops")
        until(lambda: ops.gate("delta", 4))
        table = hc.Table.for_path(url)
    try:
        until(lambda: ops.contact.status != "joined")
        with pytest.raises(UnavailableError) as caught:
            table.set_properties(SWITCH)
        assert "since 20" in str(caught.value)
        assert hc.Table.for_path(url).version == 0
    finally:
        ops.close()


# ---------------------------------------------------------------------- the limit of leases


def test_a_writer_that_stalls_while_the_table_moves_is_stopped_by_the_table(tmp_path):
    url = make_table(tmp_path / "orders")
    stalled = Transaction(hc.Table.for_path(url, release="deltalake@1.0.2").snapshot("write.append"))
    hc.Table.for_path(url).set_properties(SWITCH)
    with pytest.raises((ConflictError, IncompatibleError)) as caught:
        stalled.commit([Add("late", {}, 1, 1, True)], "WRITE")
    assert caught.value.condition in ("CONCURRENT_PROTOCOL_CHANGE", "WRITER_TOO_OLD")
    assert hc.Table.for_path(url).version == 1


# ---------------------------------------------------------------------- operations


def downgrade_of(admin):
    return next(each.downgrade for each in admin.describe().ladders if each.ladder == "delta")


def test_a_downgrade_waits_for_a_write_that_runs(tmp_path):
    url = make_table(tmp_path / "orders")
    begun, over = Event(), Event()

    def slow(*_):
        begun.set()
        assert over.wait(30)

    with running() as (hosting, admin), hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        store = hc.Table.for_path(url).store
        Transaction(Snapshot.load(store)).commit([Add("a.parquet", {}, 9, 1, True)], "WRITE")
        table = hc.Table.for_path(url)
        writer = Thread(target=lambda: table.add_constraint("positive", "id > 0", validator=slow))
        writer.start()
        assert begun.wait(30)
        admin.start_downgrade("delta", 3, "test")
        until(lambda: not ops.gate("delta", 4))
        until(lambda: any(each.startswith("ops#") for each in downgrade_of(admin).waiting))
        assert downgrade_of(admin).phase == "closing", "the write began under the level that is being left"
        over.set()
        writer.join(30)
        until(lambda: downgrade_of(admin).phase == "closed")
        assert "checkConstraints" in table.features()
