"""The service: one order for everything, nothing told before it is written, and stepping down when in doubt."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from tests.support.fleets import processed

from halocline.errors import ConflictError, InputError, InternalError, UnavailableError
from halocline.fleet.answers import AuditQuery, BlockQuery, BreakQuery, MembersQuery
from halocline.fleet.core.clock import ManualClock
from halocline.fleet.core.effects import Admit, Refusal, Refuse, Renew
from halocline.fleet.core.events import DeclareLadder, Heartbeat, Join, Observe, Raise, Tick
from halocline.fleet.core.ladder import Ladder, LadderLevel, Rung
from halocline.fleet.core.ladder_state import Policy, View
from halocline.fleet.core.state import FleetTerms, LevelRange, MemberKey, Provenance, Report
from halocline.fleet.core.step import step
from halocline.fleet.server.auth import EVERYTHING, Access, Claims
from halocline.fleet.server.commands import OperatorCalls, _chunks
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.greeting import Greeter
from halocline.fleet.server.service import FleetService, ServiceSettings
from halocline.fleet.server.sessions import Session, Sessions
from halocline.fleet.store import Sighting, StaleEpochError, open_fleet_store
from halocline.fleet.wire import calls
from halocline.fleet.wire.session import SessionBegun

HUDI = DeclareLadder(Ladder("hudi", (Rung(6), Rung(8))), "halocline")
TERMS = FleetTerms(lease=1000, margin=100)


@pytest.fixture
def store():
    opened = open_fleet_store(":memory:")
    yield opened
    opened.close()


@pytest.fixture
def clock():
    return ManualClock(1_000_000)


def coordinator(store, clock, name="one", ladders=(HUDI,), **options):
    return Coordinator(store, clock, name=name, address=f"{name}:1", ladders=ladders, terms=TERMS, **options)


def report(name="etl", incarnation=1, levels=(6, 8)):
    return Report(name, incarnation, "hudi@1.0.2", supported={"hudi": LevelRange(*levels)})


class Counting:
    """A store that counts its transactions, and can be told to fail or to wait."""

    def __init__(self, store):
        self._store = store
        self.writes = []
        self.problem = None
        self.before = lambda: None

    def write(self, epoch, write):
        self.before()
        if self.problem is not None:
            raise self.problem
        self.writes.append(write)
        self._store.write(epoch, write)

    def __getattr__(self, name):
        return getattr(self._store, name)


def run(scenario, store, clock, **options):
    """Runs a scenario with a service on the store."""

    async def play():
        service = FleetService(
            coordinator(store, clock, **options), access=Access.open(), settings=ServiceSettings(tick_s=0.01)
        )
        await service.start()
        try:
            return await scenario(service)
        finally:
            await service.stop()

    return asyncio.run(play())


def test_what_arrives_together_shares_a_transaction(store, clock):
    counting = Counting(store)

    async def scenario(service):
        counting.writes.clear()
        joined = await asyncio.gather(*(service.submit(Join(report(f"m{n}"), 0)) for n in range(300)))
        return joined, len(counting.writes)

    joined, writes = run(scenario, counting, clock)
    assert all(any(isinstance(effect, Admit) for effect in effects) for effects in joined)
    assert writes <= 6, f"300 joins took {writes} transactions"


def test_nobody_is_told_before_it_is_written(store, clock):
    counting = Counting(store)

    async def scenario(service):
        loop = asyncio.get_running_loop()
        writing, go_on = asyncio.Event(), threading.Event()

        def hold():
            loop.call_soon_threadsafe(writing.set)
            go_on.wait(10)

        counting.before = hold
        joining = asyncio.ensure_future(service.submit(Join(report(), 0)))
        await writing.wait()
        told_early = joining.done() or MemberKey("etl", 1) in service.state().fleet.members
        beats = []
        service.decider.beat(Heartbeat("etl", 1, 1, 0, {}), beats.append)
        await asyncio.sleep(0.1)
        beaten_early = bool(beats)
        counting.before = lambda: None
        go_on.set()
        await joining
        while not beats:
            await asyncio.sleep(0.01)
        return told_early, beaten_early, beats[0]

    told_early, beaten_early, effects = run(scenario, counting, clock)
    assert (told_early, beaten_early) == (False, False)
    assert any(isinstance(effect, Renew) for effect in effects), "taken up after the join that came before it"


def test_an_import_sees_a_member_that_joins_while_it_waits_for_its_turn(store, clock):
    counting = Counting(store)
    claims = Claims("ann", 0, "operator", "", 1, "anonymous", EVERYTHING, clock.now())

    async def scenario(service):
        loop = asyncio.get_running_loop()
        document = b"".join(_chunks(store.export()))
        writing, go_on = asyncio.Event(), threading.Event()

        def hold():
            loop.call_soon_threadsafe(writing.set)
            go_on.wait(30)

        counting.before = hold
        joining = asyncio.ensure_future(service.submit(Join(report(), 0)))
        await writing.wait()
        importing = asyncio.ensure_future(OperatorCalls(service, Greeter(service)).restore(document, "a try", claims))
        for _ in range(10):
            await asyncio.sleep(0)
        counting.before = lambda: None
        go_on.set()
        admitted = await joining
        with pytest.raises(ConflictError, match="1 members hold a lease"):
            await importing
        return admitted, list(service.state().fleet.members), service.coordinator.epoch

    admitted, members, epoch = run(scenario, counting, clock)
    assert any(isinstance(effect, Admit) for effect in admitted)
    assert (members, epoch) == ([MemberKey("etl", 1)], 1)


def test_heartbeats_write_nothing(store, clock):
    counting = Counting(store)

    async def scenario(service):
        await service.submit(Join(report(), 0))
        view = {"hudi": View(service.state().fleet.ladder_states["hudi"].revision, 6)}
        while service.state().fleet.ladder_states["hudi"].settled != 6 or counting.writes[-1].sightings:
            await asyncio.sleep(0.01)
        counting.writes.clear()
        told = []
        for seq in range(1, 50):
            clock.advance(10)
            service.decider.beat(Heartbeat("etl", 1, seq, clock.now(), view), told.append)
        while len(told) < 49:
            await asyncio.sleep(0.01)
        return told, list(counting.writes)

    told, writes = run(scenario, counting, clock)
    assert all(isinstance(effects[-1], Renew) for effects in told)
    assert writes == []


def test_a_heartbeat_does_not_wait_for_all_that_came_before_it(store, clock, monkeypatch):
    decided = []

    def slowly(state, event):
        if isinstance(event.cause, Observe):
            decided.append(event.cause)
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
        return step(state, event)

    async def scenario(service):
        await service.submit(Join(report(), 0))
        seen = (Observe(f"job-{n}", "trino@426", Provenance.OBSERVED, "x", clock.now()) for n in range(200))
        asked = [asyncio.ensure_future(service.submit(each)) for each in seen]
        while len(decided) < 3:
            await asyncio.sleep(0)
        before, answered = len(decided), asyncio.Event()
        service.decider.beat(
            Heartbeat("etl", 1, 1, clock.now(), {}), lambda effects: answered.set() if effects else None
        )
        await answered.wait()
        waited = len(decided) - before
        await asyncio.gather(*asked)
        return waited, [each.identity for each in decided]

    monkeypatch.setattr("halocline.fleet.server.coordinator.step", slowly)
    waited, order = run(scenario, store, clock)
    assert waited < 50, f"{waited} others came first"
    assert order == [f"job-{n}" for n in range(200)], "each once, and in their order"


def test_a_store_that_does_not_say_what_became_of_a_write_makes_us_step_down_and_read_again(store, clock, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.service._RETRY_S", 0.02)
    counting = Counting(store)

    async def scenario(service):
        await service.submit(Join(report(), 0))
        counting.problem = UnavailableError("connection lost")
        with pytest.raises(RejectedError) as caught:
            await service.submit(Raise("hudi", 8, "ann"))
        counting.problem = None
        while not service.active:
            await asyncio.sleep(0.01)
        fleet = service.state().fleet
        return (
            caught.value.rejection.refusal.condition,
            fleet.epoch,
            fleet.ladder_states["hudi"].level,
            list(fleet.members),
        )

    told, epoch, level, members = run(scenario, counting, clock)
    assert told == "UNAVAILABLE"
    assert (epoch, level) == (2, 6), "a new epoch, and what the store holds"
    assert members == [MemberKey("etl", 1)]


def test_a_coordinator_that_was_replaced_changes_nothing_and_answers_nobody(store, clock, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.service._RETRY_S", 60)

    async def scenario(service):
        await service.submit(Join(report(), 0))
        store.resign(1)
        successor = coordinator(store, clock, "two")
        assert successor.take_over() is None
        told = []
        service.decider.beat(Heartbeat("etl", 1, 1, 0, {}), told.append)
        while not told:
            await asyncio.sleep(0.01)
        with pytest.raises(RejectedError) as caught:
            await service.submit(Raise("hudi", 8, "ann"))
        return told[0], caught.value.rejection, service.active

    beaten, rejection, active = run(scenario, store, clock)
    assert beaten is None, "a lease that the successor does not know of must not be prolonged"
    assert rejection.refusal.condition == "UNAVAILABLE"
    assert not active
    fresh = coordinator(store, clock, "two")
    fresh.take_over()
    assert fresh.state.fleet.ladder_states["hudi"].level == 6


def test_a_standby_says_who_is_active_and_takes_over_when_that_one_resigns(store, clock, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.service._RETRY_S", 0.02)
    first = coordinator(store, clock, "one")
    first.take_over()
    processed(first, Join(report(), 0))
    processed(first, Raise("hudi", 8, "ann"))
    changes = []

    async def scenario(service):
        service.on_active.append(changes.append)
        with pytest.raises(RejectedError) as caught:
            await service.submit(Tick())
        hints = dict(caught.value.rejection.hints)
        store.resign(1)
        while not service.active:
            await asyncio.sleep(0.01)
        return hints, service.state()

    hints, state = run(scenario, store, clock, name="two")
    assert hints == {"active": "one:1"}
    assert state.epoch == 2
    assert state.fleet.ladder_states["hudi"].level == 8
    assert changes[0] is True


class WithClock:
    """A store with a clock that all its coordinators share."""

    def __init__(self, store, now):
        self._store, self._now = store, now

    def clock_ms(self):
        return self._now()

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.mark.parametrize("off", [11 * 60_000, -2 * 24 * 3_600_000])
def test_a_coordinator_whose_clock_is_off_does_not_lead_until_it_is_set(store, clock, off, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.service._RETRY_S", 0.01)
    apart = [off]
    shared = WithClock(store, lambda: clock.now() + apart[0])
    with pytest.raises(UnavailableError) as caught:
        coordinator(shared, clock).take_over()
    assert caught.value.condition == "CLOCK_SKEW"
    assert store.holder().epoch == 0

    async def scenario(service):
        standing_by, why = not service.active, service.unready()
        apart[0] = 1000
        while not service.active:
            await asyncio.sleep(0.01)
        return standing_by, why, service.unready()

    standing_by, before, after = run(scenario, shared, clock)
    assert standing_by
    assert "s behind the store's" in before if off > 0 else "s ahead of the store's" in before
    assert after == ""


def test_a_coordinator_whose_clock_goes_astray_gives_its_lease_back(store, clock, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.service._RETRY_S", 60)
    monkeypatch.setattr(type(store), "renew_every_s", 0.01)
    apart = [0]

    async def scenario(service):
        await service.submit(Join(report(), 0))
        apart[0] = 60_000
        while service.active:
            await asyncio.sleep(0.01)

    run(scenario, WithClock(store, lambda: clock.now() + apart[0]), clock)
    assert coordinator(store, clock, "two").take_over() is None, "nobody has to wait for its lease"


class SetClock(ManualClock):
    """A clock whose date is set while what it counts with goes on."""

    ahead = 0

    def wall(self):
        return self.now() + self.ahead


def test_a_coordinator_whose_date_is_set_wrong_while_it_leads_gives_its_lease_back(store, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.service._RETRY_S", 60)
    monkeypatch.setattr(type(store), "renew_every_s", 0.01)
    clock = SetClock(1_000_000)

    async def scenario(service):
        await service.submit(Join(report(), 0))
        clock.ahead = 11 * 60_000
        async with asyncio.timeout(30):
            while service.active:
                await asyncio.sleep(0.01)
        return service.unready()

    why = run(scenario, WithClock(store, clock.now), clock)
    assert why == "the clock of one is 660 s ahead of the store's"


def test_after_a_take_over_nobody_is_gone_before_a_full_lease_and_margin(store, clock):
    first = coordinator(store, clock)
    first.take_over()
    processed(first, Join(report(), 0))
    clock.advance(999)
    second = coordinator(store, clock)
    second.take_over()
    clock.advance(TERMS.lease + TERMS.margin - 1)
    processed(second, Tick())
    assert MemberKey("etl", 1) in second.state.fleet.members
    clock.advance(1)
    processed(second, Tick())
    assert second.state.fleet.members == {}


def test_the_time_of_a_take_over_is_taken_when_the_former_coordinator_is_locked_out(store, clock):
    first = coordinator(store, clock)
    first.take_over()
    processed(first, Join(report(), 0))

    class Waiting:
        """A store where one waits for the lock while the former coordinator still answers heartbeats."""

        def take_over(self, name, address, decide):
            clock.advance(5000)
            return store.take_over(name, address, decide)

        def clock_ms(self):
            return None

    second = coordinator(store, clock)
    second.store = Waiting()
    second.take_over()
    assert second.state.presences[MemberKey("etl", 1)].until == clock.now() + TERMS.lease + TERMS.margin


def test_a_coordinator_that_has_not_taken_over_decides_nothing(store, clock):
    with pytest.raises(InternalError):
        coordinator(store, clock).decide([Tick()])


def test_an_event_that_makes_no_sense_harms_nobody_else(store, clock):
    async def scenario(service):
        odd = Observe("../x", "x@1", Provenance.DECLARED, "ann")
        bug = Raise(["unhashable"], 8, "ann")
        whats = [Join(report("a"), 0), odd, bug, Join(report("b"), 0)]
        found = await asyncio.gather(*(service.submit(what) for what in whats), return_exceptions=True)
        return found, service.active, set(service.state().fleet.members)

    found, active, members = run(scenario, store, clock)
    assert isinstance(found[1], InputError)
    assert isinstance(found[2], InternalError)
    assert active
    assert members == {MemberKey("a", 1), MemberKey("b", 1)}


def test_a_batch_that_was_overtaken_is_not_kept(store, clock):
    one = coordinator(store, clock)
    one.take_over()
    batch = one.decide([Join(report(), 0)])
    processed(one, Join(report("other"), 0))
    with pytest.raises(Exception, match="stepped down"):
        one.keep(batch)


def test_shipped_ladders_are_declared_once_grow_and_leave_what_users_declared(store, clock):
    one = coordinator(store, clock)
    one.take_over()
    longer = replace(HUDI, ladder=Ladder("hudi", (Rung(6), Rung(8), Rung(9))), policy=Policy.AUTO)
    two = coordinator(store, clock, ladders=[longer])
    two.take_over()
    assert two.state.fleet.ladders["hudi"].levels == (6, 8, 9)
    assert two.state.fleet.ladder_states["hudi"].policy is Policy.MANUAL, "only a new ladder takes the policy"
    other = replace(HUDI, ladder=Ladder("hudi", (Rung(1), Rung(2))))
    three = coordinator(store, clock, ladders=[other])
    three.take_over()
    assert three.state.fleet.ladders["hudi"].levels == (6, 8, 9)


def test_terms_are_those_of_the_fleet_once_it_has_any(store, clock):
    one = coordinator(store, clock, provides=frozenset({"a"}))
    one.take_over()
    assert one.state.fleet.terms == replace(TERMS, provides=frozenset({"a"}))
    two = Coordinator(store, clock, name="one", address="", terms=FleetTerms(lease=9), provides=frozenset({"a", "b"}))
    two.take_over()
    assert two.state.fleet.terms == replace(TERMS, provides=frozenset({"a", "b"}))


def test_refusals_of_strangers_and_handshakes_are_written_down(store, clock):
    async def scenario(service):
        service.count_refusal("1.2.3.4", "handshake", Refusal("TOKEN_INVALID", "forged"))
        service.decider.remember(Sighting("etl", "halocline@0.1.0", "x@1", "reader", "joined", (), 5))
        while not store.seen():
            await asyncio.sleep(0.01)

    run(scenario, store, clock)
    entry = store.audit(AuditQuery(refused_only=True))[0]
    assert (entry.actor, entry.action, entry.refused) == ("1.2.3.4", "handshake", "TOKEN_INVALID")
    assert store.seen()[0].identity == "etl"


def test_refusals_of_the_core_are_written_down_with_their_condition(store, clock):
    one = coordinator(store, clock)
    one.take_over()
    effects = processed(one, Join(report(levels=(1, 2)), 0))
    assert any(isinstance(effect, Refuse) for effect in effects)
    assert store.audit(AuditQuery(refused_only=True))[0].refused == "INCOMPATIBLE_VERSION"


def test_a_stale_write_is_an_error_of_its_own(store, clock):
    one = coordinator(store, clock)
    one.take_over()
    two = coordinator(store, clock)
    two.take_over()
    with pytest.raises(StaleEpochError):
        processed(one, Join(report(), 0))


# Sessions.


class Claimed:
    identity, incarnation = "etl", 1


def test_a_member_that_does_not_read_loses_its_session_and_not_our_memory():
    async def play():
        closed = []
        stuck = asyncio.Event()

        async def send(_):
            await stuck.wait()

        session = Session(Claimed, send, lambda: closed.append(True))
        sessions = Sessions()
        sessions.add(session)
        session.put(SessionBegun(1))
        flushing = asyncio.ensure_future(session.flush())
        await asyncio.sleep(0)
        for _ in range(1000):
            session.put(SessionBegun(1))
        waiting = len(session._waiting)
        flushing.cancel()
        return closed, waiting

    closed, waiting = asyncio.run(play())
    assert closed == [True]
    assert waiting < 100


def test_a_new_session_of_the_same_life_ends_the_former():
    ended = []
    sessions = Sessions()
    first = Session(Claimed, None, lambda: ended.append("first"))
    second = Session(Claimed, None, lambda: ended.append("second"))
    sessions.add(first)
    sessions.add(second)
    assert ended == ["first"]
    sessions.drop(first)
    assert len(sessions) == 1
    sessions.drop(second)
    assert len(sessions) == 0


def test_a_session_that_is_ended_twice_is_closed_once_so_that_its_last_word_gets_through():
    ended = []
    session = Session(Claimed, None, lambda: ended.append("closed"))
    session.end()
    session.end()
    assert ended == ["closed"]


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        (calls.DESCRIBE, None),
        (calls.MEMBERS, MembersQuery(all=True)),
        (calls.MEMBERS, MembersQuery(after="#0", all=True)),
        (calls.TABLE_USERS, "lake/orders"),
        (calls.WHO_BLOCKS, BlockQuery(feature="deletionVectors")),
        (calls.WHO_BREAKS, BreakQuery(remove="member/session")),
        (calls.WHO_BREAKS, BreakQuery(ladder="hudi", level=8)),
        (calls.PLAN_RAISE, LadderLevel("hudi", 8)),
        (calls.PLAN_DOWNGRADE, LadderLevel("hudi", 6)),
        (calls.AUDIT, AuditQuery()),
        (calls.KEYS, None),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_question_is_worked_out_and_encoded_off_the_loop(store, clock, call, asked):
    where = []
    answer = replace(call, answer=replace(call.answer, encode=_noting(where, call.answer.encode)))

    async def scenario(service):
        claims = Claims("ann", 0, "operator", "x@1", 1, "anonymous", EVERYTHING, 10**9)
        commands = OperatorCalls(service, Greeter(service))
        commands._questions = {name: _noting(where, each) for name, each in commands._questions.items()}
        return await commands.answer(answer, call.request.encode(asked), claims)

    assert isinstance(run(scenario, store, clock), bytes)
    assert len(where) == 2
    assert all(name.startswith("halocline-read") for name in where), where


def _noting(where, work):
    def noted(*arguments):
        where.append(threading.current_thread().name)
        return work(*arguments)

    return noted
