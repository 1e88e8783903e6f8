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
    descriptor = _acquired(path, timeout_s, stays=False)
    try:
        yield
    finally:
        # Unlink first: whoever waits on this file must find that the name is gone or is another file.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        _release(descriptor)


@contextlib.contextmanager
def locked_file(path: str, *, timeout_s: float = 30.0) -> Iterator[int]:
    """Holds the lock on a file itself, by whatever name it is reached, and gives its descriptor; the file stays.

    The file is made, for its owner only, if it does not exist. A process that has it already does not open it again:
    closing that would take the locks away that SQLite holds on the same file.
    """
    descriptor = _acquired(path, timeout_s, stays=True)
    held = _identity(os.fstat(descriptor))
    _held_files.add(held)
    try:
        yield descriptor
    finally:
        _held_files.discard(held)
        _release(descriptor)


_held_files: set[tuple[int, int]] = set()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _release(descriptor: int) -> None:
    # A child forked meanwhile shares the descriptor, so closing it alone would not unlock.
    if _flock is not None:
        _flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _acquired(path: str, timeout_s: float, *, stays: bool) -> int:
    deadline, pause = time.monotonic() + timeout_s, 0.0005
    while (descriptor := _tried(path, stays)) is None:
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"another process holds the lock {path}",
                sides={"waited": f"{timeout_s:g} s"},
                next_step="Find the process that has the lock file open (fuser or lsof) and see why it does not go on.",
            )
        time.sleep(pause * (0.5 + random.random()))
        pause = min(pause * 1.5, 0.02)
    return descriptor


def _tried(path: str, stays: bool) -> int | None:
    """The descriptor of a file on which the lock was free; a file that does not stay is only there for its lock."""
    with contextlib.suppress(FileNotFoundError):
        if _held_files and _identity(os.stat(path)) in _held_files:
            return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600 if stays else 0o666)
    try:
        if _is_locked(descriptor, path, stays) and (stays or _is_still(descriptor, path)):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_locked(descriptor: int, path: str, stays: bool) -> bool:
    try:
        if _flock is None:
            raise OSError(errno.ENOSYS, "no flock on this platform")
        _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        if error.errno not in _NOT_SUPPORTED:
            raise
        with contextlib.suppress(FileNotFoundError):
            if not stays:
                os.unlink(path)
        raise UnsupportedError(
            f"the file system that holds {path} has no locks between processes",
            sides={"needed": "flock", "found": str(error.strerror)},
            next_step="Put the table on a file system with flock, or on an object store.",
        ) from error
    return True


def _is_still(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
