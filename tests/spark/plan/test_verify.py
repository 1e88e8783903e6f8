"""Rows are compared around the moves of a plan."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from tests.support.applied import Heard

import halocline as hc
from halocline.cli import rollout
from halocline.compat.terms import Terms
from halocline.errors import ConflictError
from halocline.lake.lake import Lake
from halocline.plan.apply import verify
from halocline.plan.apply.engine import apply_plan
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.journal import VERIFIED, Journal
from halocline.plan.apply.status import uncompared
from halocline.plan.apply.verify import Verify, check_same, checkup, cost
from halocline.plan.apply.walk import ApplyOptions
from halocline.plan.proposal import propose_rollout
from halocline.plan.target import Target


@pytest.fixture(scope="module")
def rows(spark):
    return spark.sql("SELECT id, id % 7 AS k, concat('name-', id) AS name, map('a', id) AS m FROM range(100)")


@pytest.mark.parametrize("how", [Verify.SAMPLE, Verify.FULL])
def test_the_order_of_rows_does_not_matter_and_a_lost_or_doubled_row_does(spark, rows, tmp_path, how):
    table = hc.Table.create(tmp_path / "orders", rows, spark)
    before = checkup(table, how)
    assert before.rows == 100
    table.overwrite(rows.orderBy(rows.id.desc()))
    assert before.same_rows(checkup(table, how))
    table.overwrite(rows.where("id < 99").union(rows.where("id = 5")))
    assert not before.same_rows(checkup(table, how)), "as many rows, and not the same ones"


def test_a_sample_reads_a_few_columns_and_says_so_beforehand(spark, rows, tmp_path):
    table = hc.Table.create(tmp_path / "orders", rows, spark)
    assert cost(table, Verify.SAMPLE).startswith("reads the keys and up to 4 columns of ")
    assert cost(table, Verify.FULL).startswith("reads all columns of ")


def test_moves_of_a_plan_are_verified_and_the_journal_says_so(spark, rows, tmp_path):
    hc.Table.create(tmp_path / "lake" / "orders", rows, spark)
    trips = hc.Table.create(tmp_path / "lake" / "trips", rows.drop("m"), spark, format="hudi", keys=["id"], version=6)
    trips.upsert(rows.drop("m").where("id < 10"))
    found = propose_rollout(Lake.discover(tmp_path / "lake"), Target(enable=("deletionVectors",), table_version=8))[0]
    saved, heard = found.gathered.saved(found.found), Heard()
    names = frozenset(each.member for each in saved.plan.upgrades)
    options = ApplyOptions(Verify.FULL, confirmed=names, wait=False)
    assert apply_plan(saved, FleetWatch(saved), heard, by="ana", spark=spark, options=options) is None
    journal = Journal.open(saved.lake, saved.plan.id)
    stage = len(saved.plan.stages)
    told = {name: journal.last_of(VERIFIED, stage, name).detail for name in ("orders", "trips")}
    assert told["orders"].startswith("100 rows, 100 keys, content "), told
    assert told["trips"].startswith("100 rows, 100 keys, content "), told
    assert sum("verification of" in each for each in heard.notes) == 2, "the cost is told before it is paid"
    assert isinstance(trips.terms, Terms)


def test_rows_that_are_not_the_same_stop_the_rollout_and_name_the_way_back(spark, rows, tmp_path):
    table = hc.Table.create(tmp_path / "orders", rows, spark)
    before = checkup(table, Verify.SAMPLE)
    table.set_properties({"delta.enableDeletionVectors": "true"})
    assert check_same(table, before, Verify.SAMPLE).startswith("100 rows")
    forged = replace(before, rows=99, keys=99)
    with pytest.raises(ConflictError, match="does not hold the same rows") as refused:
        check_same(table, forged, Verify.SAMPLE)
    assert refused.value.condition == "MOVE_UNVERIFIED"
    assert "halocline rollback" in str(refused.value.next_step)


def test_writers_may_go_on_while_a_table_moves(spark, rows, tmp_path):
    table = hc.Table.create(tmp_path / "orders", rows, spark)
    before = checkup(table, Verify.SAMPLE)
    table.append(rows.where("id < 5"))
    table.set_properties({"delta.enableDeletionVectors": "true"})
    told = check_same(table, before, Verify.SAMPLE)
    assert "others wrote meanwhile" in told
    assert "105 rows" in told


def test_an_index_table_moves_and_its_rows_are_compared(spark, rows, tmp_path):
    fields = {"name": "text"}
    table = hc.Table.create(tmp_path / "lake" / "logs", rows.drop("m"), spark, format="index", fields=fields)
    found = propose_rollout(Lake.discover(tmp_path / "lake"), Target(enable=("deletionMasks",)))[0]
    saved = found.gathered.saved(found.found)
    options = ApplyOptions(Verify.FULL, wait=False)
    assert apply_plan(saved, FleetWatch(saved), Heard(), by="ana", spark=spark, options=options) is None
    told = Journal.open(saved.lake, saved.plan.id).last_of(VERIFIED, len(saved.plan.stages), "logs").detail
    assert told.startswith("100 rows, 100 keys, content "), told
    assert table.terms.protocol.supports("deletionMasks")


def test_commits_of_a_drop_are_compared_once_and_as_a_whole(spark, rows, tmp_path, monkeypatch):
    table = hc.Table.create(tmp_path / "orders", rows, spark, properties={"delta.enableDeletionVectors": "true"})
    table.delete("id < 10")
    before, counted = checkup(table, Verify.SAMPLE), []
    table.drop_feature_support("deletionVectors")
    assert len(table.history()) > 5, "dropping makes many commits"
    monkeypatch.setattr(verify, "checkup", lambda *args, **named: counted.append(named) or checkup(*args, **named))
    assert check_same(table, before, Verify.SAMPLE).startswith("90 rows")
    assert len(counted) == 1, "none of them is somebody else's"
    table.append(rows.where("id < 5"))
    assert "around its own commits: 90 rows" in check_same(table, before, Verify.SAMPLE)
    assert len(counted) == 2, "what was counted before the move is not counted again"


TRUNCATING = {
    "delta.enableDeletionVectors": "true",
    "delta.dropFeatureTruncateHistory.retentionDuration": "interval 0 seconds",
    "delta.logRetentionDuration": "interval 0 seconds",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
}


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_move_that_truncates_history_is_compared_as_far_back_as_versions_are_left(spark, rows, tmp_path, meanwhile):
    table = hc.Table.create(tmp_path / "orders", rows, spark, properties=TRUNCATING)
    table.delete("id < 10")
    before = checkup(table, Verify.SAMPLE)
    if meanwhile:
        table.append(rows.where("id < 5"))
    table.drop_feature_support("deletionVectors", truncate_history=True)
    assert min(each.version for each in table.history()) > before.version + 1, "what came before the move is gone"
    told = check_same(table, before, Verify.SAMPLE)
    gone = f"rows not compared in versions {before.version + 1} to "
    assert told.startswith(gone if meanwhile else "90 rows"), told
    assert "95 rows" in told or not meanwhile, told


HALVED = [
    ("microseconds", "TIMESTAMP'2024-01-01 00:00:00.123456'", "TIMESTAMP'2024-01-01 00:00:00.123'"),
    ("no zone", "TIMESTAMP_NTZ'2024-01-01 00:00:00.123456'", "TIMESTAMP_NTZ'2024-01-01 00:00:00.123'"),
    ("text", "cast(X'C328' as string)", "cast(X'FF28' as string)"),
    ("zero", "0.0D", "-0.0D"),
    ("nested", "map('a', array(0.0D))", "map('a', array(-0.0D))"),
]


@pytest.mark.parametrize(("before", "after"), [pair[1:] for pair in HALVED], ids=[pair[0] for pair in HALVED])
def test_a_table_that_has_lost_a_digit_or_a_byte_is_not_the_same(spark, tmp_path, before, after):
    table = hc.Table.create(tmp_path / "orders", spark.sql(f"SELECT 1 AS id, {before} AS v"), spark)
    counted = checkup(table, Verify.FULL)
    table.overwrite(spark.sql(f"SELECT 1 AS id, {after} AS v"))
    assert not counted.same_rows(checkup(table, Verify.FULL))


def test_columns_without_a_fingerprint_are_told_and_the_rest_is_compared(spark, tmp_path):
    df = spark.sql("SELECT id, array(parse_json('1')) AS v FROM range(3)")
    table = hc.Table.create(tmp_path / "orders", df, spark)
    before = checkup(table, Verify.FULL)
    assert before.left_out == ("v",)
    table.set_properties({"delta.enableDeletionVectors": "true"})
    assert check_same(table, before, Verify.FULL).startswith(
        "rows not compared in v, of a type without a fingerprint; 3 "
    )
    assert not check_same(table, checkup(table, Verify.SAMPLE), Verify.SAMPLE).startswith("rows not")
    with pytest.raises(ConflictError, match="does not hold the same rows"):
        check_same(table, replace(before, content="1"), Verify.FULL)


def test_counts_of_a_release_that_counted_otherwise_are_not_compared_but_for_their_number(spark, rows, tmp_path):
    table = hc.Table.create(tmp_path / "orders", rows, spark)
    before = replace(checkup(table, Verify.FULL), way=1)
    assert check_same(table, before, Verify.FULL) == (
        "rows not compared: another release has counted before the move; 100 rows, 100 keys"
    )
    with pytest.raises(ConflictError):
        check_same(table, replace(before, rows=99), Verify.FULL)


def test_rows_that_were_not_compared_are_told_at_the_end_and_are_no_success(spark, tmp_path, monkeypatch, capsys):
    df = spark.sql("SELECT id, array(parse_json('1')) AS v FROM range(3)")
    hc.Table.create(tmp_path / "lake" / "orders", df, spark)
    found = propose_rollout(Lake.discover(tmp_path / "lake"), Target(enable=("deletionVectors",)))[0]
    saved = found.gathered.saved(found.found)
    monkeypatch.setattr(rollout, "session", lambda _: spark)
    monkeypatch.setattr(rollout, "stoppable", lambda *_: nullcontext())
    names = [each.member for each in saved.plan.upgrades]
    assert rollout.walk(saved, rollout.WalkOptions(verify="full", confirm=names, wait=False)) == 1
    assert "orders: rows not compared in v, of a type without a fingerprint" in capsys.readouterr().out
    assert uncompared(saved).keys() == {"orders"}
    assert rollout.walk(saved, rollout.WalkOptions(verify="none", confirm=names, wait=False)) == 0
