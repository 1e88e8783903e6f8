"""Whether a process of this machine is at work, which what it has left behind is judged by."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_ENDED: Final = frozenset("ZX")


def is_process(number: int) -> bool:
    """Whether a process of this machine has the number, and has not ended.

    Example:
        >>> import os
        >>> is_process(os.getpid())
        True
    """
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not _has_ended(number)


def _has_ended(number: int) -> bool:
    """A process that was killed keeps its number until its parent asks for it; in a container maybe nobody does."""
    try:
        said = Path(f"/proc/{number}/stat").read_bytes()
    except OSError:  # no such files on this system, or not for this user
        return False
    # The name of the program is in parentheses, and may have some of its own.
    state = said.rpartition(b")")[2].split()[:1]
    return bool(state) and state[0].decode() in _ENDED
