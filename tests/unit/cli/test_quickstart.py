"""The first five minutes: a lake, and commands that work as they are printed."""

from __future__ import annotations

import json
import shlex

import pytest

from halocline.cli import main


def run(capsys, *arguments) -> tuple[int, str]:
    code = main.run(list(arguments))
    return code, capsys.readouterr().out


def test_every_command_that_is_printed_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out = run(capsys, "quickstart")
    assert code == 0
    commands = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    assert len(commands) == 5
    for command in commands:
        words = shlex.split(command)
        if words[0] == "halocline":
            code, shown = run(capsys, *words[1:])
            assert code in (0, 2), command
            assert shown, command
        else:
            assert words[:2] == ["python", "-c"]
            exec(compile(words[2], command, "exec"), {})
            assert "country" in capsys.readouterr().out


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
