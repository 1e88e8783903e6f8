"""Holds keep the level down, and end only when they were said to."""

import pytest
from tests.support.fleet_runs import Run, refusal

from halocline.fleet.core.clock import LATEST_MS
from halocline.fleet.core.events import PlaceHold, Raise, ReleaseHold
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.level import BlockerKind, effective_policy, plan_raise


def hold(name="freeze", **fields):
    return PlaceHold("delta", name, fields.pop("reason", "year-end close"), "me", **fields)


def test_a_hold_keeps_an_operator_and_the_policy_from_raising():
    run = Run(policy=Policy.AUTO)
    run.do(hold())
    run.join("etl")
    run.wait(1)
    assert run.level() == 1
    refused = refusal(run.do(Raise("delta", 2, "me")))
    assert refused.condition == "HELD"
    assert "year-end close" in dict(refused.sides)["freeze"]
    assert effective_policy(run.state.fleet, "delta", run.at) is Policy.HOLD


def test_a_hold_may_allow_some_levels():
    run = Run(policy=Policy.AUTO)
    run.do(hold(level=2))
    run.join("etl")
    run.wait(1)
    assert run.level() == 2
    assert [each.kind for each in plan_raise(run.state, "delta", 3, run.at).blockers] == [BlockerKind.HELD]


def test_a_release_ends_a_hold_and_only_that_one():
    run = Run()
    run.do(hold("one"))
    run.do(hold("two", level=2))
    run.do(ReleaseHold("delta", "one", "me"))
    assert [each.who for each in plan_raise(run.state, "delta", 3, run.at).blockers] == ["two"]
    assert not plan_raise(run.state, "delta", 2, run.at).blockers
    assert refusal(run.do(ReleaseHold("delta", "one", "me"))).condition == "NOT_FOUND"


def test_a_hold_ends_at_its_stated_end():
    run = Run(policy=Policy.AUTO)
    run.do(hold(until=8))
    run.join("etl")
    run.wait(7)
    assert run.level() == 1
    run.wait(1)
    assert run.level() == 3
    assert run.state.fleet.holds == {}


def test_a_hold_that_is_over_no_longer_holds_even_before_the_timer():
    run = Run()
    run.do(hold(until=8))
    run.at = 8
    assert not plan_raise(run.state, "delta", 2, run.at).blockers


@pytest.mark.parametrize(
    ("command", "condition"),
    [
        (hold(reason=""), "ARGUMENT_INVALID"),
        (hold(name=""), "ARGUMENT_INVALID"),
        (hold(until=0), "ARGUMENT_INVALID"),
        (hold(until=LATEST_MS + 1), "ARGUMENT_INVALID"),
        (hold(level=1), "ARGUMENT_INVALID"),
        (hold("taken"), "ALREADY_EXISTS"),
        (PlaceHold("nothing", "x", "why", "me"), "NOT_FOUND"),
    ],
)
def test_a_hold_that_makes_no_sense_is_refused(command, condition):
    run = Run()
    run.do(Raise("delta", 2, "me"))
    run.do(hold("taken"))
    assert refusal(run.do(command)).condition == condition


def test_a_hold_below_the_level_points_to_the_downgrade():
    run = Run()
    run.do(Raise("delta", 2, "me"))
    assert refusal(run.do(hold(level=1))).next_step == "halocline fleet downgrade validate delta=1"
