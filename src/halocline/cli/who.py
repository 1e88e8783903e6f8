"""`halocline who`: the clients known to use a table, and how that is known."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from halocline.cli.fleet_users import FleetOption, FleetUsers
from halocline.cli.inspect import age_text
from halocline.cli.output import OutputFormat, OutputOption, columns, emit
from halocline.errors import InputError, needs_extra

if TYPE_CHECKING:
    from halocline.fleet.usage.users import User


def show(
    table: Annotated[str, typer.Argument(help="The table's path or URL.")],
    fleet: FleetOption = "",
    report: Annotated[
        bool, typer.Option("--report", help="Tell the fleet who was observed in the table's history.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show who uses a table: members of the fleet, those observed in its history, reported by lineage, or declared.

    Without a fleet only the history can tell, and readers leave nothing there.
    """
    with needs_extra("the fleet's client", "fleet"):
        from halocline.fleet.usage.observers import observed
    from halocline.storage import open_store

    if report and not fleet:
        raise InputError("--report tells a fleet, and none was named", next_step="Name it with --fleet.")
    store = open_store(table)
    history = observed(store)
    known = FleetUsers(fleet, store, history.traces, report=report)
    levels, users = {each.ladder: each.level for each in known.levels}, known.users
    result = {
        "table": store.root,
        "fleet": fleet or None,
        "levels": levels,
        "users": [each.to_dict() for each in users],
        "unnamedCommits": history.unnamed,
    }
    emit(output, result, _table(users), *_notes(history.unnamed, bool(fleet), levels))


def _table(users: tuple[User, ...]) -> Table:
    shown = columns("who", "release", "does", "known", "last seen")
    now = int(time.time() * 1000)
    for each in users:
        seen = age_text(now - each.last_seen_ms) if each.last_seen_ms else "never"
        if each.lease_left_ms:
            seen = f"now, lease {each.lease_left_ms // 1000} s"
        shown.add_row(each.name, each.release, each.verbs, str(each.provenance), seen)
    return shown


def _notes(unnamed: int, with_fleet: bool, levels: dict[str, int]) -> list[str]:
    notes = [f"the table is at level {level} of {ladder}" for ladder, level in levels.items()]
    if unnamed:
        notes.append(f"{unnamed} commits name no writer")
    if not with_fleet:
        notes.append("Only writers leave a trace in the history; name a --fleet to see who reads.")
    return notes
