"""Applying plans to tables on disk, without rows."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.applied import Heard, LakeOnDisk
from tests.support.fleets import make_table

from halocline.errors import ConflictError, NotFoundError, UnavailableError
from halocline.plan.action import TableAction
from halocline.plan.apply import table_move
from halocline.plan.apply.backwards import saved_way_back
from halocline.plan.apply.engine import apply_plan
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.journal import MOVED, Journal
from halocline.plan.apply.lease import RolloutLease
from halocline.plan.apply.moving import carry_out
from halocline.plan.apply.status import status_of
from halocline.plan.apply.takeover import holding_lake
from halocline.plan.apply.verify import Verify
from halocline.plan.apply.walk import ApplyOptions
from halocline.plan.core.plan import Stage
from halocline.plan.policy import RolloutPolicy
from halocline.plan.windows import QuietWindow
from halocline.storage import LocalStore, open_store
from halocline.table import Table

VECTORS = {"enable": ("deletionVectors",)}


@pytest.fixture
def lake(tmp_path):
    return LakeOnDisk(tmp_path).delta("orders", "items").run(report="trino@426")


def uses_vectors(lake: LakeOnDisk, name: str) -> bool:
    return "deletionVectors" in Table.for_path(lake.path / name).terms.features_in_use


def test_tables_wait_until_members_have_reported_their_release(lake):
    saved, heard = lake.planned(**VECTORS), Heard()
    pause = lake.applied(saved, heard)
    assert pause is not None
    assert (pause.stage, pause.subjects) == (1, ("report",))
    assert "waits for 1 of 1 members" in pause.why
    assert not uses_vectors(lake, "orders")
    lake.run(report="trino@469")
    assert lake.applied(saved, heard) is None
    assert uses_vectors(lake, "orders")
    assert uses_vectors(lake, "items")
    assert (heard.steps[0], sorted(heard.steps[1:])) == ("report", ["items", "orders"])
    assert status_of(saved).state == "finished"


def test_the_same_pause_keeps_the_time_since_when_it_is_waited(lake):
    saved = lake.planned(**VECTORS)
    assert lake.applied(saved).since_ms == lake.applied(saved).since_ms > 0


def test_a_plan_is_refused_when_a_table_has_moved_since(lake):
    saved = lake.planned(**VECTORS)
    Table.for_path(lake.path / "items").set_properties({"delta.enableChangeDataFeed": "true"})
    with pytest.raises(ConflictError, match="1 tables and 0 members have moved") as refused:
        lake.applied(saved)
    assert refused.value.condition == "PLAN_STALE"
    assert "changeDataFeed" in refused.value.sides["table items"]


def test_rows_that_come_in_do_not_make_a_plan_stale(lake):
    saved = lake.planned(**VECTORS)
    Table.for_path(lake.path / "items").set_comment("rows and words are not what a table requires")
    assert lake.applied(saved).stage == 1


def test_a_plan_is_refused_when_a_member_has_moved_since(lake):
    saved = lake.planned(**VECTORS)
    lake.run(report="trino@470")
    with pytest.raises(ConflictError, match="0 tables and 1 members have moved"):
        lake.applied(saved)


def test_a_member_that_runs_what_the_plan_does_not_know_stops_it(lake):
    saved = lake.planned(**VECTORS)
    lake.applied(saved)
    lake.run(report="trino@412")
    with pytest.raises(ConflictError, match=r"report runs trino@412"):
        lake.applied(saved)


def test_a_member_that_goes_back_keeps_tables_from_moving(lake):
    saved = lake.planned(**VECTORS)
    lake.applied(saved)
    lake.run(report="trino@469")
    window = QuietWindow("lunch", datetime.now(UTC), datetime.now(UTC) + timedelta(hours=1))
    assert "lunch" in lake.applied(saved, policy=RolloutPolicy(windows=(window,))).why
    assert lake.applied(saved, policy=RolloutPolicy(soak_s=600.0)).why.startswith("stage 1 soaks until")
    lake.run(report="trino@426")
    pause = lake.applied(saved)
    assert (pause.stage, pause.subjects) == (2, ("report (trino@426)",))
    assert not uses_vectors(lake, "orders")


def test_a_member_that_comes_in_later_closes_the_gate_of_its_tables(lake):
    saved = lake.planned(**VECTORS)
    lake.applied(saved)
    lake.run(report="trino@469", newcomer="delta-rs@0.10.0")
    pause = lake.applied(saved)
    assert pause.subjects == ("items", "orders")
    assert "the gate is closed, newcomer (delta-rs@0.10.0, unknown) would break" in pause.why
    assert not uses_vectors(lake, "orders")


def test_a_member_that_never_reports_is_confirmed_for_one_wave(tmp_path):
    lake = LakeOnDisk(tmp_path).delta("orders")
    make_table(tmp_path / "lake" / "old", "delta-rs:py-0.25.5")
    lake.run()
    saved = lake.planned(**VECTORS)
    name = next(iter(saved.plan.upgrades)).member
    pause = lake.applied(saved)
    assert f"--confirm {name}" in pause.why
    assert lake.applied(saved, confirmed=frozenset({name})) is None
    assert uses_vectors(lake, "old")


def test_hudi_tables_move_up_and_down_once_their_writer_is_kept_from_moving_them_up(tmp_path):
    lake = LakeOnDisk(tmp_path).hudi("trips").run(load="hudi@1.0.2")
    assert lake.applied(lake.planned(table_version=8)) is None
    assert Table.for_path(lake.path / "trips").protocol.reader == 8
    down = lake.planned(table_version=6)
    assert "--confirm load" not in lake.applied(down).why, "it does report, but a switch does not show"
    assert lake.applied(down, confirmed=frozenset({"load"})) is None
    assert Table.for_path(lake.path / "trips").protocol.reader == 6


def test_few_tables_move_at_once_where_a_policy_says_so(tmp_path):
    lake = LakeOnDisk(tmp_path).delta(*(f"t{at}" for at in range(5))).run()
    heard = Heard()
    assert lake.applied(lake.planned(**VECTORS), heard, policy=RolloutPolicy(tables_at_once=2)) is None
    assert len(heard.steps) == 5


def test_two_people_at_once_one_is_refused_by_name(lake):
    saved = lake.planned(**VECTORS)
    with RolloutLease(open_store(lake.path), "ben@desk", "another"), pytest.raises(ConflictError) as refused:
        lake.applied(saved, by="ana@laptop")
    assert refused.value.condition == "ROLLOUT_RUNNING"
    assert "ben@desk is applying plan another to this lake" in refused.value.message
    assert lake.applied(saved) is not None, "the lease is given back"


def test_nothing_is_done_twice(lake):
    saved = lake.planned(**VECTORS)
    lake.applied(saved)
    lake.run(report="trino@469")
    lake.applied(saved)
    version = Table.for_path(lake.path / "orders").version
    heard = Heard()
    assert lake.applied(saved, heard) is None
    assert (heard.stages, Table.for_path(lake.path / "orders").version) == ([], version)


def test_a_writer_that_was_in_the_way_is_waited_for(lake, monkeypatch):
    lake.run(report="trino@470")
    saved = lake.planned(**VECTORS)
    really, refused = table_move.carry_out, []

    def once_refused(action, place, *rest):
        if not refused:
            refused.append(place)
            raise ConflictError("somebody else changed the table first", condition="CONCURRENT_METADATA_CHANGE")
        really(action, place, *rest)

    monkeypatch.setattr(table_move, "carry_out", once_refused)
    pause = lake.applied(saved)
    assert "another writer was at work" in pause.why
    assert len(pause.subjects) == 1, "the other table has moved"
    assert lake.applied(saved) is None
    assert uses_vectors(lake, "orders")
    assert uses_vectors(lake, "items")


def test_a_fleet_that_is_away_for_a_while_is_waited_for(lake):
    saved = lake.planned(**VECTORS)
    lake.applied(saved)
    walked = []

    class Away(FleetWatch):
        def look(self):
            walked.append("look")
            if len(walked) < 3:
                raise UnavailableError("the fleet is not reached")
            return super().look()

    heard = Heard()
    lake.run(report="trino@469")
    options = ApplyOptions(Verify.NONE, wait=True)
    done = apply_plan(saved, Away(saved, str(lake.members)), heard, by="ana", options=options, sleep=lambda _: None)
    assert done is None
    assert [each.why for each in heard.pauses] == ["the fleet is not reached"] * 2


def test_a_wave_does_not_go_on_while_a_member_of_an_earlier_one_is_back(lake):
    lake.run(report="trino@426", export="trino@426")
    saved = lake.planned(**VECTORS)
    wave, moves = saved.plan.stages
    waves = [Stage((each,)) for each in sorted(wave.upgrades, key=lambda each: each.member, reverse=True)]
    saved = replace(saved, plan=replace(saved.plan, stages=(*waves, moves)))
    lake.applied(saved)
    lake.run(report="trino@469", export="trino@426")
    assert lake.applied(saved).subjects == ("export",)
    lake.run(report="trino@426", export="trino@469")
    pause = lake.applied(saved)
    assert (pause.stage, pause.subjects) == (2, ("report (trino@426)",)), "it came back as what it was"
    lake.run(report="trino@469", export="trino@469")
    assert lake.applied(saved) is None


def test_a_word_for_a_member_that_nobody_waits_for_is_refused_with_the_nearest(lake):
    with pytest.raises(NotFoundError, match="waits for 'reprot'") as refused:
        lake.applied(lake.planned(**VECTORS), confirmed=frozenset({"reprot"}))
    assert refused.value.sides["nearest"] == "report"


def test_a_table_that_was_deleted_before_is_named(lake):
    saved = lake.planned(**VECTORS)
    shutil.rmtree(lake.path / "items")
    with pytest.raises(ConflictError, match="1 tables and 0 members have moved") as refused:
        lake.applied(saved)
    assert "no table at" in refused.value.sides["table items"]


def test_a_table_that_was_deleted_meanwhile_stops_it_by_name_and_the_rest_can_be_taken_back(lake):
    saved = lake.planned(**VECTORS)
    lake.applied(saved)
    lake.run(report="trino@469")
    shutil.rmtree(lake.path / "items")
    with pytest.raises(ConflictError, match="1 tables have changed") as refused:
        lake.applied(saved, policy=RolloutPolicy(tables_at_once=1))
    assert "no table at" in refused.value.sides["table items"]
    carry_out(TableAction.parse("enable deletionVectors"), str(lake.path / "orders"))
    with holding_lake(saved.lake, "ana", saved.plan.id) as lease:
        journal = Journal.open(saved.lake, saved.plan.id, "ana", lease.token)
        for name in ("items", "orders"):
            if not journal.has(MOVED, 2, name):
                journal.write(MOVED, 2, name)
    back, _ = saved_way_back(saved, FleetWatch(saved, str(lake.members)))
    assert [each.table for each in back.plan.moves] == ["orders"], "what is gone is left out"
    lake.run(report="trino@469")
    assert lake.applied(back).subjects == ("report",), "the table is back, the member is waited for"
    assert not uses_vectors(lake, "orders")


def test_a_disk_that_is_full_stops_it_with_a_word_and_it_goes_on_when_there_is_room(lake, monkeypatch):
    saved = lake.planned(**VECTORS)
    lake.run(report="trino@426")
    lake.applied(saved)
    lake.run(report="trino@469")
    whole = Journal.write

    def full(journal: Journal, kind: str, *args: object) -> None:
        if kind == MOVED:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(journal, kind, *args)

    monkeypatch.setattr(Journal, "write", full)
    with pytest.raises(OSError, match="No space left"):
        lake.applied(saved)
    monkeypatch.undo()
    assert lake.applied(saved) is None
    versions = {name: Table.for_path(lake.path / name).version for name in ("orders", "items")}
    assert set(versions.values()) == {1}, f"no commit was made twice: {versions}"


@pytest.mark.parametrize("format", ["delta", "index", "hudi"])
def test_a_feature_that_came_in_between_two_steps_stops_the_plan_by_name(tmp_path, format):
    lake = LakeOnDisk(tmp_path)
    if format == "delta":
        saved = lake.delta("orders").run(report="trino@426").planned(**VECTORS)
        lake.applied(saved)
        Table.for_path(lake.path / "orders").set_properties({"delta.enableChangeDataFeed": "true"})
        lake.run(report="trino@469")
    elif format == "index":
        lake.index("orders").run(load="indextables4spark@0.3.0")
        saved = lake.planned(enable=("schemaDeduplication",))
        lake.applied(saved)
        Table.for_path(lake.path / "orders").upgrade("deletionMasks")
        lake.run(load=str(next(saved.plan.upgrades).after))
    else:
        lake.hudi("orders").run(report="hudi@0.15.0", load="hudi@0.15.0")
        saved = lake.planned(table_version=8, releases=["hudi@1.0.2"])
        lake.applied(saved)
        Table.for_path(lake.path / "orders").upgrade(9)
        lake.run(report="hudi@1.0.2", load="hudi@1.0.2")
    before = Table.for_path(lake.path / "orders").terms
    with pytest.raises(ConflictError, match="1 tables have changed since the plan was made") as refused:
        lake.applied(saved)
    assert refused.value.condition == "PLAN_STALE"
    assert str(before.protocol) in refused.value.sides["table orders"]
    assert Table.for_path(lake.path / "orders").terms == before, "nothing was carried further"


def test_a_feature_that_comes_in_while_a_table_moves_is_not_carried_along(lake, monkeypatch):
    lake.run(report="trino@470")
    saved = lake.planned(**VECTORS)
    whole = LocalStore.put_if_absent
    others = []

    def overtaken(self, path, data):
        if "orders/_delta_log/" in f"{self.root}/{path}" and not others:
            others.append(path)
            Table.for_path(lake.path / "orders").set_properties({"delta.enableChangeDataFeed": "true"})
        return whole(self, path, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", overtaken)
    pause = lake.applied(saved)
    assert pause.subjects == ("orders",), "it lost to another writer, and is tried again"
    with pytest.raises(ConflictError, match="1 tables have changed") as refused:
        lake.applied(saved)
    assert refused.value.condition == "PLAN_STALE"
    assert not uses_vectors(lake, "orders")


def test_a_table_that_moved_in_an_earlier_step_and_was_changed_after_it_stops_the_plan(lake):
    saved = lake.planned(**VECTORS)
    (wave, moves) = saved.plan.stages
    each_alone = (replace(moves, moves=(move,)) for move in moves.moves)
    saved = replace(saved, plan=replace(saved.plan, stages=(wave, *each_alone)))
    lake.applied(saved)
    lake.run(report="trino@469")
    first, second = (stage.moves[0].table for stage in saved.plan.stages[1:])
    really = table_move.carry_out

    def stopped_at_the_second(action, place, *rest):
        if place.endswith(second):
            raise KeyboardInterrupt
        really(action, place, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_move, "carry_out", stopped_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            lake.applied(saved)
    assert uses_vectors(lake, first)
    Table.for_path(lake.path / first).set_properties({"delta.enableChangeDataFeed": "true"})
    with pytest.raises(ConflictError, match="1 tables have changed") as refused:
        lake.applied(saved)
    assert f"table {first}" in refused.value.sides
    assert not uses_vectors(lake, second)


def test_a_store_that_does_not_answer_is_not_taken_for_a_table_that_has_moved(lake, monkeypatch):
    saved = lake.planned(**VECTORS)
    lake.applied(saved)
    lake.run(report="trino@469")
    whole, away = LocalStore.list, []

    def listed(self, prefix="", **options):
        if prefix.startswith("_delta_log") and not away:
            away.append(prefix)
            raise UnavailableError("the store does not answer")
        return whole(self, prefix, **options)

    monkeypatch.setattr(LocalStore, "list", listed)
    assert "the store does not answer" in lake.applied(saved).why
    assert away
    assert lake.applied(saved) is None
