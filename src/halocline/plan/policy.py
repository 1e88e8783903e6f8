"""Policies: what a team holds every rollout to, in a file that is committed next to its code.

unknown = "refuse"                  # or "accept": members of which nothing is known may be accepted by name
soak_minutes = 60                   # how long a wave runs before the next stage begins
tables_at_once = 10                 # how many tables move within one round

[[windows]]                         # when nothing moves
reason = "year-end close"
from = 2026-12-20T00:00:00Z
until = 2027-01-03T00:00:00Z

[[windows]]
reason = "weekend"
weekly = "Fri 16:00 - Mon 08:00 Europe/Berlin"
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from halocline.errors import IncompatibleError
from halocline.plan.core.plan import Plan
from halocline.plan.toml_file import read_toml, records, unusable
from halocline.plan.windows import KEYS, QuietWindow, WeeklyWindow, read_window

_KEYS: Final = ("unknown", "soak_minutes", "tables_at_once", "windows")


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    """What every rollout is held to.

    Attributes:
        accepts_unknown: Whether members of which nothing is known may be accepted by name.
        soak_s: How long a stage of members runs before the next stage begins.
        tables_at_once: How many tables move at a time; 0 leaves it to Halocline.
        windows: When nothing moves.
    """

    accepts_unknown: bool = True
    soak_s: float = 0.0
    tables_at_once: int = 0
    windows: tuple[QuietWindow | WeeklyWindow, ...] = ()

    @staticmethod
    def read(path: str | Path) -> RolloutPolicy:
        """Reads a file.

        Raises:
            NotFoundError: There is none.
            InputError: It is not TOML, or says what is not understood.
        """
        raw = read_toml(path, _KEYS)
        unknown = raw.get("unknown", "accept")
        if unknown not in ("accept", "refuse"):
            raise unusable(f"unknown in {path}", unknown, '"accept" or "refuse"')
        soak = _number("soak_minutes", raw.get("soak_minutes", 0), path)
        at_once = _number("tables_at_once", raw.get("tables_at_once", 0), path)
        windows = tuple(read_window(each, place) for place, each in records(raw, "windows", KEYS, str(path)))
        return RolloutPolicy(unknown == "accept", soak * 60.0, int(at_once), windows)

    def check(self, plan: Plan) -> None:
        """Refuses a plan that does not keep to it."""
        if plan.accepted and not self.accepts_unknown:
            raise IncompatibleError(
                "the policy accepts no member of which nothing is known",
                sides={"policy": 'unknown = "refuse"', "accepted": ", ".join(plan.accepted)},
                next_step="Find out what these members can do, and say so in a knowledge file: docs/knowledge.md",
            )

    def quiet(self, at: datetime) -> QuietWindow | None:
        """The window that a moment lies in; None if things may move."""
        return next((held for each in self.windows if (held := each.at(at))), None)


def _number(key: str, value: Any, where: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise unusable(f"{key} in {where}", value, "a number, 0 or more")
    return float(value)
