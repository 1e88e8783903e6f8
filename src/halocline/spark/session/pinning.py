"""What Spark keeps for a frame: a plan that stays as it is, or rows that are computed once.

Classic Spark keeps them as long as somebody refers to them. A Connect server keeps them under a name until it is told
otherwise. When nothing refers to them any more is found out by the garbage collector, in the middle of whatever else is
going on, so that is only noted, and the server is told on the next occasion. For rows, PySpark would tell it at once;
if that falls into another call to the server, both wait for each other for ever. It is kept from doing so here.

Rows that are computed once lie on the executors. With one that is lost its rows are, and Spark does not compute them
again: that may give other ones. Only the whole verb can be done again, from the rows that it was given, and
`outliving_executors` does that. If the session has a folder for checkpoints (set by its Spark context, or by the
setting `spark.checkpoint.dir`), later tries keep their rows there, where no executor is needed to read them. Spark
deletes such rows with its context cleaner, or not at all: `spark.cleaner.referenceTracking.cleanCheckpoints`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from halocline.errors import InternalError
from halocline.spark.session.functions import F
from halocline.spark.session.session import is_connect, remembered, setting, unabridged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

R = TypeVar("R")

_PATIENCE: Final = 600.0
"""Seconds. A report is there as soon as the rows are; older releases send it through a queue."""


_ROWS_LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""How Spark says that rows which it was to keep are on no executor any more."""

_MOST_TRIES: Final = 5
_tries: Final[ContextVar[int]] = ContextVar("halocline_tries", default=0)


def outliving_executors(do: Callable[[], R]) -> R:
    """Do something again, a few times, where rows were lost that were computed once; within another, as part of it.

    What is done must leave nothing behind when it fails, as verbs do.
    """
    if _tries.get():
        return do()
    number = 0
    while True:
        number += 1
        token = _tries.set(number)
        try:
            return do()
        except Exception as error:  # Spark's classes differ between classic sessions and Connect
            if number == _MOST_TRIES or _ROWS_LOST not in str(error):
                raise
        finally:
            _tries.reset(token)


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
    first to need the rows, so it is the one that computes them. Rows in a folder for checkpoints are asked as well.
    """
    from pyspark.sql import Observation

    named = [figure.alias(str(number)) for number, figure in enumerate(figures)]
    reliable = _is_reliable(df.sparkSession)
    if is_connect(df.sparkSession) or reliable:
        # Rows for a folder would be computed once more if a query came first.
        rows = _checkpointed(df, eager=reliable)
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
        rows = df.checkpoint(eager) if _is_reliable(df.sparkSession) else df.localCheckpoint(eager)
    if is_connect(df.sparkSession):
        _unused_of(df.sparkSession).watch_rows(rows)
    return rows


def _is_reliable(spark: SparkSession) -> bool:
    """Whether rows are kept where no executor is needed: after some were lost, if there is a folder for that."""
    if _tries.get() < 2:
        return False
    if is_connect(spark):
        return bool(setting(spark, "spark.checkpoint.dir", ""))
    return spark.sparkContext.getCheckpointDir() is not None


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
