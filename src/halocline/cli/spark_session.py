"""The Spark session of a command that works on rows."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import needs_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET: Final = {
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(name: str) -> SparkSession:
    """The session that is configured, or else a quiet one of this machine; its jobs carry the name.

    `spark-submit`, `PYSPARK_SUBMIT_ARGS`, `SPARK_REMOTE` and a `spark-defaults.conf` say where Spark is, as they do for
    every program; `HALOCLINE_SPARK_MASTER` is for those who have none of them.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with needs_extra("Spark", "spark"):
        from pyspark.sql import SparkSession
    builder: Any = SparkSession.builder.appName(name)
    if master := os.environ.get("HALOCLINE_SPARK_MASTER"):
        builder = builder.master(master)
    for key, value in _QUIET.items():
        builder = builder.config(key, value)
    return _started(builder.getOrCreate)


def _started(start: Callable[[], SparkSession]) -> SparkSession:
    """Starts a session in another thread, so that Ctrl-C finds this one waiting, and not in the middle of a call.

    PySpark takes Ctrl-C for itself where it is started by the main thread, and asks Java to cancel jobs while it may
    still be starting: both sides then show their stacks.
    """
    outcome: Future[SparkSession] = Future()

    def run() -> None:
        try:
            outcome.set_result(start())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="halocline-spark", daemon=True).start()
    try:
        made = outcome.result()
    except KeyboardInterrupt:
        logging.disable()  # py4j tells the stack of the call that Java does not answer any more
        _end_java()
        raise
    java: Any = getattr(made, "_jvm", None)
    if (
        java is not None
    ):  # Java has one of its threads for each of ours, and the one that starts a session has it active
        java.SparkSession.setActiveSession(made._jsparkSession)
    return made


def _end_java() -> None:
    """Ends a Java that is just starting; told to end by itself, it would complain of what it had begun."""
    from pyspark import SparkContext

    process = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
    if process is not None:
        process.kill()


@contextlib.contextmanager
def stoppable(spark: SparkSession | None, heard_of: Callable[[], None] | None = None) -> Iterator[None]:
    """Ctrl-C ends what Spark is at, and the block as `KeyboardInterrupt`; the session can go on.

    Whoever is to hear of each Ctrl-C at once is called before anything is ended.

    PySpark's own answer to Ctrl-C asks Spark to cancel over the connection on which the answer to a call is waited for,
    which breaks it. Here another thread asks, again and again, since one job of several may be just about to begin. A
    second Ctrl-C waits for nothing.
    """
    if threading.current_thread() is not threading.main_thread():  # signals reach no other
        yield
        return
    over = threading.Event()

    def cancel() -> None:
        while spark is not None and not over.wait(0.2):
            with contextlib.suppress(Exception):  # the session itself may be going
                spark.interruptAll()

    cancelling = threading.Thread(target=cancel, daemon=True)

    def heard(_: int, frame: FrameType | None) -> None:
        if heard_of is not None:
            heard_of()
        first = not cancelling.ident
        if first:
            cancelling.start()
        if not (first and _waits_for_java(frame)):
            logging.disable()  # py4j tells the stack of a call that is left
            raise KeyboardInterrupt

    before, silent = signal.signal(signal.SIGINT, heard), logging.root.manager.disable
    try:
        yield
    except Exception:
        if cancelling.ident:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        over.set()
        if cancelling.ident:
            cancelling.join(10)
        logging.disable(silent)


def _waits_for_java(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] != "py4j":
        frame = frame.f_back
    return frame is not None
