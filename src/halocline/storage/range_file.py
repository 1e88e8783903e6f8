"""An object of a store as a file, for libraries that read files."""

from __future__ import annotations

import io
from typing import Final

from halocline.storage.base import Store

_TAIL: Final = 64 * 1024


class RangeFile(io.RawIOBase):
    """An object of a store as a file that can be read from any position; its end is fetched once and kept."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._position = 0
        self._tail_start = max(0, size - _TAIL)
        self._tail: bytes | None = None

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Reads from the position on."""
        left = self._size - self._position
        length = left if size < 0 else min(size, left)
        if length <= 0:
            return b""
        if self._position >= self._tail_start:
            if self._tail is None:
                self._tail = self._store.get_range(self._path, self._tail_start, self._size - self._tail_start)
            start = self._position - self._tail_start
            data = self._tail[start : start + length]
        else:
            data = self._store.get_range(self._path, self._position, length)
        self._position += len(data)
        return data
