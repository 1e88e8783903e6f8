"""The Python that Spark starts its workers with, which must have Halocline installed.

Spark takes `PYSPARK_PYTHON`, then the setting `spark.pyspark.python`, then whatever `python3` is on the path. In a
virtual environment that is not activated, that is another Python, and everything that workers do fails inside Java. It
is seen here before that, when a session is first handed over: where the path leads elsewhere, that Python is asked,
once, whether it finds Halocline.

The limit: a Python on other machines, or behind Spark Connect, is not asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, Final

from halocline.spark.session.session import remembered, setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 60.0
_CLASSIC: Final = "pyspark.sql.session"


class WorkerPythonWarning(UserWarning):
    """Spark's Python workers will not find Halocline, so that what they do for it fails inside Java."""


def check_worker_python(spark: SparkSession) -> str | None:
    """The Python of workers on this machine if it will not find Halocline, of which it warns once for a session."""
    return remembered(spark, "worker python", lambda: _warned_of(spark))


def what_to_set() -> str:
    """What lets Spark's workers find Halocline."""
    return f"Set PYSPARK_PYTHON={sys.executable} before the session is made, or activate the environment."


def _warned_of(spark: SparkSession) -> str | None:
    if type(spark).__module__ != _CLASSIC or not setting(spark, "spark.master", "local").startswith("local"):
        return None
    named = os.environ.get("PYSPARK_PYTHON") or setting(spark, "spark.pyspark.python", "") or "python3"
    found = shutil.which(named)
    if found is not None and (_is_this(found) or _finds_us(found)):
        return None
    warnings.warn(
        f"Spark's Python workers run {found or named}, which does not find Halocline: what they do for it, such as "
        f'format("halocline"), fails inside Java. {what_to_set()}',
        WorkerPythonWarning,
        stacklevel=4,
    )
    return found or named


def _is_this(python: str) -> bool:
    """Whether it is the Python of this process, or another link to it in the same environment."""
    return os.path.dirname(os.path.abspath(python)) == os.path.dirname(os.path.abspath(sys.executable))


@cache
def _finds_us(python: str) -> bool:
    try:
        asked = subprocess.run(
            [python, "-c", "import importlib.util as u; raise SystemExit(u.find_spec('halocline') is None)"],
            capture_output=True,
            check=False,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
