"""Where the paths in a Delta log point to.

A path in the log is URI-encoded once. Decoded, it is either *relative*, a name below the table's root, or *absolute*,
a URL or a path that begins with a slash; absolute ones belong to the file system of the table unless they name another.
A relative path that climbs out of the table is damage, not a place to read from.

Writers spell the same file differently, and whether two paths mean the same file decides what is live, what conflicts
and what may be deleted. So paths are compared in one form, the *decoded path* that `Locations.decode` gives: the name
below the root for everything that lies there, however it is spelt, and one unescaped URL for everything else. Dots and
doubled slashes are gone, schemes that mean the same service are one, and absolute local paths lie where their links
lead. That form never goes into the log: other clients compare the text, so a path is written again exactly as it was,
and a new one as Delta's own writers spell it.

The limit: a folder inside the table that is a link to another one inside gives a file two names.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import Final
from urllib.parse import unquote

from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.log.damage import malformed
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.storage.location import Location, without_dots

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_NOT_IN_URIS: Final = re.compile(r'[\x00-\x20"#%<>?\[\\\]^`{|}\x7f]')


class Locations:
    """Reads the paths of one table's log."""

    def __init__(self, root: str) -> None:
        self._url = root
        self._folders: dict[str, str] = {}

    @cached_property
    def _root(self) -> Location:
        return Location.parse(self._url)

    @cached_property
    def _real_root(self) -> Location:
        return self._root.real()

    def decode(self, path: str) -> str:
        """The form of a path in which it is compared."""
        written = path
        if "%" in path:
            try:
                path = unquote(path, errors="strict")
            except UnicodeDecodeError:
                raise malformed(f"path {path!r}", "is not UTF-8 once decoded") from None
        if not needs_care(path):
            return path
        if path.startswith("/"):
            location = Location(self._root.scheme, self._root.authority, without_dots(path))
        elif _SCHEME.match(path):
            found = Location.of_decoded(path)
            if found is None:
                return path
            location = found
        elif _climbs_out(path):
            raise malformed(f"path {written!r}", "leaves the table")
        else:
            return without_dots(path)
        return self._below_root(location, written)

    def _below_root(self, location: Location, written: str) -> str:
        name = location.below(self._root)
        if name is None and location.is_local and self._root.is_local:
            location = self._behind_links(location)
            name = location.below(self._real_root)
        if name is not None:
            return name
        if not location.path:
            raise malformed(f"path {written!r}", "names no object")
        return f"{location.scheme}://{location.authority}/{location.path}"

    def _behind_links(self, location: Location) -> Location:
        """A file by the real path of its folder; the many files of a folder look it up once."""
        folder, _, name = location.path.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(f"/{folder}").lstrip("/")
        return location._replace(path=f"{self._folders[folder]}/{name}".lstrip("/"))

    def vector_id(self, vector: DeletionVector) -> str:
        """What tells two deletion vectors of one file apart, whatever the spelling of their paths."""
        if vector.storage_type != "p":
            return vector.unique_id
        return f"p{self.decode(vector.path_or_inline_dv)}" + ("" if vector.offset is None else f"@{vector.offset}")


def needs_care(path: str) -> bool:
    """Whether a path without escapes may be something else than a plain name below the root.

    Example:
        >>> [needs_care(path) for path in ("a/b.parquet", "./a", "a//b", "/a", "s3://a/b", "a/..")]
        [False, True, True, True, True, True]
    """
    return path[:1] in "/" or path[-1] == "." or "//" in path or ":/" in path or "./" in path


def is_absolute(path: str) -> bool:
    """Whether a decoded path is a URL rather than a name below the table's root."""
    return _SCHEME.match(path) is not None


def encoded_path(path: str) -> str:
    """A decoded path as Delta's writers spell it: what a URI does not allow is escaped, other alphabets are not.

    Example:
        >>> encoded_path("day=2024-01-01 10%3A00/part é.parquet")
        'day=2024-01-01%2010%253A00/part%20é.parquet'
    """
    return _NOT_IN_URIS.sub(lambda found: f"%{ord(found[0]):02X}", path)


def absolute_path(store: Store, path: str) -> str:
    """A path below a table's root as another table's log names it, spelt as Delta's writers do."""
    address = store.address(path)
    return encoded_path(f"file:{address}" if address.startswith("/") else address)


def locate(store: Store, path: str) -> tuple[Store, str]:
    """The store that holds a decoded path, and the path in it."""
    if not is_absolute(path):
        return store, path
    location, root = Location.of_decoded(path), Location.parse(store.root)
    if location is None or not location.path:
        raise malformed(f"path {path!r}", "names no object")
    name = location.below(root)
    if name is not None:
        return store, name
    # The scheme by which the table was opened is one that works here.
    scheme = store.root.partition("://")[0] if location.scheme == root.scheme else location.scheme
    return open_store(f"{scheme}://{location.authority}/"), location.path


def _climbs_out(path: str) -> bool:
    depth = 0
    for segment in path.split("/"):
        depth += -1 if segment == ".." else 0 if segment in ("", ".") else 1
        if depth < 0:
            return True
    return depth == 0
