"""`halocline search`: rows of an index table that a query finds, in the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from halocline.cli.inspect import TableArgument
from halocline.cli.output import OutputFormat, OutputOption, columns, emit

if TYPE_CHECKING:
    from halocline.formats.index.query.bound import BoundQuery
    from halocline.formats.index.search import FoundRows

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
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show the rows of an index table that a query finds, and how many there are."""
    # Imported here: every command loads this module, and most search nothing.
    from halocline.formats.index.search import Search, search_table
    from halocline.formats.index.snapshot import IndexSnapshot
    from halocline.storage import open_store

    snapshot = IndexSnapshot.load(open_store(table), version=version)
    search = Search.of(snapshot, query, _names(within))
    found = search_table(snapshot, search, columns=_names(columns_shown), limit=limit)
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
    emit(output, result, _table(found, rows, list(_terms(search.query))), *_notes(found, len(rows)))


def _names(text: str) -> list[str] | None:
    return [each.strip() for each in text.split(",") if each.strip()] or None


def _table(found: FoundRows, rows: list[dict[str, Any]], terms: list[str]) -> Table:
    shown = columns(*found.rows.column_names)
    pattern = (
        re.compile("|".join(map(re.escape, sorted(terms, key=len, reverse=True))), re.IGNORECASE) if terms else None
    )
    for row in rows:
        cells = [Text("" if value is None else str(value)) for value in row.values()]
        if pattern is not None:
            for cell in cells:
                cell.highlight_regex(pattern, _HIT)
        shown.add_row(*cells)
    return shown


def _notes(found: FoundRows, shown: int) -> Iterator[str]:
    splits = f"{found.searched} splits searched, {found.left_aside} left aside"
    yield f"{found.total:,} rows found, {shown:,} shown · {splits}"
    if found.scanned:
        yield f"answered from the rows, not by the index: {', '.join(found.scanned)}"
    for path, problem in found.damaged.items():
        yield f"damaged, answered from its rows: {path}: {problem}"


def _terms(query: BoundQuery) -> Iterator[str]:
    """The words that make a row fit, to be marked in it."""
    from halocline.formats.index.query.bound import Among, Both, Either, InRow, Near

    match query:
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _terms(part)
        case InRow(words=words):
            yield from words
        case Near(word=word):
            yield word
        case Among(values=values):
            yield from (each for each in values if isinstance(each, str) and each)
