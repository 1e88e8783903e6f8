"""The real service under random events: lost, doubled and late messages, crashes, a second coordinator, slow clocks.

Members run the pure half that the client drives; what they send and hear goes over the wire as bytes, through the same
code that gRPC calls. Time is virtual. After every step the invariants are checked against what really is: the records
in the store, the coordinator's memory, and the members with their own clocks.
"""

import asyncio
import threading

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import select

import halocline.fleet.server.coordinator as coordinator_module
from halocline.errors import HaloclineError
from halocline.fleet.core.clock import ManualClock
from halocline.fleet.core.effects import Admit, Announce, Refusal, Refuse, Renew
from halocline.fleet.core.events import (
    CancelDowngrade,
    CleanDowngrade,
    DeclareLadder,
    FinishDowngrade,
    Heartbeat,
    Join,
    Leave,
    PlaceHold,
    Raise,
    ReleaseHold,
    RemoveMember,
    SetPolicy,
    StartDowngrade,
    Tick,
)
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.member_step import (
    AskToJoin,
    Beat,
    Begin,
    End,
    Goodbye,
    Hear,
    MemberState,
    Status,
    member_step,
)
from halocline.fleet.core.state import FleetTerms, LevelRange, MemberKey, Report
from halocline.fleet.core.step import step
from halocline.fleet.model.ground_truth import CoordinatorStep, GroundTruth, MemberStep, Process
from halocline.fleet.model.invariants import check
from halocline.fleet.server.auth import Access, Claims, rights
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.greeting import Caller
from halocline.fleet.server.grpc_server import FleetServer
from halocline.fleet.server.service import FleetService
from halocline.fleet.server.sessions import Session
from halocline.fleet.store import records, schema
from halocline.fleet.store.sqlite import SqliteStore
from halocline.fleet.wire import calls, messages
from halocline.fleet.wire.handshake import Role, Wire
from halocline.fleet.wire.session import Greeting

LADDER = DeclareLadder(Ladder("hudi", (Rung(6), Rung(8, changes_data=True), Rung(9))), "halocline")
TERMS = FleetTerms(lease=100, margin=10, provides=frozenset())
OPERATOR = Claims("ann", 0, "operator", "halocline@0.1.0", 0, "anonymous", rights(["force", "join"]), 10**15)
PHASES = [
    (calls.CLEAN_DOWNGRADE, CleanDowngrade),
    (calls.FINISH_DOWNGRADE, FinishDowngrade),
    (calls.CANCEL_DOWNGRADE, CancelDowngrade),
]
DECIDED = [Tick(), Raise("hudi", 8, "ann"), RemoveMember("a", "ann", "test"), SetPolicy("hudi", Policy.AUTO, "ann")]
RANGES = [LevelRange(6, 6), LevelRange(6, 8), LevelRange(6, 9), LevelRange(8, 9)]


class Server(FleetServer):
    """Knows when a heartbeat has been dealt with."""

    dealt_with = 0

    def _answer(self, session, effects):
        super()._answer(session, effects)
        self.dealt_with += 1


class Member:
    """A process with its own clock, which may run slower than the coordinator's within the margin."""

    def __init__(self, name, runs, offset):
        self.state = MemberState(Report(name, 0, "hudi@1.0.2", supported={"hudi": runs}))
        self.runs = {"hudi": runs}
        self.now = offset
        self.operations = 0
        self.talks_to = "one"

    def advance(self, by, slow):
        # The margin is a tenth of the lease, so a clock that loses less than a tenth stays within it.
        self.now += by - by // 11 if slow else by


class Fleets(RuleBasedStateMachine):
    """Two coordinators on one store, three members, and a network that loses, doubles and delays."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = SqliteStore(":memory:")
        self.clock = ManualClock(1_000)
        self.wire = Wire.current()
        self.moments = []
        self.services = {}
        self.net = []
        self.members = {}
        self.used = 0
        self.life = 1_000

    def teardown(self):
        for service, _ in self.services.values():
            self.run(service.stop())
        self.store.close()
        self.loop.close()

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    # Coordinators.

    @initialize(offsets=st.lists(st.integers(0, 10**6), min_size=3, max_size=3))
    def begin(self, offsets):
        self.start("one")
        for name, offset in zip("abc", offsets, strict=True):
            self.members[name] = Member(name, LevelRange(6, 8), offset)

    def start(self, name):
        """A coordinator that tries to take over, as it does when it starts and whenever it is not active."""
        coordinator = Coordinator(
            self.store,
            self.clock,
            name=name,
            address=name,
            ladders=[LADDER],
            terms=TERMS,
            provides=frozenset(self.wire.server.provides),
        )
        service = FleetService(coordinator, access=Access.open(), wire=self.wire)

        async def begin():
            await service._try_to_take_over()
            service._tasks = [asyncio.ensure_future(service.decider.work_off())]

        self.services[name] = (service, Server(service, "127.0.0.1:0"))
        self.run(begin())

    def newest(self):
        """The coordinator whose epoch the store has, if it is alive."""
        epoch = self.store.holder().epoch
        return next((each for each, _ in self.services.values() if each.coordinator.epoch == epoch), None)

    @rule()
    def the_active_one_is_cut_off_and_another_takes_over(self):
        """Its lease on the store ends without its noticing; it goes on believing that it is active."""
        held = self.store.holder()
        self.store.resign(held.epoch)
        other = "two" if held.name == "one" else "one"
        if other in self.services:
            service, _ = self.services[other]
            service.coordinator.step_down()
            self.run(service._try_to_take_over())
        else:
            self.start(other)

    @rule()
    def the_active_one_crashes_and_comes_back(self):
        newest = self.newest()
        if newest is not None:
            name = newest.coordinator.name
            for task in newest._tasks:
                task.cancel()
            self.run(asyncio.gather(*newest._tasks, return_exceptions=True))
            del self.services[name]
            self.start(name)

    # Time.

    @rule(by=st.integers(1, 60), slow=st.sets(st.sampled_from("abc")))
    def time_passes(self, by, slow):
        self.clock.advance(by)
        for name, each in self.members.items():
            each.advance(by, name in slow)

    @rule()
    def time_is_looked_at(self):
        for service, _ in list(self.services.values()):
            self.submit(service, Tick())

    # Members.

    @rule(name=st.sampled_from("abc"))
    def a_member_asks_to_join(self, name):
        each = self.members[name]
        if each.state.status is Status.OUTSIDE:
            self.life += 1
            self.move(each, AskToJoin(each.now, self.life))
        elif each.state.status is Status.JOINING:
            self.move(each, AskToJoin(each.now, each.state.report.incarnation))

    @rule(name=st.sampled_from("abc"))
    def a_member_beats(self, name):
        self.move(self.members[name], Beat(self.members[name].now))

    @rule()
    def all_goes_well_for_a_while(self):
        """Everybody finds the active coordinator, joins, and is heard."""
        newest = self.newest()
        if newest is None:
            return
        self.net.clear()
        for name, each in self.members.items():
            each.talks_to = newest.coordinator.name
            self.a_member_asks_to_join(name)
        for _ in range(2):
            self.everything_arrives_in_order()
            for name in self.members:
                self.a_member_beats(name)
        self.everything_arrives_in_order()
        self.time_is_looked_at()

    @rule(name=st.sampled_from("abc"), to=st.sampled_from(["one", "two"]))
    def a_member_turns_to_a_coordinator(self, name, to):
        self.members[name].talks_to = to

    @rule(name=st.sampled_from("abc"), before=st.integers(0, 120), after=st.integers(0, 120))
    def a_member_beats_and_everything_is_slow(self, name, before, after):
        """The heartbeat is on its way for a while, and so is the answer."""
        each = self.members[name]
        waiting = len(self.net)
        self.move(each, Beat(each.now))
        sent, self.net = self.net[waiting:], self.net[:waiting]
        self.time_passes(before, set())
        for coordinator, *message in sent:
            if coordinator in self.services:
                self.arrived(coordinator, *message)
        told, self.net = self.net[waiting:], self.net[:waiting]
        self.time_passes(after, set())
        for _, _, _, incarnation, payload in told:
            self.heard(each, incarnation, payload)

    @rule(name=st.sampled_from("abc"), decided=st.sampled_from(DECIDED), by=st.integers(0, 120))
    def a_member_beats_while_something_is_written(self, name, decided, by):
        """It is heard at once or when that is written, and time passes in between."""
        each = self.members[name]
        waiting = len(self.net)
        self.move(each, Beat(each.now))
        sent, self.net = self.net[waiting:], self.net[:waiting]
        for coordinator, *message in sent:
            if message[1] == "beat" and coordinator in self.services:
                self.run(self.beaten_meanwhile(*self.services[coordinator], each, decided, by, *message))

    async def beaten_meanwhile(self, service, server, member, decided, by, name, _, incarnation, payload):
        began, go_on, write = threading.Event(), threading.Event(), self.store.write

        def held_up(epoch, change):
            began.set()
            go_on.wait(60)
            write(epoch, change)

        self.store.write = held_up
        deciding = asyncio.ensure_future(service.submit(decided))
        while not (began.is_set() or deciding.done()):
            await asyncio.sleep(0.0005)
        beating = asyncio.ensure_future(self.beaten(service, server, name, incarnation, payload))
        heard, late = await asyncio.wait([beating], timeout=0.01)
        for each in heard:
            MEANWHILE.append(began.is_set() and not deciding.done())
            for reply in each.result():
                self.heard(member, incarnation, reply)
        self.time_passes(by, set())
        self.store.write = write
        go_on.set()
        await asyncio.gather(deciding, return_exceptions=True)
        for each in late:
            for reply in await each:
                self.heard(member, incarnation, reply)

    @rule(name=st.sampled_from("abc"))
    def a_member_leaves(self, name):
        self.move(self.members[name], Goodbye(self.members[name].now))

    @rule(name=st.sampled_from("abc"), runs=st.sampled_from(RANGES), offset=st.integers(0, 10**6))
    def a_member_restarts_as_another_release(self, name, runs, offset):
        self.members[name] = Member(name, runs, offset)

    @rule(name=st.sampled_from("abc"))
    def an_operation_begins(self, name):
        each = self.members[name]
        each.operations += 1
        self.move(each, Begin(each.now, f"op{each.operations}"))

    @rule(name=st.sampled_from("abc"))
    def an_operation_ends(self, name):
        each = self.members[name]
        for begun in list(each.state.operations)[:1]:
            self.move(each, End(begun))

    def move(self, member, event):
        """A step of a member; what it sends goes into the network, to the coordinator it is connected to."""
        before = member.state
        member.state, sent = member_step(before, event)
        assert check(MemberStep(before, member.state)) == []
        for message in sent:
            self.net.append((member.talks_to, member.state.report.identity, *self.encoded(message)))

    def encoded(self, message):
        if isinstance(message, Join):
            client = self.wire.client(Role.MEMBER)
            report, wall = message.report, self.clock.wall()
            greeting = Greeting(client, report.identity, "reader", "", wall, message.sent, report)
            return "join", report.incarnation, calls.HANDSHAKE.request.encode(greeting)
        if isinstance(message, Heartbeat):
            return "beat", message.incarnation, messages.to_heartbeat(message)
        assert isinstance(message, Leave)
        return "leave", message.incarnation, b""

    # The network.

    @precondition(lambda self: self.net)
    @rule(data=st.data(), twice=st.booleans())
    def something_arrives(self, data, twice):
        number = data.draw(st.integers(0, min(len(self.net), 8) - 1))
        coordinator, name, kind, incarnation, payload = self.net[number] if twice else self.net.pop(number)
        if kind == "down":
            self.heard(self.members[name], incarnation, payload)
        elif coordinator in self.services:
            self.arrived(coordinator, name, kind, incarnation, payload)

    @precondition(lambda self: self.net)
    @rule(data=st.data())
    def something_is_lost(self, data):
        self.net.pop(data.draw(st.integers(0, min(len(self.net), 8) - 1)))

    @rule()
    def everything_arrives_in_order(self):
        for _ in range(40):
            if not self.net:
                return
            coordinator, name, kind, incarnation, payload = self.net.pop(0)
            if kind == "down":
                self.heard(self.members[name], incarnation, payload)
            elif coordinator in self.services:
                self.arrived(coordinator, name, kind, incarnation, payload)

    def arrived(self, coordinator, name, kind, incarnation, payload):
        service, server = self.services[coordinator]
        if kind == "join":
            reply = self.run(self.greeted(server, payload, incarnation))
        elif kind == "beat":
            reply = self.run(self.beaten(service, server, name, incarnation, payload))
        else:
            self.submit(service, Leave(name, incarnation))
            reply = []
        self.net += [("", name, "down", incarnation, each) for each in reply]

    async def greeted(self, server, payload, incarnation):
        try:
            welcome = await server._greeter.greet(calls.HANDSHAKE.request.decode(payload), Caller("test"))
            return [("admit", calls.HANDSHAKE.answer.encode(welcome))]
        except RejectedError as error:
            refusal = error.rejection.refusal
            return [] if refusal.condition == "UNAVAILABLE" else [("refuse", refusal)]

    async def beaten(self, service, server, name, incarnation, payload):
        sent = []

        async def send(data):
            sent.append(("down", data))

        claims = Claims(name, incarnation, "reader", "hudi@1.0.2", 0, "anonymous", rights(["join"]), 10**15)
        session = Session(claims, send, lambda: None)
        before = server.dealt_with
        server._beat(session, payload)
        while server.dealt_with == before:
            await asyncio.sleep(0.0005)
        await session.flush()
        return sent

    def heard(self, member, incarnation, payload):
        kind, sent = payload
        key = MemberKey(member.state.report.identity, incarnation)
        if kind == "admit":
            welcome = calls.HANDSHAKE.answer.decode(sent)
            granted = welcome.admission
            reply = Admit(*key, granted.sent, welcome.epoch, granted.lease_ms, granted.announcements)
        else:
            reply = messages.session_message(key, sent) if kind == "down" else sent
        if isinstance(reply, Refusal):
            reply = Refuse(key.identity, reply, incarnation)
        if isinstance(reply, Admit | Renew | Announce | Refuse):
            before = member.state
            member.state, _ = member_step(before, Hear(member.now, reply))
            assert check(MemberStep(before, member.state)) == []

    # Operators.

    def submit(self, service, what):
        try:
            return self.run(service.submit(what))
        except (RejectedError, HaloclineError) as error:
            note(f"refused: {error}")
            return None

    def command(self, coordinator, call, command):
        if coordinator not in self.services:
            return
        _, server = self.services[coordinator]
        try:
            self.run(server._commands.answer(call, call.request.encode(command), OPERATOR))
        except (RejectedError, HaloclineError) as error:
            note(f"refused: {error}")

    coordinators = st.sampled_from(["one", "two"])

    @rule(to=coordinators, level=st.sampled_from([8, 9]), force=st.booleans())
    def an_operator_raises(self, to, level, force):
        self.command(to, calls.RAISE, Raise("hudi", level, "", "test", force))

    @rule(to=coordinators, policy=st.sampled_from([Policy.AUTO, Policy.MANUAL]))
    def an_operator_sets_the_policy(self, to, policy):
        self.command(to, calls.SET_POLICY, SetPolicy("hudi", policy, ""))

    @rule(to=coordinators, ahead=st.integers(0, 50))
    def an_operator_holds(self, to, ahead):
        until = self.clock.now() + ahead if ahead else None
        self.command(to, calls.PLACE_HOLD, PlaceHold("hudi", "h", "test", "", until=until))

    @rule(to=coordinators)
    def an_operator_releases(self, to):
        self.command(to, calls.RELEASE_HOLD, ReleaseHold("hudi", "h", ""))

    @rule(to=coordinators, level=st.sampled_from([6, 8]))
    def an_operator_starts_a_downgrade(self, to, level):
        self.command(to, calls.START_DOWNGRADE, StartDowngrade("hudi", level, "", "test"))

    @rule(to=coordinators, phase=st.sampled_from(PHASES))
    def an_operator_goes_on_with_a_downgrade(self, to, phase):
        call, kind = phase
        self.command(to, call, kind("hudi", "", "test"))

    @rule(to=coordinators, name=st.sampled_from("abc"))
    def an_operator_removes_a_member(self, to, name):
        self.command(to, calls.REMOVE_MEMBER, RemoveMember(name, "", "test"))

    # What must hold.

    @invariant()
    def every_step_was_safe(self):
        for moment in self.drain():
            assert check(moment) == []
            JUDGED.append(type(moment.event.cause))

    def drain(self):
        taken, RECORDED[:] = list(RECORDED), []
        return taken

    @invariant()
    def the_ground_truth_is_safe(self):
        newest = self.newest()
        if newest is None or newest.coordinator.state is None or not self.members:
            return
        state = newest.coordinator.state
        stored = self.durable()
        processes = tuple(Process(each.state, each.runs, each.now) for each in self.members.values())
        for each in processes:
            self.used = max(self.used, each.acting("hudi"))
        ladder_state = stored.ladder_states["hudi"]
        if ladder_state.level < self.used:
            # A downgrade has finished: nobody acts above it any more.
            self.used = max((each.acting("hudi") for each in processes), default=0)
        truth = GroundTruth(self.clock.now(), stored, state, processes, used={"hudi": self.used})
        assert check(truth) == []

    def durable(self):
        """The fleet as the store has it, read without touching anything."""
        with self.store._reading() as connection:
            epoch = connection.execute(select(schema.coordinator.c.epoch)).scalar_one()
            return records.fleet(connection, epoch)


RECORDED = []
JUDGED = []
"""The events of all steps that were found to be safe."""
MEANWHILE = []
"""For each heartbeat that was answered at once whether something was being written."""


def recording(state, event, *rest):
    after, effects = step(state, event, *rest)
    RECORDED.append(CoordinatorStep(state, event, after, effects))
    return after, effects


@pytest.fixture(autouse=True)
def _watched(monkeypatch):
    monkeypatch.setattr(coordinator_module, "step", recording)
    monkeypatch.setattr("halocline.fleet.core.meanwhile.step", recording)
    monkeypatch.setattr("halocline.fleet.server.decider._GATHER_S", 0)
    RECORDED.clear()
    JUDGED.clear()
    MEANWHILE.clear()


Fleets.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.hypothesis
def test_no_events_make_the_real_service_unsafe():
    Fleets.TestCase().runTest()
    assert {Join, Heartbeat} <= set(JUDGED), "members must come and speak, or little was tried"
    assert any(MEANWHILE), "some must be answered while something is written"
