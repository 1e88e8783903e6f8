"""`halocline apply`: walk exactly the plan that was kept."""

from __future__ import annotations

from halocline.cli.plan import FleetOption
from halocline.cli.rollout import (
    ConfirmOption,
    MembersOption,
    PlanArgument,
    PolicyOption,
    PollOption,
    VerifyOption,
    WaitOption,
    WalkOptions,
    walk,
)


def show(
    file: PlanArgument,
    members: MembersOption = "",
    fleet: FleetOption = "",
    verify: VerifyOption = "sample",
    policy: PolicyOption = "",
    confirm: ConfirmOption = None,
    wait: WaitOption = True,
    poll: PollOption = 2.0,
) -> int:
    """Apply exactly the plan in a file, from wherever it stands.

    It is refused if tables or members have moved since. Stopped at any moment, it goes on from there when it is called
    again. The exit code is 0 if everything is done, and 2 with --no-wait if it waits.
    """
    # Imported here: a wrong argument is told without it.
    from halocline.plan.file import SavedPlan

    return walk(SavedPlan.read(file), WalkOptions(members, fleet, verify, policy, confirm, wait, poll))
