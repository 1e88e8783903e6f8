"""Rollouts that move index tables: members first, then the table, and no way back."""

from __future__ import annotations

import pytest
from tests.support.applied import LakeOnDisk

from halocline.errors import InputError
from halocline.plan.apply.backwards import saved_way_back
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.explanation import explain
from halocline.plan.rendering import to_text
from halocline.plan.target import Target
from halocline.table import Table

PARTS = {"enable": ("schemaDeduplication",)}


@pytest.fixture
def lake(tmp_path):
    return LakeOnDisk(tmp_path).index("logs").run(load="indextables4spark@0.3.0")


def test_an_index_table_is_raised_to_the_version_that_a_feature_needs_once_its_readers_can(lake):
    saved = lake.planned(**PARTS)
    assert [len(each.upgrades) for each in saved.plan.stages] == [1, 0]
    assert lake.applied(saved).subjects == ("load",)
    assert str(Table.for_path(lake.path / "logs").terms.protocol) == "index(2,2)"
    lake.run(load=str(next(saved.plan.upgrades).after))
    assert lake.applied(saved) is None
    after = Table.for_path(lake.path / "logs").terms.protocol
    assert after.supports("schemaDeduplication")
    assert (after.reader, after.writer) == (3, 3)
    assert lake.planned(**PARTS).plan.is_empty, "there is nothing left to do"


def test_the_plan_says_where_there_is_no_way_back_and_rollback_ends_there(lake):
    saved = lake.planned(**PARTS)
    told = to_text(explain(saved.plan))
    assert "+ enable schemaDeduplication  (1 table: logs)" in told
    assert "what an index table requires only grows" in told
    assert "no way back from stage 2 on" in told
    lake.applied(saved)
    lake.run(load=str(next(saved.plan.upgrades).after))
    back, _ = saved_way_back(saved, FleetWatch(saved, str(lake.members)))
    assert [str(each.after) for each in back.plan.upgrades] == ["indextables4spark@0.3.0"], "until the table moves"
    lake.applied(saved)
    with pytest.raises(InputError, match=r"nothing of plan .* can be taken back") as refused:
        saved_way_back(saved, FleetWatch(saved, str(lake.members)))
    assert refused.value.condition == "POINT_OF_NO_RETURN"
    assert "enable schemaDeduplication of logs" in refused.value.sides["because"]


def test_features_are_for_the_tables_whose_format_has_them(tmp_path):
    lake = LakeOnDisk(tmp_path).index("logs").delta("orders").hudi("trips").run()
    saved = lake.planned(enable=("deletionVectors", "schemaDeduplication"))
    assert sorted((each.table, each.action) for each in saved.plan.moves) == [
        ("logs", "enable schemaDeduplication"),
        ("orders", "enable deletionVectors"),
    ]


def test_what_an_index_table_has_is_not_dropped_and_mistyped_names_get_the_nearest():
    with pytest.raises(InputError, match="what an index table requires only grows"):
        Target(drop=("deletionMasks",))
    with pytest.raises(Exception, match="deletionMask") as refused:
        Target(enable=("deletionMaskz",))
    assert refused.value.sides["nearest"] == "deletionMasks"


def test_a_table_whose_state_is_in_avro_manifests_is_left_out_by_name(tmp_path):
    lake = LakeOnDisk(tmp_path).index("logs").run()
    lake.delta("orders")
    assert lake.planned(enable=("deletionVectors", "avroState")).plan.stages, "the other table still moves"
    assert [each.table for each in lake.planned(enable=("deletionVectors", "avroState")).plan.moves] == ["orders"]
