"""`halocline apply`, `rollback` and `status`, as people call them."""

from __future__ import annotations

import json
import sys
import threading

import pytest
from tests.support.applied import LakeOnDisk

from halocline.cli.main import run
from halocline.plan.apply.lease import RolloutLease
from halocline.storage import open_store
from halocline.table import Table


def called(lake, *arguments: str) -> int:
    return run([arguments[0], str(lake.root / "r.plan"), *arguments[1:]])


@pytest.mark.parametrize("command", ["apply", "rollback"])
def test_without_the_fleets_client_the_extra_is_named(planned_lake, command, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "halocline.fleet.member.admin", None)
    assert called(planned_lake, command, "--verify", "none", "--no-wait") == 1
    assert "pip install 'halocline[fleet]'" in capsys.readouterr().err


def test_a_rollout_is_applied_watched_and_taken_back(planned_lake, capsys):
    assert called(planned_lake, "apply", "--verify", "none", "--no-wait") == 2
    assert "waits for 1 of 1 members to report their release: report (since " in capsys.readouterr().out
    assert run(["status", str(planned_lake.path), "--output", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["state"], facts["stages"][0]["state"], facts["stages"][1]["state"]) == ("stopped", "waiting", "to do")
    assert facts["stages"][0]["since"] > 0
    planned_lake.run(report="trino@469")
    assert called(planned_lake, "apply", "--verify", "none") == 0
    assert "is done: 2 stages" in capsys.readouterr().out
    assert run(["status", str(planned_lake.root / "r.plan"), "--watch"]) == 0
    assert ": finished" in capsys.readouterr().out
    assert called(planned_lake, "rollback", "--dry-run") == 2
    assert "drop deletionVectors (history kept)" in capsys.readouterr().out
    assert called(planned_lake, "rollback", "--verify", "none", "--no-wait") == 2
    assert not Table.for_path(planned_lake.path / "orders").protocol.supports("deletionVectors")
    assert "to report their release: report" in capsys.readouterr().out
    planned_lake.run(report="trino@426")
    assert called(planned_lake, "rollback", "--dry-run") == 2
    assert ", under way" in capsys.readouterr().out, "a way back that was begun is told, not walked"
    assert called(planned_lake, "rollback", "--verify", "none") == 0, "it goes on with the way back that was begun"


def test_a_waiting_apply_goes_on_when_members_report(planned_lake, capsys):
    threading.Timer(0.5, lambda: planned_lake.run(report="trino@469")).start()
    assert called(planned_lake, "apply", "--verify", "none", "--poll", "0.1") == 0
    told = capsys.readouterr().out
    assert told.count("waits for 1 of 1 members") == 1, "the same pause is told once"


def test_a_second_person_is_refused_by_name(planned_lake, capsys):
    with RolloutLease(open_store(planned_lake.path), "ben@desk", "other"):
        assert called(planned_lake, "apply", "--verify", "none") == 1
    assert "ROLLOUT_RUNNING: ben@desk is applying plan other to this lake" in capsys.readouterr().err


def test_unknown_ways_to_verify_and_other_files_are_refused(planned_lake, capsys):
    assert called(planned_lake, "apply", "--verify", "ful") == 1
    assert "nearest  full" in capsys.readouterr().err
    assert run(["apply", str(planned_lake.members)]) == 1
    assert "is not a plan" in capsys.readouterr().err


def test_a_lake_without_a_rollout_says_what_to_do(tmp_path, capsys):
    lake = LakeOnDisk(tmp_path).delta("orders")
    assert run(["status", str(lake.path)]) == 1
    assert "no plan has been applied" in capsys.readouterr().err


def test_a_plan_means_the_same_in_every_folder(planned_lake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plan = ["plan", "lake", "--enable", "deletionVectors", "--members", "members.toml", "--out", "r.plan"]
    assert run(plan) == 2
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(["apply", "../r.plan", "--verify", "none", "--no-wait"]) == 2
    assert not any((tmp_path / "elsewhere").iterdir()), "nothing is kept where somebody happens to stand"
    assert (planned_lake.path / "_halocline" / "rollouts").is_dir()


def test_two_checkouts_of_a_lake_file_share_the_rollouts_of_its_prefix(planned_lake, tmp_path, capsys):
    for person in ("ana", "ben"):
        (tmp_path / person).mkdir()
        said = f'prefix = "{planned_lake.path}"\n[options]\n"halocline.index.cacheBytes" = "1000000"\n'
        (tmp_path / person / "lake.toml").write_text(said)
    mine, theirs = (str(tmp_path / person / "lake.toml") for person in ("ana", "ben"))
    plan = [
        "plan",
        mine,
        "--enable",
        "deletionVectors",
        "--members",
        str(planned_lake.members),
        "--out",
        str(tmp_path / "r.plan"),
    ]
    assert run(plan) == 2
    with RolloutLease(open_store(planned_lake.path), "ben@desk", "other"):
        assert called(planned_lake, "apply", "--verify", "none") == 1
    assert "ben@desk is applying plan other" in capsys.readouterr().err
    assert called(planned_lake, "apply", "--verify", "none", "--no-wait") == 2
    assert run(["status", theirs]) == 0
    assert "waits for 1 of 1 members" in capsys.readouterr().out


def test_options_of_a_lake_file_that_do_not_exist_are_refused_when_a_plan_is_applied(planned_lake, tmp_path, capsys):
    file = tmp_path / "lake.toml"
    file.write_text(f'prefix = "{planned_lake.path}"\n')
    plan = ["plan", str(file), "--enable", "deletionVectors", "--out", str(tmp_path / "r.plan")]
    assert run(plan) == 2
    file.write_text(f'prefix = "{planned_lake.path}"\n[options]\nregon = "eu-central-1"\n')
    assert called(planned_lake, "apply", "--verify", "none", "--no-wait") == 1
    assert "region" in capsys.readouterr().err
