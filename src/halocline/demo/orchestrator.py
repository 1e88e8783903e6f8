"""The orchestrator: restarts pipelines as the releases that a rollout waits for, as a deployment would.

A rollout restarts nothing by itself. It says which stage has come, and waits until it sees the members with their new
releases. Here they are restarted one at a time, in the order in which they stand in the stage, while all others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING

from halocline.demo.pipelines import Pipeline
from halocline.demo.story import Story

if TYPE_CHECKING:
    from halocline.plan.apply.walk import Pause
    from halocline.plan.core.plan import MemberUpgrade, Stage


class Orchestrator:
    """Hears how a rollout goes, tells it on, and restarts members when their stage has come."""

    def __init__(self, story: Story, pipelines: Mapping[str, Pipeline]) -> None:
        self._story = story
        self._pipelines = pipelines
        self._restarting: list[Thread] = []
        self._heard: set[str] = set()
        self._due: dict[str, MemberUpgrade] = {}
        self._members: set[str] = set()

    def stage(self, number: int, stage: Stage, done: int) -> None:
        """A stage begins."""
        self._due = {each.member: each for each in stage.upgrades}
        self._members = set(self._due)
        if stage.upgrades:
            self._story.say(f"stage {number}: {len(stage.upgrades)} members get another release, one at a time")
        else:
            self._story.say(f"stage {number}: {len(stage.moves)} tables move")

    def step(self, number: int, subject: str, detail: str = "") -> None:
        """A member or a table is done."""
        self._story.say(f"  {subject} {detail}".rstrip())

    def waiting(self, pause: Pause) -> None:
        """Something is waited for; said once. Members are restarted when it is for them."""
        due = [self._due.pop(name) for name in pause.subjects if name in self._due]
        if due:
            self._restarting.append(Thread(target=self._restart, args=(due,), name="restart", daemon=True))
            self._restarting[-1].start()
        text = "  " + ": ".join(filter(None, (", ".join(pause.subjects), pause.why)))
        if due or not (text in self._heard or self._members.issuperset(pause.subjects)):
            self._heard.add(text)
            self._story.say(text, "dim")

    def note(self, text: str) -> None:
        """Something to know."""
        self._story.say(f"  {text}", "dim")

    def join(self) -> None:
        """Waits until every restart is done."""
        for each in self._restarting:
            each.join(120)

    def _restart(self, upgrades: Sequence[MemberUpgrade]) -> None:
        for each in upgrades:
            pipeline = self._pipelines.get(each.member)
            if pipeline is None or each.after is None:
                continue
            try:
                pipeline.roll(str(each.after))
            except TimeoutError as error:
                self._story.ledger.failure(each.member, error)
