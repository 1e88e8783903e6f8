"""The frame of the core: taking over, committing first, and replaying."""

import pytest
from tests.support.fleet_runs import DELTA, HUDI, LEASE, MARGIN, Run, granted, key, refusal

from halocline.errors import CONDITIONS, InternalError
from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Admit, Announce, CommitRecords, Refusal, Renew, Repeat
from halocline.fleet.core.events import (
    DeclareLadder,
    Event,
    Leave,
    Once,
    Raise,
    SetPolicy,
    SetTerms,
    TakeOver,
    Tick,
)
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.state import ANSWERED_MS, Fleet, FleetTerms, LevelRange, MemberKey, applied
from halocline.fleet.core.step import loaded, step
from halocline.fleet.model.invariants import check


def test_a_coordinator_that_has_not_taken_over_does_nothing():
    with pytest.raises(InternalError, match="must take over"):
        step(loaded(Fleet()), Event(0, Tick()))


def test_taking_over_begins_a_new_epoch_from_the_one_in_the_store():
    run = Run()
    state, effects = step(loaded(run.state.fleet), Event(50, TakeOver()))
    assert state.epoch == run.state.epoch + 1 == state.fleet.epoch
    assert effects[0] == CommitRecords(run.state.epoch, (effects[0].changes[0],))
    assert effects[0].changes[0].kind == "epoch"


def test_a_coordinator_that_took_over_waits_as_well_for_what_the_former_one_believes():
    run = Run()
    run.join()
    run.do(TakeOver(belief=7))
    assert run.state.presences[MemberKey("etl", 1)].until == run.at + LEASE + MARGIN + 7
    run.wait(LEASE + MARGIN + 6)
    assert MemberKey("etl", 1) in run.state.fleet.members
    run.wait(1)
    assert run.state.fleet.members == {}


def test_a_coordinator_that_took_over_waits_a_whole_lease_for_everybody():
    run = Run()
    run.join("etl")
    run.at += LEASE + MARGIN - 1  # the lease is nearly over for the first coordinator
    run.state = loaded(run.state.fleet)
    run.do(TakeOver())
    run.wait(LEASE + MARGIN - 1)
    assert run.members() == ["etl#1"]
    run.wait(1)
    assert run.members() == []


def test_what_was_admitted_before_a_take_over_can_go_on_after_it():
    run = Run()
    run.join("etl")
    run.state = loaded(run.state.fleet)
    run.do(TakeOver())
    assert granted(run.beat("etl"), Renew).epoch == 2


@pytest.mark.parametrize("what", ["join", "beat", "raise"])
def test_grants_anything_something_is_committed_first(what):
    run = Run()
    if what != "join":
        run.join("etl")
    effects = {"join": run.join, "beat": run.beat, "raise": lambda: run.do(Raise("delta", 2, "me"))}[what]()
    kind = {"join": Admit, "beat": Renew, "raise": Announce}[what]
    assert effects[0] == CommitRecords(run.state.epoch, effects[0].changes)
    assert granted(effects, kind)
    assert bool(effects[0].changes) == (what != "beat"), "a heartbeat writes nothing, it only asks"


def test_the_changes_of_a_commit_rebuild_the_fleet():
    run = Run(DELTA, HUDI)
    before = run.state.fleet
    effects = run.join("etl", supported={})
    assert applied(before, effects[0].changes) == run.state.fleet
    assert run.state.fleet.members[key()].report.identity == "etl"


def test_a_step_leaves_the_state_before_untouched():
    run = Run()
    run.join("etl")
    before, members = run.state, dict(run.state.fleet.members)
    run.join("bi")
    run.wait(1000)
    assert dict(before.fleet.members) == members


def test_the_same_events_lead_to_the_same_state():
    run = Run(DELTA, HUDI)
    run.join("etl", hi=2)
    run.do(Raise("delta", 2, "me"))
    run.wait(3)
    run.beat("etl")
    run.wait(LEASE + MARGIN)
    assert check(run.log()) == []
    assert run.members() == []


def test_only_time_differences_matter():
    early, late = Run(), Run()
    late.at = 10_000
    for run in (early, late):
        run.join("etl", hi=2)
        run.do(Raise("delta", 2, "me"))
        run.wait(LEASE)
        run.beat("etl")
        run.wait(LEASE + MARGIN - 1)
    assert early.state.fleet.ladder_states == late.state.fleet.ladder_states
    assert early.members() == late.members() == ["etl#1"]


def test_a_ladder_grows_at_the_top_and_nowhere_else():
    run = Run(DELTA)
    taller = Ladder("delta", (*DELTA.rungs, Rung(4)))
    assert run.do(DeclareLadder(taller, "me"))[0].changes[0].key == "delta"
    assert run.level() == 1
    changed = Ladder("delta", (Rung(1, changes_data=True), *taller.rungs[1:]))
    assert "never change" in refusal(run.do(DeclareLadder(changed, "me"))).message
    assert refusal(run.do(DeclareLadder(DELTA, "me"))).condition == "ARGUMENT_INVALID"
    assert run.do(DeclareLadder(taller, "me")) == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (DeclareLadder(Ladder("x", (Rung(1),)), "me", level=2), "no level 2"),
        (DeclareLadder(Ladder("x", (Rung(1, requires=(("delta", 2),)),)), "me"), "requires level 2 of delta"),
        (DeclareLadder(Ladder("x", (Rung(1),)), "me", policy=Policy.HOLD), "place one"),
    ],
)
def test_a_ladder_that_cannot_begin_is_refused(command, problem):
    assert problem in refusal(Run().do(command)).message


def test_a_ladder_that_somebody_present_does_not_support_is_refused():
    run = Run()
    run.join("etl", supported={"x": LevelRange(1, 3)})
    assert "etl#1" in refusal(run.do(DeclareLadder(Ladder("x", (Rung(5),)), "me"))).message


def test_members_that_were_here_first_must_hear_of_a_new_ladder_before_it_settles():
    run = Run()
    run.join("etl", supported={"x": LevelRange(1, 3)})
    run.do(DeclareLadder(Ladder("x", (Rung(1),)), "me"))
    run.wait(1)
    assert run.settled("x") == 0
    run.beat("etl")
    run.wait(1)
    assert run.settled("x") == 1


def test_a_lease_does_not_become_shorter_under_those_who_hold_it():
    run = Run()
    shorter = SetTerms(FleetTerms(LEASE - 1, MARGIN), "me")
    run.join("etl")
    assert "cannot become shorter" in refusal(run.do(shorter)).message
    assert run.do(SetTerms(FleetTerms(LEASE * 2, MARGIN), "me"))[0].changes[0].kind == "terms"
    run.wait(LEASE + MARGIN)
    assert run.members() == []
    assert isinstance(run.do(shorter)[0], CommitRecords)


def test_a_feature_that_a_member_needs_is_not_taken_away():
    run = Run(terms=FleetTerms(LEASE, MARGIN, provides=frozenset({"watch", "export"})))
    run.join("etl", needs=frozenset({"watch"}))
    refused = refusal(run.do(SetTerms(FleetTerms(LEASE, MARGIN, provides=frozenset({"export"})), "me")))
    assert (refused.condition, refused.subject) == ("INCOMPATIBLE_VERSION", "watch")


def test_every_decision_leaves_an_audit_entry():
    run = Run()
    run.join("etl")
    assert [(entry.actor, entry.action, entry.subject) for entry in run.audits] == [("etl", "join", "etl#1")]
    run.join("bi", release="nightly")
    assert [(entry.action, entry.refused) for entry in run.audits] == [("join", "VERSION_UNKNOWN")]
    run.beat("etl")
    assert run.audits == [], "heartbeats are too many to be recorded"


def test_refusals_are_errors_with_a_registered_code():
    error = Refusal("HELD", "hudi is held", sides=(("hold", "freeze"),), next_step="release it").error()
    assert error.to_dict() == {
        "condition": "HELD",
        "message": "hudi is held",
        "sides": {"hold": "freeze"},
        "next": "release it",
    }
    assert Refusal("INCOMPATIBLE_VERSION", "too old").error().exit_code == 2
    assert {"INCARNATION_ENDED", "INCARNATION_REPLAYED", "LEVEL_BLOCKED", "POINT_OF_NO_RETURN"} <= CONDITIONS.keys()


def test_two_changes_of_one_record_in_a_step_are_one_change():
    run = Run()
    draft = Draft(run.state, 0)
    draft.put("incarnations", "etl", 1)
    draft.put("incarnations", "etl", 2)
    state, effects = draft.finish()
    assert [change.value for change in effects[0].changes] == [2]
    assert state.fleet.incarnations == {"etl": 2}


def once(key="k1", digest="d1", level=2):
    return Once(key, digest, Raise("delta", level, "me"))


def test_a_command_with_a_key_is_done_once_also_by_a_successor():
    run = Run()
    done = run.do(once())
    assert isinstance(done[0], CommitRecords)
    again = run.do(once())
    assert again == [CommitRecords(1), Repeat(("raise delta=2 delta 1 to 2",))], "only who still leads may say so"
    run.state, _ = step(loaded(run.state.fleet), Event(run.at, TakeOver()))
    assert run.do(once())[1] == Repeat(("raise delta=2 delta 1 to 2",))
    assert refusal(run.do(once(digest="d2", level=3))).condition == "ARGUMENT_INVALID"
    assert run.level() == 2
    run.do(once("k2", "d2", 3))
    assert run.level() == 3


def test_a_command_that_was_refused_may_succeed_under_the_same_key():
    run = Run()
    run.join("old", hi=1)
    assert refusal(run.do(once())).condition == "LEVEL_BLOCKED"
    run.do(Leave("old", 1))
    run.do(once())
    assert run.level() == 2


def test_keys_of_commands_are_forgotten_after_a_day_or_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("halocline.fleet.core.step.MOST_ANSWERED", 2)
    run = Run()
    for number in range(4):
        run.at += 1
        run.do(Once(f"k{number}", "d", SetPolicy("delta", Policy.AUTO if number % 2 else Policy.MANUAL, "me")))
    run.do(Tick(sweep=True))
    assert sorted(run.state.fleet.answered) == ["k2", "k3"]
    run.at = 3 + ANSWERED_MS
    run.do(Tick(sweep=True))
    assert sorted(run.state.fleet.answered) == ["k3"]
