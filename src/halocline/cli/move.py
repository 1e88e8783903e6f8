"""`halocline move`: a Hudi table to another table version, or what that would take."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from halocline.cli.inspect import TableArgument
from halocline.cli.output import OutputFormat, OutputOption, emit
from halocline.errors import UnsupportedError


def show(
    table: TableArgument,
    to: Annotated[int, typer.Option("--to", help="The table version: 6, 8 or 9.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what it takes, and change nothing.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Move a Hudi table to another table version, up or down. Readers see a whole table at every moment."""
    # Imported here: every command loads this module, and most open no table.
    from halocline.table import HudiTable, Table

    found = Table.for_path(table)
    if not isinstance(found, HudiTable):
        raise UnsupportedError(
            f"{table} is a {found.format} table, which is not moved by its version",
            sides={"found": str(found.format), "moved": "hudi tables"},
            next_step=f"halocline check {shlex.quote(table)} --enable FEATURE",
        )
    up = to > found.protocol.reader
    if dry_run:
        move = found.plan_upgrade(to) if up else found.plan_downgrade(to)
    else:
        move = found.upgrade(to) if up else found.downgrade(to)
    done = "nothing was changed" if dry_run else f"{table} is at version {found.protocol.reader}"
    emit(output, {**move.to_dict(), "applied": not dry_run}, move.explain(), done)
