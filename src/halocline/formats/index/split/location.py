"""Where the paths of splits in a log lead.

A path is a name below the table's root, not escaped, or a whole URL. A URL below the root, however it is spelt, is the
name that it has there; anything else lies outside of the table and is not read.
"""

from __future__ import annotations

from halocline.errors import InputError, UnsupportedError
from halocline.formats.log.damage import malformed
from halocline.storage.base import Store, checked_path
from halocline.storage.location import Location


def below_root(store: Store, path: str) -> str:
    """The name of a split below the table's root.

    Raises:
        MalformedError: It names nothing, or climbs out of the table.
        UnsupportedError: It lies outside of the table.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> below_root(MemoryStore(), "day=1/a.split")
        'day=1/a.split'
    """
    if "://" in path or path.startswith(("/", "file:")):
        root, place = Location.parse(store.root), Location.parse(path)
        inside = place.path.removeprefix(root.path.rstrip("/") + "/")
        if place[:2] != root[:2] or inside == place.path:
            raise UnsupportedError(
                f"split {path} lies outside of the table",
                sides={"split": place.url, "table": root.url},
                next_step="Copy the splits into the table's folder.",
            )
        path = inside
    try:
        return checked_path(path)
    except InputError as error:
        raise malformed(f"split {path!r}", "names no file of the table") from error
