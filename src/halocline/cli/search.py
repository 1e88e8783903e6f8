"""`halocline search`: rows of an index table that a query finds, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from halocline.cli.inspect import TableArgument
from halocline.cli.output import OutputFormat, OutputOption, columns, emit

if TYPE_CHECKING:
    from halocline.formats.index.search import FoundRows, Search

_HIT = "bold black on yellow"


def show(
    table: TableArgument,
    query: Annotated[
        str, typer.Argument(help="What to look for, e.g. 'timeout AND level:ERROR' or '\"reset by peer\"'.")
    ],
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many rows to show.")] = 20,
    columns_shown: Annotated[str, typer.Option("--columns", help="The columns to show, with commas; else all.")] = "",
    within: Annotated[
        str, typer.Option("--in", help="The columns for words that name none, with commas; else all.")
    ] = "",
    version: Annotated[int | None, typer.Option("--version", help="The version; else the newest.")] = None,
    score: Annotated[bool, typer.Option("--score", help="The most relevant rows first, with their scores.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show the rows of an index table that a query finds, and how many there are."""
    # Imported here: every command loads this module, and most search nothing.
    from halocline.formats.index.relevance.best import search_best
    from halocline.formats.index.search import Search, search_table
    from halocline.table.index.table import IndexTable

    snapshot = IndexTable.for_path(table).opened.to_read(version=version)
    search = Search.of(snapshot, query, _names(within))
    chosen = _names(columns_shown)
    found = (search_best if score else search_table)(snapshot, search, columns=chosen, limit=limit)
    rows = found.rows.to_pylist()
    result = {
        "table": snapshot.store.root,
        "version": snapshot.version,
        "query": query,
        "found": found.total,
        "shown": len(rows),
        "splits": {"searched": found.searched, "leftAside": found.left_aside},
        "scanned": list(found.scanned),
        "damaged": dict(found.damaged),
        "rows": rows,
    }
    if found.scores is not None:
        result["scores"] = found.scores.tolist()
    emit(output, result, _table(found, rows, search), *_notes(found, len(rows)))


def _names(text: str) -> list[str] | None:
    return [each.strip() for each in text.split(",") if each.strip()] or None


def _table(found: FoundRows, rows: list[dict[str, Any]], search: Search) -> Table:
    from halocline.formats.index.relevance.snippets import Highlighter

    names = found.rows.column_names
    shown = columns(*names) if found.scores is None else columns("score", *names)
    finders = {name: Highlighter(search, name) for name in names}
    for number, row in enumerate(rows):
        cells = [Text("" if value is None else str(value)) for value in row.values()]
        for name, cell in zip(names, cells, strict=True):
            for start, end in finders[name].marks(cell.plain):
                cell.stylize(_HIT, start, end)
        scores = [] if found.scores is None else [Text(f"{found.scores[number]:.3f}")]
        shown.add_row(*scores, *cells)
    return shown


def _notes(found: FoundRows, shown: int) -> Iterator[str]:
    splits = f"{found.searched} splits searched, {found.left_aside} left aside"
    yield f"{found.total:,} rows found, {shown:,} shown · {splits}"
    if found.scanned:
        yield f"answered from the rows, not by the index: {', '.join(found.scanned)}"
    for path, problem in found.damaged.items():
        yield f"damaged, answered from its rows: {path}: {problem}"
