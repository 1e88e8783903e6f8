"""What Spark stores of a stream: where each micro-batch ends and, of the first one, where it began.

A *position* says how far a stream has come in a table; each format has its own. An *offset* is what Spark keeps of it:
the position at which a micro-batch ends. Spark stores it before the batch is run, and the next batch begins there. The
first one has none before it: Spark asks the source where the query begins, and asks again when it does that batch once
more after a crash. By then the table has moved on, and the answer would be another one. So it is given once, and kept:

- The position that the source answers with is marked as *initial*, so it is never taken for one that was stored.
- The offset of a batch that begins at such a position carries it along, and `partitions` begins there whatever Spark
  says.

Spark before 4.2 does not say where a stream is when it asks how far to go. The offset that it is given then carries
where the reader believes the batch to begin: the furthest position that it has seen, which may lie behind the end of
the batch before if a listing has shown less than one before did. A reader that has seen none takes the initial one.
That counts only if Spark has stored none either; if it has, the offset is new to it all the same, and a batch follows
that may be empty.

Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from halocline.errors import InputError, NotFoundError

Offset: TypeAlias = Mapping[str, Any]

_INITIAL: Final = "initial"
_BEGAN: Final = "began"


@dataclass
class StreamOffsets:
    """The offsets of one reader.

    Attributes:
        identity: The keys of a position that say which table it is of.
        order: The keys of a position that say how far it is.
        rank: What makes the values of those keys comparable.
    """

    identity: tuple[str, ...]
    order: tuple[str, ...]
    rank: Callable[..., Any] = field(default=lambda *values: values)
    _initial: dict[str, Any] | None = field(default=None, repr=False)
    _seen: dict[str, Any] | None = field(default=None, repr=False)
    _last: dict[str, Any] | None = field(default=None, repr=False)

    def initial(self, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Where a query without a checkpoint begins, found once in the life of a reader."""
        if self._initial is None:
            self._initial = {**find(), _INITIAL: True}
        return self._initial

    def planned(
        self,
        start: Offset | None,
        find: Callable[[], dict[str, Any]],
        reach: Callable[[dict[str, Any] | None], dict[str, Any]],
    ) -> dict[str, Any]:
        """The offset at which the next micro-batch ends; that at which it begins, if there is nothing new.

        Args:
            start: The offset at which it begins; None where Spark does not say.
            find: Finds where a query without a checkpoint begins.
            reach: Says how far the batch may go from a position; None if that is not known.
        """
        begins = start if start is not None else self._seen or self._own_initial(find)
        position = None if begins is None else position_of(begins)
        # A reader that has only been told where a new query would begin does not know where this one is.
        is_known = start is not None or self._seen is not None
        end = self._furthest(reach(position if is_known else None), position)
        last = start if start is not None and not _is_initial(start) else self._last
        if last is not None and end == position_of(last):
            self._last = dict(last)
        elif begins is not None and (start is None or _is_initial(begins)):
            self._last = {**end, _BEGAN: {key: value for key, value in begins.items() if key != _BEGAN}}
        else:
            self._last = end
        self._seen = self._furthest(end, self._seen)
        return self._last

    def beginning(self, start: Offset, end: Offset, find: Callable[[Offset, Offset], dict[str, Any]]) -> dict[str, Any]:
        """The position at which a micro-batch begins.

        Args:
            start: Where Spark says that it begins.
            end: The offset at which it ends.
            find: Finds the beginning of a first micro-batch that was planned by a release which did not store it.
        """
        began = end.get(_BEGAN)
        if isinstance(began, Mapping) and (_is_initial(start) or not _is_initial(began)):
            begins = position_of(began)
        elif _is_initial(start):
            begins = find(position_of(start), end)
        else:
            begins = position_of(start)
        self._seen = self._furthest(self._furthest(begins, position_of(end)), self._seen)
        return begins

    def _own_initial(self, find: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        # If a query begins here, Spark asks for the same next, and is told why there is none.
        with suppress(InputError, NotFoundError):
            return self.initial(find)
        return None

    def _furthest(self, position: dict[str, Any], other: dict[str, Any] | None) -> dict[str, Any]:
        """The further one of two positions in the same table; the first if they are not: strange ones are met later."""
        if other is None or any(other.get(key) != position[key] for key in self.identity):
            return position
        if any(type(other.get(key)) is not type(position[key]) for key in self.order):
            return position
        ranks = [self.rank(*(each[key] for key in self.order)) for each in (position, other)]
        return other if ranks[1] > ranks[0] else position


def position_of(offset: Offset) -> dict[str, Any]:
    """The position of an offset, without what else it carries."""
    return {key: value for key, value in offset.items() if key not in (_INITIAL, _BEGAN)}


def beginning_is_lost(table: str, option: str, start: Offset, end: Offset) -> InputError:
    """The error for a first micro-batch whose end does not say where it began, and whose options do not either."""
    return InputError(
        f"where the first micro-batch from {table} began is not known any more, and it is not done yet",
        condition="STREAM_START_UNKNOWN",
        sides={
            "checkpoint": f"ends at {dict(end)}, planned by a release that did not store the beginning"[:200],
            "table": f"{option}=latest would be {dict(start)} now"[:200],
        },
        next_step=f"Start the query with a new checkpoint, and with {option} at what its target does not have yet.",
    )


def _is_initial(offset: Offset) -> bool:
    return offset.get(_INITIAL) is True
