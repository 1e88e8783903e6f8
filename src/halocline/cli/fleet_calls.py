"""Asking a fleet on behalf of a command, and showing what it answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer
from rich.console import RenderableType

from halocline.cli.output import OutputFormat, OutputOption, emit
from halocline.cli.shared import takes
from halocline.errors import needs_extra

if TYPE_CHECKING:
    from halocline.fleet.answers import CommandResult
    from halocline.fleet.member.admin import AdminClient

RequiredReason = Annotated[str, typer.Option("--reason", help="Why; lands in the audit log.")]
_A = TypeVar("_A")


def view() -> ModuleType:
    """How answers look; imported late, like all of the fleet, because other commands do without it."""
    from halocline.cli import fleet_view

    return fleet_view


class FleetCall(NamedTuple):
    """What a command asks of the fleet that the command line names, and how the answer is shown."""

    context: typer.Context
    output: OutputOption = OutputFormat.TEXT

    def client(self) -> AdminClient:
        """A connection to the fleet."""
        with needs_extra("the fleet's client", "fleet"):
            from halocline.fleet.member.admin import AdminClient
        at, identity, key = self.context.obj
        return AdminClient(at, identity, key=key)

    def ask(self, ask: Callable[[AdminClient], _A], shown: Callable[[_A], list[RenderableType]]) -> _A:
        """Asks the fleet, shows the answer, and returns it."""
        with self.client() as fleet:
            from halocline.fleet.answers import plain

            answer = ask(fleet)
        emit(self.output, plain(answer), *shown(answer))
        return answer

    def do(self, command: Callable[[AdminClient], CommandResult]) -> None:
        """Gives the fleet a command, and shows what was decided."""
        self.ask(command, view().decisions)


def command(group: typer.Typer, name: str | None = None) -> Callable[[Callable[..., None]], object]:
    """Makes a function, whose first argument is a `FleetCall`, a command of a group."""
    return lambda function: group.command(name)(takes(FleetCall)(function))


def write(document: bytes, file: Path | None) -> None:
    """Writes a document to a file, or shows it."""
    if file is None:
        sys.stdout.write(document.decode().rstrip("\n") + "\n")
    else:
        # Imported here: most commands write no file.
        from halocline.lake.journal import check_writable

        check_writable(file)
        file.write_bytes(document)
        typer.echo(f"{len(document):,} bytes written to {file}")
