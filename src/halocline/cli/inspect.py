"""`halocline inspect`: what a table is, what it requires, and who writes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from halocline.cli.output import OutputFormat, OutputOption, emit

if TYPE_CHECKING:
    from halocline.formats.delta.snapshot.inspection import Inspection
    from halocline.formats.hudi.inspection import HudiInspection
    from halocline.formats.index.inspection import IndexInspection

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
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show what a table is, what it requires, and who writes it."""
    from halocline.formats.base import TableFormat, detect_format, formats_at
    from halocline.storage import open_store

    # Only the format that is there is loaded: that is most of the time this takes.
    store = open_store(table)
    formats = formats_at(store)
    if formats == (TableFormat.HUDI,):
        from halocline.formats.hudi.inspection import inspect_hudi

        hudi = inspect_hudi(store, None if version is None else str(version))
        emit(output, hudi.to_dict(), *_hudi_lines(table, hudi), *_shape(hudi))
    elif formats == (TableFormat.INDEX,):
        from halocline.formats.index.inspection import inspect_index

        index = inspect_index(store, version)
        emit(output, index.to_dict(), *_index_lines(table, index), *_shape(index))
    else:
        from halocline.formats.delta.snapshot.inspection import inspect

        if not formats:
            detect_format(store)  # says what was looked for, of every format
        delta = inspect(store, version)
        emit(output, delta.to_dict(), *_lines(table, delta), *_shape(delta))


def _lines(table: str, found: Inspection) -> Iterator[str]:
    counted = "files not counted"
    if found.files is not None:
        rows = "rows not known" if found.rows is None else f"{found.rows:,} rows"
        counted = f"{found.files:,} files · {rows} · {size_text(found.size or 0)}"
    yield f"{table} · delta · version {found.version} · {counted}"
    features = f"supported: {_names(found.supported)}   enabled: {_names(found.enabled)}"
    numbers = f"({found.protocol.reader},{found.protocol.writer})"
    yield f"protocol    {numbers}   {features}"
    yield f"written by  {_writers(found)}"
    if found.uncounted:
        yield f"uncounted   {found.uncounted}"
    if found.findings:
        worst = "; ".join(each.text for each in found.findings[:3])
        yield f"findings    {worst}.   Next: halocline lint {table}"


def _hudi_lines(table: str, found: HudiInspection) -> Iterator[str]:
    counted = "files not counted" if found.files is None else f"{found.files:,} files · {size_text(found.size or 0)}"
    last = found.writes[-1].time if found.writes else "no write yet"
    yield f"{table} · hudi · {found.type.lower().replace('_', ' ')} · {last} · {counted}"
    yield f"protocol    table version {found.version}   enabled: {_names(found.enabled)}"
    yield f"written by  no writer named ({_commits(len(found.writes))})"
    if found.pending:
        yield f"pending     {_names(found.pending)}"
    if found.uncounted:
        yield f"uncounted   {found.uncounted}"


def _index_lines(table: str, found: IndexInspection) -> Iterator[str]:
    counted = "splits not counted"
    if found.splits is not None:
        rows = "rows not known" if found.rows is None else f"{found.rows:,} rows"
        counted = f"{found.splits:,} splits · {rows} · {size_text(found.size or 0)}"
    yield f"{table} · index · version {found.version} · {counted}"
    numbers = f"({found.protocol.reader},{found.protocol.writer})"
    features = f"supported: {_names(tuple(sorted(found.protocol.features)))}   enabled: {_names(found.in_use)}"
    yield f"protocol    {numbers}   {features}" + ("" if found.has_protocol else "   (none in the log)")
    writers = [f"{release} ({_commits(commits)})" for release, commits in found.writers]
    writers += [f"no writer named ({_commits(found.unnamed)})"] if found.unnamed else []
    yield f"written by  {', '.join(writers) or 'none: the log holds no commits'}"
    if found.resting:
        yield f"resting     {found.resting:,} splits that an operation could not use"
    if found.uncounted:
        yield f"uncounted   {found.uncounted}"


def _shape(found: Inspection | HudiInspection | IndexInspection) -> Iterator[str]:
    """The columns, the partitioning and the properties, as far as there are any."""
    told = found.to_dict()
    fields = (told["schema"] or {}).get("fields", [])
    if fields:
        named = [f"{each['name']} {_type_text(each['type'])}" for each in fields[:_COLUMNS]]
        more = [f"and {len(fields) - _COLUMNS:,} more"] if len(fields) > _COLUMNS else []
        yield f"columns     {', '.join([*named, *more])}"
    if told["partitionColumns"]:
        yield f"partitions  {', '.join(told['partitionColumns'])}"
    properties = sorted(told["properties"].items())
    for number, (name, value) in enumerate(properties[:_COLUMNS]):
        yield f"{'properties' if number == 0 else '':<11} {name}={_shortened(value)}"
    if len(properties) > _COLUMNS:
        yield f"{'':<11} and {len(properties) - _COLUMNS:,} more: --output json shows all"


def _type_text(type: Any) -> str:
    """A type of a schema in JSON, as its outermost word."""
    return str(type if isinstance(type, str) else type.get("type", "unknown"))


def _shortened(value: str) -> str:
    return value if len(value) <= _LONG else value[: _LONG - 1] + "…"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _writers(found: Inspection) -> str:
    now_ms = time.time_ns() // 1_000_000
    pieces = [
        f"{each.release} ({_commits(each.commits)}, last {age_text(now_ms - each.last_ms)})"
        for each in found.writers.observed
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
