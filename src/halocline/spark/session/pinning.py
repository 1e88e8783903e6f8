"""What Spark keeps for a frame: a plan that stays as it is, or rows that are computed once.

Classic Spark keeps them as long as somebody refers to them. A Connect server keeps them under a name until it is told
otherwise. When nothing refers to them any more is found out by the garbage collector, in the middle of whatever else is
going on, so that is only noted, and the server is told on the next occasion. For rows, PySpark would tell it at once;
if that falls into another call to the server, both wait for each other for ever. It is kept from doing so here.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InternalError
from halocline.spark.session.functions import F
from halocline.spark.session.session import is_connect, remembered, unabridged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

_PATIENCE: Final = 600.0
"""Seconds. A report is there as soon as the rows are; older releases send it through a queue."""


def pinned(df: DataFrame, name: str) -> DataFrame:
    """The same rows, with the plan fixed as it is now.

    A Connect server analyses a plan each time it runs, and would look again for files that were only there to build
    it. A temporary view keeps the analysed plan.
    """
    spark = df.sparkSession
    if not is_connect(spark):
        return df
    unused = _unused_of(spark)
    df.createOrReplaceTempView(name)
    fixed = spark.table(name)
    unused.watch_view(name, fixed)
    return fixed


def computed_once(df: DataFrame) -> DataFrame:
    """The same rows, computed now and never again."""
    return _checkpointed(df, eager=True)


def computed_with_figures(df: DataFrame, figures: Sequence[Column]) -> tuple[DataFrame, tuple[Any, ...]]:
    """The same rows, computed now and never again, and aggregates of them out of the same pass.

    A Connect server does not tell what it observes while it keeps rows. There, the query for the aggregates is the
    first to need the rows, so it is the one that computes them.
    """
    from pyspark.sql import Observation

    named = [figure.alias(str(number)) for number, figure in enumerate(figures)]
    if is_connect(df.sparkSession):
        rows = _checkpointed(df, eager=False)
        with unabridged(df):
            return rows, tuple(rows.agg(*named).collect()[0])
    observation = Observation()
    rows = _checkpointed(df.observe(observation, *named), eager=True)
    found = reported(observation)
    return rows, tuple(found[str(number)] for number in range(len(named)))


def computed_and_counted(df: DataFrame) -> tuple[DataFrame, int]:
    """The same rows, computed now and never again, and their number."""
    rows, (count,) = computed_with_figures(df, [F.count(F.lit(1))])
    return rows, count


def reported(observation: Observation) -> dict[str, Any]:
    """What Spark has observed; raises if it does not say."""
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.append(observation.get), daemon=True)
    waiting.start()
    waiting.join(_PATIENCE)
    if not found:
        raise InternalError(
            "Spark does not say what it has observed of the rows that it computed; nothing was committed"
        )
    return found[0]


def _checkpointed(df: DataFrame, *, eager: bool) -> DataFrame:
    with unabridged(df):
        rows = df.localCheckpoint(eager)
    if is_connect(df.sparkSession):
        _unused_of(df.sparkSession).watch_rows(rows)
    return rows


def _unused_of(spark: SparkSession) -> _Unused:
    found: _Unused = remembered(spark, "unused", _Unused)
    found.drop(spark)
    return found


class _Unused:
    """What a Connect server keeps and nobody refers to any more.

    Frames derived from another refer to its plan, not to the frame. Where a release of PySpark has no such object to
    watch, what it keeps stays until the session ends.
    """

    def __init__(self) -> None:
        self._views: list[str] = []
        self._rows: list[tuple[Any, str]] = []

    def watch_view(self, name: str, df: DataFrame) -> None:
        """Notes the view when its plan is gone."""
        plan = getattr(df, "_plan", None)
        if plan is not None:
            weakref.finalize(plan, self._views.append, name)

    def watch_rows(self, df: DataFrame) -> None:
        """Notes the rows when their plan is gone, which then leaves the server alone."""
        plan = getattr(df, "_plan", None)
        name = getattr(plan, "_relation_id", None)
        if plan is not None and name is not None and getattr(plan, "_spark_session", None) is not None:
            plan._spark_session = None
            weakref.finalize(plan, self._rows.append, (type(plan), name))

    def drop(self, spark: SparkSession) -> None:
        """Tells the server of everything noted."""
        while self._views:
            spark.catalog.dropTempView(self._views.pop())
        while self._rows:
            plan, name = self._rows.pop()
            # A plan that is gone as soon as it is made: PySpark drops its rows.
            plan(name, spark)
