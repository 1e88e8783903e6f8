"""`halocline inspect`: what a table is, what it requires, and who writes it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from halocline.cli.fleet_users import FleetOption, FleetUsers
from halocline.cli.output import OutputFormat, OutputOption, emit
from halocline.compat.features import rules
from halocline.errors import shortened

if TYPE_CHECKING:
    from halocline.compat.reports import Inspection

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A path or URL of a table.")]

_COLUMNS: Final = 20
_LONG: Final = 100
_SIZES = ("bytes", "kB", "MB", "GB", "TB", "PB")
_AGES = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))


def show(
    table: TableArgument,
    version: Annotated[
        int | None, typer.Option("--version", help="The version, or the instant; else the newest.")
    ] = None,
    fleet: FleetOption = "",
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show what a table is, what it requires, and who writes it."""
    from halocline.formats.base import detect_format, inspector_of
    from halocline.storage import open_store

    store = open_store(table)
    found = inspector_of(detect_format(store)).inspect(store, version)
    known = FleetUsers(fleet, store)
    emit(output, found.to_dict() | known.facts, *_lines(table, found), *known.lines)


def _lines(table: str, found: Inspection) -> Iterator[str]:
    protocol, level = found.protocol, rules(found.protocol.format).level_name
    counted = f"{found.counted} · {size_text(found.size or 0)}" if found.counted else "files not counted"
    yield f"{table} · {protocol.format} · {found.state} · {counted}"
    numbers = f"{level} {protocol.reader}" if level else f"({protocol.reader},{protocol.writer})"
    supported = "" if level else f"   supported: {_names(protocol.features)}"
    yield f"protocol    {numbers}{supported}   enabled: {_names(found.terms.features_in_use)}"
    yield f"written by  {_writers(found)}"
    for label, text in found.notes.items():
        yield f"{label:<12}{text}"
    if found.uncounted:
        yield f"uncounted   {found.uncounted}"
    if found.findings:
        worst = "; ".join(each.text for each in found.findings[:3])
        yield f"findings    {worst}.   Next: halocline lint {shlex.quote(table)}"
    yield from _shape(found)


def _shape(found: Inspection) -> Iterator[str]:
    """The columns, the partitioning and the properties, as far as there are any."""
    fields = (found.schema or {}).get("fields", [])
    if fields:
        named = [f"{each['name']} {_type_text(each['type'])}" for each in fields]
        yield f"columns     {shortened(named, _COLUMNS)}"
    if found.partition_columns:
        yield f"partitions  {', '.join(found.partition_columns)}"
    properties = sorted(found.properties.items())
    for number, (name, value) in enumerate(properties[:_COLUMNS]):
        yield f"{'properties' if number == 0 else '':<11} {name}={_shortened(value)}"
    if len(properties) > _COLUMNS:
        yield f"{'':<11} and {len(properties) - _COLUMNS:,} more: --output json shows all"


def _type_text(type: Any) -> str:
    """A type of a schema in JSON, as its outermost word."""
    return str(type if isinstance(type, str) else type.get("type", "unknown"))


def _shortened(value: str) -> str:
    return value if len(value) <= _LONG else value[: _LONG - 1] + "…"


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _writers(found: Inspection) -> str:
    now_ms = time.time_ns() // 1_000_000
    pieces = [
        f"{each.release} ({_commits(each.commits)}, last {age_text(now_ms - (each.last_ms or 0))})"
        for each in found.writers.named
    ]
    if found.writers.unnamed:
        pieces.append(f"no writer named ({_commits(found.writers.unnamed)})")
    return ", ".join(pieces) or "none: the log holds no commits"


def _commits(number: int) -> str:
    return f"{number:,} commit{'' if number == 1 else 's'}"


def size_text(size: int) -> str:
    """A number of bytes for people.

    Example:
        >>> size_text(999), size_text(96_100_000_000)
        ('999 bytes', '96.1 GB')
    """
    amount, unit = float(size), 0
    while amount >= 999.95 and unit < len(_SIZES) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{size} bytes" if unit == 0 else f"{amount:.1f} {_SIZES[unit]}"


def age_text(age_ms: int) -> str:
    """How long ago, for people.

    Example:
        >>> age_text(7_300_000), age_text(172_800_000), age_text(200)
        ('2 h ago', '2 days ago', 'just now')
    """
    seconds = age_ms // 1000
    for length, unit in _AGES:
        if seconds >= length:
            number = seconds // length
            return f"{number} {unit}{'s' if unit == 'day' and number > 1 else ''} ago"
    return "just now"
