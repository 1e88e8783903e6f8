"""The commands of docs/rollouts.md do what the page shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.support.fleets import make_table

from halocline.cli.main import run
from halocline.plan.members import MembersFile
from halocline.plan.policy import RolloutPolicy

PAGE = (Path(__file__).parents[3] / "docs" / "rollouts.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    for name in ("orders", "items"):
        make_table(tmp_path / "lake" / "sales" / name)
    for block in blocks("toml"):
        (tmp_path / block.split()[1].rstrip(",")).write_text(block)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_files_of_the_page_are_read(lake):
    assert [each.name for each in MembersFile.read("members.toml").members] == ["reports", "nightly-load"]
    policy = RolloutPolicy.read("policy.toml")
    assert (policy.accepts_unknown, policy.soak_s, policy.tables_at_once) == (False, 3600.0, 10)
    assert [each.reason for each in policy.windows] == ["year-end close", "weekend"]


def test_the_commands_of_the_page_show_what_it_says(lake, capsys):
    commands = 0
    for block in blocks("console"):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            words = command.split()
            if words[0] != "halocline":
                subprocess.run(words, check=True)
                continue
            run(words[1:])
            told = capsys.readouterr()
            assert not told.err, f"{command}: {told.err}"
            commands += 1
            for line in filter(None, map(str.rstrip, shown.splitlines())):
                assert line in told.out, f"{command} does not show: {line}\n{told.out}"
    assert commands == 6
