"""Taking back what was done of a plan."""

from __future__ import annotations

import pytest
from tests.support.applied import Heard, LakeOnDisk

from halocline.errors import ConflictError, InputError
from halocline.plan.apply.backwards import note_taken_back, saved_way_back
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.status import status_of
from halocline.plan.apply.takeover import holding_lake
from halocline.table import Table


@pytest.fixture
def lake(tmp_path):
    return LakeOnDisk(tmp_path).hudi("trips", "fares").run(report="hudi@0.15.0", load="hudi@0.15.0")


def back_of(lake, saved):
    return saved_way_back(saved, FleetWatch(saved, str(lake.members)))


def versions(lake) -> set[int]:
    return {Table.for_path(lake.path / name).protocol.reader for name in ("trips", "fares")}


def test_all_of_a_plan_is_taken_back_tables_before_members(lake):
    saved = lake.planned(table_version=8, releases=["hudi@1.0.2"])
    lake.applied(saved)
    lake.run(report="hudi@1.0.2", load="hudi@1.0.2")
    assert lake.applied(saved) is None
    assert versions(lake) == {8}
    back, way = back_of(lake, saved)
    assert [(len(each.upgrades), len(each.moves)) for each in back.plan.stages] == [(0, 2), (2, 0)]
    assert way.why == ""
    with holding_lake(saved.lake, "ana", saved.plan.id) as lease:
        note_taken_back(saved, back, lease)
    pause = lake.applied(back)
    assert versions(lake) == {6}
    assert pause.subjects == ("load", "report"), "members go back once their tables are back"
    lake.run(report="hudi@0.15.0", load="hudi@0.15.0")
    assert lake.applied(back) is None
    assert status_of(back).state == "finished"
    assert status_of(saved).state == "taken back"
    with pytest.raises(ConflictError, match="was taken back by ana"):
        lake.applied(saved)


def test_only_what_was_done_is_taken_back(lake):
    saved = lake.planned(table_version=8, releases=["hudi@1.0.2"])
    lake.applied(saved)
    lake.run(report="hudi@1.0.2", load="hudi@0.15.0")
    lake.applied(saved)
    back, way = back_of(lake, saved)
    assert [[each.member for each in stage.upgrades] for stage in back.plan.stages] == [["report"]]
    assert (way.from_stage, way.to_stage) == (1, 1)


def test_nothing_done_is_nothing_to_take_back(lake):
    with pytest.raises(InputError, match="nothing has been done yet"):
        back_of(lake, lake.planned(table_version=8, releases=["hudi@1.0.2"]))


def test_the_way_back_ends_at_what_cannot_be_taken_back(tmp_path):
    lake = LakeOnDisk(tmp_path).delta("orders").run()
    Table.for_path(lake.path / "orders").add_feature_support("deletionVectors")
    saved = lake.planned(drop=("deletionVectors",), truncate=True)
    heard = Heard()
    lake.applied(saved, heard)
    with pytest.raises(InputError, match="can be taken back") as refused:
        back_of(lake, saved)
    assert refused.value.condition == "POINT_OF_NO_RETURN"
    assert "drop deletionVectors (history truncated) of orders" in refused.value.sides["because"]


def test_a_feature_is_dropped_with_its_history_where_what_protects_it_would_lock_somebody_out(tmp_path):
    lake = LakeOnDisk(tmp_path).delta("orders").run(load="delta-spark@3.2.0", report="trino@470")
    saved = lake.planned(enable=("deletionVectors",))
    assert lake.applied(saved) is None
    back, _ = back_of(lake, saved)
    assert [each.action for each in back.plan.moves] == ["drop deletionVectors (history truncated)"]
    lake.run(load="delta-spark@4.0.0", report="trino@470")
    again, _ = back_of(lake, saved)
    assert [each.action for each in again.plan.moves] == ["drop deletionVectors (history kept)"]
