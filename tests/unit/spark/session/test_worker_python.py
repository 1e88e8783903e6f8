"""A Python that lacks Halocline is seen before Spark's workers fail with it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from halocline.spark.session.worker_python import WorkerPythonWarning, check_worker_python


def session(**settings: str):
    """What is asked of a session."""
    conf = SimpleNamespace(get=lambda key, default: settings.get(key.replace(".", "_"), default))
    return type("SparkSession", (), {"__module__": "pyspark.sql.session", "conf": conf})()


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Another Python, first on the path; it finds us if told so."""

    def made(finds_us: bool) -> str:
        python = tmp_path / "python3"
        python.write_text(f"#!/bin/sh\nexit {0 if finds_us else 1}\n")
        python.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
        return str(python)

    return made


def test_other_python_is_warned_of_with_what_to_set(other):
    python = other(finds_us=False)
    with pytest.warns(WorkerPythonWarning, match=f"PYSPARK_PYTHON={sys.executable}") as warned:
        check_worker_python(session())
    assert python in str(warned[0].message)


def test_other_python_that_finds_us_will_do(other):
    other(finds_us=True)
    check_worker_python(session())


def test_what_is_set_counts_before_the_path(other, monkeypatch):
    other(finds_us=False)
    check_worker_python(session(spark_pyspark_python=sys.executable))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    check_worker_python(session())


def test_workers_elsewhere_are_not_asked(other):
    other(finds_us=False)
    check_worker_python(session(spark_master="yarn"))
