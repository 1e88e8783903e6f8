"""Deciding beside a transaction that takes long: heartbeats are answered, and nothing undone is seen or lost."""

import asyncio
import threading

import pytest
from tests.support.fleets import processed

from halocline.errors import UnavailableError
from halocline.fleet.core.clock import ManualClock
from halocline.fleet.core.effects import Refuse, Renew
from halocline.fleet.core.events import DeclareLadder, Heartbeat, Join, Raise, RemoveMember, SetTerms, Tick
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import View
from halocline.fleet.core.state import FleetTerms, LevelRange, MemberKey, Report, TableUse
from halocline.fleet.server.auth import Access
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.service import FleetService, ServiceSettings
from halocline.fleet.store import open_fleet_store

LADDER = DeclareLadder(Ladder("hudi", (Rung(6), Rung(8))), "halocline")
TERMS = FleetTerms(lease=1000, margin=100)
ETL = MemberKey("etl", 1)


class HeldUp:
    """A store whose transactions can be held up, and made to fail."""

    def __init__(self, store):
        self._store = store
        self.begun, self._go_on = threading.Semaphore(0), threading.Event()
        self.problem = None
        self.let_go()

    def hold_up(self):
        self._go_on.clear()
        while self.begun.acquire(blocking=False):
            pass

    def let_go(self):
        self._go_on.set()

    def write(self, epoch, write):
        self.begun.release()
        assert self._go_on.wait(60), "never let go"
        if self.problem is not None:
            raise self.problem
        self._store.write(epoch, write)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture
def clock():
    return ManualClock(1_000_000)


@pytest.fixture
def store():
    held_up = HeldUp(open_fleet_store(":memory:"))
    yield held_up
    held_up.let_go()
    held_up.close()


def report(name="etl"):
    return Report(name, 1, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})


def beat(service, seq, level=6, **more):
    """Sends a heartbeat of etl; what follows from it."""
    told = asyncio.get_running_loop().create_future()
    view = {"hudi": View(service.state().fleet.ladder_states["hudi"].revision, level)}
    service.decider.beat(Heartbeat("etl", 1, seq, service.clock.now(), view, **more), told.set_result)
    return told


async def while_written(service, store, cause):
    """Has an event decided, and returns what is awaited once its transaction has begun and is held up."""
    store.hold_up()
    asked = asyncio.ensure_future(service.submit(cause))
    assert await asyncio.to_thread(store.begun.acquire, timeout=60), "its transaction never began"
    return asked


def run(scenario, store, clock):
    """Runs a scenario with a service in which etl is a member, and no time passes by itself."""

    async def play():
        coordinator = Coordinator(store, clock, name="one", address="one:1", ladders=[LADDER], terms=TERMS)
        service = FleetService(coordinator, access=Access.open(), settings=ServiceSettings(tick_s=3600))
        await service.start()
        try:
            async with asyncio.timeout(120):
                await service.submit(Join(report(), 0))
                return await scenario(service)
        finally:
            store.let_go()
            await service.stop()

    return asyncio.run(play())


def renewal(effects):
    return next((effect for effect in effects or () if isinstance(effect, Renew)), None)


def test_a_heartbeat_is_answered_while_a_transaction_is_held_up(store, clock):
    async def scenario(service):
        joining = await while_written(service, store, Join(report("other"), 0))
        effects = await beat(service, 1)
        early = joining.done()
        store.let_go()
        await joining
        return effects, early, set(service.state().fleet.members)

    effects, early, members = run(scenario, store, clock)
    assert renewal(effects), effects
    assert not early, "the transaction was still held up when the heartbeat was answered"
    assert members == {ETL, MemberKey("other", 1)}


def test_a_lease_that_is_renewed_beside_a_transaction_is_kept_by_it(store, clock):
    async def scenario(service):
        joining = await while_written(service, store, Join(report("other"), 0))
        clock.advance(1_000)
        await beat(service, 1)
        store.let_go()
        await joining
        clock.advance(TERMS.lease + TERMS.margin - 1)
        await service.submit(Tick())
        kept = set(service.state().fleet.members)
        clock.advance(1)
        await service.submit(Tick())
        return kept, set(service.state().fleet.members)

    kept, left = run(scenario, store, clock)
    assert kept == {ETL}, "the other has said nothing since it joined"
    assert left == set()


@pytest.mark.parametrize(
    "ending", [Tick(), RemoveMember("etl", "ann", "gone"), SetTerms(FleetTerms(lease=5000), "ann")]
)
def test_a_heartbeat_waits_for_a_transaction_that_its_lease_hangs_on(store, clock, ending):
    async def scenario(service):
        if isinstance(ending, Tick):
            clock.advance(TERMS.lease + TERMS.margin)
        asked = await while_written(service, store, ending)
        first, second = beat(service, 1), beat(service, 2)
        # Long enough for heartbeats that are answered: they are gathered for a fiftieth of that.
        await asyncio.wait([first, second], timeout=1.0)
        early = first.done() or second.done()
        store.let_go()
        await asked
        return early, await first

    early, effects = run(scenario, store, clock)
    assert not early, "nobody may be promised what is being taken away"
    if isinstance(ending, SetTerms):
        assert renewal(effects).lease == 5000
    else:
        assert [type(effect) for effect in effects] == [Refuse]


def test_what_is_being_written_is_told_nobody(store, clock):
    async def scenario(service):
        raising = await while_written(service, store, Raise("hudi", 8, "ann"))
        during = renewal(await beat(service, 1))
        store.let_go()
        await raising
        return during, renewal(await beat(service, 2))

    during, after = run(scenario, store, clock)
    assert during.announcements == ()
    assert after.announcements == (), "it says that it has heard of the raise"


def test_a_heartbeat_does_not_overtake_one_that_brings_tables(store, clock):
    used = frozenset({TableUse("s3://lake/orders", "hudi", "write")})

    async def scenario(service):
        joining = await while_written(service, store, Join(report("other"), 0))
        first, second = beat(service, 1, tables=used), beat(service, 2)
        await asyncio.wait([first, second], timeout=1.0)
        early = first.done() or second.done()
        store.let_go()
        await joining
        return early, await first, await second, service.state().fleet.members[ETL].report.tables

    early, first, second, tables = run(scenario, store, clock)
    assert not early
    assert (renewal(first).seq, renewal(second).seq) == (1, 2)
    assert tables == used


def test_a_heartbeat_beside_a_transaction_that_fails_does_not_bring_the_coordinator_back(store, clock, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.service._RETRY_S", 3600)

    async def scenario(service):
        joining = await while_written(service, store, Join(report("other"), 0))
        effects = await beat(service, 1)
        store.problem = UnavailableError("connection lost")
        store.let_go()
        with pytest.raises(RejectedError):
            await joining
        return effects, service.active

    effects, active = run(scenario, store, clock)
    assert renewal(effects)
    assert not active
    successor = Coordinator(store, clock, name="two", address="two:1", terms=TERMS)
    store.resign(1)
    successor.take_over()
    clock.advance(TERMS.lease + TERMS.margin - 1)
    store.problem = None
    processed(successor, Tick())
    assert set(successor.state.fleet.members) == {ETL}, "its successor waits for the lease that was renewed"
