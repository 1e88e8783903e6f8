"""The first five minutes: a lake, and commands that work as they are printed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from halocline.cli import main


def run(capsys, *arguments) -> tuple[int, str]:
    code = main.run(list(arguments))
    return code, capsys.readouterr().out


@pytest.mark.parametrize("folder", ["lake", "it's my lake"])
def test_every_command_that_is_printed_works(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    code, out = run(capsys, "quickstart", folder)
    assert code == 0
    commands = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    assert len(commands) == 5
    for command in commands:
        words = shlex.split(command)
        if Path(words[0]).name == "halocline":
            code, shown = run(capsys, *words[1:])
            assert code in (0, 2), command
            assert shown, command
        else:
            assert (Path(words[0]).name, words[1]) == ("python", "-c")
            exec(compile(words[2], command, "exec"), {})
            assert "country" in capsys.readouterr().out


@pytest.mark.parametrize("activated", [True, False])
def test_commands_are_found_by_a_shell_with_and_without_the_environment(tmp_path, monkeypatch, capsys, activated):
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.defpath}" if activated else os.defpath)
    monkeypatch.chdir(tmp_path)
    commands = json.loads(run(capsys, "quickstart", "-o", "json")[1])["next"]
    called = {shlex.split(each)[0] for each in commands}
    assert called == ({"halocline", "python"} if activated else {str(here / "halocline"), str(here / "python")})
    shown = subprocess.run(commands[0], shell=True, check=True, capture_output=True, text=True).stdout
    assert "25 rows" in shown


def test_lake_that_is_there_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert json.loads(run(capsys, "quickstart", "shop", "-o", "json")[1])["lake"] == "shop/lake.toml"
    before = sorted(each.as_posix() for each in tmp_path.rglob("*"))
    assert run(capsys, "quickstart", "shop")[0] == 1
    assert sorted(each.as_posix() for each in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("table", ["orders", "items", "clicks"])
def test_tables_are_read_by_another_client(tmp_path, monkeypatch, capsys, table):
    import deltalake

    monkeypatch.chdir(tmp_path)
    run(capsys, "quickstart")
    found = deltalake.DeltaTable(str(tmp_path / "lake" / table))
    assert found.count() == {"orders": 25, "items": 20, "clicks": 100}[table]
