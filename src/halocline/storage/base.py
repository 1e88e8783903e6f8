"""What every store does: objects by name, and the two conditional writes that commits rest on.

An *object* is a name and bytes, replaced whole or not at all. A *path* is its name below the store's root: segments
joined by `/`, exactly the characters of the name, never escaped, so `date=2024-01-01 10%3A00/part 1.parquet` is that
name on disk and in a bucket alike. An *etag* names one state of one object; it changes with every write and means
nothing else. A *folder* is only what the paths below it share.

Promises, the same on every store:

- `put_if_absent` succeeds for exactly one of any number of callers; `put_if_match` for exactly one per etag.
- An object appears whole; whoever reads sees all of the old bytes or all of the new.
- What a write returned from is seen by every later read and listing.

The limit: a write that ends in `UnavailableError` may have taken effect all the same. Look before writing again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from urllib.parse import quote

import msgspec

from halocline.errors import AlreadyExistsError, ConflictError, InputError, NotFoundError
from halocline.place_names import place_name

__all__ = ["AlreadyExistsError", "ObjectMeta", "Store", "checked_folder", "checked_path", "checked_range", "escaped"]

HIDDEN_PREFIX = ".~halocline-"
"""Names that begin so are a store's own (half-written files, locks): never listed, never accepted as a path."""

_UNUSABLE_SEGMENTS = frozenset({"", ".", ".."})


class ObjectMeta(msgspec.Struct, frozen=True, gc=False):
    """What is known of an object without reading it.

    Attributes:
        path: Its path below the store's root.
        size: Length in bytes.
        modified_ms: When it was last written, in milliseconds since the epoch.
        etag: Its state, for `Store.put_if_match`. None only in listings of stores that do not tell it there.
        is_link: Whether it is a symbolic link, listed in place of what it leads to.
    """

    path: str
    size: int
    modified_ms: int
    etag: str | None = None
    is_link: bool = False


class Store(ABC):
    """Objects below one root. Made by `open_store`; safe to use from several threads.

    Every method raises `InputError` for a path that cannot be one, `UnavailableError` when the store cannot be
    reached and `DeniedError` when it refuses the caller.

    Example:
        >>> from halocline.storage import open_store
        >>> store = open_store("memory://lake")
        >>> etag = store.put_if_absent("orders/_delta_log/0.json", b"{}")
        >>> [meta.path for meta in store.list("orders")]
        ['orders/_delta_log/0.json']
    """

    root: str
    """URL of the root, without a final slash; `open_store` takes it back."""

    options: Mapping[str, str] = MappingProxyType({})
    """The options that it was opened with; `open_store` takes them back as well."""

    lists_whole_folders: bool = False
    """Whether a listing costs as much as its folder is long, wherever it is to start."""

    @abstractmethod
    def fetch(self, path: str) -> tuple[bytes, ObjectMeta]:
        """Reads an object and its state in one step: the pair to begin a compare-and-swap with.

        Raises:
            NotFoundError: There is no such object.
        """

    @abstractmethod
    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Reads `length` bytes from `start`; fewer, or none, where the object ends before.

        Raises:
            NotFoundError: There is no such object.
            InputError: The start or the length is negative.
        """

    @abstractmethod
    def head(self, path: str) -> ObjectMeta:
        """What is known of an object.

        Raises:
            NotFoundError: There is no such object.
        """

    @abstractmethod
    def list(
        self, prefix: str = "", *, start_after: str | None = None, follow_links: bool = True
    ) -> Iterator[ObjectMeta]:
        """Every object in the folder `prefix` and the folders below it, sorted by path.

        Args:
            prefix: A folder, with or without the final slash; the root if empty. A folder that does not exist is
                empty. `a` does not list `ab/c`.
            start_after: A path from the root, or the beginning of one; only greater ones are listed.
            follow_links: Whether symbolic links, where a store has any, lead on to what is behind them; otherwise
                each is listed itself.
        """

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The paths of the folders that lie directly in a folder, sorted by name.

        A link to a folder is one of them.
        """
        above = f"{folder}/" if (folder := checked_folder(prefix)) else ""
        found: set[str] = set()
        after = None
        while (below := self._first_folder(prefix, above, after)) is not None:
            found.add(below)
            after = below + "0"  # the character after the slash: what is below the folder lies before it
        return tuple(sorted(found))

    def _first_folder(self, prefix: str, above: str, after: str | None) -> str | None:
        listed = (each.path[len(above) :] for each in self.list(prefix, start_after=after))
        return next((above + path.partition("/")[0] for path in listed if "/" in path), None)

    @abstractmethod
    def put(self, path: str, data: bytes) -> str:
        """Writes an object, replacing what is there, and returns its etag."""

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> str:
        """Writes an object of any size like `put`, holding no more than a few of its chunks in memory where it can."""
        return self.put(path, b"".join(chunks))

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> str:
        """Writes an object that does not exist yet, and returns its etag.

        Raises:
            AlreadyExistsError: The name is taken; nothing was written.
        """

    @abstractmethod
    def put_if_match(self, path: str, data: bytes, etag: str) -> str:
        """Replaces the object that is still in the state `etag`, and returns the new etag.

        Raises:
            ConflictError: The object was replaced or deleted since; nothing was written.
        """

    def move(self, path: str, target: str) -> None:
        """Gives an object another name, replacing what has that name; nobody else may write either meanwhile.

        Raises:
            NotFoundError: There is no such object.
        """
        self.put(target, self.get(path))
        self.delete(path)

    @abstractmethod
    def delete(self, path: str) -> None:
        """Deletes an object; one that is not there is deleted already."""

    def set_modified(self, path: str, modified_ms: int) -> bool:
        """Says when an object was last written; False where the store keeps that time itself, as object stores do.

        Raises:
            NotFoundError: There is no such object.
        """
        return False

    @abstractmethod
    def address(self, path: str = "") -> str:
        """Where Spark and Arrow find the object: an absolute local path or an unescaped URL."""

    def get(self, path: str) -> bytes:
        """Reads a whole object.

        Raises:
            NotFoundError: There is no such object.
        """
        return self.fetch(path)[0]

    def exists(self, path: str) -> bool:
        """Whether there is such an object; a folder is none."""
        try:
            self.head(path)
        except NotFoundError:
            return False
        return True

    def get_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Reads whole objects, in the order given; stores with a slow way to their objects read several at once.

        Raises:
            NotFoundError: One of them does not exist.
        """
        return map(self.get, paths)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Deletes objects, in bulk where the store can."""
        for path in paths:
            self.delete(path)

    def sweep(self, now_ms: int) -> int:
        """Deletes what writers that were killed have left half-written, and counts it.

        A write takes minutes; what is half-written for a day was left by one that died. Where objects appear at once,
        there is nothing of the kind.
        """
        return 0

    def _changed(self, path: str, **sides: str) -> ConflictError:
        return ConflictError(
            f"{path} in {self.root} was changed by somebody else",
            sides=sides,
            next_step="Read it again and decide anew.",
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({place_name(self.root)!r})"


def checked_path(path: str) -> str:
    """The path itself, if it can name an object.

    Example:
        >>> checked_path("orders/date=2024-01-01 10%3A00/part 1.parquet")
        'orders/date=2024-01-01 10%3A00/part 1.parquet'
    """
    reason = _unusable(path)
    if reason:
        raise InputError(
            f"{path!r} cannot name an object: {reason}",
            sides={"given": repr(path), "expected": "segments joined by '/', relative to the store's root"},
            next_step="Give the path as it is below the store's root.",
        )
    return path


def checked_folder(prefix: str) -> str:
    """The folder without its final slash, if it can be one; empty for the root."""
    return checked_path(prefix.removesuffix("/")) if prefix else ""


def checked_range(path: str, start: int, length: int) -> None:
    """Refuses a range that begins before the object or has a negative length."""
    if start < 0 or length < 0:
        raise InputError(
            f"{path} has no range of {length} bytes from {start}",
            sides={"given": f"start {start}, length {length}", "expected": "neither is negative"},
            next_step="Check where the range comes from.",
        )


def escaped(path: str) -> str:
    """The path as it stands in a URL.

    Example:
        >>> escaped("date=2024-01-01 10%3A00")
        'date=2024-01-01%2010%253A00'
    """
    return quote(path, safe="/=:@,+", errors="surrogateescape")


def _unusable(path: str) -> str | None:
    segments = path.split("/")
    if path.startswith("/"):
        return "it is absolute"
    if ".." in segments:
        return "it leaves the store's root"
    if not _UNUSABLE_SEGMENTS.isdisjoint(segments):
        return "it has an empty segment or '.'"
    if any(segment.startswith(HIDDEN_PREFIX) for segment in segments):
        return f"names that begin with {HIDDEN_PREFIX} are the stores' own"
    if "\0" in path:
        return "it holds a NUL character"
    return None
