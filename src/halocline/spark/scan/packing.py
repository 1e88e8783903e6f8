"""Things put together until they are large enough: files for a task, batches for a buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def packed(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in their order, as many together as fit; one that is too large is alone.

    Example:
        >>> list(packed([3, 4, 9, 1], lambda item: item, 8))
        [[3, 4], [9], [1]]
    """
    pack: list[T] = []
    left = most
    for item in items:
        if pack and size(item) > left:
            yield pack
            pack, left = [], most
        pack.append(item)
        left -= size(item)
    if pack:
        yield pack
