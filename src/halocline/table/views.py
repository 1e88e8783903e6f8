"""Views that follow a table.

A DataFrame is made of the files of one version, and so is a view of it: rows that come later are not in it. A view that
*follows* goes through the data source instead, which looks for the newest version when a query runs. One Python worker
reads it, so it is much slower than `Table.to_df` or SQL by `Lake.sql`; but it is never out of date.

The data source stands above tables, so the package makes it known here (`register_source`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, InternalError
from halocline.spark.session.analysis import filtered
from halocline.spark.session.worker_python import check_worker_python, what_to_set
from halocline.spark.types.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from halocline.table.opening import Opening

_NAME: Final = re.compile(r"`(?:[^`]|``)+`|[^`.]+")
_known_to: list[Callable[[SparkSession], None]] = []


def register_source(make_known: Callable[[SparkSession], None]) -> None:
    """Says how the data source is made known to a session."""
    _known_to[:] = [make_known]


def follow(table: Opening[Any], name: str, where: str | Column | None = None) -> None:
    """Makes the rows that the table has at every query known to SQL as a temporary view.

    Raises:
        InputError: The table lies in this process alone, where Spark's workers do not find it; or they do not find
            Halocline.
    """
    if table.url.startswith("memory:"):
        raise InputError(
            f"a view cannot follow {table.url}, which only this process knows",
            sides={"table": "in memory", "needed": "a place that Spark's workers reach"},
            next_step=f"Name the version: register_view({name!r}, version=…)",
        )
    if not _known_to:
        raise InternalError("the data source was never made known to tables")
    _known_to[0](table.spark)
    zone = {"timeZone": table.zone}  # of partition values without one, which the source cannot ask the session for
    options = {**table.settings.given(), **table.store.options, **zone, "follow": "true"}
    try:
        df = table.spark.read.format("halocline").options(**options).load(table.store.address())
    except Exception as error:  # Spark's classes differ between classic sessions and Connect
        if (other := check_worker_python(table.spark)) is None:
            raise
        raise InputError(
            "a view that follows its table is read by Spark's Python workers, which do not find Halocline",
            sides={"workers run": other, "this is": sys.executable},
            next_step=what_to_set(),
        ) from error
    named(df if where is None else filtered(df, where), name)


def named(df: DataFrame, name: str) -> None:
    """Makes rows known as a temporary view of any name, given bare or in backticks.

    Raises:
        InputError: The name has several parts, or none.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"a view cannot be called {name!r}: the name of a temporary view has one part",
            sides={"given": name, "possible": "orders, or `v1.2` in backticks"},
            next_step="Choose a name without dots, or put it in backticks.",
        )
    df.createOrReplaceTempView(name if name.startswith("`") else quoted(name))
