"""What walking a plan is given and gives back: how it is done, who is told, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from halocline.plan.apply.verify import Verify
from halocline.plan.core.plan import Stage
from halocline.plan.policy import RolloutPolicy


class Reporter(Protocol):
    """Who is told how it goes."""

    def stage(self, number: int, stage: Stage, done: int) -> None:
        """A stage begins, of which so much was done before."""

    def step(self, number: int, subject: str, detail: str = "") -> None:
        """One more member or table is done."""

    def waiting(self, pause: Pause) -> None:
        """Nothing more can be done now."""

    def note(self, text: str) -> None:
        """Something to know."""


@dataclass(frozen=True, slots=True)
class Pause:
    """What a rollout waits for.

    Attributes:
        stage: In which stage.
        subjects: For whom, or for which tables.
        why: Why, as a clause.
        since_ms: Since when.
        until_ms: Until when, if that is known; 0 if not.
    """

    stage: int
    subjects: tuple[str, ...]
    why: str
    since_ms: int
    until_ms: int = 0


@dataclass(frozen=True)
class ApplyOptions:
    """How a plan is applied.

    Attributes:
        verify: How much of the rows is compared.
        policy: What the team holds every rollout to.
        confirmed: Members that an operator vouches for.
        wait: Whether to wait; else the first pause ends it.
        poll_s: How often members are looked at.
    """

    verify: Verify = Verify.SAMPLE
    policy: RolloutPolicy = field(default_factory=RolloutPolicy)
    confirmed: frozenset[str] = frozenset()
    wait: bool = True
    poll_s: float = 2.0


class Paused(Exception):
    """Ends a try at a stage in which something cannot be done yet."""

    def __init__(self, subjects: Iterable[str], why: str, until_ms: int = 0) -> None:
        super().__init__(why)
        self.subjects, self.why, self.until_ms = tuple(subjects), why, until_ms
