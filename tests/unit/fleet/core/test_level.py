"""When a level rises, what is in its way, and when it is settled."""

import pytest
from tests.support.fleet_runs import DELTA, HUDI, LEASE, MARGIN, Run, granted, refusal, uses

from halocline.errors import InputError
from halocline.fleet.core.effects import Announce
from halocline.fleet.core.events import Leave, MoveTable, Raise, SetPolicy, SetTerms, StartDowngrade
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import Policy, View
from halocline.fleet.core.level import BlockerKind, effective_policy, plan_raise
from halocline.fleet.core.state import FleetTerms, LevelRange


def blocking(run, level, ladder="delta"):
    return [(each.kind, each.who) for each in plan_raise(run.state, ladder, level, run.at).blockers]


def test_raising_announces_the_new_level_to_everybody():
    run = Run()
    run.join("etl")
    announced = granted(run.do(Raise("delta", 2, "me")), Announce).announcements
    assert [(each.ladder, each.level, each.limit) for each in announced] == [("delta", 2, 2)]


def test_a_plan_names_who_is_in_the_way_and_what_each_must_upgrade_to():
    run = Run()
    run.join("etl", hi=2, release="deltalake@1.0.2")
    run.join("bi", hi=2, release="presto@0.290")
    run.join("new", hi=3)
    plan = plan_raise(run.state, "delta", 3, run.at)
    assert [(each.who, each.text, each.fix) for each in plan.blockers] == [
        ("etl#1", "deltalake@1.0.2 supports delta 1 to 2", "deltalake@1.4.0"),
        ("bi#1", "presto@0.290 supports delta 1 to 2", "a release that supports level 3"),
    ]
    assert plan.checked == ("bi#1", "etl#1", "new#1")
    refused = refusal(run.do(Raise("delta", 3, "me")))
    assert (refused.condition, refused.fix) == ("LEVEL_BLOCKED", "deltalake@1.4.0")
    assert dict(refused.sides)["etl#1"] == "deltalake@1.0.2 supports delta 1 to 2; deltalake@1.4.0"


def test_planning_changes_nothing():
    run = Run()
    run.join("etl")
    before = run.state
    assert not plan_raise(run.state, "delta", 3, run.at).blockers
    assert run.state is before
    assert run.level() == 1


@pytest.mark.parametrize(
    ("ladder", "level", "kind"),
    [
        ("iceberg", 2, BlockerKind.NO_SUCH_LEVEL),
        ("delta", 7, BlockerKind.NO_SUCH_LEVEL),
        ("delta", 1, BlockerKind.NOT_ABOVE),
        ("hudi", 8, BlockerKind.DEPENDENCY),
    ],
)
def test_levels_that_cannot_be_reached_are_refused(ladder, level, kind):
    run = Run(DELTA, HUDI)
    assert [each[0] for each in blocking(run, level, ladder)] == [kind]
    assert refusal(run.do(Raise(ladder, level, "me"))).condition == "LEVEL_BLOCKED"


def test_a_member_that_does_not_use_the_ladder_does_not_count():
    run = Run(DELTA, HUDI)
    run.join("hudi-only", ladder="hudi", lo=6, hi=6)
    assert blocking(run, 3) == []


def test_a_member_without_a_feature_of_the_level_is_in_the_way():
    run = Run(DELTA, HUDI)
    run.do(Raise("delta", 2, "me"))
    run.join("etl", ladder="hudi", lo=6, hi=8)
    assert blocking(run, 8, "hudi") == [(BlockerKind.LACKS_FEATURE, "etl#1")]


def test_a_level_that_a_member_skips_over_is_refused():
    run = Run(Ladder("x", (Rung(1), Rung(2), Rung(3))))
    run.join("etl", ladder="x", hi=2)
    assert blocking(run, 3, "x") == [(BlockerKind.TOO_OLD, "etl#1")]


def test_development_builds_never_raise_a_fleet_that_is_not_marked_so():
    run = Run(policy=Policy.AUTO)
    run.join("nightly", development=True, release="deltalake@2.0.0-SNAPSHOT")
    run.wait(1)
    assert run.level() == 1
    assert blocking(run, 2) == [(BlockerKind.DEVELOPMENT, "delta")]
    run.join("etl", hi=2)
    run.wait(1)
    assert run.level() == 2, "a released build supports it as well"
    run.do(Leave("etl", 1))
    run.wait(1)
    assert run.level() == 2, "and nothing but the development build supports 3"


def test_development_builds_raise_a_development_fleet():
    run = Run(policy=Policy.AUTO)
    run.do(SetTerms(FleetTerms(LEASE, MARGIN, development=True), "me"))
    run.join("nightly", development=True)
    run.wait(1)
    assert run.level() == 3


def test_an_automatic_level_rises_as_far_as_everybody_supports_it():
    run = Run(policy=Policy.AUTO)
    run.wait(1)
    assert run.level() == 1, "an empty fleet does not rise"
    run.join("etl", hi=2)
    run.join("bi", hi=3)
    run.wait(1)
    assert run.level() == 2
    run.do(Leave("etl", 1))
    run.wait(1)
    assert run.level() == 3


def test_a_dead_member_stops_being_in_the_way_when_its_lease_is_over():
    run = Run(policy=Policy.AUTO)
    run.join("old", hi=1)
    run.join("new", hi=3)
    run.at += LEASE
    run.beat("new")
    run.wait(MARGIN - 1)
    assert run.level() == 1
    run.wait(1)
    assert run.level() == 3


def test_automatic_levels_make_room_for_each_other():
    run = Run(DELTA, HUDI, policy=Policy.AUTO)
    ranges = {"delta": LevelRange(1, 3), "hudi": LevelRange(6, 8)}
    run.join("etl", supported=ranges, features=frozenset({"lsm"}))
    run.wait(1)
    assert (run.level("delta"), run.level("hudi")) == (3, 8)


def test_a_manual_level_does_not_rise_by_itself():
    run = Run()
    run.join("etl")
    run.wait(1)
    assert run.level() == 1
    run.do(SetPolicy("delta", Policy.AUTO, "me"))
    run.wait(1)
    assert run.level() == 3
    assert effective_policy(run.state.fleet, "delta", run.at) is Policy.AUTO


def test_a_policy_of_hold_is_placed_as_a_hold():
    run = Run()
    assert "place one" in refusal(run.do(SetPolicy("delta", Policy.HOLD, "me"))).message
    assert refusal(run.do(SetPolicy("nothing", Policy.AUTO, "me"))).condition == "NOT_FOUND"


def test_a_level_is_settled_when_everybody_has_seen_it():
    run = Run()
    run.join("etl")
    run.join("bi")
    run.do(Raise("delta", 2, "me"))
    run.beat("etl")
    run.wait(1)
    assert (run.level(), run.settled()) == (2, 1)
    run.beat("bi", views={"delta": View(1, 1)})
    run.wait(1)
    assert run.settled() == 1, "an operation of bi still acts under the old level"
    run.beat("bi")
    run.wait(1)
    assert run.settled() == 2


def test_a_level_settles_without_those_whose_lease_is_over():
    run = Run()
    run.join("etl")
    run.join("dead")
    run.do(Raise("delta", 2, "me"))
    run.at += LEASE
    run.beat("etl")
    run.wait(MARGIN)
    assert run.settled() == 2


def test_a_newcomer_does_not_unsettle_a_level():
    run = Run()
    run.do(Raise("delta", 2, "me"))
    run.wait(1)
    run.join("etl")
    run.wait(1)
    assert run.settled() == 2


def test_a_raise_is_refused_on_the_way_down():
    run = Run()
    run.do(Raise("delta", 2, "me"))
    run.do(StartDowngrade("delta", 1, "me", "bad release"))
    assert blocking(run, 3) == [(BlockerKind.DOWNGRADE, "delta")]


def test_a_table_rises_after_its_migration_and_never_above_the_level():
    run = Run()
    run.join("etl", tables=uses("lake/t"))
    closed = refusal(run.do(MoveTable("lake/t", "delta", 2, "etl")))
    assert (closed.condition, closed.subject) == ("GATE_CLOSED", "delta=2")
    run.do(Raise("delta", 2, "me"))
    run.do(MoveTable("lake/t", "delta", 2, "etl"))
    assert run.state.fleet.tables["lake/t", "delta"].level == 2
    assert run.do(MoveTable("lake/t", "delta", 2, "etl")) == [], "it is there already"
    run.do(MoveTable("lake/t", "delta", 1, "etl"))
    assert run.state.fleet.tables["lake/t", "delta"].level == 1


def test_a_table_does_not_fall_below_what_its_users_support():
    run = Run()
    run.do(Raise("delta", 2, "me"))
    run.do(MoveTable("lake/t", "delta", 2, "me"))
    run.join("etl", lo=2, tables=uses("lake/t"))
    assert refusal(run.do(MoveTable("lake/t", "delta", 1, "me"))).condition == "INCOMPATIBLE_VERSION"
    assert refusal(run.do(MoveTable("lake/t", "nothing", 1, "me"))).condition == "NOT_FOUND"
    assert refusal(run.do(MoveTable("lake/t", "delta", 9, "me"))).condition == "ARGUMENT_INVALID"


@pytest.mark.parametrize("rungs", [(), (Rung(2), Rung(1)), (Rung(1), Rung(1))])
def test_a_ladder_has_each_level_once_and_in_order(rungs):
    with pytest.raises(InputError, match="lowest first"):
        Ladder("x", rungs)


def test_levels_count_from_one():
    with pytest.raises(InputError, match="0 means unknown"):
        Rung(0)
    with pytest.raises(InputError, match="cannot name a ladder"):
        Ladder("../x", (Rung(1),))
