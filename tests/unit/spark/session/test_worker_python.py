"""A Python that lacks Halocline is seen before Spark's workers fail with it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

import halocline as hc
from halocline.errors import InputError
from halocline.spark.session.settings import Settings
from halocline.spark.session.worker_python import WorkerPythonWarning, check_worker_python
from halocline.storage import open_store
from halocline.table import views


def session(**settings: str):
    """What is asked of a session."""
    conf = SimpleNamespace(get=lambda key, default=None: settings.get(key.replace(".", "_"), default), getAll={})

    def fails(*_: object) -> None:
        raise RuntimeError("[DATA_SOURCE_NOT_FOUND] and a page of Java")

    source = SimpleNamespace(options=lambda **_: SimpleNamespace(load=fails))
    parts = {"conf": conf, "read": SimpleNamespace(format=lambda _: source)}
    return type("SparkSession", (), {"__module__": "pyspark.sql.session", **parts})()


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
    python, spark = other(finds_us=False), session()
    with pytest.warns(WorkerPythonWarning, match=f"PYSPARK_PYTHON={sys.executable}") as warned:
        assert check_worker_python(spark) == python
    assert python in str(warned[0].message)
    assert check_worker_python(spark) == python, "a second warning would be an error here"


def test_it_is_warned_of_where_a_table_is_opened_with_the_session(other, tmp_path):
    other(finds_us=False)
    hc.Table.create(tmp_path / "t", pa.table({"id": [1]}))
    with pytest.warns(WorkerPythonWarning, match="PYSPARK_PYTHON"):
        hc.Table.for_path(tmp_path / "t", session())


def test_a_view_that_follows_is_refused_with_what_to_set(other, tmp_path, monkeypatch):
    monkeypatch.setattr(views, "_known_to", [lambda _: None])
    python, spark = other(finds_us=False), session()
    opening = SimpleNamespace(
        url=str(tmp_path), spark=spark, settings=Settings(), store=open_store(str(tmp_path / "t")), zone="UTC"
    )
    with pytest.warns(WorkerPythonWarning), pytest.raises(InputError, match="workers") as refused:
        views.follow(opening, "t")
    assert refused.value.sides["workers run"] == python
    assert f"PYSPARK_PYTHON={sys.executable}" in refused.value.next_step


def test_views_of_a_lake_are_refused_once_and_not_table_by_table(other, tmp_path, monkeypatch):
    other(finds_us=False)
    spark = session()
    monkeypatch.setattr(views, "_known_to", [lambda _: None])
    for name in ("a", "b"):
        hc.Table.create(tmp_path / name, pa.table({"id": [1]}))
    spark.sparkContext = SimpleNamespace(defaultParallelism=1)
    with pytest.warns(WorkerPythonWarning):
        lake = hc.Lake.discover(tmp_path, spark)
    with pytest.raises(InputError, match="do not find Halocline"):
        lake.register_views()  # a warning for a table would be an error here


def test_other_python_that_finds_us_will_do(other):
    other(finds_us=True)
    assert check_worker_python(session()) is None


def test_what_is_set_counts_before_the_path(other, monkeypatch):
    other(finds_us=False)
    check_worker_python(session(spark_pyspark_python=sys.executable))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    check_worker_python(session())


def test_workers_elsewhere_are_not_asked(other):
    other(finds_us=False)
    check_worker_python(session(spark_master="yarn"))
