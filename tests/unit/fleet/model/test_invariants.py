"""Every invariant has a check, and every check can fail with the values that show why."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.fleet_runs import DELTA, HUDI, Run, key, uses

from halocline.compat.history import History
from halocline.fleet.core.effects import Admit, CommitRecords, Renew
from halocline.fleet.core.events import (
    Event,
    FinishDowngrade,
    Heartbeat,
    Join,
    Observe,
    PlaceHold,
    Raise,
    StartDowngrade,
    Tick,
)
from halocline.fleet.core.ladder_state import Announcement, Downgrade, Phase, View
from halocline.fleet.core.member_step import LevelSnapshot, MemberState, Status
from halocline.fleet.core.state import Fleet, LevelRange, Member, Presence, Provenance, RecordChange, Report, State
from halocline.fleet.model.ground_truth import CoordinatorStep, GroundTruth, Log, MemberStep, Process, Reach
from halocline.fleet.model.invariants import INVARIANTS, check, checked

OLD, NEW = {"delta": LevelRange(1, 1)}, {"delta": LevelRange(1, 2)}


def numbers(evidence):
    return {each.number for each in check(evidence)}


def moment(run, what, change, effects=None):
    """A step in which the state afterwards was tampered with, committed as if it were right."""
    after = change(run.state)
    changes = tuple(
        RecordChange(kind, name, value)
        for kind in ("ladder_states", "members", "incarnations", "holds")
        for name, value in {
            **dict.fromkeys(getattr(run.state.fleet, kind)),
            **getattr(after.fleet, kind),
        }.items()
    )
    done = (CommitRecords(run.state.epoch, changes), *(effects or ()))
    return CoordinatorStep(run.state, Event(run.at, what), after, done)


def ladder_state(state, ladder="delta", **fields):
    changed = {**state.fleet.ladder_states, ladder: replace(state.fleet.ladder_states[ladder], **fields)}
    return replace(state, fleet=replace(state.fleet, ladder_states=changed))


def registered(state, report, provenance=Provenance.REPORTED, view=None):
    members = {**state.fleet.members, report.key: Member(report, provenance, 0)}
    presences = {**state.presences, report.key: Presence(99, 0, {"delta": view or View(1, 1)})}
    return replace(state, fleet=replace(state.fleet, members=members), presences=presences)


def etl(hi=2, release="deltalake@1.6.6", incarnation=1):
    return Report("etl", incarnation, release, supported={"delta": LevelRange(1, hi)})


def process(identity="etl", runs=NEW, level=1, until=5, operations=None, stalled=False):
    heard = {"delta": Announcement("delta", 1, level, level)}
    report = Report(identity, 1, "deltalake@1.6.6", supported=runs)
    return Process(MemberState(report, Status.JOINED, until, 0, heard, operations or {}), runs, 0, stalled)


def truth(*processes, run=None, **fields):
    run = run or Run()
    state = run.state
    for each in processes:
        state = registered(state, each.member.report)
    return GroundTruth(0, fields.pop("store", state.fleet), state, processes, **fields)


def test_all_seventeen_have_a_name_a_statement_and_a_check():
    assert sorted(INVARIANTS) == list(range(1, 18))
    assert checked() == frozenset(INVARIANTS)
    assert all(name and says for name, says in INVARIANTS.values())


def test_the_document_lists_them_as_they_are():
    text = (Path(__file__).parents[4] / "docs" / "fleet-model.md").read_text()
    for number, (name, says) in INVARIANTS.items():
        assert f"| {number} | {name} | {says} |" in text


def test_a_message_shows_the_number_the_name_and_the_values():
    wrong = check(truth(process(level=2), process("bi", OLD)), 3)
    assert [str(each) for each in wrong] == [
        "3 No early use: level 2 of delta is used by etl#1 while bi#1 is active and runs 1 to 1"
    ]


def test_1_a_level_that_falls_by_itself_is_found():
    run = Run()
    run.do(Raise("delta", 2, "me"))
    assert 1 in numbers(moment(run, Tick(), lambda state: ladder_state(state, level=1)))
    assert 1 in numbers(moment(run, Tick(), lambda state: ladder_state(state, revision=0)))


def test_1_a_view_that_gets_older_is_found_on_both_sides():
    run = Run()
    run.join("etl")
    older = {key(): replace(run.state.presences[key()], views={"delta": View(0, 0)})}
    assert 1 in numbers(moment(run, Tick(), lambda state: replace(state, presences=older)))
    before = process(level=2).member
    after = replace(before, heard={"delta": Announcement("delta", 0, 1, 1)})
    assert numbers(MemberStep(before, after)) == {1}


def test_2_a_member_outside_the_level_is_found():
    run = Run()
    assert 2 in numbers(moment(run, Tick(), lambda state: registered(ladder_state(state, level=3), etl(hi=2))))


@pytest.mark.parametrize(
    ("processes", "fields"),
    [
        ((process(level=2), process("bi", OLD)), {}),
        ((process("bi", OLD),), {"used": {"delta": 2}}),
        ((process(level=2),), {"silent": (OLD,)}),
        ((process(level=2), process("bi", OLD, until=0, stalled=True)), {}),
        ((process(operations={"job": LevelSnapshot({"delta": View(1, 2)})}), process("bi", OLD)), {}),
    ],
    ids=["gate", "used before", "silent", "stalled", "in flight"],
)
def test_3_early_use_is_found(processes, fields):
    assert 3 in numbers(truth(*processes, **fields))


def test_3_whoever_is_not_active_does_not_matter():
    assert numbers(truth(process(level=2), process("bi", OLD, until=0))) == set()


@pytest.mark.parametrize(("level", "runs"), [(2, OLD), (1, {"delta": LevelRange(2, 3)})])
def test_4_a_table_beyond_an_active_member_is_found(level, runs):
    assert 4 in numbers(truth(process(runs=runs), formats={("lake/t", "delta"): level}))


def test_5_settling_too_early_is_found():
    run = Run()
    run.join("etl")
    run.do(Raise("delta", 2, "me"))
    assert 5 in numbers(moment(run, Tick(), lambda state: ladder_state(state, settled=2)))
    assert 5 in numbers(moment(run, Tick(), lambda state: ladder_state(state, settled=3)))
    ahead = Run()
    ahead.state = ladder_state(ahead.state, level=2, settled=2)
    assert 5 in numbers(truth(process(level=1), run=ahead))


def test_6_admitting_what_does_not_fit_is_found():
    run = Run(DELTA, HUDI)
    run.do(Raise("delta", 3, "me"))
    for report in (etl(hi=2), replace(etl(hi=3), needs=frozenset({"watch"}))):
        admit = (Admit("etl", 1, 0, 1, 10, ()),)
        assert 6 in numbers(moment(run, Join(report, 0), lambda state, r=report: registered(state, r), admit))
    unwritten = CoordinatorStep(
        run.state, Event(0, Join(etl(hi=3), 0)), run.state, (CommitRecords(1), Admit("etl", 1, 0, 1, 10, ()))
    )
    assert 6 in numbers(unwritten)
    assert 6 in numbers(
        CoordinatorStep(run.state, Event(0, Tick()), run.state, (CommitRecords(1), Admit("etl", 1, 0, 1, 10, ())))
    )


def test_7_a_member_that_outlives_its_registration_is_found():
    assert 7 in numbers(GroundTruth(0, Run().state.fleet, Run().state, (process(),)))
    late = truth(process())
    over = {key(): replace(late.coordinator.presences[key()], until=0)}
    assert 7 in numbers(replace(late, coordinator=replace(late.coordinator, presences=over)))


def test_8_a_life_that_comes_back_is_found():
    run = Run()
    run.join("etl", incarnation=3)
    for life in (2, 3):
        report = etl(incarnation=life)
        gone = replace(run.state.fleet, members={})
        before = replace(run.state, fleet=gone)
        back = registered(before, report)
        assert 8 in numbers(CoordinatorStep(before, Event(0, Join(report, 0)), back, (CommitRecords(1),)))
    renewed = (CommitRecords(1), Renew("etl", 2, 1, 0, 1, 10))
    assert 8 in numbers(CoordinatorStep(run.state, Event(0, Heartbeat("etl", 2, 1, 0)), run.state, renewed))


def test_9_a_grant_without_a_commit_is_found():
    run = Run()
    run.join("etl")
    event = Event(0, Heartbeat("etl", 1, 1, 0))
    renew = Renew("etl", 1, 1, 0, 1, 10)
    for effects in ((renew,), (CommitRecords(99), renew), (renew, CommitRecords(1))):
        assert 9 in numbers(CoordinatorStep(run.state, event, run.state, effects))
    assert 9 in numbers(replace(truth(), store=replace(Run().state.fleet, epoch=9)))


def test_10_what_was_not_written_is_found():
    run = Run()
    after = ladder_state(run.state, settled=0)
    assert 10 in numbers(CoordinatorStep(run.state, Event(0, Tick()), after, (CommitRecords(run.state.epoch),)))
    assert 10 in numbers(truth(process(), store=Run().state.fleet))
    outside = replace(process().member, status=Status.OUTSIDE)
    assert numbers(MemberStep(outside, outside)) == {10}


def test_11_passing_the_unknown_is_found():
    run = Run()
    report = etl(release="nightly")
    admit = (Admit("etl", 1, 0, 1, 10, ()),)
    assert 11 in numbers(moment(run, Join(report, 0), lambda state: registered(state, report), admit))
    run.do(Observe("x", "x@?", Provenance.DECLARED, "me", tables=uses("lake/t")))
    assert 11 in numbers(moment(run, Tick(), lambda state: ladder_state(state, level=2)))


def test_12_a_hold_that_does_not_hold_is_found():
    run = Run()
    run.do(PlaceHold("delta", "freeze", "why", "me"))
    assert 12 in numbers(moment(run, Tick(), lambda state: ladder_state(state, level=2)))
    lost = replace(run.state, fleet=replace(run.state.fleet, holds={}))
    assert 12 in numbers(moment(run, Tick(), lambda state: lost))


@pytest.mark.parametrize(
    ("phase", "after"),
    [
        (Phase.CLOSING, {"level": 1, "downgrade": None}),
        (Phase.CLOSED, {"level": 1, "downgrade": None}),
        (Phase.CLEANING, {"downgrade": None}),
        (Phase.CLOSING, {"level": 3}),
    ],
    ids=["not closed", "not cleaned", "turned back", "rose"],
)
def test_13_a_downgrade_out_of_order_is_found(phase, after):
    run = Run()
    downgrade = Downgrade(1, phase, 2, False, 0, "me", "why")
    run.state = ladder_state(run.state, level=2, downgrade=downgrade)
    assert 13 in numbers(moment(run, FinishDowngrade("delta", "me"), lambda state: ladder_state(state, **after)))


def test_13_closing_over_somebodys_head_is_found():
    run = Run()
    run.join("etl")
    run.do(Raise("delta", 2, "me"))
    run.do(StartDowngrade("delta", 1, "me", "why"))
    closed = replace(run.ladder_state().downgrade, phase=Phase.CLOSED)
    assert 13 in numbers(moment(run, Tick(), lambda state: ladder_state(state, downgrade=closed)))
    begun = replace(closed, phase=Phase.CLEANING)
    fresh = Run()
    assert 13 in numbers(moment(fresh, Tick(), lambda state: ladder_state(state, downgrade=begun)))


def test_14_a_level_without_what_it_requires_is_found():
    run = Run(DELTA, HUDI)
    assert 14 in numbers(moment(run, Tick(), lambda state: ladder_state(state, "hudi", level=8)))


def test_15_another_outcome_of_the_same_events_is_found():
    run = Run()
    run.join("etl")
    log = run.log()
    assert numbers(log) == set()
    assert numbers(Log(log.initial, log.events[:-1], log.final)) == {15}


def test_16_histories_are_judged_by_their_own_rules():
    early = History.parse(
        'format = 1\nname = "wire"\nsummary = "A wire."\nreleased = "3.0"\nunknown_before = "1.0"\n'
        '[[feature]]\nid = "watch"\nname = "Watch"\nsummary = "Watching"\nprovided = "2.0"\nrequired = "1.0"\n'
    )
    assert numbers(early) == {16}
    assert "watch" in check(early)[0].message


def test_17_a_level_out_of_reach_is_found():
    assert numbers(Reach("delta", 2, False, "all support it")) == {17}
    assert numbers(Reach("delta", 2, True, "all support it")) == set()


def test_an_empty_fleet_violates_nothing():
    state = State(1, Fleet(1), {})
    assert numbers(CoordinatorStep(state, Event(0, Tick()), state, ())) == set()
    assert numbers(GroundTruth(0, state.fleet, state)) == set()
