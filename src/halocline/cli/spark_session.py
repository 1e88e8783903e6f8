"""The Spark session of a command that works on rows."""

from __future__ import annotations

import os
import sys
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
    made: SparkSession = builder.getOrCreate()
    return made
