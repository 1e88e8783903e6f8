"""A store that lives in this process: the same promises as any other, gone with the process.

`MemoryStore()` is private. `memory://name` names one that everybody in the process shares, which is how tests and
demonstrations hand a lake from one part to another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from halocline.errors import AlreadyExistsError, NotFoundError, UnsupportedError
from halocline.storage.base import ObjectMeta, Store, checked_folder, checked_path, checked_range, escaped


class _Object(NamedTuple):
    data: bytes
    modified_ms: int
    etag: str


class _Space:
    """The objects of one name, guarded by one lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, _Object] = {}
        self.writes = 0


_shared: dict[str, _Space] = {}
_shared_lock = threading.Lock()


class MemoryStore(Store):
    """Objects in memory.

    Args:
        name: Stores of the same name share their objects; without a name, nobody does.
        folder: The folder of that space to use as the root.
    """

    def __init__(self, name: str | None = None, folder: str = "") -> None:
        folder = checked_folder(folder)
        self._above = f"{folder}/" if folder else ""
        if name is None:
            self._space = _Space()
        else:
            with _shared_lock:
                self._space = _shared.setdefault(name, _Space())
        self._address = f"memory://{name or ''}" + (f"/{folder}" if folder else "")
        self.root = "memory://" + escaped(self._address.removeprefix("memory://"))

    def fetch(self, path: str) -> tuple[bytes, ObjectMeta]:
        found = self._space.objects.get(self._above + checked_path(path))
        if found is None:
            raise NotFoundError(f"no object {path} in {self.root}")
        return found.data, _meta(path, found)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        checked_range(path, start, length)
        return self.fetch(path)[0][start : start + length]

    def head(self, path: str) -> ObjectMeta:
        return self.fetch(path)[1]

    def list(
        self, prefix: str = "", *, start_after: str | None = None, follow_links: bool = True
    ) -> Iterator[ObjectMeta]:
        folder = checked_folder(prefix)
        below = f"{self._above}{folder}/" if folder else self._above
        after = self._above + (start_after or "")
        with self._space.lock:
            chosen = [(key, found) for key, found in self._space.objects.items() if key.startswith(below)]
        for key, found in sorted(pair for pair in chosen if start_after is None or pair[0] > after):
            yield _meta(key[len(self._above) :], found)

    def put(self, path: str, data: bytes) -> str:
        key = self._above + checked_path(path)
        with self._space.lock:
            return self._write(key, data)

    def put_if_absent(self, path: str, data: bytes) -> str:
        key = self._above + checked_path(path)
        with self._space.lock:
            if key in self._space.objects:
                raise AlreadyExistsError(f"{path} already exists in {self.root}")
            return self._write(key, data)

    def put_if_match(self, path: str, data: bytes, etag: str) -> str:
        key = self._above + checked_path(path)
        with self._space.lock:
            found = self._space.objects.get(key)
            if found is None or found.etag != etag:
                raise self._changed(path, expected=etag, found=found.etag if found else "no object")
            return self._write(key, data)

    def delete(self, path: str) -> None:
        key = self._above + checked_path(path)
        with self._space.lock:
            self._space.objects.pop(key, None)

    def set_modified(self, path: str, modified_ms: int) -> bool:
        key = self._above + checked_path(path)
        with self._space.lock:
            if key not in self._space.objects:
                raise NotFoundError(f"no object {path} in {self.root}")
            self._space.objects[key] = self._space.objects[key]._replace(modified_ms=modified_ms)
        return True

    def address(self, path: str = "") -> str:
        return f"{self._address}/{checked_path(path)}" if path else self._address

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            f"{self.root} lives in one process and cannot be sent to another",
            next_step="Use a local path or an object store.",
        )

    def _write(self, key: str, data: bytes) -> str:
        self._space.writes += 1
        etag = str(self._space.writes)
        self._space.objects[key] = _Object(bytes(data), time.time_ns() // 1_000_000, etag)
        return etag


def _meta(path: str, found: _Object) -> ObjectMeta:
    return ObjectMeta(path, len(found.data), found.modified_ms, found.etag)
