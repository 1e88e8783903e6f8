"""Ctrl-C ends a command with one line, which says what was done and how to go on, and with 130."""

from __future__ import annotations

import os

import pytest
from tests.support.terminals import PROGRAM, Terminal

from halocline.cli.main import run
from halocline.lake.facts import Job, SurveyTarget
from halocline.lake.lake import Lake
from halocline.lake.surveyors import _Surveyor
from halocline.plan.apply.lease import holder_of
from halocline.storage import open_store


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_any_command_says_that_it_was_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("halocline.storage.open_store", stopped)
    assert run(["inspect", str(tmp_path)]) == 130
    assert capsys.readouterr() == ("", "Stopped.\n")


def test_an_apply_that_waits_is_stopped_and_goes_on_when_it_is_called_again(planned_lake, capsys):
    plan = str(planned_lake.root / "r.plan")
    terminal = Terminal(*PROGRAM, "apply", plan, "--verify", "none")
    terminal.until("waits for 1 of 1 members")
    terminal.type("\x03")
    said = " ".join(terminal.rest().split())
    assert terminal.code() == 130
    assert "Traceback" not in said
    assert "stands at stage 1 of 2, with 0 of 1 members done. The same command goes on from there." in said
    assert holder_of(open_store(str(planned_lake.path))) is None, "nobody has to wait for the lease"
    planned_lake.run(report="trino@469")
    assert run(["apply", plan, "--verify", "none"]) == 0
    assert "is done: 2 stages" in capsys.readouterr().out
    planned_lake.run(report="trino@469")
    terminal = Terminal(*PROGRAM, "rollback", plan, "--verify", "none")
    terminal.until("waits for 1 of 1 members")
    terminal.type("\x03")
    assert "with 0 of 1 members done. The same command goes on from there." in " ".join(terminal.rest().split())
    assert terminal.code() == 130
    planned_lake.run(report="trino@426")
    assert run(["rollback", plan, "--verify", "none"]) == 0


def test_a_plan_that_is_stopped_before_it_begins_has_done_nothing(planned_lake, monkeypatch, capsys):
    monkeypatch.setattr("halocline.plan.apply.engine.apply_plan", stopped)
    assert run(["apply", str(planned_lake.root / "r.plan"), "--verify", "none"]) == 130
    assert ": nothing was done. The same command goes on from there." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("journal", "told"), [(False, "With --journal FILE they are kept"), (True, "They are kept in")]
)
def test_a_survey_says_how_far_it_came_and_how_to_go_on(planned_lake, journal, told, tmp_path, monkeypatch, capsys):
    def survey(_: Lake, progress, **__: object) -> None:
        progress(1, 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(Lake, "survey", survey)
    assert run(["survey", str(planned_lake.path), *(["--journal", str(tmp_path / "kept")] if journal else [])]) == 130
    said = capsys.readouterr().err
    assert said.startswith(f"Stopped. 1 of 2 tables were looked at. {told}")
    assert said.endswith("the same command goes on from there.\n")


def test_surveyors_do_not_hear_a_ctrl_c_that_is_meant_for_whoever_asks(planned_lake):
    surveyor = _Surveyor(Job({}, SurveyTarget()))
    try:
        (facts,) = surveyor.look([("orders", open_store(str(planned_lake.path / "orders")).root, ("delta",))])
        assert facts.damage is None
        assert os.getpgid(surveyor._process.pid) != os.getpgid(0)
    finally:
        surveyor.end()
