"""Asking a fleet on behalf of a command, and showing what it answers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import RenderableType

from halocline.cli.output import OutputFormat, emit
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


def client(context: typer.Context) -> AdminClient:
    """A connection to the fleet that the command line names."""
    with needs_extra("the fleet's client", "fleet"):
        from halocline.fleet.member.admin import AdminClient
        from halocline.fleet.wire.endpoint import Endpoint
    at, identity, key = context.obj
    return AdminClient(Endpoint.from_environment(at), identity, key=key)


def ask(
    context: typer.Context,
    output: OutputFormat,
    ask: Callable[[AdminClient], _A],
    shown: Callable[[_A], list[RenderableType]],
) -> _A:
    """Asks the fleet, shows the answer, and returns it."""
    with client(context) as fleet:
        from halocline.fleet.answers import plain

        answer = ask(fleet)
    emit(output, plain(answer), *shown(answer))
    return answer


def do(context: typer.Context, output: OutputFormat, command: Callable[[AdminClient], CommandResult]) -> None:
    """Gives the fleet a command, and shows what was decided."""
    ask(context, output, command, view().decisions)
