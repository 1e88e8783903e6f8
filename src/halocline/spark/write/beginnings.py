"""Files that were written for a table whose first commit is yet to come.

Rows are written before the commit that creates their table. If the process is killed in between they stay behind, and
a folder that holds files of no table is no place for a new one: its vacuum would delete them. So whoever writes for a
table that does not exist yet notes the name of the folder that it writes into, which is its own. What lies below a
noted folder is left over from such a try and nobody else's, so the next try may go ahead.

Notes go with the first commit. What is left over goes with a vacuum, as after any write that was killed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from halocline.errors import HaloclineError
from halocline.spark.session.file_system import remove_folder
from halocline.storage.base import Store

NOTES: Final = "_halocline_begun"
"""The hidden folder of the notes, each an object that is named after a folder."""

_TEXT: Final = b"A table is being created, or was when its writer ended. The folder of this name holds rows for it.\n"


def note(store: Store, name: str) -> None:
    """Notes a folder, or a file, that is about to be written for a table which does not exist yet."""
    store.put(f"{NOTES}/{name}", _TEXT)


def noted(store: Store) -> frozenset[str]:
    """What has been noted."""
    return frozenset(meta.path.removeprefix(f"{NOTES}/") for meta in store.list(NOTES))


class LeftOver:
    """The files that lie below what has been noted; the notes are looked at once there is a file to ask about."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def _names(self) -> frozenset[str]:
        return noted(self._store)

    def __contains__(self, path: str) -> bool:
        return path in self._names or path.partition("/")[0] in self._names


def forget(store: Store, names: Iterable[str] | None = None) -> None:
    """Removes notes: those of a try that has cleaned up behind itself, or all of them once there is a table."""
    with contextlib.suppress(HaloclineError, OSError):
        before = noted(store)
        gone = before if names is None else before.intersection(names)
        store.delete_many(f"{NOTES}/{name}" for name in gone)
        if before == gone:
            remove_folder(store, NOTES)
