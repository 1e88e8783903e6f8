"""Where the paths in a Delta log point to.

A path in the log is URI-encoded once. Decoded, it is either *relative*, a name below the table's root, or *absolute*,
a URL or a path that begins with a slash; absolute ones belong to the file system of the table unless they name another.
A relative path that climbs out of the table is damage, not a place to read from.

The same file must have one spelling, since replay compares paths as text: `file:/x`, `file:///x` and, for a local
table, `/x` are all spelt `file:///x`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from halocline.formats.log.damage import malformed
from halocline.storage import open_store
from halocline.storage.base import Store

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_AUTHORITY: Final = re.compile(r"(?P<base>[A-Za-z][A-Za-z0-9+.-]*://[^/]*)(?:/(?P<rest>.*))?", re.DOTALL)


class Locations:
    """Reads the paths of one table's log.

    Example:
        >>> places = Locations("s3://lake/orders")
        >>> places.decode("date=2024-01-01/part%201.parquet")
        'date=2024-01-01/part 1.parquet'
        >>> places.decode("/other/part-1.parquet")
        's3://lake/other/part-1.parquet'
    """

    def __init__(self, root: str) -> None:
        found = _AUTHORITY.match(root)
        self._base = found["base"] if found else "file://"

    def decode(self, path: str) -> str:
        """The one spelling of a path as it is written in the log.

        Raises:
            MalformedError: The path is empty, is not text once decoded, or climbs out of the table.
        """
        if "%" in path:
            try:
                path = unquote(path, errors="strict")
            except UnicodeDecodeError:
                raise malformed(f"path {path!r}", "is not UTF-8 once decoded") from None
        if not needs_care(path):
            return path
        if path.startswith("/"):
            return f"{self._base}/{path.lstrip('/')}"
        if _SCHEME.match(path):
            if path[:6].lower() == "file:/":
                return "file:///" + path[5:].lstrip("/")
            return path
        if _climbs_out(path):
            raise malformed(f"path {path!r}", "leaves the table")
        return path


def needs_care(path: str) -> bool:
    """Whether a decoded path may be something else than a plain name below the root."""
    return not path or ".." in path or ":/" in path or path[0] == "/"


def is_absolute(path: str) -> bool:
    """Whether a decoded path is a URL rather than a name below the table's root.

    Example:
        >>> is_absolute("s3://lake/a.parquet"), is_absolute("time=10:00/a.parquet")
        (True, False)
    """
    return _SCHEME.match(path) is not None


def locate(store: Store, path: str) -> tuple[Store, str]:
    """The store that holds a decoded path, and the path in it.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> locate(MemoryStore(), "a/b.parquet")[1]
        'a/b.parquet'
    """
    if not is_absolute(path):
        return store, path
    if path.startswith(f"{store.root}/"):
        return store, path[len(store.root) + 1 :]
    if path.startswith("file:///"):
        return open_store("/"), path[len("file:///") :]
    found = _AUTHORITY.match(path)
    if found is None or not found["rest"]:
        raise malformed(f"path {path!r}", "names no object")
    return open_store(found["base"]), found["rest"]


def _climbs_out(path: str) -> bool:
    depth = 0
    for segment in path.split("/"):
        depth += -1 if segment == ".." else 0 if segment in ("", ".") else 1
        if depth < 0:
            return True
    return depth == 0
