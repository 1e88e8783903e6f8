"""The fence in front of every commit: what must hold at the moment at which a change of a table begins to count.

Whoever works on tables under a lease puts a *check* in front of the commits of a block of work. It is asked immediately
before each attempt to put a commit where it counts, and raises where the commit may not be made any more; then nothing
is put. An attempt that loses to somebody else's commit asks again before the next one. So a process that is stopped
between the check and the put is told as well, as soon as whoever has taken over has committed anything to the table.

The limit: a check stands in front of the commits that the thread of the block makes, and those it starts with a copy of
its context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_checks: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("halocline_fence", default=())


@contextmanager
def fenced(check: Callable[[], None]) -> Iterator[None]:
    """Has a check asked before every commit of the block, after those of the blocks around it.

    Example:
        >>> asked = []
        >>> with fenced(lambda: asked.append("may I?")):
        ...     check_fence()
        >>> check_fence()
        >>> asked
        ['may I?']
    """
    token = _checks.set((*_checks.get(), check))
    try:
        yield
    finally:
        _checks.reset(token)


def check_fence() -> None:
    """Returns if the commit that is about to be put may be made; raises what the check raises if not."""
    for check in _checks.get():
        check()
