"""What a command shows: the same result as text for people or as JSON for programs.

A command builds its result once and calls `emit`. Text goes through rich, which drops colours and control codes when
it is piped; JSON is one document on standard output. Errors go to standard error in the form that was asked for.

Results call a local table as the command line does, and so do errors: `lake/orders`, and not the URL that stores and
programs have for it (`call_places_as_in`). Places that were not given are plain paths. Buckets stay URLs, and so does
what a fleet is told, since its other members are elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import Token
from enum import StrEnum
from functools import partial
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from halocline.compat.answer import Answer
from halocline.errors import HaloclineError
from halocline.place_names import naming


class OutputFormat(StrEnum):
    """How a result is shown."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="Show the result as text or as JSON.")]
"""The option that every command has: `output: OutputOption = OutputFormat.TEXT`."""

ANSWER_STYLES: Final = {
    Answer.OK: "green",
    Answer.UNKNOWN: "yellow",
    Answer.REFUSED: "red",
    Answer.WRONG: "bold white on red",
}
"""How answers look where a user of a table is judged."""

FINE: Final = 0
ERROR: Final = 1
INCOMPATIBLE: Final = 2
STOPPED: Final = 130
"""What shells say of a program that Ctrl-C has ended."""


def emit(output: OutputFormat, result: object, *text: RenderableType) -> None:
    """Shows `result` as JSON, or `text` (strings, rich tables …) for people.

    Example:
        >>> emit(OutputFormat.JSON, {"minServer": "1.2.770"}, "1.2.770")
        {
          "minServer": "1.2.770"
        }
    """
    if output is OutputFormat.JSON:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
        return
    # A pipe has no width of its own; wide enough keeps one record on one line for grep and for tests.
    console = Console(width=None if sys.stdout.isatty() else 160)
    for piece in text:
        console.print(piece, markup=False, highlight=False, soft_wrap=isinstance(piece, str | Text))


def columns(*titles: str) -> Table:
    """A plain table for `emit`: bold titles, no borders, cells that fold rather than vanish."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def emit_stopped(stopped: KeyboardInterrupt) -> None:
    """Tells in one line that Ctrl-C has ended a command: what the command has to say of it, if anything.

    Example:
        >>> emit_stopped(KeyboardInterrupt("2 of 3 tables are moved."))  # doctest: +SKIP
        Stopped. 2 of 3 tables are moved.
    """
    # A terminal has written ^C where it stood.
    begin = "\n" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{begin}{' '.join(('Stopped.', *map(str, stopped.args)))}\n")


def emit_error(output: OutputFormat, error: HaloclineError) -> None:
    """Shows an error on standard error, in the form that was asked for."""
    if output is OutputFormat.JSON:
        sys.stderr.write(msgspec.json.encode({"error": error.to_dict()}).decode() + "\n")
    else:
        sys.stderr.write(f"{error}\n")


def call_places_as_in(arguments: Sequence[str]) -> Token[Callable[[str], str]]:
    """Has every text call places as this command line does.

    Example:
        >>> from halocline.place_names import naming, with_place_names
        >>> before = call_places_as_in(["check", "/data/./lake"])
        >>> with_place_names("no table at file:///data/lake/orders.")
        'no table at /data/./lake/orders.'
        >>> naming.reset(before)
    """
    return naming.set(partial(_name_given, tuple(arguments)))


def _name_given(arguments: Sequence[str], url: str) -> str:
    # Imported here: every command loads this module, and most name no place.
    from halocline.storage.location import Location

    place = Location.parse(url)
    nearest, name = -1, f"/{place.path}"
    for argument in arguments:
        try:
            given = Location.parse(argument)
        except HaloclineError:  # not every argument is a place
            continue
        below = "" if given == place else place.below(given)
        if below is not None and len(given.path) > nearest:
            nearest, name = len(given.path), f"{argument.rstrip('/')}/{below}" if below else argument
    return name
