"""Values of metadata that do not change, at any depth.

What nests is held to `DEEPEST` levels, types and metadata alike, so that recursion over either ends.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, Final

from halocline.errors import MalformedError

DEEPEST: Final = 200
"""How many types may stand inside each other."""


class FrozenMapping(Mapping[str, Any]):
    """A mapping that does not change, at any depth, and keeps its order."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Any], depth: int = 0) -> None:
        self._entries: Final = {key: frozen(value, depth + 1) for key, value in entries.items()}

    def __getitem__(self, key: str) -> Any:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self._entries.get(key, default)

    def items(self) -> ItemsView[str, Any]:
        """Keys with their values, in order."""
        return self._entries.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMapping):
            return self._entries == other._entries
        return NotImplemented if not isinstance(other, Mapping) else self == FrozenMapping(other)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries))

    def __repr__(self) -> str:
        return repr(self._entries)

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenMapping, (self._entries,)


EMPTY: Final = FrozenMapping({})


def frozen(value: Any, depth: int = 0) -> Any:
    """The value with mappings and lists that do not change."""
    if isinstance(value, FrozenMapping):
        return value
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth > DEEPEST:
        raise too_deep()
    if isinstance(value, Mapping):
        return FrozenMapping(value, depth) if value else EMPTY
    return tuple(frozen(each, depth + 1) for each in value)


def too_deep() -> MalformedError:
    """The error for what is nested too deeply."""
    return MalformedError(
        f"the schema is nested more than {DEEPEST} levels deep",
        condition="MALFORMED_METADATA",
        sides={"expected": f"at most {DEEPEST} types inside each other", "found": "more"},
        next_step="Store deeply nested values as text.",
    )
