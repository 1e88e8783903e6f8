"""What processes of a run do one after the other: install a server, make an environment, fetch jars."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Waits until no other process holds the lock, which ends with its process, however it dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
