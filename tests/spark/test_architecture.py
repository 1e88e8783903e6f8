"""The walks of rows through the code in docs/architecture.md are the walks that the code takes."""

from __future__ import annotations

import pytest
from tests.support.call_trace import CallTrace, steps_in

from halocline.table import Table


@pytest.fixture
def path(spark, tmp_path):
    Table.create(tmp_path / "orders", spark.range(10).selectExpr("id", "id % 3 AS p"), spark, partition_by="p")
    return tmp_path / "orders"


def test_a_read_goes_step_by_step_and_no_step_twice(spark, path):
    steps = steps_in("A read")
    with CallTrace() as trace:
        Table.for_path(path, spark).to_df(where="id < 5")
    assert trace.of(steps) == steps


def test_an_append_goes_step_by_step_and_no_step_twice(spark, path):
    table, more = Table.for_path(path, spark), spark.range(10).selectExpr("id", "id % 3 AS p")
    table.detail()  # takes the version that was opened to find the table
    steps = steps_in("An append")
    with CallTrace() as trace:
        table.append(more)
    assert trace.of(steps) == steps
