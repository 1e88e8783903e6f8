"""Policies: what a team holds every rollout to, in a file that is committed next to its code.

unknown = "refuse"                  # or "accept": members of which nothing is known may be accepted by name
soak_minutes = 60                   # how long a wave runs before the next stage begins
tables_at_once = 10                 # how many tables move within one round

[[windows]]                         # when nothing moves
reason = "year-end close"
from = 2026-12-20T00:00:00Z
until = 2027-01-03T00:00:00Z
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from halocline.errors import IncompatibleError, InputError
from halocline.plan.core.plan import Plan
from halocline.plan.toml_file import read_toml, records, unusable

_KEYS: Final = ("unknown", "soak_minutes", "tables_at_once", "windows")
_WINDOW_KEYS: Final = ("reason", "from", "until")


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """A time in which nothing moves; times without a zone are in UTC."""

    reason: str
    since: datetime
    until: datetime

    def holds(self, at: datetime) -> bool:
        """Whether a moment lies in it."""
        return self.since <= at < self.until


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
    windows: tuple[QuietWindow, ...] = ()

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
        windows = tuple(_window(each, place) for place, each in records(raw, "windows", _WINDOW_KEYS, str(path)))
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
        return next((each for each in self.windows if each.holds(at)), None)


def _window(raw: Mapping[str, Any], where: str) -> QuietWindow:
    since, until = (_moment(key, raw.get(key), where) for key in ("from", "until"))
    if since >= until:
        raise InputError(f"{where} ends before it begins", sides={"from": str(since), "until": str(until)})
    return QuietWindow(str(raw.get("reason", "nothing moves")), since, until)


def _moment(key: str, value: Any, where: str) -> datetime:
    if not isinstance(value, datetime):
        raise unusable(f"{key} in {where}", value, "a time, such as 2026-12-20T00:00:00Z")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _number(key: str, value: Any, where: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise unusable(f"{key} in {where}", value, "a number, 0 or more")
    return float(value)
