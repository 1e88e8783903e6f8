"""Finding the tables below a prefix.

A folder is a table if a log folder lies in it. Folders are listed one level at a time and several at once, so the cost
is that of the folders above tables, not of the files inside. What is found comes in the order of paths: an early end
leaves nothing out before the last path, and `after` goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from halocline.errors import HaloclineError
from halocline.formats.log.names import LOG_FOLDERS
from halocline.storage.base import Store
from halocline.storage.location import Location

DEPTH: Final = 8
_AT_ONCE: Final = 16
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A folder that is a table, or that could not be searched.

    Attributes:
        path: The folders that lead to it from the prefix.
        formats: The formats that its log folders show; none where it could not be searched.
        problem: Why it could not be searched.
    """

    path: tuple[str, ...]
    formats: tuple[str, ...] = ()
    problem: str = ""


def find_tables(store: Store, *, after: _Path = (), depth: int = DEPTH) -> Iterator[FoundFolder]:
    """Every table below the root of a store, in the order of paths.

    Args:
        store: Where to look.
        after: Only tables behind this path are wanted.
        depth: How many folders may lie between the root and a table, the table's own counted.

    Raises:
        UnavailableError: The root cannot be listed.
    """
    search = _Search(store, after, depth)
    search.take((), search.listed(()))  # if the root cannot be listed, that is an error and no finding
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="halocline-find") as pool:
        running: dict[Future[_Path | HaloclineError], _Path] = {}
        try:
            while search.waiting or running:
                while search.waiting and len(running) < _AT_ONCE:
                    path = heappop(search.waiting)
                    running[pool.submit(_told, search, path)] = path
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    search.take(running.pop(done), done.result())
                ahead = min([*running.values(), *search.waiting[:1]], default=None)
                yield from search.ready_before(ahead)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    yield from search.ready_before(None)


class _Search:
    """What has been found, and what is left to look at."""

    def __init__(self, store: Store, after: _Path, depth: int) -> None:
        self.store, self.after, self.depth = store, after, depth
        self.waiting: list[_Path] = []
        self._ready: list[tuple[_Path, FoundFolder]] = []
        self._seen: set[Location] = set()

    def listed(self, path: _Path) -> _Path:
        """The names of the folders in a folder."""
        return tuple(each.rpartition("/")[2] for each in self.store.folders("/".join(path)))

    def take(self, path: _Path, found: _Path | HaloclineError) -> None:
        """Notes what a folder turned out to be."""
        if isinstance(found, HaloclineError):
            self._note(FoundFolder(path, problem=found.message))
            return
        formats = tuple(format for format, folder in LOG_FOLDERS.items() if folder in found)
        if formats:
            self._note(FoundFolder(path, formats))
            return
        below = [(*path, name) for name in found if name[0] not in "._" and "=" not in name]
        wanted = [each for each in below if each > self.after or each == self.after[: len(each)]]
        if wanted and len(path) >= self.depth:
            self._note(FoundFolder(path, problem=f"more than {self.depth} folders deep"))
            return
        for each in wanted:
            if self._is_new(each):
                heappush(self.waiting, each)

    def ready_before(self, ahead: _Path | None) -> Iterator[FoundFolder]:
        """What can be told, since nothing that is still to be looked at lies before it."""
        while self._ready and (ahead is None or self._ready[0][0] < ahead):
            yield heappop(self._ready)[1]

    def _note(self, found: FoundFolder) -> None:
        if found.path > self.after or not found.path:
            heappush(self._ready, (found.path, found))

    def _is_new(self, path: _Path) -> bool:
        """Whether it is not a link to a folder that was met under another name, which may even lead back up."""
        place = self.store.address("/".join(path))
        real = Location.parse(place).real() if self.store.root.startswith("file:") else Location("", "", place)
        if real in self._seen:
            return False
        self._seen.add(real)
        return True


def _told(search: _Search, path: _Path) -> _Path | HaloclineError:
    try:
        return search.listed(path)
    except HaloclineError as error:
        return error
