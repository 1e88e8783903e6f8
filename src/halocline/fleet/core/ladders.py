"""The ladders that every fleet has: one for each table format.

The records stand in `data/ladders.toml`. A level of a format says which table features may be in use when the fleet
stands at it; which levels a release supports follows from what is known about the release. From which release on a
product supports a level is written down with the rung, because a rung never changes once a fleet has it; a test works
it out again from the knowledge.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from halocline.compat.product import is_number
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.compat.verdict import can
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.state import LevelRange, known_release


@dataclass(frozen=True, slots=True)
class FormatLadder:
    """The ladder of a table format.

    Args:
        features: Per level, the table features that may be in use from there on.
    """

    ladder: Ladder
    features: Mapping[int, frozenset[str]]

    def terms(self, level: int) -> Terms:
        """What a table requires that uses everything the level allows.

        A level that is nothing but a table version allows what every table of that version has. What else tables of it
        may use is judged where the table is at hand.
        """
        used = frozenset[str]().union(*(names for each, names in self.features.items() if each <= level))
        return Terms(Protocol.of(self.ladder.name, used), frozenset() if all(map(is_number, used)) else None)


@cache
def shipped() -> Mapping[str, FormatLadder]:
    """The ladders that come with the package, by format."""
    text = resources.files("halocline.fleet.core").joinpath("data", "ladders.toml").read_text(encoding="utf-8")
    found = {}
    for name, rungs in tomllib.loads(text).items():
        ladder = Ladder(
            name,
            tuple(
                Rung(
                    each["level"],
                    changes_data=each.get("changes_data", False),
                    provided_by=tuple(each.get("provided_by", ())),
                    summary=each["summary"],
                )
                for each in rungs["rung"]
            ),
        )
        found[name] = FormatLadder(ladder, {each["level"]: frozenset(each["features"]) for each in rungs["rung"]})
    return found


def supported_by(release: str, operations: Iterable[str] = ("read",)) -> dict[str, LevelRange]:
    """The range per format that a release is known to support, for what it does.

    A format of which it cannot do even the lowest level, or nothing is known, is left out.

    Example:
        >>> supported_by("deltalake@1.0.2")
        {'delta': LevelRange(lo=1, hi=3)}
        >>> supported_by("hudi@1.0.2", ["read", "write"])
        {'hudi': LevelRange(lo=6, hi=8)}
    """
    asked = tuple(operations)
    found: dict[str, LevelRange] = {}
    if known_release(release) is None:
        return found
    for name, each in shipped().items():
        able = [
            level
            for level in each.ladder.levels
            if all(can(release, each.terms(level), operation).ok for operation in asked)
        ]
        run = _first_run(each.ladder.levels, able)
        if run:
            found[name] = LevelRange(run[0], run[-1])
    return found


def _first_run(levels: Iterable[int], able: list[int]) -> list[int]:
    """The lowest levels without a hole: a range has none."""
    run: list[int] = []
    for level in levels:
        if level in able:
            run.append(level)
        elif run:
            break
    return run
