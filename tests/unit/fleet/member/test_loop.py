"""A member against a real coordinator in a thread: joining, gates, pushes, loss and return."""

import dataclasses
import socket
import threading
import time

import pytest
from tests.support.fleets import LONG, ShiftedClock, in_memory, until

from halocline.compat.history import History
from halocline.errors import ConflictError, DeniedError, HaloclineError, IncompatibleError, InputError, UnavailableError
from halocline.fleet.answers import AuditQuery
from halocline.fleet.core.clock import SystemClock
from halocline.fleet.core.events import MoveTable
from halocline.fleet.core.member_step import Status
from halocline.fleet.core.state import LevelRange, Report
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.handle import operating
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.auth import Access, Grant, digest, rights
from halocline.fleet.server.hosting import embedded
from halocline.fleet.wire.calls import MOVE_TABLE, TABLE_USERS
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Wire

REPORT = Report("etl", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})


class FastClock(SystemClock):
    """The clock of a machine whose date is five minutes ahead."""

    def wall(self):
        return super().wall() + 300_000


@pytest.fixture
def hosting():
    """A coordinator with a lease that no delay of the machine ends; its clock can be set forward."""
    with embedded(in_memory(terms=LONG), clock=ShiftedClock()) as running:
        yield running


@pytest.fixture
def admin(hosting):
    with AdminClient(hosting.address, "ann") as client:
        yield client


@pytest.fixture
def make(hosting):
    """Makes clients that are closed afterwards."""
    made = []

    def client(report=REPORT, address=None, **options):
        made.append(MemberLoop(address or hosting.address, report, **options))
        return made[-1]

    yield client
    for each in made:
        each.stop()


def ladder(admin):
    return admin.describe().ladder("hudi")


def users(client, table):
    return client.call(TABLE_USERS, table)


def move(client, level):
    return client.call(MOVE_TABLE, MoveTable("lake/orders", "hudi", level, ""))


def test_before_it_has_joined_every_gate_is_closed(make):
    client = make()
    assert (client.snapshot().gate("hudi", 6), client.snapshot().level("hudi"), client.contact.status) == (
        False,
        None,
        Status.OUTSIDE,
    )


def test_a_member_joins_and_its_gates_open_up_to_the_level(make, admin):
    client = make()
    assert client.start()
    assert (client.snapshot().gate("hudi", 6), client.snapshot().gate("hudi", 8), client.snapshot().level("hudi")) == (
        True,
        False,
        6,
    )
    assert client.snapshot().level("delta") is None, "a ladder it does not use"
    assert client.contact.server == "halocline@0.1.0"
    found = admin.members().members[0]
    assert (found.identity, found.incarnation, found.release) == ("etl", client.incarnation, "hudi@1.0.2")


def test_a_raise_is_pushed_and_settles_when_everybody_has_heard(make, admin):
    heard = []
    clients = [make(dataclasses.replace(REPORT, identity=f"m{n}"), on_change=heard.append) for n in range(3)]
    for client in clients:
        assert client.start()
    admin.raise_level("hudi", 8)
    until(lambda: all(client.snapshot().gate("hudi", 8) for client in clients), "the raise is heard")
    until(lambda: ladder(admin).settled == 8, "the level settles")
    assert {(each.ladder, each.limit) for each in heard if each.ladder == "hudi"} == {("hudi", 6), ("hudi", 8)}


def test_a_level_does_not_settle_while_an_operation_acts_under_the_old_one(make, admin):
    client = make()
    client.start()
    with operating(client, "merge") as operation:
        admin.raise_level("hudi", 8)
        until(lambda: client.snapshot().gate("hudi", 8), "the raise is heard")
        time.sleep(0.3)
        assert not operation.gate("hudi", 8), "an operation keeps the snapshot it began with"
        assert ladder(admin).settled == 6
        assert operation.may_commit()
    until(lambda: ladder(admin).settled == 8, "the level settles once the operation has ended")


def test_a_member_below_the_level_is_refused_and_told_what_would_do(make, admin):
    admin.raise_level("hudi", 8)
    old = make(dataclasses.replace(REPORT, identity="old", release="hudi@0.15.0", supported={"hudi": LevelRange(6, 6)}))
    with pytest.raises(IncompatibleError) as caught:
        old.start()
    assert caught.value.condition == "INCOMPATIBLE_VERSION"
    assert caught.value.next_step == "Use hudi@1.0.0."
    assert old.contact.final


def test_after_a_refusal_nothing_more_is_sent(make, admin, hosting):
    admin.raise_level("hudi", 8)
    lost = []
    old = make(dataclasses.replace(REPORT, identity="old", supported={"hudi": LevelRange(6, 6)}), on_lost=lost.append)
    with pytest.raises(IncompatibleError):
        old.start()
    greeted = sum(each.times for each in admin.members(also_past=True).sightings if each.identity == "old")
    for attempt in (old.start, lambda: users(old, "t"), lambda: move(old, 6)):
        with pytest.raises(IncompatibleError):
            attempt()
    time.sleep(0.5)
    again = sum(each.times for each in admin.members(also_past=True).sightings if each.identity == "old")
    assert (greeted, again) == (1, 1)
    assert [error.condition for error in lost] == ["INCOMPATIBLE_VERSION"]


def emulated(version, calls, pushes=""):
    return Wire(version, History.parse(calls), History.parse(pushes or _history("pushes")))


def _history(name, *features):
    head = f'format = 1\nname = "{name}"\nreleased = "9.0.0"\nunknown_before = "0.1.0"\n'
    listed = features or [(each, "0.1.0", "0.1.0") for each in Wire.current().server.requires]
    body = [f'[[feature]]\nid = "{each[0]}"\nprovided = "{each[1]}"\nrequired = "{each[2]}"' for each in listed]
    return "\n".join([head, *body])


def test_a_client_refuses_a_server_that_lacks_what_it_needs_and_hangs_up(make, admin):
    calls = _history("calls", ("handshake", "0.1.0", "0.1.0"), ("member/telepathy", "0.5.0", "0.5.0"))
    client = make(wire=emulated("0.5.0", calls))
    with pytest.raises(IncompatibleError) as caught:
        client.start()
    assert "member/telepathy" in caught.value.message
    assert caught.value.sides["server"] == "halocline@0.1.0"
    assert client.contact.final


def test_the_client_checks_back_even_if_the_server_let_it_in(make, admin, monkeypatch):
    """A server that says yes to everybody, as one with a stale list would."""
    monkeypatch.setattr("halocline.fleet.server.greeting.judge", lambda *_: ())
    calls = _history("calls", ("handshake", "0.1.0", "0.1.0"), ("member/telepathy", "0.5.0", "0.5.0"))
    client = make(wire=emulated("0.5.0", calls))
    with pytest.raises(IncompatibleError, match="member/telepathy"):
        client.start()
    assert client.snapshot().level("hudi") is None


def test_a_wrong_secret_is_denied():
    access = Access({digest("right"): Grant("drivers", rights(["join"]))})
    with embedded(in_memory(access=access)) as hosting:
        endpoint = Endpoint.parse(hosting.address, secret="wrong")
        with pytest.raises(DeniedError):
            MemberLoop(endpoint, REPORT).start()
        with MemberLoop(Endpoint.parse(hosting.address, secret="right"), REPORT) as client:
            assert client.contact.status is Status.JOINED


def test_an_unreachable_fleet_is_no_error_but_says_since_when():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = MemberLoop(f"grpc://127.0.0.1:{taken.getsockname()[1]}", REPORT, deadline=0.3)
        assert client.start(wait=0.5) is False
        until(lambda: client.contact.error is not None, "the failure is noted")
        error = client.contact.error
        client.stop()
    assert isinstance(error, UnavailableError)
    assert error.sides["since"].startswith("20")
    assert not client.snapshot().gate("hudi", 6)
    with pytest.raises(UnavailableError):
        users(client, "lake/orders")


def test_a_member_finds_its_fleet_when_that_comes_up_later(make):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    client = make(address=f"grpc://127.0.0.1:{port}", deadline=1.0)
    assert client.start(wait=0.2) is False
    with embedded(in_memory(listen=f"127.0.0.1:{port}")):
        until(lambda: client.snapshot().gate("hudi", 6), "it joins")


def test_a_restart_of_the_coordinator_loses_neither_member_nor_level(make, tmp_path):
    store = str(tmp_path / "fleet.db")
    with embedded(in_memory(store=store)) as first:
        client = make(address=first.address)
        client.start()
        incarnation = client.incarnation
        with AdminClient(first.address) as admin:
            admin.raise_level("hudi", 8)
        until(lambda: client.snapshot().gate("hudi", 8), "the raise is heard")
        port = first.port
    with embedded(in_memory(store=store, listen=f"127.0.0.1:{port}")) as second, AdminClient(second.address) as admin:
        until(lambda: client.contact.epoch == 2, "it is back with the new epoch")
        assert client.incarnation == incarnation, "its lease was not lost, so it is the same life"
        until(lambda: client.snapshot().gate("hudi", 8), "its gates are as before")
        assert ladder(admin).level == 8


def test_gates_close_when_the_lease_ends_and_open_in_a_new_life(make, tmp_path):
    store = str(tmp_path / "fleet.db")
    clock = ShiftedClock()
    with embedded(in_memory(terms=LONG, store=store)) as first:
        client = make(address=first.address, deadline=0.5, clock=clock)
        client.start()
        port, life = first.port, client.incarnation
        with operating(client, "long") as operation:
            pass
        begun = operating(client, "stalled")
        operation = begun.__enter__()
    assert operation.may_commit(), "the lease still runs, though nobody answers"
    clock.ahead = LONG.lease
    assert not client.snapshot().gate("hudi", 6)
    assert not operation.may_commit()
    until(lambda: client.contact.status is not Status.JOINED, "the loss is noted")
    with embedded(in_memory(store=store, listen=f"127.0.0.1:{port}")) as second:
        # The new coordinator gives every member a full lease; only after that is the old life over.
        until(lambda: client.snapshot().gate("hudi", 6), "it is back")
        assert client.incarnation == life
        assert second.service.state().epoch == 2
        assert operation.may_commit(), "nobody was told that this life is over"
    begun.__exit__(None, None, None)


def test_a_member_that_was_given_up_comes_back_in_a_new_life(make, admin, hosting):
    client = make()
    client.start()
    life = client.incarnation
    with operating(client, "stalled") as operation:
        # Like a process that is stopped: it neither sends nor hears anything for longer than its lease.
        with client._changed:
            hosting.service.clock.ahead = LONG.lease + LONG.margin
            until(lambda: not admin.members().members, "it is given up")
        until(lambda: client.incarnation > life and client.snapshot().gate("hudi", 6), "it joins again")
        assert not operation.may_commit(), "what began in the old life must not commit"
    actions = [(each.action, each.subject) for each in admin.audit(AuditQuery(limit=1000))]
    assert ("expire", f"etl#{life}") in actions


def test_a_second_process_of_the_same_name_displaces_the_first_for_good(make):
    lost = []
    first = make(on_lost=lost.append)
    first.start()
    time.sleep(0.01)
    second = make()
    second.start()
    until(lambda: lost, "the first is told")
    assert first.contact.final
    assert lost[0].condition in ("INCARNATION_ENDED", "INCARNATION_REPLAYED")
    time.sleep(0.5)
    assert second.snapshot().gate("hudi", 6), "the two must not fight over the name"
    assert not first.snapshot().gate("hudi", 6)


def test_a_clock_that_went_back_does_not_lock_a_member_out(make, monkeypatch):
    with make():
        pass
    behind = SystemClock()
    monkeypatch.setattr(behind, "wall", lambda: SystemClock().wall() - 300_000)
    client = make(clock=behind)
    assert client.start()
    assert client.snapshot().gate("hudi", 6)


def test_a_member_whose_clock_is_off_comes_back_when_it_is_set(make, monkeypatch):
    clock, off = SystemClock(), [-11 * 60_000]
    monkeypatch.setattr(clock, "wall", lambda: SystemClock().wall() + off[0])
    client = make(clock=clock)
    assert client.start(wait=0.2) is False
    until(lambda: client.contact.error is not None, "it is refused")
    assert client.contact.error.condition == "CLOCK_SKEW"
    assert not client.contact.final
    off[0] = 0
    until(lambda: client.snapshot().gate("hudi", 6), "it joins")


def test_a_removed_member_is_told_at_once_and_stays_away(make, admin, hosting):
    lost = []
    client = make(on_lost=lost.append)
    client.start()
    admin.remove_member("etl", "runs wild")
    until(lambda: lost, "it is told")
    assert "runs wild" in lost[0].message
    assert not client.snapshot().gate("hudi", 6)
    assert admin.members().members, "it counts until its lease has run out"
    hosting.service.clock.ahead = LONG.lease + LONG.margin
    until(lambda: not admin.members().members, "it no longer counts once its lease has run out")


def test_tables_in_use_are_reported_and_kept_over_a_reconnect(make, admin, hosting):
    client = make()
    client.start()
    client.use("lake/orders", "hudi", "write")
    until(lambda: admin.members().members[0].tables, "the table is reported")
    ended = threading.Event()
    hosting.loop.call_soon_threadsafe(lambda: (hosting.service.sessions.end_all(), ended.set()))
    assert ended.wait(20)
    client.use("lake/items", "hudi")
    until(lambda: len(admin.members().members[0].tables) == 2, "both are reported")
    assert {(use.table, use.operation) for use in admin.members().members[0].tables} == {
        ("lake/orders", "write"),
        ("lake/items", "read"),
    }
    until(lambda: client.contact.status is Status.JOINED, "it is back")
    assert [each.identity for each in users(client, "lake/orders").members] == ["etl"]


def test_a_table_on_a_ladder_without_a_range_is_refused_locally(make):
    client = make()
    with pytest.raises(InputError, match="no range for delta"):
        client.use("lake/x", "delta")


def test_a_table_moves_to_a_level_that_the_gates_allow(make, admin):
    client = make()
    client.start()
    with pytest.raises(HaloclineError):
        move(client, 8)
    admin.raise_level("hudi", 8)
    move(client, 8)
    assert [(each.ladder, each.level) for each in users(client, "lake/orders").levels] == [("hudi", 8)]


def test_a_downgrade_closes_gates_before_the_level_falls(make, admin):
    client = make()
    client.start()
    admin.raise_level("hudi", 8)
    until(lambda: client.snapshot().gate("hudi", 8), "the raise is heard")
    admin.start_downgrade("hudi", 6, "bad release")
    until(lambda: not client.snapshot().gate("hudi", 8), "gates close")
    until(lambda: ladder(admin).downgrade.phase == "closed", "everybody has closed them")
    admin.clean_downgrade("hudi")
    with pytest.raises(ConflictError) as caught:
        admin.cancel_downgrade("hudi")
    assert caught.value.condition == "POINT_OF_NO_RETURN"
    admin.finish_downgrade("hudi")
    assert ladder(admin).level == 6
    assert client.snapshot().gate("hudi", 6)


def test_leaving_frees_the_others_at_once(make, admin):
    old = make(dataclasses.replace(REPORT, identity="old", supported={"hudi": LevelRange(6, 6)}))
    new = make()
    assert old.start()
    assert new.start()
    with pytest.raises(IncompatibleError):
        admin.raise_level("hudi", 8)
    old.stop()
    admin.raise_level("hudi", 8)
    until(lambda: new.snapshot().gate("hudi", 8), "the raise is heard")


def test_by_policy_a_level_rises_when_the_last_old_member_has_gone(make, admin):
    old = make(dataclasses.replace(REPORT, identity="old", supported={"hudi": LevelRange(6, 6)}))
    new = make()
    assert old.start()
    assert new.start()
    admin.set_policy("hudi", "auto")
    time.sleep(0.3)
    assert new.snapshot().level("hudi") == 6
    old.stop()
    until(lambda: new.snapshot().level("hudi") == 8, "it rises by itself")


def test_callbacks_that_fail_do_not_end_the_membership(make, caplog):
    def broken(_):
        raise RuntimeError("a callback's own bug")

    client = make(on_change=broken)
    assert client.start()
    time.sleep(0.5)
    assert client.snapshot().gate("hudi", 6)
    assert "a callback's own bug" in caplog.text


def test_closing_leaves_no_threads_behind(make):
    before = {thread.name for thread in threading.enumerate()}
    client = make()
    client.start()
    client.stop()
    until(lambda: {thread.name for thread in threading.enumerate()} - before == set(), "its threads end")
    assert client.start() is False


def test_a_table_too_many_is_refused_aloud_and_none_is_dropped(make, admin, monkeypatch):
    monkeypatch.setattr("halocline.fleet.member.loop.MOST_USES", 3)
    member = make()
    member.start()
    for number in range(3):
        member.use(f"lake/{number}", "hudi")
    member.use("lake/0", "hudi")
    with pytest.raises(ConflictError) as caught:
        member.use("lake/3", "hudi")
    assert caught.value.condition == "TOO_MANY"
    assert caught.value.sides["table"] == "lake/3"
    until(lambda: {use.table for use in admin.members().members[0].tables} == {"lake/0", "lake/1", "lake/2"})


def test_a_member_whose_number_is_older_than_what_is_remembered_comes_with_a_higher_one(make, hosting, monkeypatch):
    monkeypatch.setattr("halocline.fleet.core.members.MOST_LIVES", 0)
    monkeypatch.setattr("halocline.fleet.server.service._SWEEP_S", 0.0)
    ahead = make(dataclasses.replace(REPORT, identity="ahead"), clock=FastClock())
    ahead.start()
    ahead.stop()
    until(lambda: hosting.service.state().fleet.floor == ahead.incarnation, "the life is forgotten")
    member = make()
    member.start()
    assert member.incarnation == ahead.incarnation + 1


def test_a_member_that_was_forgotten_altogether_joins_again(make, hosting, monkeypatch):
    member = make()
    member.start()
    former = member.incarnation
    monkeypatch.setattr("halocline.fleet.core.members.MOST_LIVES", 0)
    monkeypatch.setattr("halocline.fleet.server.service._SWEEP_S", 0.0)

    def forgotten():
        # A heartbeat may have come after the clock was set.
        hosting.service.clock.ahead += 10 * LONG.lease
        return not hosting.service.state().fleet.incarnations

    until(forgotten, "nothing is remembered of it")
    member.use("lake/orders", "hudi")
    until(lambda: member.incarnation > former and member.contact.status is Status.JOINED, "it is back in a new life")
    assert not member.contact.final
