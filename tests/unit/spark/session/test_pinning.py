"""What is done again where executors are lost with rows that were computed once, and what is not."""

from __future__ import annotations

import pytest

from halocline.spark.session.pinning import outliving_executors

LOST = "Job aborted: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_7_0 not found!"


class Verb:
    """Fails so many times, and counts how often it is done."""

    def __init__(self, failures, message=LOST):
        self.failures, self.message, self.done = failures, message, 0

    def __call__(self):
        self.done += 1
        if self.done <= self.failures:
            raise RuntimeError(self.message)
        return "done"


def test_rows_that_are_lost_are_computed_again_with_all_that_came_of_them():
    verb = Verb(3)
    assert outliving_executors(verb) == "done"
    assert verb.done == 4


def test_rows_that_are_always_lost_end_in_the_error():
    verb = Verb(100)
    with pytest.raises(RuntimeError, match="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"):
        outliving_executors(verb)
    assert 1 < verb.done < 10


def test_nothing_else_is_done_again():
    verb = Verb(1, "[DIVIDE_BY_ZERO] Division by zero")
    with pytest.raises(RuntimeError, match="DIVIDE_BY_ZERO"):
        outliving_executors(verb)
    assert verb.done == 1


def test_verb_within_a_verb_is_done_again_with_it_and_not_by_itself():
    inner = Verb(3)
    outer = []

    def verb():
        outer.append(inner.done)
        return outliving_executors(inner)

    assert outliving_executors(verb) == "done"
    assert outer == [0, 1, 2, 3]
