"""The timeline: what was done to a Hudi table, one file per action and state.

An *instant* is an action that began at a time. Its file `<time>.<action>` or, from table version 8 on,
`<time>_<end>.<action>` says that it is complete; files that end in `requested` or `inflight` say that it is not. Up to
version 6 they lie in `.hoodie`, later in `.hoodie/timeline`. Older instants move into an archive, which is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from halocline.formats.hudi.properties import FOLDER
from halocline.storage.base import ObjectMeta, Store

WRITES: Final = frozenset({"commit", "deltacommit", "replacecommit"})
"""The actions that bring rows in or take them out."""

_PLACES: Final = (FOLDER, f"{FOLDER}/timeline")
_COMPLETED: Final = re.compile(r"(\d{14}|\d{17})(?:_(\d{14}|\d{17}))?\.([a-z]+)")


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A completed action.

    Attributes:
        time: When it began, as the table spells it: in the zone of whoever wrote it.
        action: What it was, e.g. `commit`.
        written_ms: When its file was written, in milliseconds since 1970.
    """

    time: str
    action: str
    written_ms: int


def completed(store: Store) -> tuple[Instant, ...]:
    """The completed actions that the active timeline holds, oldest first.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore("timeline")
        >>> for name in ("20250101000000000.commit", "20250101000000001.commit.requested"):
        ...     _ = store.put(f".hoodie/{name}", b"{}")
        >>> [(each.time, each.action) for each in completed(store)]
        [('20250101000000000', 'commit')]
    """
    return tuple(sorted(each for place in _PLACES for each in _instants(store, place)))


def _instants(store: Store, place: str) -> Iterator[Instant]:
    for meta in _beginning_with_a_digit(store, place):
        found = _COMPLETED.fullmatch(meta.path.removeprefix(f"{place}/"))
        if found and found[3] not in ("requested", "inflight"):
            yield Instant(found[1], found[3], meta.modified_ms)


def _beginning_with_a_digit(store: Store, place: str) -> Iterator[ObjectMeta]:
    """The instant files of a folder. Other folders in it may be large, and sort after them or before."""
    for meta in store.list(place, start_after=f"{place}/0"):
        if not meta.path.removeprefix(f"{place}/")[:1].isdigit():
            return
        yield meta
