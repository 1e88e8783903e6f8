"""A Python that lacks Halocline is seen before Spark's workers fail with it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from halocline.errors import UnsupportedError
from halocline.spark.session.worker_python import check_worker_python


def session(**settings: str):
    """What is asked of a session."""
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: settings.get(key.replace(".", "_"), default)))


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


def test_other_python_is_refused_with_what_to_set(other):
    python = other(finds_us=False)
    with pytest.raises(UnsupportedError) as refused:
        check_worker_python(session())
    assert refused.value.sides["workers"] == python
    assert f"PYSPARK_PYTHON={sys.executable}" in refused.value.next_step


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
