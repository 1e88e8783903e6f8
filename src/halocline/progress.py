"""What long work is doing, shown where there is somebody to see it: a terminal or a notebook, and nowhere else.

One line on the error stream says what is done now and vanishes when it is done. Work inside of other work goes on in
the same line. Logs, pipes and services hear nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

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
    outer = _telling.get()
    if outer is not None:
        outer(title)
        yield lambda text: outer(f"{title}: {text}")
        return
    if not _is_seen():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(title)) as status:

        def tell(text: str) -> None:
            status.update(escape(f"{title}: {text}"))

        token = _telling.set(tell)
        try:
            yield tell
        finally:
            _telling.reset(token)


def _is_seen() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
