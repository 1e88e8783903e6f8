"""Drives the core in tests, checking every invariant of a step as it goes."""

from halocline.fleet.core.effects import Admit, Announce, Audit, CommitRecords, Refuse, Renew
from halocline.fleet.core.events import DeclareLadder, Event, Heartbeat, Join, TakeOver, Tick
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import Policy, View
from halocline.fleet.core.state import Fleet, FleetTerms, LevelRange, MemberKey, Report, TableUse
from halocline.fleet.core.step import loaded, step
from halocline.fleet.model.ground_truth import CoordinatorStep, Log
from halocline.fleet.model.invariants import check

LEASE, MARGIN, WINDOW = 10, 2, 100
TERMS = FleetTerms(LEASE, MARGIN, WINDOW)

DELTA = Ladder("delta", (Rung(1), Rung(2), Rung(3, changes_data=True, provided_by=("deltalake@1.4.0", "trino@427"))))
HUDI = Ladder("hudi", (Rung(6), Rung(8, requires=(("delta", 2),), changes_data=True, features=frozenset({"lsm"}))))


class Run:
    """A coordinator and its events so far."""

    def __init__(self, *ladders, terms=TERMS, policy=Policy.MANUAL):
        self.initial = self.state = loaded(Fleet(terms=terms))
        self.at = 0
        self.events = []
        self.do(TakeOver())
        for ladder in ladders or (DELTA,):
            self.do(DeclareLadder(ladder, "test", policy=policy))
        self.do(Tick())

    def do(self, what):
        """Takes up one event and returns its effects, without the audit entries."""
        event = Event(self.at, what)
        before = self.state
        self.state, effects = step(before, event)
        self.events.append(event)
        violations = check(CoordinatorStep(before, event, self.state, effects))
        assert not violations, "\n".join(map(str, violations))
        self.audits = [effect for effect in effects if isinstance(effect, Audit)]
        return [effect for effect in effects if not isinstance(effect, Audit)]

    def wait(self, ticks):
        """Lets time pass and the timer go off."""
        self.at += ticks
        return self.do(Tick())

    def join(self, identity="etl", lo=1, hi=3, incarnation=1, ladder="delta", release="deltalake@1.6.6", **report):
        supported = report.pop("supported", {ladder: LevelRange(lo, hi)})
        return self.do(Join(Report(identity, incarnation, release, supported=supported, **report), sent=self.at))

    def beat(self, identity="etl", incarnation=1, seq=None, views=None, tables=None):
        """Sends a heartbeat that has heard everything, unless views are given."""
        ladder_states = self.state.fleet.ladder_states
        heard = {name: View(each.revision, each.limit) for name, each in ladder_states.items()}
        self.seq = getattr(self, "seq", 0) + 1
        sent = seq if seq is not None else self.seq
        return self.do(Heartbeat(identity, incarnation, sent, self.at, heard if views is None else views, tables))

    def level(self, ladder="delta"):
        return self.state.fleet.ladder_states[ladder].level

    def settled(self, ladder="delta"):
        return self.state.fleet.ladder_states[ladder].settled

    def ladder_state(self, ladder="delta"):
        return self.state.fleet.ladder_states[ladder]

    def members(self):
        return sorted(map(str, self.state.fleet.members))

    def log(self):
        return Log(self.initial, tuple(self.events), self.state)


def refusal(effects):
    """The refusal among the effects; there must be exactly one, and nothing may be granted."""
    refused = [effect for effect in effects if isinstance(effect, Refuse)]
    granted = [effect for effect in effects if isinstance(effect, Admit | Renew | Announce | CommitRecords)]
    assert len(refused) == 1, effects
    assert not granted, effects
    return refused[0].refusal


def granted(effects, kind):
    """The one effect of that kind; it must come after a commit, and nobody may be refused."""
    assert isinstance(effects[0], CommitRecords), effects
    assert not any(isinstance(effect, Refuse) for effect in effects), effects
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


def uses(table, ladder="delta", operation="read"):
    return frozenset({TableUse(table, ladder, operation)})


def key(identity="etl", incarnation=1):
    return MemberKey(identity, incarnation)
