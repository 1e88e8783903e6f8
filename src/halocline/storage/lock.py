"""A lock between processes on one file system, which its holder's death releases.

The operating system holds the lock (flock), not the file's existence, so a process that is killed blocks nobody. The
file goes away with the lock: whoever gets the lock on a file that is no longer the one of that name tries again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import time
from collections.abc import Iterator

from halocline.errors import UnavailableError, UnsupportedError

try:
    import fcntl
except ImportError:  # no flock on this platform
    _flock = None
else:
    _flock = fcntl.flock

_BUSY = frozenset({errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK, errno.EINTR})
_NOT_SUPPORTED = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL})


@contextlib.contextmanager
def locked(path: str, *, timeout_s: float = 30.0) -> Iterator[None]:
    """Holds the lock that the file `path` stands for."""
    descriptor = _acquire(path, time.monotonic() + timeout_s, timeout_s)
    try:
        yield
    finally:
        # Unlink first: whoever waits on this file must find that the name is gone or is another file.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        # A child forked meanwhile shares the descriptor, so closing it alone would not unlock.
        if _flock is not None:
            _flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@contextlib.contextmanager
def locked_file(path: str, *, timeout_s: float = 30.0) -> Iterator[int]:
    """Holds the lock on a file itself, by whatever name it is reached, and gives its descriptor; the file stays.

    The file is made, for its owner only, if it does not exist. A process that has it already does not open it again:
    closing that would take the locks away that SQLite holds on the same file.
    """
    deadline = time.monotonic() + timeout_s
    while (descriptor := _try_file(path)) is None:
        if time.monotonic() > deadline:
            raise _busy(path, timeout_s)
        time.sleep(0.02)
    held = _identity(os.fstat(descriptor))
    _held_files.add(held)
    try:
        yield descriptor
    finally:
        _held_files.discard(held)
        if _flock is not None:
            _flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


_held_files: set[tuple[int, int]] = set()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _try_file(path: str) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        if _identity(os.stat(path)) in _held_files:
            return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if _try_lock(descriptor, path, remove=False):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _acquire(path: str, deadline: float, timeout_s: float) -> int:
    pause = 0.0005
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _try_lock(descriptor, path) and _is_still(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise _busy(path, timeout_s)
        time.sleep(pause * (0.5 + random.random()))
        pause = min(pause * 1.5, 0.02)


def _busy(path: str, timeout_s: float) -> UnavailableError:
    return UnavailableError(
        f"another process holds the lock {path}",
        sides={"waited": f"{timeout_s:g} s"},
        next_step="Find the process that has the lock file open (fuser or lsof) and see why it does not go on.",
    )


def _try_lock(descriptor: int, path: str, *, remove: bool = True) -> bool:
    try:
        if _flock is None:
            raise OSError(errno.ENOSYS, "no flock on this platform")
        _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        if error.errno in _NOT_SUPPORTED:
            if remove:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            raise UnsupportedError(
                f"the file system that holds {path} has no locks between processes",
                sides={"needed": "flock", "found": str(error.strerror)},
                next_step="Put the table on a file system with flock, or on an object store.",
            ) from error
        raise
    return True


def _is_still(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
