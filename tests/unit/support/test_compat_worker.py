"""What a worker answers when the process behind it ends."""

import sys

import pytest
from tests.compat.environments import Worker

DIES = [sys.executable, "-c", "input()"]


@pytest.mark.parametrize(("serves", "outcome"), [(False, "error"), (True, "silent")])
def test_a_library_that_crashes_refuses_and_a_server_that_is_gone_says_nothing(serves, outcome):
    worker = Worker(DIES, serves=serves)
    assert worker.do({"operation": "read"}) == {"outcome": outcome, "note": "the process died"}
    assert worker.do({"operation": "read"})["outcome"] == outcome, "the next job starts another process"
