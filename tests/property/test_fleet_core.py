"""Ten members, three ladders, a lossy network and busy operators: every invariant holds after every step."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from halocline.fleet.core import members
from halocline.fleet.core.effects import Admit, Announce, CommitRecords, Refuse, Renew
from halocline.fleet.core.events import (
    CancelDowngrade,
    CleanDowngrade,
    DeclareLadder,
    Event,
    FinishDowngrade,
    Heartbeat,
    Join,
    Leave,
    MoveTable,
    Observe,
    PlaceHold,
    Raise,
    ReleaseHold,
    RemoveMember,
    SetPolicy,
    StartDowngrade,
    TakeOver,
    Tick,
)
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import UNHEARD, Policy
from halocline.fleet.core.member_step import (
    AskToJoin,
    Beat,
    Begin,
    End,
    Goodbye,
    Hear,
    MemberState,
    Status,
    may_commit,
    member_step,
)
from halocline.fleet.core.state import Fleet, FleetTerms, LevelRange, Provenance, Report, TableUse, applied
from halocline.fleet.core.step import loaded, step
from halocline.fleet.model.ground_truth import CoordinatorStep, GroundTruth, Log, MemberStep, Process
from halocline.fleet.model.invariants import check

TERMS = FleetTerms(lease=10, margin=3, window=40)
LADDERS = (
    Ladder("delta", (Rung(1), Rung(2), Rung(3, changes_data=True))),
    Ladder("hudi", (Rung(6), Rung(8, requires=(("delta", 2),), changes_data=True))),
    Ladder("index", (Rung(1), Rung(2, features=frozenset({"phrases"})))),
)
NAMES = [f"m{number}" for number in range(10)]
BINARIES = (
    {"delta": LevelRange(1, 1), "hudi": LevelRange(6, 6)},
    {"delta": LevelRange(1, 2), "hudi": LevelRange(6, 8), "index": LevelRange(1, 1)},
    {"delta": LevelRange(1, 3), "hudi": LevelRange(6, 8), "index": LevelRange(1, 2)},
    {"delta": LevelRange(2, 3), "index": LevelRange(1, 2)},
)
TABLES = ("lake/a", "lake/b")

names = st.sampled_from(NAMES)
binaries = st.sampled_from(BINARIES)
targets = st.sampled_from([(ladder.name, rung.level) for ladder in LADDERS for rung in ladder.rungs])
ladders = st.sampled_from([ladder.name for ladder in LADDERS])
some = st.integers(0, 10**6)


@dataclass
class Computer:
    """What runs under one name, with a clock that is off by hours and may run slow."""

    offset: int
    member: MemberState | None = None
    life: int = 0
    lost: int = 0
    lost_at: int = -100
    network: list = field(default_factory=list)


class FleetMachine(RuleBasedStateMachine):
    """The real core between real members."""

    @initialize(offsets=st.lists(st.integers(-5_000_000, 5_000_000), min_size=10, max_size=10))
    def begin(self, offsets):
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(members, "MOST_LIVES", 2)
        self.now = 0
        self.store = Fleet(terms=TERMS)
        self.computers = {name: Computer(offset) for name, offset in zip(NAMES, offsets, strict=True)}
        self.formats = {(table, ladder.name): ladder.levels[0] for table in TABLES for ladder in LADDERS}
        self.used = {}
        self.stale = None
        self.leader = None
        self.ever = {}
        self.coordinators = 0
        self.copy = None
        self.restores = 0
        self.take_over()
        for ladder in LADDERS:
            self.happens(DeclareLadder(ladder, "me", policy=Policy.AUTO))

    # The coordinator.

    def happens(self, what):
        """One step of the leader, carried out by the store."""
        before, event = self.leader, Event(self.now, what)
        after, effects = step(before, event)
        violations = check(CoordinatorStep(before, event, after, effects))
        assert not violations, violations
        for effect in effects:
            if isinstance(effect, CommitRecords):
                assert effect.epoch == self.store.epoch
                self.store = applied(self.store, effect.changes)
            if isinstance(effect, Admit | Renew):
                self.computers[effect.identity].network.append(effect)
            if isinstance(effect, Refuse) and effect.to in self.computers:
                self.computers[effect.to].network.append(effect)
            if isinstance(effect, Announce):
                for computer in self.computers.values():
                    computer.network.append(effect)
        for key in after.fleet.members.keys() - before.fleet.members.keys():
            assert not key.incarnation or key.incarnation > self.ever.get(key.identity, 0), f"{key} is back"
            self.ever[key.identity] = key.incarnation
        self.leader = after
        self.events.append(event)

    def take_over(self):
        self.stale, self.initial, self.events = self.leader, loaded(self.store), []
        self.leader = self.initial
        self.coordinators += 1
        self.happens(TakeOver(mark=f"mark-{self.coordinators}", seal_key="key"))

    @rule(ticks=st.integers(1, 14), beats=st.booleans())
    def time_passes(self, ticks, beats):
        self.now += ticks
        if beats:
            self.everybody_is_heard(timer=False)

    @rule(ticks=st.integers(1, 5), sweep=st.booleans())
    def time_passes_and_the_timer_goes_off(self, ticks, sweep):
        self.now += ticks
        self.happens(Tick(sweep))

    @precondition(lambda self: self.stale is not None)
    @rule(name=names, pick=some)
    def a_stale_coordinator_changes_nothing(self, name, pick):
        queue = [each for each in self.computers[name].network if isinstance(each, Join | Heartbeat | Leave)]
        what = queue[pick % len(queue)] if queue else Tick()
        _, effects = step(self.stale, Event(self.now, what))
        granted = [each for each in effects if isinstance(each, Admit | Renew | Announce)]
        assert not granted or (isinstance(effects[0], CommitRecords) and effects[0].epoch != self.store.epoch)

    @rule()
    def the_store_is_copied(self):
        self.copy = self.store, dict(self.formats), dict(self.used), dict(self.ever)

    @precondition(lambda self: self.copy is not None)
    @rule()
    def the_store_is_put_back(self):
        """Together with the tables, after coordinators were stopped and every lease is over; connections break."""
        self.now += TERMS.lease + TERMS.margin
        for name, computer in self.computers.items():
            assert computer.member is None or not computer.member.active(self.clock(name))
            computer.network.clear()
        self.store, self.formats, self.used, self.ever = self.copy
        self.copy = None
        self.restores += 1
        self.take_over()
        self.stale = None

    @rule(name=names, other=names, goal=targets)
    def a_decision_is_lost(self, name, other, goal):
        """A member hears of a level that the store forgets, and comes back when another has joined without it."""
        self.starts_and_joins_at_once(name)
        self.the_store_is_copied()
        self.happens(Raise(*goal, "me", "because", force=True))
        self.everybody_is_heard(timer=True)
        self.the_store_is_put_back()
        if other != name:
            self.starts(other, BINARIES[0], False, None)
            self.everybody_is_heard(timer=False)
            for _ in range(2):
                self.arrives(other, len(self.computers[other].network) - 1, False)
                self.everything_holds()
        self.everybody_is_heard(timer=False)

    @invariant()
    def only_a_restore_raises_the_generation(self):
        assert self.store.generation <= self.restores

    # Members.

    def clock(self, name):
        computer = self.computers[name]
        return self.now + computer.offset - computer.lost

    def acts(self, name, event):
        computer = self.computers[name]
        before = computer.member
        computer.member, sent = member_step(before, event)
        violations = check(MemberStep(before, computer.member))
        assert not violations, violations
        computer.network.extend(sent)

    @rule(name=names, runs=binaries, development=st.booleans(), uses=st.sampled_from([*TABLES, None]))
    def starts(self, name, runs, development, uses):
        computer = self.computers[name]
        computer.life = max(computer.life, self.leader.fleet.floor) + 1
        table = frozenset({TableUse(uses, "delta")}) if uses else frozenset()
        features = frozenset({"phrases"} if runs.get("index", LevelRange(1, 1)).hi > 1 else ())
        report = Report(name, 0, "engine@1.0", supported=runs, features=features, development=development, tables=table)
        computer.member = MemberState(report)
        self.acts(name, AskToJoin(self.clock(name), computer.life))

    @rule(name=names)
    def starts_and_joins_at_once(self, name):
        self.starts(name, BINARIES[2], False, None)
        for _ in range(2):
            self.arrives(name, len(self.computers[name].network) - 1, False)

    @rule(name=names)
    def asks_again(self, name):
        computer = self.computers[name]
        if computer.member is not None:
            self.acts(name, AskToJoin(self.clock(name), computer.life))

    @rule(name=names)
    def beats(self, name):
        if self.computers[name].member is not None:
            self.acts(name, Beat(self.clock(name)))

    @rule(timer=st.booleans())
    def everybody_is_heard(self, timer):
        for name, computer in self.computers.items():
            if computer.member is not None and computer.member.status is Status.JOINED:
                self.acts(name, Beat(self.clock(name)))
                for _ in range(2):
                    self.arrives(name, len(computer.network) - 1, False)
        if timer:
            self.happens(Tick())

    @rule(name=names)
    def crashes(self, name):
        self.computers[name].member = None

    @rule(name=names)
    def leaves(self, name):
        if self.computers[name].member is not None:
            self.acts(name, Goodbye(self.clock(name)))

    @rule(name=names)
    def begins_or_ends(self, name):
        member = self.computers[name].member
        if member is not None:
            self.acts(name, End("job") if member.operations else Begin(self.clock(name), "job"))

    @rule(name=names)
    def loses_time(self, name):
        """A clock may lose the margin within a lease, and not more."""
        computer = self.computers[name]
        if self.now - computer.lost_at > TERMS.lease + TERMS.margin + 1 and self.now > TERMS.margin:
            computer.lost += TERMS.margin
            computer.lost_at = self.now
            self.now += TERMS.margin

    @rule(name=names, pick=some, twice=st.booleans())
    def arrives(self, name, pick, twice):
        """Any message that is on its way arrives, in any order, now and then twice."""
        computer = self.computers[name]
        if not computer.network:
            return
        index = pick % len(computer.network)
        message = computer.network[index] if twice else computer.network.pop(index)
        if isinstance(message, Join | Heartbeat | Leave):
            self.happens(message)
        elif computer.member is not None:
            self.acts(name, Hear(self.clock(name), message))

    @rule(name=names, pick=some)
    def is_lost(self, name, pick):
        network = self.computers[name].network
        if network:
            network.pop(pick % len(network))

    @rule(name=names, table=st.sampled_from(TABLES), ladder=ladders)
    def writes(self, name, table, ladder):
        """Whoever has a gate open raises a table, and says so."""
        member, now = self.computers[name].member, self.clock(name)
        if member is None or not may_commit(member, "job", now):
            return
        level = member.operations["job"].levels.get(ladder, UNHEARD).level
        if level > self.formats[table, ladder]:
            self.formats[table, ladder] = level
            self.happens(MoveTable(table, ladder, level, name))
        if level:
            self.used[ladder] = max(level, self.used.get(ladder, 0))

    # Operators.

    @rule(data=st.data(), ladder=ladders, goal=targets, hold=st.sampled_from(["x", "y"]))
    def operator_decides(self, data, ladder, goal, hold):
        until = data.draw(st.one_of(st.none(), st.integers(self.now + 1, self.now + 30)), label="until")
        self.happens(
            data.draw(
                st.sampled_from(
                    [
                        Raise(*goal, "me"),
                        Raise(*goal, "me", "because", force=True),
                        SetPolicy(ladder, Policy.AUTO, "me"),
                        SetPolicy(ladder, Policy.MANUAL, "me"),
                        PlaceHold(ladder, hold, "because", "me", until=until),
                        ReleaseHold(ladder, hold, "me"),
                        StartDowngrade(*goal, "me", "because"),
                        CancelDowngrade(ladder, "me"),
                        FinishDowngrade("index", "me"),  # free, so there is nothing to clean
                        RemoveMember("trino", "me", "retired"),
                    ]
                ),
                label="command",
            )
        )
        self.after_a_fall("index")

    @rule(ladder=ladders)
    def goes_down(self, ladder):
        """The next phase of a downgrade, whichever it is."""
        ladder_state = self.leader.fleet.ladder_states[ladder]
        downgrade = ladder_state.downgrade
        if downgrade is None:
            lowest = self.leader.fleet.ladders[ladder].levels[0]
            self.happens(StartDowngrade(ladder, lowest, "me", "because"))
        elif downgrade.past_return:
            for table in TABLES:
                self.formats[table, ladder] = min(downgrade.target, self.formats[table, ladder])
                self.happens(MoveTable(table, ladder, self.formats[table, ladder], "me"))
            self.happens(FinishDowngrade(ladder, "me"))
            self.after_a_fall(ladder)
        else:
            self.happens(CleanDowngrade(ladder, "me"))

    def after_a_fall(self, ladder):
        """What gates did above the new level is over: they are closed everywhere, and data was cleaned, if any."""
        level = self.leader.fleet.ladder_states[ladder].level
        if level < self.used.get(ladder, 0):
            self.used[ladder] = level
        for table in TABLES:
            if self.formats[table, ladder] > level:
                assert self.leader.fleet.ladders[ladder].free(self.formats[table, ladder], level), self.formats
                self.formats[table, ladder] = level

    @rule(name=names)
    def removes(self, name):
        gone = self.computers[name].member is None
        self.happens(RemoveMember(name, "me", "because", force=gone))

    @rule(
        release=st.sampled_from(["trino@426", "trino@?", ""]),
        provenance=st.sampled_from([Provenance.OBSERVED, Provenance.DECLARED, Provenance.INFERRED]),
        levels=st.sampled_from([{}, {"delta": LevelRange(1, 2)}]),
    )
    def observes(self, release, provenance, levels):
        use = frozenset({TableUse("lake/a", "delta")})
        self.happens(Observe("trino", release, provenance, "observer", self.now, levels, use))

    @rule(sure=st.integers(0, 3))
    def another_takes_over(self, sure):
        if not sure:
            self.take_over()

    # What must hold.

    @invariant()
    def everything_holds(self):
        running = [(name, each.member) for name, each in self.computers.items() if each.member is not None]
        truth = GroundTruth(
            self.now,
            self.store,
            self.leader,
            tuple(Process(member, member.report.supported, self.clock(name)) for name, member in running),
            formats=self.formats,
            used=self.used,
        )
        violations = check(truth)
        assert not violations, "\n".join(map(str, violations))

    def teardown(self):
        if not hasattr(self, "leader"):
            return
        try:
            self.replays()
        finally:
            self.patched.undo()

    def replays(self):
        assert check(Log(self.initial, tuple(self.events), self.leader)) == []
        if self.initial.fleet.epoch:
            return
        later = self.initial
        for event in self.events:
            later, _ = step(later, _shifted(event, 1000))
        assert later.fleet.ladder_states.keys() == self.leader.fleet.ladder_states.keys()
        for ladder, ladder_state in self.leader.fleet.ladder_states.items():
            same = replace(later.fleet.ladder_states[ladder], downgrade=ladder_state.downgrade)
            assert same == ladder_state, "only differences of time matter"
        assert {key: each.until - 1000 for key, each in later.presences.items()} == {
            key: each.until for key, each in self.leader.presences.items()
        }


def _shifted(event, by):
    what = event.cause
    if isinstance(what, PlaceHold) and what.until is not None:
        what = replace(what, until=what.until + by)
    if isinstance(what, Observe):
        what = replace(what, seen=what.seen + by)
    return Event(event.at + by, what)


TestFleet = FleetMachine.TestCase
TestFleet.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
