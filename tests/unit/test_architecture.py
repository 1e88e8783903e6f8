"""The walks through the code in docs/architecture.md that need no rows are the walks that the code takes."""

from __future__ import annotations

from tests.support.call_trace import CallTrace, code_of, steps_in
from tests.support.fleets import SWITCH, make_table, running

from halocline.fleet.member.connect import connect
from halocline.table import Table


def test_a_feature_is_switched_on_step_by_step_and_no_step_twice(tmp_path):
    table = Table.for_path(make_table(tmp_path / "orders"))
    table.detail()  # takes the version that was opened to find the table
    steps = steps_in("A feature is switched on")
    with CallTrace() as trace:
        table.set_properties(SWITCH)
    assert trace.of(steps) == steps


def test_a_member_joins_step_by_step_and_no_step_twice():
    steps = steps_in("A member joins")
    # Threads are followed from their beginning, so the coordinator's begins within the trace as well.
    with CallTrace() as trace, running() as (hosting, _):
        connect(hosting.address, name="etl").close()
    assert trace.of(steps) == steps


def test_every_step_of_every_walk_is_a_function():
    walks = ["A read", "An append", "A feature is switched on", "A member joins"]
    assert all(code_of(step) for walk in walks for step in steps_in(walk))
