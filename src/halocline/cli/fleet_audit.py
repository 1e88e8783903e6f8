"""`halocline fleet audit` and `halocline fleet keys`: what was decided, and what tokens are signed with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from halocline.cli.commands import NamedGroup
from halocline.cli.fleet_calls import FleetCall, RequiredReason, command, view, write
from halocline.cli.output import INCOMPATIBLE, OutputFormat, OutputOption

audit_log = typer.Typer(
    name="audit", cls=NamedGroup, help="What was decided, by whom and why.", invoke_without_command=True
)
keys = typer.Typer(
    name="keys", cls=NamedGroup, help="The keys that tokens are signed with.", invoke_without_command=True
)


@audit_log.callback()
def audit(
    context: typer.Context,
    actor: Annotated[str, typer.Option(help="Only what this one asked for.")] = "",
    action: Annotated[str, typer.Option(help="Only this kind, e.g. raise.")] = "",
    about: Annotated[str, typer.Option(help="Only about this, e.g. hudi=8.")] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show what was decided, newest first."""
    from halocline.fleet.answers import AuditEntries, AuditQuery

    if context.invoked_subcommand is not None:
        return
    query = AuditQuery(actor, action, about, refused, limit=limit)
    FleetCall(context, output).ask(lambda fleet: AuditEntries(fleet.audit(query)), view().audit)


@audit_log.command()
def verify(
    context: typer.Context,
    noted: Annotated[str, typer.Option("--noted", metavar="HASH", help="A hash that must be in the log.")] = "",
) -> None:
    """Check that no entry was changed, inserted or taken out, the oldest neither. Exits 2 if one was."""
    from halocline.fleet.audit_chain import Beginning, beginning_problem, broken

    with FleetCall(context).client() as fleet:
        entries = fleet.whole_audit()
        if beginning_problem(entries):
            # Some may have been forgotten while they were read, from the newest to the oldest.
            entries = fleet.whole_audit()
    if problem := beginning_problem(entries):
        typer.echo(f"{problem}: entries were taken out, or the log was made anew")
        raise typer.Exit(INCOMPATIBLE)
    wrong = broken(entries)
    if wrong is not None:
        typer.echo(f"entry {wrong.number} does not follow from the one before: the log was changed there")
        raise typer.Exit(INCOMPATIBLE)
    if noted and noted not in {each.hash for each in entries}:
        typer.echo(f"{noted} is not in the log: entries were taken out, or it was made anew")
        raise typer.Exit(INCOMPATIBLE)
    last = entries[-1].hash if entries else "none"
    typer.echo(f"{len(entries):,} entries follow from each other; the last hash is {last}")
    if begins := Beginning.of_log(entries):
        many = begins.forgotten - begins.by_age
        typer.echo(
            f"{begins.forgotten:,} older ones were forgotten: {begins.by_age:,} by age, {many:,} beyond the number"
        )


@audit_log.command("export")
def export_audit(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Where to write it; standard output if not given.")] = None,
) -> None:
    """Write every entry that is kept as a line of JSON, the oldest first."""
    from halocline.fleet.answers import plain

    with FleetCall(context).client() as fleet:
        lines = "".join(json.dumps(plain(each)) + "\n" for each in fleet.whole_audit())
    write(lines.encode(), file)


@keys.callback()
def show_keys(context: typer.Context, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show the keys that tokens are signed with, newest first: that one signs, and all are accepted."""
    from halocline.fleet.answers import SigningKeys

    if context.invoked_subcommand is None:
        FleetCall(context, output).ask(lambda fleet: SigningKeys(fleet.signing_keys()), view().keys)


@command(keys, "drop")
def drop_key(
    call: FleetCall, key: Annotated[str, typer.Argument(help="The key, by its name.")], reason: RequiredReason
) -> None:
    """Accept no token any more that a key signed. Every member shows its secret or certificate again."""
    call.do(lambda fleet: fleet.drop_key(key, reason))
