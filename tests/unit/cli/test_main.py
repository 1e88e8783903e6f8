"""The frame of the command line: exit codes and what is shown when something is wrong."""

import json

import pytest

from halocline.cli import main


@pytest.mark.parametrize(
    "arguments",
    [["no-such-command"], ["--no-such-option"], ["history", "no-such-command"], ["history", "check", "--client"]],
)
def test_wrong_arguments_give_one_problem_and_the_help_command(arguments, capsys):
    assert main.run(arguments) == 1
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("ARGUMENT_INVALID: ")
    assert shown[1].startswith("See: halocline")
    assert len(shown) == 2


def test_wrong_arguments_with_json_asked_give_a_json_error(capsys):
    assert main.run(["features", "--output", "json", "--no-such-option"]) == 1
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["condition"] == "ARGUMENT_INVALID"
    assert "--no-such-option" in error["message"]


def test_no_arguments_show_the_help_and_are_fine(capsys):
    assert main.run([]) == 0
    assert "Usage: halocline" in capsys.readouterr().out
