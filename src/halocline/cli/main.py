"""The `halocline` command: how it starts, and what happens to errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from halocline._version import __version__
from halocline.cli.commands import COMMANDS, CommandGroup
from halocline.cli.output import (
    ERROR,
    FINE,
    STOPPED,
    OutputFormat,
    call_places_as_in,
    emit_error,
    emit_stopped,
)
from halocline.errors import HaloclineError, InputError

app = typer.Typer(
    name="halocline",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The exit code is 0 if all is fine, 1 for an error, wrong arguments among them, and 2 if something is "
    "incompatible or wrong with a table; 130 if Ctrl-C ended it.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"halocline {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keeps lakehouse tables and the programs that use them compatible while both evolve."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code: 0 fine, 1 error, 2 incompatible.

    Example:
        >>> run(["--version"])
        halocline 0.1.0
        0
    """
    output = _asked_format(arguments)
    call_places_as_in(arguments)
    try:
        code = app(list(arguments), prog_name="halocline", standalone_mode=False)
    except HaloclineError as error:
        emit_error(output, error)
        return error.exit_code
    except typer.TyperException as error:
        # The parser's own code for a wrong argument is 2, which pipelines take for incompatible.
        path = getattr(getattr(error, "ctx", None), "command_path", "halocline")
        problem = error.format_message().rstrip(".")
        if not problem:
            return FINE
        emit_error(output, InputError(problem, next_step=f"See: {path} --help"))
        return ERROR
    except typer.Abort:
        sys.stderr.write("Stopped.\n")
        return ERROR
    except SystemExit as left:
        # The reader of our output has gone (`halocline … | head`), which is no failure; the parser takes it for one.
        # A second complaint, when the rest is flushed at exit, would be noise.
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return FINE
    except KeyboardInterrupt as stopped:
        emit_stopped(stopped)
        return STOPPED
    return code if isinstance(code, int) else FINE


def main() -> None:
    """Entry point of the console script."""
    named = next((COMMANDS[each] for each in sys.argv[1:] if each in COMMANDS), None)
    if named is None or not named.on_rows:
        sys.meta_path.insert(0, _WithoutPandas())
    code = run(sys.argv[1:])
    if code == STOPPED:
        # Threads that still start Spark, or wait for a store, are of no use any more, and would be waited for.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


class _WithoutPandas:
    """Makes pandas a module that is not there.

    pyarrow looks for it whenever it makes an array. Loading it takes longer than most commands do, and those that do
    not touch rows have no use for it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this command does not need pandas", name=name)


def _asked_format(arguments: Sequence[str]) -> OutputFormat:
    """The format for errors, read before parsing since parsing itself may be what fails."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        if argument in ("--output=json", "-ojson") or (before in ("--output", "-o") and argument == "json"):
            return OutputFormat.JSON
    return OutputFormat.TEXT
