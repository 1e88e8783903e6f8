"""Proposals: the plan for each way in which a target can be reached, and which of them to take.

There is one way, unless a feature is dropped and it is left open what becomes of old versions that use it: they can be
kept and protected, which is a requirement of its own, or deleted, which takes a day and cannot be taken back. Both are
planned then; the one after which more works is taken, and of two that are equal the one that keeps history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from halocline.compat.release import Release
from halocline.lake.lake import Lake
from halocline.plan.core.plan import Impasse, Plan
from halocline.plan.core.planner import plan
from halocline.plan.explanation import summary
from halocline.plan.gathering import Gathered, both_ways, gather
from halocline.plan.target import Target


@dataclass(frozen=True)
class RolloutProposal:
    """What came of one way.

    Attributes:
        way: Its name; empty if there is only one.
        gathered: What it is about.
        found: The plan, or the impasse.
    """

    way: str
    gathered: Gathered
    found: Plan | Impasse

    @property
    def told(self) -> str:
        """The way and what comes of it, in one line."""
        if isinstance(self.found, Impasse):
            return f"{self.way}: no safe plan"
        rest = f"; {len(self.found.already)} uses do not work afterwards" if self.found.already else ""
        return f"{self.way}: {summary(self.found).removeprefix('Plan: ').rstrip('.')}{rest}"


def propose_rollout(
    lake: Lake,
    target: Target,
    *,
    members_file: str = "",
    fleet: str = "",
    available: Iterable[Release] = (),
    accepted: Iterable[str] = (),
    may_stop: Iterable[str] = (),
    progress: Callable[[int], None] | None = None,
) -> tuple[RolloutProposal, ...]:
    """A proposal for each way, the one to take first.

    Example:
        >>> propose_rollout(Lake.discover("lake"), Target(enable=("deletionVectors",)))[0].found  # doctest: +SKIP
    """
    ways = both_ways(target)
    found = []
    for each in ways:
        gathered = gather(
            lake,
            each,
            members_file=members_file,
            fleet=fleet,
            available=available,
            accepted=accepted,
            may_stop=may_stop,
            progress=progress,
        )
        way = "" if len(ways) == 1 else "history truncated" if each.truncate else "history kept"
        found.append(RolloutProposal(way, gathered, plan(gathered.rollout)))
    alike = len({str(each.found.id) for each in found if isinstance(each.found, Plan)}) == 1
    return tuple(sorted(found, key=_preference))[: 1 if alike and len(found) == 2 and _no_impasse(found) else None]


def _no_impasse(found: Sequence[RolloutProposal]) -> bool:
    return all(isinstance(each.found, Plan) for each in found)


def _preference(proposal: RolloutProposal) -> tuple[bool, int, bool]:
    found = proposal.found
    already = len(found.already) if isinstance(found, Plan) else 0
    return isinstance(found, Impasse), already, proposal.way == "history truncated"
