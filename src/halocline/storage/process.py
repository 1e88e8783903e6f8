"""Whether a process is at work, which what it has left behind is judged by.

A process leaves its number, and the *space* of numbers that it is one of. Two containers may bear one name, and two
machines may, and in each there is a process 1: only in its own space does a number tell that a process is gone. A
number of another space tells nothing, and whoever left it counts as alive until its time is over.

Limit: where the system does not tell about spaces, machines are told apart by their names.
"""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

_ENDED: Final = frozenset("ZX")


def process_space() -> str:
    """The space that the numbers of processes are of here: the machine's name, and which boot and container of it."""
    parts = []
    with suppress(OSError):
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    name = socket.gethostname()
    return f"{name}#{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:8]}" if parts else name


def is_gone(space: str, number: int) -> bool:
    """Whether a process that left this number, and the space of it, can be seen to have ended.

    Example:
        >>> import os
        >>> is_gone(process_space(), os.getpid()), is_gone("another machine", 2**22 - 1)
        (False, False)
    """
    return space == process_space() and not is_process(number)


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
