"""`halocline status`: where a rollout stands."""

from __future__ import annotations

import shlex
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from halocline.cli.output import OutputFormat, OutputOption, columns, emit
from halocline.errors import NotFoundError

if TYPE_CHECKING:
    from halocline.plan.apply.status import RolloutStatus


def show(
    place: Annotated[str, typer.Argument(help="A lake, or the file of a plan.")],
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again whenever it changes, until it is over.")
    ] = False,
    every: Annotated[float, typer.Option("--every", min=0.0, help="How often to look, in seconds.")] = 2.0,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show where a rollout stands: its stages, what it waits for and since when, and who applies it."""
    shown: dict[str, object] = {}
    while True:
        found = _status(place)
        facts = found.to_dict()
        if facts != shown:
            shown = facts
            emit(output, facts, *_told(found))
        if not watch or found.state in ("finished", "taken back"):
            return
        time.sleep(every)


def _status(place: str) -> RolloutStatus:
    # Imported here: every look at the help would pay for it otherwise.
    from halocline.plan.apply.journal import kept_plan, rollouts
    from halocline.plan.apply.status import status_of
    from halocline.plan.file import SavedPlan
    from halocline.storage import open_store

    folder, _, name = place.rpartition("/")
    if (
        name
        and not place.endswith(".toml")
        and open_store(folder or ("/" if place.startswith("/") else ".")).exists(name)
    ):
        return status_of(SavedPlan.read(place))
    begun = rollouts(place)
    if not begun:
        raise NotFoundError(
            f"no plan has been applied to {place}",
            next_step=f"halocline plan {shlex.quote(str(place))} --out FILE, then: halocline apply FILE",
        )
    return status_of(SavedPlan.decode(kept_plan(place, begun[-1]), place))


def _told(found: RolloutStatus) -> tuple[str | Table, ...]:
    by = f", {found.holder.by} applies it (process {found.holder.process})" if found.holder else ""
    table = columns("stage", "work", "done", "state", "waits for")
    for each in found.stages:
        since = datetime.fromtimestamp(each.since_ms / 1000, UTC)
        waiting = f"{each.waiting} (since {since:%Y-%m-%d %H:%M:%S} UTC)" if each.since_ms else ""
        table.add_row(str(each.number), each.work, f"{each.done:,} of {each.total:,}", each.state, waiting)
    return f"plan {found.plan}: {found.state}{by}", table
