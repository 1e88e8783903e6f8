"""Records by key that are changed often and copied cheaply.

A step leaves the state that it began with untouched, so it works on a copy. Of a mapping with thousands of records only
the difference to a common base is copied: a heartbeat in a large fleet costs as much as in a small one.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, Final, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_FEW: Final = 256
_GONE: Final[Any] = object()


class RecordMap(MutableMapping[_K, _V]):
    """A mapping that is a base, which copies share and none changes, and what differs from it.

    Example:
        >>> before = RecordMap({"a": 1, "b": 2})
        >>> after = before.copy()
        >>> del after["a"]
        >>> dict(before), dict(after)
        ({'a': 1, 'b': 2}, {'b': 2})
    """

    __slots__ = ("_parts",)

    def __init__(self, base: Mapping[_K, _V]) -> None:
        # In one place, so that a thread that reads sees both or neither replaced.
        self._parts: tuple[dict[_K, _V], dict[_K, _V]] = (dict(base), {})

    def copy(self) -> RecordMap[_K, _V]:
        """Another that can be changed without changing this one."""
        if len(self._parts[1]) > _FEW:
            self._merged()
        base, changed = self._parts
        new: RecordMap[_K, _V] = object.__new__(RecordMap)
        new._parts = (base, dict(changed))
        return new

    def _merged(self) -> dict[_K, _V]:
        base, changed = self._parts
        if changed:
            base = base | changed
            for key in [key for key, value in changed.items() if value is _GONE]:
                del base[key]
            self._parts = (base, {})
        return base

    def __getitem__(self, key: _K) -> _V:
        base, changed = self._parts
        found = changed[key] if key in changed else base[key]
        if found is _GONE:
            raise KeyError(key)
        return found

    def __setitem__(self, key: _K, value: _V) -> None:
        self._parts[1][key] = value

    def __delitem__(self, key: _K) -> None:
        self[key]
        self._parts[1][key] = _GONE

    def __iter__(self) -> Iterator[_K]:
        return iter(self._merged())

    def __len__(self) -> int:
        return len(self._merged())

    def items(self) -> ItemsView[_K, _V]:
        """Keys and records."""
        return self._merged().items()

    def values(self) -> ValuesView[_V]:
        """The records."""
        return self._merged().values()

    def __repr__(self) -> str:
        return repr(self._merged())


def edited(records: Mapping[_K, _V]) -> MutableMapping[_K, _V]:
    """A copy to be changed; one of a few records is an ordinary dictionary."""
    if isinstance(records, RecordMap):
        return records.copy()
    return dict(records) if len(records) < _FEW else RecordMap(records)
