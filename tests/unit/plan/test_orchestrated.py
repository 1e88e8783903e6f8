"""The calls of examples/orchestrated.py, as an orchestrator makes them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from tests.support.applied import LakeOnDisk

from halocline.table import Table

SCRIPT = Path(__file__).parents[3] / "examples" / "orchestrated.py"
HALOCLINE = "import sys; from halocline.cli.main import main; sys.argv[0] = 'halocline'; main()"


@pytest.fixture
def orchestrated(monkeypatch):
    spec = importlib.util.spec_from_file_location("orchestrated", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("HALOCLINE_COMMAND", f'"{sys.executable}" -c "{HALOCLINE}"')
    return module


def test_three_verbs_lead_there_and_back(orchestrated, tmp_path, capsys):
    lake = LakeOnDisk(tmp_path).delta("orders").run(report="trino@426")
    place, plan = str(lake.path), str(tmp_path / "r.plan")
    wanted = ["--enable", "deletionVectors", "--members", str(lake.members)]
    assert orchestrated.plan(place, plan, *wanted)
    assert not orchestrated.apply(plan, "--verify", "none"), "it waits, and says so"
    assert "waits for 1 of 1 members to report their release: report" in capsys.readouterr().out
    lake.run(report="trino@469")
    assert orchestrated.apply(plan, "--verify", "none")
    assert "deletionVectors" in Table.for_path(lake.path / "orders").terms.features_in_use
    assert not orchestrated.plan(place, plan, *wanted), "there is nothing left to do"
    orchestrated.status(plan)
    assert ": finished" in capsys.readouterr().out
    assert not orchestrated.rollback(plan, "--verify", "none")
    lake.run(report="trino@426")
    assert orchestrated.rollback(plan, "--verify", "none")
    assert "deletionVectors" not in Table.for_path(lake.path / "orders").terms.features_in_use


def test_an_error_fails_the_task_with_what_the_command_said(orchestrated, tmp_path):
    with pytest.raises(orchestrated.RolloutFailed, match=r"rollout\.plan"):
        orchestrated.apply(str(tmp_path / "rollout.plan"))
