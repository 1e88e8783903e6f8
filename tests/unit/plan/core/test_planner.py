"""Plans for the lakes that the product is for."""

from __future__ import annotations

import pytest
from tests.support.rollouts import (
    RFC_76,
    delta_table,
    hudi_table,
    layers_of,
    medallion,
    medallion_tables,
    releases,
    replay,
)

from halocline.compat.knowledge import Knowledge
from halocline.plan.core.plan import Impasse, Plan
from halocline.plan.core.planner import plan
from halocline.plan.core.rollout import Rollout, RolloutMember, TableMove


@pytest.fixture(scope="module")
def rfc_76():
    return Knowledge.load(RFC_76)


def planned(rollout: Rollout) -> Plan:
    found = plan(rollout)
    assert isinstance(found, Plan), found
    replay(rollout, found)
    return found


# ---------------------------------------------------------------------- a medallion lake of Hudi tables


def test_without_a_bridge_gold_moves_before_silver_before_bronze(rfc_76):
    rollout = Rollout(
        medallion_tables(),
        medallion("hudi@0.15.0"),
        goals=releases("hudi@1.0.2"),
        available=releases("hudi@0.15.0", "hudi@1.0.2"),
        knowledge=rfc_76,
    )
    found = planned(rollout)
    assert [layers_of(each) for each in found.stages] == [{"gold"}, {"silver"}, {"bronze"}]
    assert all(each.after == releases("hudi@1.0.2")[0] for each in found.upgrades)
    assert [name for name, _ in found.stages[0].rising] == ["gold-0", "gold-1"], "writers move their tables up"


def test_over_a_bridge_everybody_moves_in_any_order_and_features_come_last(rfc_76):
    partial = TableMove("enable partialUpdates", hudi_table("any").raised[8].with_use_of(["partialUpdates"]))
    rollout = Rollout(
        medallion_tables(moves=(partial,)),
        medallion("hudi@0.15.0"),
        goals=releases("hudi@1.0.2"),
        available=releases("hudi@0.15.0", "hudi@0.16.0", "hudi@1.0.2"),
        knowledge=rfc_76,
    )
    found = planned(rollout)
    everybody = {"bronze", "silver", "gold"}
    assert [layers_of(each) for each in found.stages] == [everybody, everybody, set()]
    assert {str(each.after) for each in found.stages[0].upgrades} == {"hudi@0.16.0"}
    assert {str(each.after) for each in found.stages[1].upgrades} == {"hudi@1.0.2"}
    assert len(found.stages[2].moves) == 6


def test_shipped_writers_are_pinned_and_move_in_any_order_before_their_tables():
    rollout = Rollout(medallion_tables(to=9), medallion("hudi@0.15.0"), goals=releases("hudi@1.2.0"))
    found = planned(rollout)
    everybody = {"bronze", "silver", "gold"}
    assert [layers_of(each) for each in found.stages] == [everybody, set()]
    assert {each.switch for each in found.upgrades} == {"hoodie.write.auto.upgrade=false"}
    assert found.stages[0].rising == ()
    assert {each.action for each in found.stages[1].moves} == {"move to table version 9"}


def test_shipped_writers_that_cannot_be_pinned_move_layer_by_layer():
    members = [
        RolloutMember(each.name, each.release, each.uses, pinnable=False) for each in medallion("hudi@0.15.0", count=1)
    ]
    rollout = Rollout(medallion_tables(count=1), tuple(members), goals=releases("hudi@1.2.0"))
    assert [layers_of(each) for each in planned(rollout).stages] == [{"gold"}, {"silver"}, {"bronze"}]


def test_a_table_moves_down_only_once_its_writer_is_kept_from_moving_it_up_again():
    rollout = Rollout((hudi_table("trips", 9, to=6),), (RolloutMember.of("load", "hudi@1.2.0", writes=["trips"]),))
    found = planned(rollout)
    assert [len(each.upgrades) for each in found.stages] == [1, 0]
    assert found.stages[0].upgrades[0].switch == "hoodie.write.auto.upgrade=false"


# ---------------------------------------------------------------------- Delta tables


def test_an_old_reader_is_upgraded_before_deletion_vectors_are_switched_on():
    members = (
        RolloutMember.of("load", "delta-spark@3.2.0", writes=["orders"]),
        RolloutMember.of("report", "trino@426", reads=["orders"]),
    )
    rollout = Rollout((delta_table("orders", enable=["deletionVectors"]),), members)
    found = planned(rollout)
    assert [(each.member, str(each.after)) for each in found.upgrades] == [("report", "trino@469")]
    assert [len(each.moves) for each in found.stages] == [0, 1]


def test_an_old_reader_goes_to_a_release_that_can_be_had():
    rollout = Rollout(
        (delta_table("orders", enable=["deletionVectors"]),),
        (RolloutMember.of("report", "trino@426", reads=["orders"]),),
        available=releases("trino@470", "trino@470"),
    )
    assert [str(each.after) for each in planned(rollout).upgrades] == ["trino@470"]


def writing_again(*, keep_history: bool) -> Rollout:
    members = (
        RolloutMember.of("lake", "delta-spark@3.3.0", writes=["orders"]),
        RolloutMember.of("script", "deltalake@1.0.2", writes=["orders"]),
    )
    table = delta_table("orders", "deletionVectors", drop="deletionVectors", keep_history=keep_history)
    return Rollout((table,), members)


def test_dropping_a_feature_with_its_history_lets_deltalake_write_again():
    found = planned(writing_again(keep_history=False))
    assert [each.action for each in found.moves] == ["drop deletionVectors (history truncated)"]
    assert [(each.member, each.table) for each in found.mended] == [("script", "orders")]
    assert found.point_of_no_return == 1


def test_dropping_a_feature_and_keeping_history_does_not_let_deltalake_write():
    found = planned(writing_again(keep_history=True))
    assert not found.mended
    assert [each.member for each in found.already] == ["script"], "checkpointProtection is in its way now"


# ---------------------------------------------------------------------- nothing to do, and no way


def test_a_rollout_that_is_done_has_no_stages():
    rollout = Rollout((hudi_table("trips", 8),), (RolloutMember.of("load", "hudi@1.0.2", writes=["trips"]),))
    assert planned(rollout).is_empty


def test_a_reader_without_a_release_that_can_is_in_the_way_and_must_leave():
    members = (
        RolloutMember.of("report", "trino@426", reads=["orders"]),
        RolloutMember.of("script", "delta-rs@0.10.0", reads=["orders", "items"]),
    )
    tables = (delta_table("orders", enable=["deletionVectors"]), delta_table("items", enable=["deletionVectors"]))
    found = plan(Rollout(tables, members))
    assert isinstance(found, Impasse)
    assert (found.members, found.tables) == (("script",), ())
    assert {(each.member, each.table) for each in found.blockers} == {("script", "orders"), ("script", "items")}
    assert found.compromise is not None
    assert found.compromise.stops == ("script",)
    assert len(list(found.compromise.moves)) == 2


def test_one_table_in_the_way_of_many_stays_as_it_is():
    members = tuple(RolloutMember.of(f"script-{each}", "delta-rs@0.10.0", reads=["orders"]) for each in range(3))
    tables = (delta_table("orders", enable=["deletionVectors"]), delta_table("items", enable=["deletionVectors"]))
    found = plan(Rollout(tables, members))
    assert isinstance(found, Impasse)
    assert (found.members, found.tables) == ((), ("orders",))
    assert found.compromise is not None
    assert [each.table for each in found.compromise.moves] == ["items"]


def test_a_member_and_a_table_that_wait_for_each_other_need_a_stop():
    # 0.13 does not read version 6, and 1.0 does not read version 3: one of the two has to stand still meanwhile.
    table = hudi_table("trips", 3, to=6)
    members = (RolloutMember.of("report", "hudi@0.13.0", reads=["trips"]),)
    rollout = Rollout((table,), members, goals=releases("hudi@1.0.2"), available=releases("hudi@0.13.0", "hudi@1.0.2"))
    found = plan(rollout)
    assert isinstance(found, Impasse)
    assert found.members == ("report",)
    assert found.compromise is not None
    assert [each.stops for each in found.compromise.stages] == [("report",), (), ()]
    replay(rollout, found.compromise)
    accepted = plan(Rollout(rollout.tables, members, rollout.goals, rollout.available, may_stop=frozenset({"report"})))
    assert accepted.id == found.compromise.id, "a member that may stop is a plan, and no impasse"


def test_a_bridge_takes_the_place_of_a_stop_where_one_can_be_had():
    table = hudi_table("trips", 3, to=6)
    members = (RolloutMember.of("report", "hudi@0.13.0", reads=["trips"]),)
    rollout = Rollout((table,), members, goals=releases("hudi@1.0.2"))
    found = planned(rollout)
    assert [str(each.after) for each in found.upgrades] == ["hudi@0.14.0", "hudi@1.0.2"]
    assert [each.bridge for each in found.upgrades] == [True, False]


def test_an_unknown_client_is_in_the_way_unless_it_is_accepted_by_name():
    members = (RolloutMember.of("dashboards", "powerbi@2.131", reads=["orders"]),)
    tables = (delta_table("orders", enable=["deletionVectors"]),)
    assert isinstance(plan(Rollout(tables, members)), Impasse)
    found = planned(Rollout(tables, members, accepted=frozenset({"dashboards"})))
    assert found.accepted == ("dashboards",)
    assert len(list(found.moves)) == 1


def test_two_writers_that_move_a_table_up_in_one_wave_are_not_met_where_either_stood_before():
    # 0.14 reads version 6 and not 8. Whichever of the two starts as 1.0.2 first, the other may still run 0.14.
    members = (
        RolloutMember.of("old", "hudi@0.14.0", writes=["trips"], pinnable=False),
        RolloutMember.of("older", "hudi@0.13.0", writes=["trips"], pinnable=False),
    )
    rollout = Rollout((hudi_table("trips", 5, to=6),), members, goals=releases("hudi@1.0.2"))
    found = plan(rollout)
    assert isinstance(found, Impasse)
    assert found.compromise is not None
    replay(rollout, found.compromise)
