"""What Spark keeps for a frame: a plan that stays as it is, or rows that are computed once.

Classic Spark keeps them as long as somebody refers to them. A Connect server keeps them under a name until it is told
otherwise. When nothing refers to them any more is found out by the garbage collector, in the middle of whatever else is
going on, so that is only noted, and the server is told on the next occasion. For rows, PySpark would tell it at once;
if that falls into another call to the server, both wait for each other for ever. It is kept from doing so here.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from halocline.spark.session.session import is_connect, remembered, unabridged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    with unabridged(df):
        rows = df.localCheckpoint(True)
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
