"""Markers: which files an unfinished write may have left.

A marker is an empty file below `.hoodie/.temp/<instant>`, named like the data file that is about to be written and how.
It is there before the file is, so whoever rolls the write back finds every file, and those of failed attempts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from halocline.formats.hudi.properties import FOLDER
from halocline.storage.base import Store

_TEMPORARY: Final = f"{FOLDER}/.temp"
_SUFFIX: Final = ".marker."


class MarkerKind(StrEnum):
    """How a file is about to be written: new, from an older one, or as a log file."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


def put_marker(store: Store, instant: str, path: str, kind: MarkerKind) -> None:
    """Says that a write is about to write a file.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore()
        >>> put_marker(store, "20250101000000000", "eu/a_1_2.parquet", MarkerKind.CREATE)
        >>> marked_files(store, "20250101000000000")
        [('eu/a_1_2.parquet', <MarkerKind.CREATE: 'CREATE'>)]
    """
    store.put(_marker(instant, path, kind), b"")


def delete_marker(store: Store, instant: str, path: str, kind: MarkerKind) -> None:
    """Takes back that a write is about to write a file."""
    store.delete(_marker(instant, path, kind))


def marked_files(store: Store, instant: str) -> list[tuple[str, MarkerKind]]:
    """The files that a write said it was about to write."""
    folder, found = f"{_TEMPORARY}/{instant}", []
    for meta in store.list(folder):
        path, marked, kind = meta.path.removeprefix(f"{folder}/").rpartition(_SUFFIX)
        if marked and kind in MarkerKind.__members__:
            found.append((path, MarkerKind(kind)))
    return found


def delete_markers(store: Store, instant: str) -> None:
    """Forgets what a write said, once it is completed or taken back."""
    store.delete_many([meta.path for meta in store.list(f"{_TEMPORARY}/{instant}")])


def _marker(instant: str, path: str, kind: MarkerKind) -> str:
    return f"{_TEMPORARY}/{instant}/{path}{_SUFFIX}{kind}"
