"""A store that reads everything once.

Several questions about one table read the same few objects: the listing of its log, its commits, its properties. For
the length of one look each is fetched once, so all answers are about the same moment. What is read in ranges, such as
Parquet files, is passed on, and so is what would take too much memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from halocline.errors import InternalError, NotFoundError
from halocline.storage.base import ObjectMeta, Store

_MOST_BYTES: Final = 64_000_000


class RememberedStore(Store):
    """A store that is only read from, and every object of it once."""

    def __init__(self, store: Store) -> None:
        self.root = store.root
        self._store = store
        self._objects: dict[str, bytes] = {}
        self._listings: dict[tuple[str, str | None, bool], list[ObjectMeta]] = {}
        self._absent: set[str] = set()
        self._bytes = 0

    def fetch(self, path: str) -> tuple[bytes, ObjectMeta]:
        """See `Store.fetch`."""
        return self._store.fetch(path)

    def get(self, path: str) -> bytes:
        """See `Store.get`."""
        if path in self._absent:
            raise NotFoundError(f"no object {path} in {self.root}")
        try:
            return self._objects[path] if path in self._objects else self._kept(path, self._store.get(path))
        except NotFoundError:
            self._absent.add(path)
            raise

    def get_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """See `Store.get_many`."""
        wanted = list_of(paths)
        missing = [path for path in wanted if path not in self._objects]
        fetched = zip(missing, self._store.get_many(missing), strict=True)
        for path in wanted:
            # Those that are missing come in the same order.
            yield self._kept(*next(fetched)) if path not in self._objects else self._objects[path]

    def _kept(self, path: str, data: bytes) -> bytes:
        if self._bytes + len(data) <= _MOST_BYTES:
            self._objects[path] = data
            self._bytes += len(data)
        return data

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """See `Store.get_range`."""
        return self._store.get_range(path, start, length)

    def head(self, path: str) -> ObjectMeta:
        """See `Store.head`."""
        return self._store.head(path)

    def list(
        self, prefix: str = "", *, start_after: str | None = None, follow_links: bool = True
    ) -> Iterator[ObjectMeta]:
        """See `Store.list`."""
        key = prefix, start_after, follow_links
        if key not in self._listings:
            whole = self._listings.get((prefix, None, follow_links))
            if whole is not None:
                return (each for each in whole if start_after is None or each.path > start_after)
            listed = self._store.list(prefix, start_after=start_after, follow_links=follow_links)
            self._listings[key] = list_of(listed)
        return iter(self._listings[key])

    def address(self, path: str = "") -> str:
        """See `Store.address`."""
        return self._store.address(path)

    def put(self, path: str, data: bytes) -> str:
        """Never done."""
        raise InternalError(f"{path} of {self.root} would be written by somebody who only looks")

    put_if_absent = put

    def put_if_match(self, path: str, data: bytes, etag: str) -> str:
        """Never done."""
        return self.put(path, data)

    def delete(self, path: str) -> None:
        """Never done."""
        self.put(path, b"")


list_of = list  # within the class, `list` is the listing
