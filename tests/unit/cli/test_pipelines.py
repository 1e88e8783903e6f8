"""The GitHub Action and the pre-commit hook run `halocline check` as they say."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from halocline.quickstart import make_lake

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.fixture
def lake(tmp_path):
    """A lake, and `halocline` on the path."""
    make_lake(tmp_path / "lake")
    script = tmp_path / "bin" / "halocline"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from halocline.cli.main import main; main()" "$@"\n'
    )
    script.chmod(0o755)
    return tmp_path


def run(lake: Path, command: list[str], **given: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{lake / 'bin'}:{os.environ['PATH']}", **given}
    return subprocess.run(command, cwd=lake, env=environment, capture_output=True, text=True, check=False)


def test_action_fails_only_where_a_client_could_not(lake):
    *_, step = ACTION["runs"]["steps"]
    nothing = {
        name: ACTION["inputs"][value.split(".")[1].split(" ")[0]]["default"]
        for name, value in step["env"].items()
        if name != "TABLES"
    }
    asked = {**nothing, "TABLES": "lake/orders\nlake/clicks\n", "CLIENTS": "trino@426", "OPERATION": "read"}
    fine = run(lake, ["bash", "-e", "-c", step["run"]], **asked)
    assert fine.returncode == 0, fine.stderr
    assert fine.stdout.count("trino@426") >= 2
    broken = run(lake, ["bash", "-e", "-c", step["run"]], **{**asked, "ENABLE": "deletionVectors"})
    assert broken.returncode == 2, broken.stdout + broken.stderr
    lost = run(
        lake,
        ["bash", "-e", "-c", step["run"]],
        **{**asked, "ENABLE": "deletionVectors", "TABLES": "lake/orders\r\n lake/lost"},
    )
    assert (lost.returncode, "no table at lake/lost\n" in lost.stderr) == (2, True), lost.stderr
    nothing_named = run(lake, ["bash", "-e", "-c", step["run"]], **{**asked, "TABLES": " \n"})
    assert (nothing_named.returncode, nothing_named.stderr) == (1, "no table is named, so nothing is checked\n")


def test_every_input_of_the_action_is_used():
    used = str(ACTION["runs"])
    assert [name for name in ACTION["inputs"] if f"inputs.{name} " not in used] == []


def test_hook_checks_the_table_that_its_arguments_name(lake):
    assert HOOK["pass_filenames"] is False
    command = [*shlex.split(HOOK["entry"]), "lake/orders", "--client", "trino@426", "--enable", "deletionVectors"]
    assert run(lake, command).returncode == 2
