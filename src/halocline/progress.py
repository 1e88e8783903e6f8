"""What long work is doing, shown where there is somebody to see it: a terminal or a notebook, and nowhere else.

One line says what is done now. In a terminal it is on the error stream and vanishes when all is done; below the cell of
a notebook it stays, with the time that it took. Work inside of other work goes on in the same line. Logs, pipes and
services hear nothing.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from halocline.place_names import with_place_names

Tell = Callable[[str], None]
"""Says what is done now."""

_telling: Final[ContextVar[Tell | None]] = ContextVar("halocline_progress", default=None)


@contextmanager
def working(title: str) -> Iterator[Tell]:
    """Shows a line for as long as work takes.

    Example:
        >>> with working("vacuum lake/orders") as tell:
        ...     tell("deleting 3 files")
    """
    title, outer = with_place_names(title), _telling.get()
    if outer is not None:
        outer(title)
        yield lambda text: outer(f"{title}: {text}")
        return
    shown = _in_a_notebook if _has_cells() else _in_a_terminal if sys.stderr.isatty() else _unseen
    with shown(title) as tell:
        token = _telling.set(tell)
        try:
            yield tell
        finally:
            _telling.reset(token)


def _has_cells() -> bool:
    """Whether this runs in the kernel of a notebook: other programs may have loaded the same packages."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _unseen(_: str) -> Iterator[Tell]:
    yield lambda text: None


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Lets work tell what it does to somebody who has a place for that already, such as a bar in the same terminal.

    Example:
        >>> with telling(print), working("verify lake/orders"):
        ...     pass
        verify lake/orders
    """
    token = _telling.set(tell)
    try:
        yield
    finally:
        _telling.reset(token)


@contextmanager
def _in_a_terminal(title: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(title)) as status:
        yield lambda text: status.update(escape(f"{title}: {text}"))


@contextmanager
def _in_a_notebook(title: str) -> Iterator[Tell]:
    """A line that is put in place of itself; what rich shows there needs widgets, and is nothing without them."""
    display: Any = importlib.import_module("IPython.display").display
    began = time.monotonic()
    line = display({"text/plain": title}, raw=True, display_id=True)

    def tell(text: str) -> None:
        line.update({"text/plain": f"{title}: {text}"}, raw=True)

    outcome = "ended with an error"
    try:
        yield tell
        outcome = "done"
    finally:
        tell(f"{outcome} after {time.monotonic() - began:.1f} s")
