"""Where a rollout stands: each stage, what it waits for and since when, and who applies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halocline.plan.apply.journal import (
    BEGUN,
    FINISHED,
    NOT_COMPARED,
    STAGE_DONE,
    TAKEN_BACK,
    UPGRADED,
    VERIFIED,
    WAITING,
    Journal,
)
from halocline.plan.apply.lease import LeaseHolder, holder_of
from halocline.plan.file import SavedPlan


@dataclass(frozen=True, slots=True)
class StageStatus:
    """One stage.

    Attributes:
        number: Which.
        work: What it does: `members` or `tables`.
        total: How many.
        done: How many of them are done.
        state: `done`, `running`, `waiting` or `to do`.
        waiting: What it waits for.
        since_ms: Since when; 0 if it does not wait.
    """

    number: int
    work: str
    total: int
    done: int
    state: str
    waiting: str = ""
    since_ms: int = 0


@dataclass(frozen=True)
class RolloutStatus:
    """A rollout.

    Attributes:
        plan: The plan's id.
        state: `not begun`, `running`, `stopped`, `finished` or `taken back`.
        stages: Its stages.
        holder: Who applies it now.
        begun_ms: When it was begun; 0 if it was not.
    """

    plan: str
    state: str
    stages: tuple[StageStatus, ...]
    holder: LeaseHolder | None
    begun_ms: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "plan": self.plan,
            "state": self.state,
            "by": self.holder.by if self.holder else None,
            "begun": self.begun_ms or None,
            "stages": [
                {
                    "stage": each.number,
                    "work": each.work,
                    "done": each.done,
                    "total": each.total,
                    "state": each.state,
                    "waitsFor": each.waiting or None,
                    "since": each.since_ms or None,
                }
                for each in self.stages
            ],
        }


def uncompared(saved: SavedPlan) -> dict[str, str]:
    """Return the tables of a plan not all of whose rows were compared, each with what is said of it."""
    journal = Journal.open(saved.lake, saved.plan.id)
    found = (
        (move.table, journal.last_of(VERIFIED, number, move.table))
        for number, stage in enumerate(saved.plan.stages, 1)
        for move in stage.moves
    )
    return {table: entry.detail for table, entry in found if entry is not None and NOT_COMPARED in entry.detail}


def status_of(saved: SavedPlan) -> RolloutStatus:
    """Where the rollout of a plan stands."""
    journal = Journal.open(saved.lake, saved.plan.id)
    holder = holder_of(journal.store)
    active = holder if holder is not None and holder.plan == saved.plan.id and not holder.is_over else None
    begun = journal.last(BEGUN, 0)
    stages = []
    for number, stage in enumerate(saved.plan.stages, 1):
        total = len(stage.moves) or len(stage.upgrades)
        done = len(journal.subjects(VERIFIED if stage.moves else UPGRADED, number))
        work = "tables" if stage.moves else "members"
        waiting = journal.last(WAITING, number)
        before = number == 1 or journal.has(STAGE_DONE, number - 1)
        if journal.has(STAGE_DONE, number):
            stages.append(StageStatus(number, work, total, done, "done"))
        elif begun is None or not before:
            stages.append(StageStatus(number, work, total, done, "to do"))
        elif waiting is not None and journal.entries[-1].kind == WAITING:
            stages.append(StageStatus(number, work, total, done, "waiting", waiting.detail, waiting.at_ms))
        else:
            stages.append(StageStatus(number, work, total, done, "running"))
    if journal.last(TAKEN_BACK, 0):
        state = "taken back"
    elif journal.has(FINISHED):
        state = "finished"
    elif begun is None:
        state = "not begun"
    else:
        state = "running" if active else "stopped"
    return RolloutStatus(saved.plan.id, state, tuple(stages), active, begun.at_ms if begun else 0)
