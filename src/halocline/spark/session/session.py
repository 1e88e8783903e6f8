"""The Spark session a table is used with.

A session is *classic*, with the driver in this process, or *Connect*, with a server that may be on another machine and
that analyses every plan anew each time it runs. Both are used through PySpark's public interface; nothing here reaches
into the JVM.

What is worked out once per session, such as whether Spark has a file system for a URL, is remembered for as long as
the session object lives.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from halocline.errors import InputError, UnsupportedError
from halocline.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

OLDEST: Final = Version.parse("4.0.0")
"""The oldest Spark release that everything here works on."""

_FEW_COLUMNS: Final = 200
_CONNECT: Final = "pyspark.sql.connect."
_NAMES_ARE_PATTERNS: Final = "spark.sql.parser.quotedRegexColumnNames"
_DESCRIPTION: Final = "spark.job.description"
_remembered: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_lock = threading.RLock()


def check_session(spark: SparkSession) -> None:
    """Makes sure, once, that the session's Spark is new enough for everything here."""
    remembered(spark, "release", lambda: _check_release(spark.version))


def check_running(spark: SparkSession) -> None:
    """Makes sure that the session has not been stopped: Spark speaks of missing attributes and JVM objects then."""
    try:
        # What a classic session asks of its context fails when that has been stopped, in Python or in the JVM.
        stopped = (
            getattr(spark, "is_stopped", False) if is_connect(spark) else not spark.sparkContext.defaultParallelism
        )
    except Exception:
        stopped = True
    if stopped:
        raise InputError(
            "the Spark session has been stopped",
            condition="SESSION_STOPPED",
            sides={"session": "stopped"},
            next_step="Make another, SparkSession.builder.getOrCreate(), and open the table with it.",
        )


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a Spark Connect server."""
    return type(spark).__module__.startswith(_CONNECT)


def setting(spark: SparkSession, key: str, default: str) -> str:
    """A setting of the session, or the default where it is not set."""
    value = spark.conf.get(key, default)
    return default if value is None else value


@contextlib.contextmanager
def settings(spark: SparkSession, changes: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of the session for a while, and puts back what was there.

    Only settings that differ are touched. Settings belong to the session: other threads that use the same one see the
    change, and if several want it at once, the last to leave puts the old value back.
    """
    held: dict[str, _Held] = remembered(spark, "settings", dict)
    try:
        with _lock:
            for key, value in changes.items():
                held.setdefault(key, _Held(spark.conf.get(key, None))).users += 1
                if spark.conf.get(key, None) != value:
                    spark.conf.set(key, value)
        yield
    finally:
        with _lock:
            for key in changes:
                if key in held:
                    _leave(spark, key, held)


def our_sql(spark: SparkSession | None) -> contextlib.AbstractContextManager[None]:
    """Has Spark read SQL as it is meant in a verb for a while: a name between backticks is a name.

    A session may be set to take it for a regular expression over names, which nothing that a verb is given means. The
    limit: a DataFrame of Spark Connect is read when it runs, and so by what the session is set to then.
    """
    try:
        are_patterns = spark is not None and setting(spark, _NAMES_ARE_PATTERNS, "false").lower() == "true"
    except Exception:  # a session that has been stopped, which not every verb needs: `check_running` is for those
        are_patterns = False
    if spark is None or not are_patterns:
        return contextlib.nullcontext()
    return settings(spark, {_NAMES_ARE_PATTERNS: "false"})


@dataclass(slots=True)
class _Held:
    """A setting that is changed for a while."""

    before: str | None
    users: int = 0


def _leave(spark: SparkSession, key: str, held: dict[str, _Held]) -> None:
    held[key].users -= 1
    if held[key].users > 0:
        return
    before = held.pop(key).before
    if before is None:
        spark.conf.unset(key)
    elif spark.conf.get(key, None) != before:
        spark.conf.set(key, before)


def unabridged(df: DataFrame) -> contextlib.AbstractContextManager[None]:
    """Has Spark print plans over the columns of a DataFrame in full for a while.

    Spark prints a plan when it runs it, and warns once that it left columns out if there are more than 25, which the
    hidden ones of a change easily are. Plans over very many columns are left to it.
    """
    few = len(df.columns) <= _FEW_COLUMNS
    return settings(df.sparkSession, {"spark.sql.debug.maxToStringFields": str(20 * _FEW_COLUMNS)} if few else {})


@contextlib.contextmanager
def tagged(spark: SparkSession, tag: str, description: str = "") -> Iterator[None]:
    """Marks the Spark jobs of this thread, so that people find them and `spark.interruptTag` can end them.

    A classic session also shows the description next to each job; a Connect client has no such thing.
    """
    with contextlib.ExitStack() as stack:
        if tag not in spark.getTags():
            spark.addTag(tag)
            stack.callback(spark.removeTag, tag)
        if description and not is_connect(spark):
            context = spark.sparkContext
            before: Any = context.getLocalProperty(_DESCRIPTION)  # None takes it away again
            stack.callback(context.setLocalProperty, _DESCRIPTION, before)
            context.setLocalProperty(_DESCRIPTION, description)
        yield


def remembered(spark: SparkSession, key: str, find: Callable[[], T]) -> T:
    """What `find` returned the first time it was asked for this session."""
    with _lock:
        known = _remembered.setdefault(spark, {})
    if key not in known:
        known[key] = find()
    return known[key]  # type: ignore[no-any-return]


def forget(spark: SparkSession) -> None:
    """Drops what is remembered of a session."""
    with _lock:
        _remembered.pop(spark, None)


def _check_release(release: str) -> str:
    if Version.parse(release) < OLDEST:
        raise UnsupportedError(
            f"Spark {release} is too old",
            condition="SPARK_TOO_OLD",
            sides={"session": f"Spark {release}", "needed": f"Spark {OLDEST} or later"},
            next_step="pip install 'pyspark>=4.0', or connect to a newer server.",
        )
    return release
