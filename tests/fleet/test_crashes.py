"""kill -9 between any two statements, two coordinators on one database, one that stalls and wakes up."""

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text, update
from tests.support.fleets import processed

from halocline.errors import HaloclineError, UnavailableError
from halocline.fleet.answers import AuditQuery
from halocline.fleet.core.clock import ManualClock, SystemClock, steady_ms
from halocline.fleet.core.effects import Audit, Refuse, Renew
from halocline.fleet.core.events import DeclareLadder, Heartbeat, Join, Raise, Tick
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.state import FleetTerms, LevelRange, MemberKey, RecordChange, Report, TableLevel
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.auth import Access
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.service import FleetService, ServiceSettings
from halocline.fleet.store import Holder, StaleEpochError, Write, migrations, schema
from halocline.fleet.store import postgresql as postgresql_store
from halocline.fleet.store.codec import decode, encode
from halocline.fleet.store.postgresql import PostgresqlStore


def crashes_survived(url):
    """At how many points a coordinator was killed, and how many of those were between a commit and its answer."""
    program = str(Path(__file__).with_name("crash_points.py"))
    done = subprocess.run([sys.executable, program, url], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    points, untold = re.search(r"(\d+).*?(\d+) written but not told", done.stdout, re.DOTALL).groups()
    return int(points), int(untold)


def test_sqlite_a_kill_before_any_statement_loses_nothing_acknowledged(memory_folder):
    points, untold = crashes_survived(str(memory_folder / "fleet.db"))
    assert points > 100
    assert untold > 0, "some kills must fall between the commit and the answer"


def test_postgresql_a_kill_before_any_statement_loses_nothing_acknowledged(postgresql):
    points, untold = crashes_survived(postgresql)
    assert points > 100
    assert untold > 0, "some kills must fall between the commit and the answer"


def describe(admin):
    status = admin.describe()
    return status.epoch, status.ladders[0]


def test_sqlite_a_coordinator_killed_under_load_has_everything_it_acknowledged(launch, wait, memory_folder):
    store = str(memory_folder / "fleet.db")
    first = launch("coordinator_process.py", store=store, lease=60_000)
    port = first.hears(active=True)["port"]
    placed, over = [], threading.Event()

    def hold_on(worker):
        with AdminClient(f"grpc://127.0.0.1:{port}", f"op{worker}", deadline=5) as admin:
            for number in range(100_000):
                name = f"h{worker}-{number}"
                try:
                    admin.hold("hudi", "load", name=name)
                except HaloclineError:
                    return
                placed.append(name)
                if over.is_set():
                    return

    report = Report("etl", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})
    with MemberLoop(f"grpc://127.0.0.1:{port}", report, deadline=2) as member:
        life = member.incarnation
        workers = [threading.Thread(target=hold_on, args=(n,)) for n in range(3)]
        for worker in workers:
            worker.start()
        wait(lambda: len(placed) > 60, "holds are placed")
        first.kill()
        over.set()
        for worker in workers:
            worker.join(20)
        acknowledged = set(placed)
        second = launch("coordinator_process.py", store=store, port=port, lease=60_000)
        second.hears(active=True, epoch=2)
        with AdminClient(f"grpc://127.0.0.1:{port}", "ann") as admin:
            _, ladder = describe(admin)
            held = {each.name for each in ladder.holds}
            assert acknowledged <= held, f"lost {acknowledged - held}"
            assert len(held - acknowledged) <= 3, "at most what each worker had under way"
            entries = admin.audit(AuditQuery(action="hold", limit=1000))
            assert {each.detail.split()[0] for each in entries} == held, "every hold has its audit entry, and no other"
            wait(lambda: member.contact.epoch == 2, "the member is back")
            assert member.incarnation == life


def test_postgresql_a_second_coordinator_waits_and_takes_over_when_the_first_is_killed(launch, wait, postgresql):
    one = launch("coordinator_process.py", store=postgresql, lease=60_000)
    first = one.hears(active=True, epoch=1)["port"]
    two = launch("coordinator_process.py", store=postgresql, lease=60_000)
    second = two.hears(active=False)["port"]
    both = f"grpc://127.0.0.1:{second},127.0.0.1:{first}"
    report = Report("etl", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})
    with MemberLoop(both, report, deadline=2) as member, AdminClient(both, "ann", deadline=3) as admin:
        assert member.contact.epoch == 1, "the standby said where to go"
        admin.raise_level("hudi", 8)
        life = member.incarnation
        one.kill()
        two.hears(active=True, epoch=2)
        wait(lambda: member.contact.epoch == 2, "the member finds the new one")
        wait(lambda: member.snapshot().level("hudi") == 8, "and its gates are as before")
        assert describe(admin)[0] == 2
        assert member.incarnation >= life
        entries = admin.audit(AuditQuery(action="take-over"))
        assert [each.subject for each in entries] == ["epoch 2", "epoch 1"]


def test_postgresql_a_stalled_coordinator_that_wakes_up_changes_and_grants_nothing(launch, wait, postgresql):
    # Leases that a busy machine does not lose by itself; that of the first coordinator is ended in the database.
    one = launch("coordinator_process.py", store=postgresql, lease=10_000, coordinator_lease=12_000)
    first = one.hears(active=True, epoch=1)["port"]
    two = launch("coordinator_process.py", store=postgresql, lease=10_000, coordinator_lease=12_000)
    second = two.hears(active=False)["port"]
    old = Report("old", 0, "hudi@0.15.0", supported={"hudi": LevelRange(6, 6)})
    new = Report("new", 0, "hudi@1.1.0", supported={"hudi": LevelRange(6, 9)})
    with ExitStack() as clients:
        stuck = clients.enter_context(MemberLoop(f"grpc://127.0.0.1:{first}", old, deadline=1))
        mobile = clients.enter_context(MemberLoop(f"grpc://127.0.0.1:{first},127.0.0.1:{second}", new, deadline=1))
        one.signal(signal.SIGSTOP)
        with psycopg.connect(postgresql, autocommit=True) as connection:
            connection.execute("UPDATE coordinator SET until_ms = 1")
        two.hears(active=True, epoch=2)
        admin = clients.enter_context(AdminClient(f"grpc://127.0.0.1:{second}", "ann", deadline=3))
        with pytest.raises(HaloclineError) as caught:
            admin.raise_level("hudi", 8)
        assert caught.value.condition == "LEVEL_BLOCKED", "the member counts for one lease after the take-over"
        wait(lambda: not stuck.snapshot().gate("hudi", 6), "the member's own lease ends first")
        wait(lambda: stuck.contact.error is not None, "a member notices that nobody answers")
        wait(lambda: mobile.contact.epoch == 2, "one that knows both coordinators goes to the other")
        wait(lambda: _raised(admin, 8), "the level rises once the lease has run out")
        wait(lambda: mobile.snapshot().gate("hudi", 8), "who went over hears of it")
        one.signal(signal.SIGCONT)
        one.hears(active=False)
        # It decides nothing itself: it refuses, or, once it knows who leads, sends the operator there.
        with AdminClient(f"grpc://127.0.0.1:{first}", "bob", deadline=3) as sleeper, suppress(UnavailableError):
            assert sleeper.raise_level("hudi", 9).epoch == 2
        assert {each.epoch for each in admin.audit(AuditQuery(action="raise")) if not each.refused} == {2}
        wait(lambda: stuck.contact.final, "the old member is told")
        assert stuck.contact.error.condition == "INCOMPATIBLE_VERSION"
        assert not stuck.snapshot().gate("hudi", 6)


def _raised(admin, level):
    try:
        admin.raise_level("hudi", level)
    except HaloclineError:
        return False
    return True


# The store itself, with two of them on one database.


@pytest.fixture
def stores(postgresql):
    opened = [PostgresqlStore(postgresql, lease_ms=60_000) for _ in range(2)]
    yield opened
    for each in opened:
        each.close()


def take_over(store, name, *changes):
    return store.take_over(name, f"{name}:1", lambda fleet, belief: (fleet, fleet.epoch + 1, Write(changes)))


def end_lease(store):
    """The lease ends by the database's clock, without waiting for it."""
    with store.engine.begin() as connection:
        connection.execute(update(schema.coordinator).values(until_ms=1))


def test_postgresql_a_lease_is_counted_by_the_database_and_ends(stores, monkeypatch):
    one, two = stores
    take_over(one, "one")
    assert isinstance(take_over(two, "two"), Holder)
    assert one.holds_lease(1)
    later = steady_ms() + 0.85 * one.lease_ms
    with monkeypatch.context() as patched:
        patched.setattr("halocline.fleet.store.sql.steady_ms", lambda: later)
        assert not one.holds_lease(1), "our own belief ends"
    assert two.holder().left_ms > 0, "and it ends before another may take over"
    end_lease(two)
    assert not isinstance(take_over(two, "two"), Holder), "the lease ends"
    with pytest.raises(StaleEpochError):
        one.renew(1)
    with pytest.raises(StaleEpochError):
        one.write(1, Write([RecordChange("incarnations", "etl", 1)], [Audit(1, "a", "join", "etl")]))
    assert two.audit(AuditQuery()) == []


def test_postgresql_a_database_whose_clock_steps_gives_no_early_use(stores):
    """What the former coordinator renews while it believes that it leads is waited for by the one that took over."""
    clock, terms = ManualClock(1_000_000), FleetTerms(lease=5_000, margin=1_000)
    ladder = DeclareLadder(Ladder("hudi", (Rung(6), Rung(8))), "halocline")
    one, two = (
        Coordinator(store, clock, name=name, address=f"{name}:1", ladders=[ladder], terms=terms)
        for store, name in zip(stores, ("one", "two"), strict=True)
    )
    for each in (one, two):
        each._skew = lambda: ""
    one.take_over()
    old = Report("etl", 1, "hudi@0.15.0", supported={"hudi": LevelRange(6, 6)})
    processed(one, Join(old, 0))
    end_lease(stores[0])
    two.take_over()
    until = clock.now() + stores[0].lease_ms - 1
    clock.advance(until - clock.now())
    assert any(isinstance(effect, Renew) for effect in one.answer(Heartbeat("etl", 1, 1, until)))
    clock.advance(terms.lease + terms.margin)
    processed(two, Tick())
    refused = [each.refusal for each in processed(two, Raise("hudi", 8, "ann")) if isinstance(each, Refuse)]
    assert [each.condition for each in refused] == ["LEVEL_BLOCKED"], "etl may act until its lease is over"
    clock.advance(1)
    processed(two, Tick())
    processed(two, Raise("hudi", 8, "ann"))
    assert two.state.fleet.ladder_states["hudi"].level == 8


def test_postgresql_a_renewed_lease_keeps_the_other_out(stores):
    one, two = stores
    take_over(one, "one")
    for _ in range(10):
        end_lease(one)
        one.renew(1)
        assert isinstance(take_over(two, "two"), Holder)
        assert one.holds_lease(1)
    one.resign(1)
    assert take_over(two, "two").epoch == 1


def test_postgresql_taking_over_waits_for_a_write_that_is_under_way_and_sees_it(stores):
    one, two = stores
    take_over(one, "one")
    began, go_on = threading.Event(), threading.Event()

    def slow_write():
        with one._transaction() as connection:
            one._fence(connection, 1)
            began.set()
            go_on.wait(30)
            one._put(connection, 1, Write([RecordChange("incarnations", "etl", 7)]))

    end_lease(one)
    writing = threading.Thread(target=slow_write)
    writing.start()
    began.wait(30)
    found = []
    taking = threading.Thread(target=lambda: found.append(_until_taken(two)))
    taking.start()
    taking.join(0.5)
    assert not found, "nobody takes over in the middle of a transaction"
    go_on.set()
    writing.join(30)
    taking.join(30)
    assert found[0].incarnations == {"etl": 7}


def _until_taken(store):
    while True:
        with suppress(UnavailableError):
            return take_over(store, "two")


def test_postgresql_many_at_once_make_one_schema_one_key_and_one_coordinator(postgresql):
    opened, problems = [], []

    def start(number):
        try:
            store = PostgresqlStore(postgresql, lease_ms=20_000)
            opened.append((store, store.signing_keys(number), take_over(store, f"c{number}")))
        except HaloclineError as error:
            problems.append(error)

    threads = [threading.Thread(target=start, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert problems == []
    assert len({tuple(keys.items()) for _, keys, _ in opened}) == 1
    assert sum(not isinstance(taken, Holder) for _, _, taken in opened) == 1
    for store, _, _ in opened:
        store.close()


def test_postgresql_a_session_that_stalls_inside_a_transaction_is_cut_off(stores, wait):
    one, two = stores
    take_over(one, "one")
    end_lease(one)

    def stalled_write():
        with one._transaction() as connection:
            one._fence(connection, 1, for_update=True)
            wait(lambda: _taken(two), "the stalled one is cut off and another takes over")
            one._put(connection, 1, Write([RecordChange("incarnations", "late", 1)]))

    with pytest.raises(UnavailableError):
        stalled_write()
    assert take_over(two, "two").incarnations == {}


def _taken(store):
    try:
        return not isinstance(take_over(store, "two"), Holder)
    except UnavailableError:
        return False


def test_postgresql_a_fleet_that_takes_long_to_read_is_taken_over_all_the_same(postgresql, monkeypatch):
    monkeypatch.setitem(postgresql_store._SETTINGS, "idle_in_transaction_session_timeout", 1_500)
    monkeypatch.setattr("halocline.fleet.store.records._AT_ONCE", 5)
    tables = [RecordChange("tables", (f"t{n}", "hudi"), TableLevel(f"t{n}", "hudi", 6, 1)) for n in range(60)]
    store = PostgresqlStore(postgresql)
    store.take_over("one", "one:1", lambda fleet, _: (fleet, 1, Write(tables)))
    store.resign(1)
    read = decode

    def slowly(kind, body):
        time.sleep(0.05)
        return read(kind, body)

    monkeypatch.setattr("halocline.fleet.store.codec.decode", slowly)
    found = store.take_over("two", "two:1", lambda fleet, _: (fleet, 2, Write()))
    assert len(found.tables) == len(tables)
    store.close()


def test_postgresql_an_older_store_is_brought_up_to_date_with_its_incarnations(postgresql):
    engine = create_engine(postgresql.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        migrations.migrate(connection, migrations.MIGRATIONS[:2])
        row = {"key": '"etl"', "body": encode("etl", 1_794_803_886_459)[1]}
        connection.execute(text("INSERT INTO records VALUES ('incarnations', :key, 1, :body)"), row)
    engine.dispose()
    store = PostgresqlStore(postgresql)
    assert take_over(store, "one").incarnations == {"etl": 1_794_803_886_459}
    store.close()


def test_postgresql_heartbeats_are_answered_while_a_lock_holds_a_transaction_up(postgresql):
    coordinator = Coordinator(PostgresqlStore(postgresql), SystemClock(), name="one", address="one:1")

    async def scenario():
        service = FleetService(coordinator, access=Access.open(), settings=ServiceSettings(tick_s=3600))
        await service.start()
        await service.submit(Join(Report("etl", 1, "hudi@1.0.2"), 0))
        with psycopg.connect(postgresql) as other:
            other.execute("LOCK TABLE records IN EXCLUSIVE MODE")
            joining = asyncio.ensure_future(service.submit(Join(Report("late", 1, "hudi@1.0.2"), 0)))
            while not _awaited(postgresql):
                await asyncio.sleep(0.01)
            told = asyncio.get_running_loop().create_future()
            service.decider.beat(Heartbeat("etl", 1, 1, 0), told.set_result)
            effects, early = await told, joining.done()
            other.rollback()
        await joining
        members = set(service.state().fleet.members)
        await service.stop()
        return effects, early, members

    effects, early, members = asyncio.run(asyncio.wait_for(scenario(), 120))
    coordinator.store.close()
    assert any(isinstance(effect, Renew) for effect in effects), effects
    assert not early, "it was answered after the lock was gone"
    assert members == {MemberKey("etl", 1), MemberKey("late", 1)}


def _awaited(url):
    """Whether anybody waits for a lock."""
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0] > 0
