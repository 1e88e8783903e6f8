"""What callers' dates say about our own.

A caller whose date is far from ours is refused, and tries again later. If that is true of most of them, it is our own
date that is wrong, and a store on the same machine would not tell: then whoever watches the coordinator must hear.

A *witness* is a credential that may join, at one address. So one caller is one witness, whatever names it gives itself,
one machine has one clock, and who may only look is none.
"""

from __future__ import annotations

from statistics import median
from typing import Final

from halocline.fleet.server.auth import Grant, Right
from halocline.fleet.server.connections import origin_of

_FEWEST: Final = 3
_MOST: Final = 100


class CallerDates:
    """How far from ours the dates of the latest witnesses are.

    Example:
        >>> dates = CallerDates(600_000)
        >>> for name in ("etl", "bi", "load"):
        ...     dates.note(name, -700_000)
        >>> dates.complaint()
        'the dates of most callers are 700 s behind ours'
    """

    def __init__(self, allowed_ms: int) -> None:
        self._allowed = allowed_ms
        self._apart: dict[str, int] = {}

    def note(self, witness: str, apart_ms: int) -> None:
        """Remembers by how much a date is ahead of ours; of each witness the latest, and of very many the last."""
        self._apart.pop(witness, None)
        self._apart[witness] = apart_ms
        if len(self._apart) > _MOST:
            del self._apart[next(iter(self._apart))]

    def complaint(self) -> str:
        """What is wrong, if most of several witnesses agree that something is."""
        middle = median(self._apart.values()) if len(self._apart) >= _FEWEST else 0
        if abs(middle) <= self._allowed:
            return ""
        way = "ahead of" if middle > 0 else "behind"
        return f"the dates of most callers are {abs(middle) / 1000:,.0f} s {way} ours"


def witness_of(grant: Grant, credential: str, host: str) -> str | None:
    """Who bears witness of the date when this caller tells it; None if its word does not count."""
    return f"{credential} at {origin_of(host)}" if Right.JOIN in grant.rights else None
