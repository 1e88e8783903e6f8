"""What waits to be decided, in the order in which it is taken up.

Heartbeats come first: whoever asks for much else, leases are renewed meanwhile. Among themselves they keep their order,
and so does everything else. What was taken out and not got round to is put back where it was.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, NamedTuple

from halocline.fleet.core.effects import Effect
from halocline.fleet.core.events import Cause, Heartbeat
from halocline.fleet.core.state import MemberKey

MOST_TOGETHER: Final = 128
"""Events that share a transaction."""

OnDone = Callable[[tuple[Effect, ...] | None, Exception | None], None]
"""Called with the effects of an event, or with why it has none."""


class Item(NamedTuple):
    """An event, and whom to tell."""

    rank: int
    number: int
    cause: Cause
    done: OnDone


class Inbox:
    """Everything that waits."""

    def __init__(self) -> None:
        self._waiting: asyncio.PriorityQueue[Item] = asyncio.PriorityQueue()
        self._beating: Counter[MemberKey] = Counter()
        self._numbers = count()

    def __len__(self) -> int:
        return self._waiting.qsize()

    def has_heartbeat_of(self, key: MemberKey) -> bool:
        """Whether a heartbeat of that member waits; those that follow must not overtake it."""
        return key in self._beating

    def put(self, cause: Cause, done: OnDone) -> None:
        """Adds an event at the end, or at the end of the heartbeats."""
        rank = 0 if isinstance(cause, Heartbeat) else 1
        self._add(Item(rank, next(self._numbers), cause, done))

    def put_back(self, items: Iterable[Item]) -> None:
        """Puts what was taken out where it was."""
        for item in items:
            self._add(item)

    def _add(self, item: Item) -> None:
        self._waiting.put_nowait(item)
        if isinstance(item.cause, Heartbeat):
            self._beating[item.cause.key] += 1

    async def take(self) -> list[Item]:
        """Waits for something, and takes out what can be decided together."""
        items = [await self._waiting.get()]
        while self._waiting.qsize() and len(items) < MOST_TOGETHER:
            items.append(self._waiting.get_nowait())
        self._beating -= Counter(item.cause.key for item in items if isinstance(item.cause, Heartbeat))
        return items
