"""Levels fall phase by phase, and back out until a visible point."""

import pytest
from tests.support.fleet_runs import DELTA, HUDI, LEASE, MARGIN, Run, granted, refusal, uses

from halocline.fleet.core.downgrade import plan_downgrade
from halocline.fleet.core.effects import Announce
from halocline.fleet.core.events import (
    CancelDowngrade,
    CleanDowngrade,
    FinishDowngrade,
    MoveTable,
    Raise,
    StartDowngrade,
)
from halocline.fleet.core.ladder_state import Phase, Policy, View
from halocline.fleet.core.level import BlockerKind
from halocline.fleet.core.state import LevelRange

START = StartDowngrade("delta", 2, "me", "bad release")
CLEAN, FINISH, CANCEL = CleanDowngrade("delta", "me"), FinishDowngrade("delta", "me"), CancelDowngrade("delta", "me")


def at_three(policy=Policy.MANUAL):
    run = Run(policy=policy)
    run.join("etl")
    run.do(Raise("delta", 3, "me"))
    run.beat("etl")
    run.wait(1)
    assert run.settled() == 3
    return run


def phase(run):
    downgrade = run.ladder_state().downgrade
    return downgrade.phase if downgrade else None


def test_a_downgrade_closes_gates_first_and_lowers_last():
    run = at_three()
    announced = granted(run.do(START), Announce).announcements[0]
    assert (announced.level, announced.limit) == (3, 2)
    run.wait(1)
    assert (phase(run), run.level(), run.settled()) == (Phase.CLOSING, 3, 2)
    run.beat("etl")
    run.wait(1)
    assert phase(run) is Phase.CLOSED
    run.do(CLEAN)
    assert run.ladder_state().downgrade.past_return
    run.do(FINISH)
    assert (phase(run), run.level(), run.settled()) == (None, 2, 2)


def test_a_downgrade_waits_for_operations_in_flight():
    run = at_three()
    old = View(run.ladder_state().revision, 3)
    run.do(START)
    run.beat("etl", views={"delta": old})
    run.wait(1)
    assert phase(run) is Phase.CLOSING
    assert plan_downgrade(run.state, "delta", 2, run.at).waiting == ("etl#1",)


def test_a_downgrade_does_not_wait_for_the_dead():
    run = at_three()
    run.join("dead")
    run.do(START)
    run.at += LEASE
    run.beat("etl")
    run.wait(MARGIN)
    assert phase(run) is Phase.CLOSED


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_downgrade_can_be_cancelled_until_cleaning_begins(acknowledged):
    run = at_three()
    run.do(START)
    if acknowledged:
        run.beat("etl")
        run.wait(1)
    announced = granted(run.do(CANCEL), Announce).announcements[0]
    assert (announced.level, announced.limit, phase(run)) == (3, 3, None)
    run.wait(1)
    assert run.settled() == 2, "etl may still act under the closed gates"
    run.beat("etl")
    run.wait(1)
    assert run.settled() == 3


def test_after_the_point_of_no_return_the_only_way_is_on():
    run = at_three()
    run.do(START)
    run.beat("etl")
    run.wait(1)
    run.do(CLEAN)
    refused = refusal(run.do(CANCEL))
    assert (refused.condition, refused.next_step) == ("POINT_OF_NO_RETURN", "halocline fleet downgrade finish delta")
    assert refusal(run.do(Raise("delta", 3, "me"))).condition == "LEVEL_BLOCKED"


def test_the_level_falls_only_when_every_table_was_cleaned():
    run = at_three()
    run.do(MoveTable("lake/t", "delta", 3, "etl"))
    assert [each.table for each in plan_downgrade(run.state, "delta", 2, run.at).tables] == ["lake/t"]
    run.do(START)
    run.beat("etl")
    run.wait(1)
    run.do(CLEAN)
    assert dict(refusal(run.do(FINISH)).sides) == {"lake/t": "level 3"}
    assert refusal(run.do(MoveTable("lake/u", "delta", 3, "etl"))).condition == "GATE_CLOSED"
    run.do(MoveTable("lake/t", "delta", 2, "etl"))
    run.do(FINISH)
    assert run.level() == 2


def test_a_free_downgrade_needs_no_cleaning_and_can_be_cancelled_to_the_end():
    run = Run()
    run.do(Raise("delta", 2, "me"))
    assert plan_downgrade(run.state, "delta", 1, run.at).free
    run.do(StartDowngrade("delta", 1, "me", "not yet"))
    run.wait(1)
    assert phase(run) is Phase.CLOSED
    run.do(FINISH)
    assert run.level() == 1


@pytest.mark.parametrize(("command", "needed"), [(CLEAN, "closed"), (FINISH, "cleaning")])
def test_no_phase_is_skipped(command, needed):
    run = at_three()
    run.do(START)
    refused = refusal(run.do(command))
    assert (refused.condition, dict(refused.sides)) == (
        "DOWNGRADE_BLOCKED",
        {"phase": "closing", "needed": needed, "awaited": "etl"},
    )


@pytest.mark.parametrize("command", [CLEAN, FINISH, CANCEL])
def test_a_downgrade_that_was_not_started_goes_nowhere(command):
    assert refusal(at_three().do(command)).condition == "NOT_FOUND"
    assert refusal(Run(HUDI).do(command)).condition == "NOT_FOUND"


def test_a_fleet_does_not_climb_again_by_itself():
    run = at_three(policy=Policy.AUTO)
    run.do(START)
    run.beat("etl")
    run.wait(1)
    run.do(CLEAN)
    run.do(FINISH)
    run.wait(1)
    assert (run.level(), run.ladder_state().policy) == (2, Policy.MANUAL)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (StartDowngrade("delta", 3, "me", "why"), BlockerKind.NO_SUCH_LEVEL),
        (StartDowngrade("delta", 9, "me", "why"), BlockerKind.NO_SUCH_LEVEL),
        (StartDowngrade("nothing", 1, "me", "why"), BlockerKind.NO_SUCH_LEVEL),
        (StartDowngrade("delta", 1, "me", "why"), BlockerKind.TOO_NEW),
        (START, BlockerKind.DOWNGRADE),
    ],
)
def test_what_is_in_the_way_of_a_downgrade_is_named(command, kind):
    run = at_three()
    run.join("newest", lo=2, hi=3)
    if command == START:
        run.do(START)
    assert refusal(run.do(command)).condition == "DOWNGRADE_BLOCKED"
    if command != START:
        blockers = plan_downgrade(run.state, command.ladder, command.target, run.at).blockers
        assert [each.kind for each in blockers] == [kind]


def test_a_level_that_another_ladder_requires_does_not_fall():
    run = Run(DELTA, HUDI)
    run.do(Raise("delta", 2, "me"))
    run.do(Raise("hudi", 8, "me"))
    plan = plan_downgrade(run.state, "delta", 1, run.at)
    assert [(each.kind, each.who) for each in plan.blockers] == [(BlockerKind.DEPENDENCY, "hudi")]


def test_another_ladder_does_not_rise_on_a_level_that_is_about_to_fall():
    run = Run(DELTA, HUDI)
    run.do(Raise("delta", 2, "me"))
    run.do(StartDowngrade("delta", 1, "me", "bad release"))
    assert refusal(run.do(Raise("hudi", 8, "me"))).condition == "LEVEL_BLOCKED"


def test_a_downgrade_needs_a_reason():
    assert "needs a reason" in str(refusal(at_three().do(StartDowngrade("delta", 2, "me", ""))).sides)


def test_validating_changes_nothing_and_says_who_will_be_waited_for():
    run = at_three()
    run.join("bi", supported={"delta": LevelRange(1, 3)}, tables=uses("lake/t"))
    before = run.state
    plan = plan_downgrade(run.state, "delta", 2, run.at)
    assert (plan.blockers, plan.free, plan.waiting) == ((), False, ("bi#1", "etl#1"))
    assert run.state is before
