"""Unpacked indexes that are kept for the next search, in a folder of the machine.

An index is unpacked beside the cache and then renamed into it, so what is in the cache is whole, however many processes
share it. It is known by what it was unpacked from, checksums and all; a split that is written anew is another one. When
there is too much, what was used the longest ago goes first. A process that is just using it keeps its open files. What
a process that was killed has half unpacked goes after a day.

The limit: checksums are verified when an index is unpacked. What happens to the folder afterwards is the machine's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from halocline.formats.index.split.scratch import remove_folder

_UNFINISHED: Final = ".unpacking-"
_ABANDONED_S: Final = 24 * 3600


@dataclass(frozen=True)
class IndexCache:
    """A cache of unpacked indexes; a value that can be sent to other processes.

    Attributes:
        folder: Where it lies; made when it is first used.
        most_bytes: How much it holds at most.
    """

    folder: str
    most_bytes: int = 4 * 1024**3

    def unpacked(self, key: str, unpack: Callable[[str], None]) -> str:
        """The folder of an index.

        Args:
            key: What it is known by; a name for a folder.
            unpack: Puts the files of the index into a folder.
        """
        target = os.path.join(self.folder, key)
        with contextlib.suppress(FileNotFoundError):
            os.utime(target)
            return target
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        fresh = tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.folder)
        try:
            unpack(fresh)
            os.rename(fresh, target)
        except OSError:
            # Somebody else was faster, or there is no room; in the first case theirs is as good.
            if not os.path.isdir(target):
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        self._make_room(key)
        return target

    def clear(self) -> None:
        """Removes everything."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                remove_folder(os.path.join(self.folder, name))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_room(self, key: str) -> None:
        entries = []
        with os.scandir(self.folder) as listed:
            for each in listed:
                with contextlib.suppress(OSError):
                    if each.name.startswith("."):  # on its way in, or out
                        if each.stat().st_mtime < time.time() - _ABANDONED_S:
                            shutil.rmtree(each.path, ignore_errors=True)
                    elif each.is_dir():
                        sizes = [os.path.getsize(os.path.join(each.path, name)) for name in os.listdir(each.path)]
                        entries.append((each.stat().st_mtime_ns, sum(sizes), each))
        left = sum(size for _, size, _ in entries)
        for _, size, entry in sorted(entries, key=lambda each: each[0]):
            if left <= self.most_bytes:
                return
            if entry.name != key:
                remove_folder(entry.path)
                left -= size
