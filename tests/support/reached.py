"""What a test reached: for tests that compare only where there is something to compare.

A law that is asked of random examples, or of whatever is found, says nothing if no example got as far as the question.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any


class Reached:
    """Counts, over all examples of one test, how often it got to a place.

    Example:
        >>> reached = Reached()
        >>> @reached.at_least(compared=2)
        ... def test_something():
        ...     reached("compared")
        >>> test_something()
        Traceback (most recent call last):
        ...
        AssertionError: compared: 1 of at least 2
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, place: str) -> None:
        """Counts that the test has got there."""
        self._counts[place] += 1

    def at_least(self, **least: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Fails a test that got to one of these places less often."""

        def around(test: Callable[..., None]) -> Callable[..., None]:
            @functools.wraps(test)
            def counted(*args: Any, **kwargs: Any) -> None:
                self._counts.clear()
                test(*args, **kwargs)
                missed = (name for name, number in least.items() if self._counts[name] < number)
                complaint = ", ".join(f"{name}: {self._counts[name]} of at least {least[name]}" for name in missed)
                assert not complaint, complaint

            return counted

        return around
