"""Folders of the machine in which an index is unpacked or grows.

A thread of the library looks at every index that is open from time to time, and puts a lock beside it; nobody can tell
when it has looked for the last time. A folder into which something has come meanwhile cannot be removed, so it goes out
of the way first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def scratch_folder(prefix: str, within: str | None = None) -> Iterator[str]:
    """A new folder, which is removed in the end; the system's own place for such if not told where.

    Example:
        >>> with scratch_folder("halocline-") as folder:
        ...     os.path.isdir(folder)
        True
        >>> os.path.exists(folder)
        False
    """
    folder = tempfile.mkdtemp(prefix=prefix, dir=within)
    try:
        yield folder
    finally:
        remove_folder(folder)


def remove_folder(folder: str) -> None:
    """Removes a folder with all that is in it, and with what is put there meanwhile; one that is not there is none."""
    parent, name = os.path.split(os.path.abspath(folder))
    with contextlib.suppress(OSError):
        aside = tempfile.mkdtemp(prefix=f".{name}-", dir=parent)
        with contextlib.suppress(OSError):
            os.replace(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)
