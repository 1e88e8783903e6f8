"""The frame of the command line: exit codes and what is shown when something is wrong."""

import json
import os
import subprocess
import sys

import pytest
import typer
from typer.main import get_command

from halocline.cli import main
from halocline.cli.commands import COMMANDS


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


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_shown_for_the_whole_and_for_a_command(option, capsys):
    assert main.run([option]) == 0
    whole = capsys.readouterr().out
    assert all(name in whole for name in COMMANDS)
    assert main.run(["inspect", option]) == 0
    assert "A path or URL of a table" in capsys.readouterr().out


def test_a_mistyped_command_names_the_nearest(capsys):
    assert main.run(["inspct"]) == 1
    assert "Did you mean: halocline inspect" in capsys.readouterr().err


def test_a_mistyped_option_names_the_nearest(capsys):
    assert main.run(["check", "--clent", "trino@426", "t"]) == 1
    assert "--client" in capsys.readouterr().err


def every_command(group, path=()):
    for name in group.list_commands(typer.Context(group)):
        found = group.get_command(typer.Context(group), name)
        yield [*path, name], found
        if hasattr(found, "list_commands"):
            yield from every_command(found, [*path, name])


def test_every_command_and_option_that_is_mistyped_names_the_nearest_and_never_exits_as_incompatible(capsys):
    wrong = []
    for path, command in every_command(get_command(main.app)):
        mistyped = [([*path[:-1], f"{path[-1][:-1]}x{path[-1][-1]}"], f"Did you mean: halocline {' '.join(path)}\n")]
        options = [name for each in command.params for name in each.opts if name.startswith("--")]
        mistyped += [([*path, f"--x{name[2:]}"], name) for name in options if len(name) > 4]
        for arguments, meant in mistyped:
            code = main.run(arguments)
            told = capsys.readouterr().err
            if code != 1 or meant not in told:
                wrong.append((arguments, code, told))
    assert wrong == []


def test_the_help_tells_the_exit_codes(capsys):
    main.run(["-h"])
    assert "2 if something is" in capsys.readouterr().out


def test_a_shell_is_told_how_a_word_goes_on(tmp_path):
    def completed(words: str) -> list[str]:
        asked = {"_HALOCLINE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        program = "from halocline.cli.main import main; main()"
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
        assert done.stderr == "", "a shell shows this in the middle of the line"
        return done.stdout.split()

    assert completed("halocline ins") == ["inspect"]
    assert completed("halocline check --en") == ["--enable"]
    assert completed("halocline inspect lake --output ") == ["text", "json"]
    assert completed("halocline flet mem") == []
    assert completed("halocline fleet mem") == ["members", "member"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_the_command_says_of_itself(name):
    found = COMMANDS[name].load()
    own = found.info.help if isinstance(found, typer.Typer) else found.__doc__
    assert str(own).startswith(COMMANDS[name].summary.rstrip(".")), "commands.py and the command differ"


def loaded_by(*arguments):
    """The modules that a process of its own has loaded when the command is done."""
    code = "import sys; from halocline.cli.main import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(ran.stderr.splitlines()[-1].split())


def test_help_loads_no_command_and_no_format():
    loaded = loaded_by("--help")
    assert not [each for each in loaded if each.startswith(("halocline.formats", "halocline.cli.check", "pyarrow"))]


def test_inspect_loads_neither_pandas_nor_spark_nor_other_formats(tmp_path):
    log = tmp_path / "_delta_log"
    log.mkdir()
    schema = json.dumps({"type": "struct", "fields": []})
    metadata = {"id": "1", "format": {"provider": "parquet"}, "schemaString": schema, "partitionColumns": []}
    added = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    actions = [{"protocol": protocol}, {"metaData": metadata | {"configuration": {}}}, {"add": added}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    loaded = loaded_by("inspect", str(tmp_path))
    assert not loaded & {"pandas", "pyspark", "halocline.formats.hudi.snapshot", "tantivy"}


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    command = [sys.executable, "-c", "from halocline.cli.main import main; main()", "features", "delta"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
