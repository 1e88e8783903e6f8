"""A program that applies a plan, or takes it back, and can be made to stop itself at a stated moment.

Started by `tests.support.processes.Process`. It stops itself as SIGSTOP does, so nothing in it goes on, until the test
wakes it up.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from halocline.errors import HaloclineError
from halocline.plan.apply import lease, table_move
from halocline.plan.apply.backwards import note_taken_back, saved_way_back
from halocline.plan.apply.engine import apply_plan
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.takeover import holding_lake
from halocline.plan.apply.verify import Verify
from halocline.plan.apply.walk import ApplyOptions
from halocline.plan.file import SavedPlan
from halocline.storage.local import LocalStore
from halocline.storage.object_store import ObjectStore


class Quiet:
    def stage(self, *_: Any) -> None: ...
    def step(self, *_: Any) -> None: ...
    def waiting(self, *_: Any) -> None: ...
    def note(self, *_: Any) -> None: ...


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def stop() -> None:
    say(stopped=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.2)  # the thread that asks for the stop runs on for a moment


def stop_before_the_work() -> None:
    """Stops before the first table is touched."""
    whole = table_move.carry_out

    def carry_out(*args: Any) -> None:
        stop()
        whole(*args)

    table_move.carry_out = carry_out


def stop_before_the_put(pattern: str) -> None:
    """Stops when everything was asked, and nothing but the conditional write of a commit is left."""
    wanted, stopped = re.compile(pattern), []

    def stopping(whole: Callable[..., str]) -> Callable[..., str]:
        def put(self: Any, path: str, *rest: Any) -> str:
            if wanted.search(path) and not stopped:
                stopped.append(path)
                stop()
            return whole(self, path, *rest)

        return put

    for kind in (LocalStore, ObjectStore):
        for name in ("put_if_absent", "put_if_match"):
            setattr(kind, name, stopping(getattr(kind, name)))


def work_slowly(seconds: float) -> None:
    whole = table_move.carry_out

    def carry_out(*args: Any) -> None:
        say(moves=str(args[1]))
        time.sleep(seconds)
        whole(*args)

    table_move.carry_out = carry_out


def main(asked: dict[str, Any]) -> None:
    lease.LEASE_S = asked.get("lease_s", lease.LEASE_S)
    if asked.get("stop") == "before the work":
        stop_before_the_work()
    elif asked.get("stop"):
        stop_before_the_put(asked["stop"])
    if asked.get("slow_s"):
        work_slowly(asked["slow_s"])
    say(**carried_out(asked["plan"], asked["by"]))


def carried_out(plan: str, by: str, *, back: bool = False) -> dict[str, Any]:
    """Applies a plan, or takes it back, and tells how that ended."""
    saved = SavedPlan.read(plan)
    watch = FleetWatch(saved, saved.members_file)
    try:
        if back:
            with holding_lake(saved.lake, by, saved.plan.id) as held:
                way, _ = saved_way_back(saved, watch)
                note_taken_back(saved, way, held)
            saved = way
        pause = apply_plan(saved, watch, Quiet(), by=by, options=ApplyOptions(Verify.NONE, wait=False))
        return {"ended": "done" if pause is None else pause.why}
    except HaloclineError as error:
        return {"ended": error.condition, "message": error.message}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
