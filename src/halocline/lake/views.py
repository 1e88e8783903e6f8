"""The tables of a lake as temporary views of Spark's own SQL."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from halocline.errors import HaloclineError, InputError
from halocline.lake.names import parts_of
from halocline.spark.session.worker_python import check_worker_python
from halocline.spark.types.columns import quoted
from halocline.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.lake.lake import Lake

_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def views_of(lake: Lake, spark: SparkSession, names: Sequence[str] | None) -> dict[str, str]:
    """Makes views of tables, of all if none are named; see `Lake.register_views`."""
    views: dict[str, str] = {}
    for name in lake.names if names is None else names:
        entry = lake.entry(name)
        view = _view(entry.name)
        if view.casefold() in {each.casefold() for each in views.values()}:
            alike = (each for each in (*views, entry.name) if _view(each).casefold() == view.casefold())
            raise InputError(
                f"two tables would have the view {view}",
                sides={"tables": ", ".join(alike)},
                next_step="Register one of them by itself: lake.table(name).register_view(…)",
            )
        try:
            found = Table.for_path(entry.url, spark, options=lake.options, release=lake.release)
            found.register_view(view)
        except HaloclineError as error:
            # What workers lack, they lack for every table.
            if names is not None or check_worker_python(spark) is not None:
                raise
            warnings.warn(f"{entry.name} has no view: {error.condition}: {error.message}", stacklevel=4)
            continue
        views[entry.name] = view
    return views


def _view(name: str) -> str:
    """The name of a table's view, as SQL has it."""
    view = "_".join(parts_of(name))
    return view if _BARE.fullmatch(view) else quoted(view)
