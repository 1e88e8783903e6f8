"""One Spark session for the whole run, and the same examples in every run.

`HALOCLINE_TEST_SPARK=connect` runs the same tests against a local Spark Connect server; the two kinds of session cannot
live in one process. `HALOCLINE_TEST_SEEDS=fresh` lets property tests look for new examples, as `make fuzz` does;
otherwise they try the same ones every time.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from tests.support.regressions import regression

KIND = os.environ.get("HALOCLINE_TEST_SPARK", "classic")
_NOISE = (
    "ignore:The copy keyword is deprecated",
    "ignore:.*does not yet fully support pandas:FutureWarning",
    "ignore:.*pandas.*:DeprecationWarning",
    "ignore:unclosed.*socket:ResourceWarning",
    "ignore:unclosed file:ResourceWarning",
    "ignore:subprocess .* is still running:ResourceWarning",
)
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


hypothesis.settings.register_profile("same", derandomize=True, database=None, deadline=None)
hypothesis.settings.register_profile("fresh", database=None, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HALOCLINE_TEST_SEEDS", "same"))


def pytest_configure(config: pytest.Config) -> None:
    for line in _NOISE:
        config.addinivalue_line("filterwarnings", line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    found = None if call.excinfo is None else regression(call.excinfo.value, getattr(item, "fixturenames", ()))
    if found:
        report.sections.append(("paste as a regression test", found))
    return report


@pytest.fixture(scope="session")
def is_connect() -> bool:
    return KIND == "connect"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="halocline-warehouse-") as warehouse:
        builder = SparkSession.builder.appName("halocline-tests")
        for key, value in {**_SETTINGS, "spark.sql.warehouse.dir": warehouse}.items():
            builder = builder.config(key, value)
        builder = _with_server_of_its_own(builder) if KIND == "connect" else builder.master("local[2]")
        with warnings.catch_warnings():
            # A Connect client sets everything twice: for the server it starts, and once more on the running session.
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
            session = builder.getOrCreate()
        yield session
        session.stop()


def _with_server_of_its_own(builder: Any) -> Any:
    """Give the Connect server of each process of a run a port of its own: PySpark knows one for all of them."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    return builder.config("spark.connect.grpc.binding.port", str(port)).remote("local[2]")


@pytest.fixture
def conf(spark: Any) -> Iterator[Any]:
    """Sets settings of the session until the test ends."""
    before: dict[str, str | None] = {}

    def set_(key: str, value: str) -> None:
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield set_
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
