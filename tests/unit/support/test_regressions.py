"""What a property test that fails tells to paste, in the words of the Hypothesis that is installed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.support.regressions import regression

noted = settings(derandomize=True, database=None, print_blob=True)


def failure(test, *arguments):
    with pytest.raises((AssertionError, ExceptionGroup)) as raised:
        test(*arguments)
    return raised.value


def test_plain_values_become_an_example_without_the_fixtures():
    @noted
    @given(size=st.integers(), name=st.text())
    def test_size(folder, size, name):
        assert size < 5

    assert regression(failure(test_size, "here"), ["folder"]) == "@example(size=5, name='')"


def test_two_failures_become_two_examples():
    @noted
    @given(st.integers())
    def test_size(size):
        assert size < 5
        assert size > -5

    assert set(regression(failure(test_size)).splitlines()) == {"@example(size=5)", "@example(size=-5)"}


def test_values_drawn_on_the_way_are_drawn_again():
    @noted
    @given(st.data())
    def test_size(data):
        assert data.draw(st.integers()) < 5

    pasted = regression(failure(test_size))
    assert pasted.startswith("@reproduce_failure("), pasted


def test_a_state_machine_becomes_a_program():
    class Counter(RuleBasedStateMachine):
        count = 0

        @rule(by=st.integers(0, 5))
        def add(self, by):
            self.count += by
            assert self.count < 5

    Counter.TestCase.settings = noted
    pasted = regression(failure(Counter.TestCase().runTest))
    assert pasted.splitlines() == [
        "def test_regression():",
        "    state = Counter()",
        "    state.add(by=5)",
        "    state.teardown()",
    ]


def test_other_errors_have_nothing_to_paste():
    assert regression(ValueError("no example")) is None
