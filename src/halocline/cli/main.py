"""The `halocline` command: its groups, and what happens to errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from halocline._version import __version__
from halocline.cli import check, features, fleet, history, inspect, lint, matrix, move, search, serve, who
from halocline.cli.output import ERROR, FINE, OutputFormat, emit_error
from halocline.errors import HaloclineError, InputError

app = typer.Typer(
    name="halocline",
    help="Keeps lakehouse tables and the programs that use them compatible while both evolve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("check")(check.show)
app.command("features")(features.show)
app.command("inspect")(inspect.show)
app.command("lint")(lint.show)
app.command("matrix")(matrix.show)
app.command("move")(move.show)
app.command("search")(search.show)
app.command("serve")(serve.serve)
app.command("who")(who.show)
app.add_typer(fleet.app)
app.add_typer(history.app)


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
    try:
        code = app(list(arguments), prog_name="halocline", standalone_mode=False)
    except HaloclineError as error:
        emit_error(output, error)
        return error.exit_code
    except typer.TyperException as error:
        # The parser's own code for a wrong argument is 2, which here means incompatible.
        path = getattr(getattr(error, "ctx", None), "command_path", "halocline")
        problem = error.format_message().rstrip(".")
        if not problem:
            return FINE
        emit_error(output, InputError(problem, next_step=f"See: {path} --help"))
        return ERROR
    except typer.Abort:
        sys.stderr.write("Stopped.\n")
        return ERROR
    except BrokenPipeError:
        # The reader of our output has gone (`halocline … | head`); a second complaint at exit would be noise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return 130
    return code if isinstance(code, int) else FINE


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


def _asked_format(arguments: Sequence[str]) -> OutputFormat:
    """The format for errors, read before parsing since parsing itself may be what fails."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        if argument in ("--output=json", "-ojson") or (before in ("--output", "-o") and argument == "json"):
            return OutputFormat.JSON
    return OutputFormat.TEXT
