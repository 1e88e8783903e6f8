"""`%%halocline` in notebooks: a cell of SQL on a lake.

    %load_ext halocline

    %%halocline lake
    SELECT country, count(*) FROM orders GROUP BY country

The first line names the lake: a path, a `lake.toml`, or a variable that holds a lake. Without a name, tables are named
by their paths, as in ``delta.`lake/orders` ``. The DataFrame comes back, as the value of the cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halocline.errors import InputError, needs_extra
from halocline.lake.lake import Lake
from halocline.statements.runner import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load_ipython_extension(shell: Any) -> None:
    """Makes the cell magic known to a notebook."""

    def halocline(line: str, cell: str) -> DataFrame:
        """Runs a cell of SQL on the lake that the first line names."""
        return run_cell(shell, line.strip(), cell)

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
