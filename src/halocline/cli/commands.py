"""The commands of `halocline`, each loaded when it is asked for.

Help and completion show what stands here, so they cost neither the import of any command nor of what it works with.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from halocline.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Entry:
    """A command, or a group of them.

    Attributes:
        summary: The line in the help: the first of the command's own.
        home: The module it is in, below `halocline.cli`.
        name: What it is called there: a function, or the Typer of a group.
        on_rows: Whether it reads or writes rows by Spark.
    """

    summary: str
    home: str
    name: str = "show"
    on_rows: bool = False

    def load(self) -> Callable[..., Any] | typer.Typer:
        """The function, or the group."""
        found: Callable[..., Any] | typer.Typer
        found = getattr(importlib.import_module(f"halocline.cli.{self.home}"), self.name)
        return found


COMMANDS: Final[dict[str, Entry]] = {
    "apply": Entry("Apply exactly the plan in a file, from wherever it stands.", "apply", on_rows=True),
    "check": Entry("Show which clients can use a table, now and after a change.", "check"),
    "demo": Entry(
        "Run the main job on this machine: a lake is moved to newer versions, and back, while everybody uses it.",
        "demo",
        on_rows=True,
    ),
    "features": Entry("Show the table formats, the features of one, or one feature in full.", "features"),
    "inspect": Entry("Show what a table is, what it requires, and who writes it.", "inspect"),
    "lint": Entry("Find what is wrong with a table's protocol.", "lint"),
    "log": Entry("Show who did what to a table, newest first.", "log"),
    "matrix": Entry("Who provides what: features by product, or the verdicts on a protocol.", "matrix"),
    "move": Entry("Move a Hudi table to another table version, up or down.", "move", on_rows=True),
    "plan": Entry(
        "Plan a rollout: waves of members and moves of tables in which nobody is broken at any moment.", "plan"
    ),
    "quickstart": Entry("Make a small lake of real tables, and show the next five commands.", "quickstart"),
    "rollback": Entry("Walk a plan back to the last point it can, in the opposite order.", "rollback", on_rows=True),
    "search": Entry("Show the rows of an index table that a query finds, and how many there are.", "search"),
    "serve": Entry("Run a fleet's coordinator until it is stopped.", "serve", "serve"),
    "sql": Entry("Run SQL on the tables of a lake, by name.", "sql", on_rows=True),
    "survey": Entry("Show every table of a lake, who uses it, and what stands in the way of a target.", "survey"),
    "status": Entry(
        "Show where a rollout stands: its stages, what it waits for and since when, and who applies it.", "status"
    ),
    "who": Entry("Show who uses a table.", "who"),
    "fleet": Entry("Who is there, at which level, and what is in the way.", "fleet", "app"),
    "history": Entry(
        "Two sides of a wire: which client and server versions work together, feature by feature.", "history", "app"
    ),
}


class NamedGroup(TyperGroup):
    """A group of commands that asks for the nearest one where a name is mistyped."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first argument names, or an error with the nearest name."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            meant = nearest(args[0], known)
            raise InputError(
                f"there is no command {args[0]!r}",
                next_step=f"Did you mean: {ctx.command_path} {meant}" if meant else f"See: {ctx.command_path} --help",
            )
        return super().resolve_command(ctx, args)


class CommandGroup(NamedGroup):
    """The group of all commands."""

    _listing = False

    def invoke(self, ctx: Any) -> Any:
        """Runs a command. One that Ctrl-C ends says so in a line: `KeyboardInterrupt("what was done")` adds to it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            # Imported here: the help does not need what results are shown with.
            from halocline.cli.output import STOPPED, emit_stopped

            emit_stopped(stopped)
            raise typer.Exit(STOPPED) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order in which the help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command; while the help is shown, only its name and its line there."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if self._listing:
            return TyperCommand(cmd_name, help=entry.summary)
        found = entry.load()
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(cmd_name)(found)
            found = alone
        return get_command(found)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Shows the help without loading a command."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False
