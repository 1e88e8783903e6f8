"""`%%halocline` in notebooks: a cell of SQL on a lake.

    %load_ext halocline

    %%halocline lake
    SELECT country, count(*) FROM orders GROUP BY country

The first line names the lake: a path, a `lake.toml`, or a variable that holds a lake. Without a name, tables are named
by their paths, as in ``delta.`lake/orders` ``. The first rows are shown, and the DataFrame comes back as the value of
the cell; a DataFrame does its work again each time that its rows are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, needs_extra
from halocline.html import html_table
from halocline.lake.lake import Lake
from halocline.statements.runner import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_SHOWN: Final = 20


def load_ipython_extension(shell: Any) -> None:
    """Makes the cell magic known to a notebook."""

    def halocline(line: str, cell: str) -> DataFrame:
        """Runs a cell of SQL on the lake that the first line names."""
        told = run_cell(shell, line.strip(), cell)
        if told.columns:
            shell.display_pub.publish(first_rows(told))
        return told

    shell.register_magic_function(halocline, "cell")


def run_cell(shell: Any, name: str, cell: str) -> DataFrame:
    """Runs a cell of SQL.

    Raises:
        InputError: The variable that is named holds no lake.
    """
    known = shell.user_ns.get(name) if name.isidentifier() else None
    if isinstance(known, Lake):
        return known.sql(cell)
    if known is not None:
        raise InputError(f"{name} is not a lake", sides={"given": type(known).__name__, "needed": "Lake"})
    session = _session(shell)
    return Lake.open(name, session).sql(cell) if name else sql(session, cell)


def first_rows(told: DataFrame) -> dict[str, str]:
    """The first rows as a notebook displays them: a table as text, and one of HTML."""
    # Columns of a query may have the same name.
    names = [
        f"{name} ({told.columns[:at].count(name) + 1})" if name in told.columns[:at] else name
        for at, name in enumerate(told.columns)
    ]
    found = told.limit(_MOST_SHOWN + 1).collect()
    rows = [["NULL" if value is None else str(value) for value in row] for row in found[:_MOST_SHOWN]]
    more = len(found) > _MOST_SHOWN
    note = f"only the first {_MOST_SHOWN} rows" if more else f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in [names, *rows]]
    html = html_table([dict(zip(names, row, strict=True)) for row in rows], note)
    return {"text/plain": "\n".join([*lines, f"({note})"]), "text/html": html}


def _session(shell: Any) -> SparkSession:
    """The notebook's own `spark`, or the one that is active."""
    if (own := shell.user_ns.get("spark")) is not None:
        return own  # type: ignore[no-any-return]
    with needs_extra("Spark", "spark"):
        from pyspark.sql import SparkSession
    active = SparkSession.getActiveSession()
    if active is None:
        raise InputError("there is no Spark session", next_step="spark = SparkSession.builder.getOrCreate()")
    return active
