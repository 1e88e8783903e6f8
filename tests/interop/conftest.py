"""The session of the Spark tests, for tests with other clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..spark.conftest import conf, spark  # noqa: TID252

__all__ = ["conf", "spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
