"""`halocline log`: who did what to a table, newest first."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halocline.cli.inspect import TableArgument
from halocline.cli.output import OutputFormat, OutputOption, columns, emit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_METRICS = 4
"""So many figures of a commit are shown to people; programs get all."""


def show(
    table: TableArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many entries to show.")] = 20,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show who did what to a table, newest first."""
    from halocline.table import Table

    opened = Table.for_path(table)
    entries = [each.to_dict() for each in opened.history(limit + 1)]
    shown = columns("version", "time", "operation", "by", "figures")
    for each in entries[:limit]:
        operation = str(each.get("operation") or each.get("action") or "not said")
        by = str(each.get("engineInfo") or "not said")
        shown.add_row(str(each["version"]), str(each.get("timestamp", "")), operation, by, ", ".join(_figures(each)))
    step = f"halocline log {shlex.quote(table)} --limit {limit * 5}"
    more = [f"Older entries are left out.   Next: {step}"] * (len(entries) > limit)
    result = {"table": opened.url, "entries": entries[:limit], "olderLeftOut": len(entries) > limit}
    emit(output, result, shown, *more)


def _figures(entry: Mapping[str, Any]) -> Iterator[str]:
    """The first figures that a writer left, such as `numFiles 2`."""
    metrics = entry.get("operationMetrics")
    named = {name: str(entry[name]) for name in ("numWrites", "numDeletes") if name in entry}
    named |= {name: str(value) for name, value in metrics.items()} if isinstance(metrics, dict) else {}
    for name, value in [pair for pair in named.items() if pair[1] not in ("0", "None")][:_METRICS]:
        yield f"{name} {value}"
