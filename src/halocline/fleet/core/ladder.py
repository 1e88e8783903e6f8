"""Ladders: the ordered levels of one format or product, and the facts about each.

A ladder is data. A *rung* says what its level requires of other ladders, which features a member must have to work at
it, whether reaching it changes stored data (which decides whether the way back is free), and from which release on each
product supports it. Levels need not follow each other: Hudi's go from 6 to 8.

A ladder only grows. A rung that was declared once never changes, because members were admitted by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from halocline.compat.release import Release
from halocline.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class LadderLevel(NamedTuple):
    """A level of a ladder."""

    ladder: str
    level: int


@dataclass(frozen=True, slots=True)
class Rung:
    """One level of a ladder.

    Args:
        requires: Levels of other ladders that must be reached before.
        changes_data: Whether work at this level leaves data behind that lower levels cannot use.
        features: What a member must have to work at this level.
        provided_by: The first release of each product that supports this level, as `product@version`.
    """

    level: int
    requires: tuple[LadderLevel, ...] = ()
    changes_data: bool = False
    features: frozenset[str] = frozenset()
    provided_by: tuple[str, ...] = ()
    summary: str = ""

    def __post_init__(self) -> None:
        if self.level < 1:
            raise InputError(f"level {self.level} is not a level: they count from 1, and 0 means unknown")

    def release_for(self, product: str) -> str:
        """The release of that product which would do, or nothing if none is known."""
        return next((text for text in self.provided_by if Release.parse(text).product == product), "")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The levels of one format or product, lowest first.

    Example:
        >>> hudi = Ladder("hudi", (Rung(6), Rung(8, changes_data=True)))
        >>> hudi.above(6), hudi.above(8), hudi.free(8, 6)
        (8, None, False)
    """

    name: str
    rungs: tuple[Rung, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"{self.name!r} cannot name a ladder", sides={"expected": "letters, digits, . _ -"})
        levels = self.levels
        if not levels or list(levels) != sorted(set(levels)):
            raise InputError(f"ladder {self.name} must have levels, each once and lowest first", sides=_shown(levels))

    @property
    def levels(self) -> tuple[int, ...]:
        """The numbers of its rungs."""
        return tuple(rung.level for rung in self.rungs)

    def rung(self, level: int) -> Rung | None:
        """The rung of that level, if there is one."""
        return next((rung for rung in self.rungs if rung.level == level), None)

    def above(self, level: int) -> int | None:
        """The next level up, if there is one."""
        return next((rung.level for rung in self.rungs if rung.level > level), None)

    def up_to(self, level: int) -> tuple[Rung, ...]:
        """The rungs that are in use when the fleet stands at `level`."""
        return tuple(rung for rung in self.rungs if rung.level <= level)

    def free(self, level: int, target: int) -> bool:
        """Whether going down from `level` to `target` leaves no data behind that needs cleaning."""
        return not any(rung.changes_data for rung in self.rungs if target < rung.level <= level)

    def extends(self, other: Ladder) -> bool:
        """Whether this is `other` with rungs added on top, and nothing else changed."""
        return self.name == other.name and self.rungs[: len(other.rungs)] == other.rungs

    def features_at(self, level: int) -> frozenset[str]:
        """What a member must have to work while the fleet stands at `level`."""
        return _features(self, level)


@lru_cache(maxsize=1024)
def _features(ladder: Ladder, level: int) -> frozenset[str]:
    return frozenset[str]().union(*(rung.features for rung in ladder.up_to(level)))


def _shown(levels: tuple[int, ...]) -> dict[str, str]:
    return {"given": ", ".join(map(str, levels)) or "none"}
