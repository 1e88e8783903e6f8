"""`halocline rollback`: walk a plan back to the last point it can."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from halocline.cli.plan import CHANGES
from halocline.cli.rollout import PlanArgument, WalkOptions, walk
from halocline.cli.shared import takes
from halocline.errors import NotFoundError, needs_extra


@takes(WalkOptions)
def show(
    asked: WalkOptions,
    file: PlanArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell the way back, and change nothing.")] = False,
) -> int:
    """Walk a plan back to the last point it can, in the opposite order.

    The way back is a plan of its own, kept in FILE.back; stopped, it goes on from there when it is called again.
    """
    with needs_extra("the fleet's client", "fleet"):
        from halocline.fleet.member.admin import operator_name
        from halocline.plan.apply.backwards import note_taken_back, saved_way_back
        from halocline.plan.apply.fleetwatch import FleetWatch
        from halocline.plan.apply.status import status_of
        from halocline.plan.apply.takeover import holding_lake
        from halocline.plan.explanation import explain
        from halocline.plan.file import SavedPlan
        from halocline.plan.rendering import to_text

    saved = SavedPlan.read(file)
    kept = f"{file}.back"
    try:
        back = SavedPlan.read(kept)
    except NotFoundError:
        back = None
    if back is None or status_of(back).state == "finished":
        watch = FleetWatch(saved, asked.members or saved.members_file, asked.fleet or saved.fleet)
        # While somebody applies the plan, what is to be taken back still grows.
        with holding_lake(saved.lake, operator_name(), saved.plan.id) as lease:
            back, way = saved_way_back(saved, watch)
            sys.stdout.write(to_text(explain(back.plan, title=f"Way back of plan {saved.plan.id}")) + "\n")
            if way.why:
                sys.stdout.write(f"It ends after stage {way.to_stage - 1}: {way.why}.\n")
            if dry_run:
                return CHANGES
            back.save(kept)
            note_taken_back(saved, back, lease)
    elif dry_run:
        sys.stdout.write(to_text(explain(back.plan, title=f"Way back of plan {saved.plan.id}, under way")) + "\n")
        return CHANGES
    return walk(back, asked)
