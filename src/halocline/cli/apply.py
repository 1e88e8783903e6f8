"""`halocline apply`: walk exactly the plan that was kept."""

from __future__ import annotations

from halocline.cli.rollout import PlanArgument, WalkOptions, walk
from halocline.cli.shared import takes


@takes(WalkOptions)
def show(asked: WalkOptions, file: PlanArgument) -> int:
    """Apply exactly the plan in a file, from wherever it stands.

    It is refused if tables or members have moved since. Stopped at any moment, it goes on from there when it is called
    again. The exit code is 0 if everything is done, and 2 with --no-wait if it waits.
    """
    # Imported here: a wrong argument is told without it.
    from halocline.plan.file import SavedPlan

    return walk(SavedPlan.read(file), asked)
