"""A rollout from an orchestrator: three verbs, each a command that ends soon and says how far it is.

    python examples/orchestrated.py LAKE rollout.plan --enable deletionVectors --members members.toml

An orchestrator calls `plan` once, then `apply` again and again until it is done, and `rollback` in the same way if
somebody wants to go back. Nothing is kept here: what has been done stands in the lake, so a call that is killed, or
made on another machine, goes on where the last one was. `airflow_rollout.py` has the same calls as tasks.

`HALOCLINE_COMMAND` names the command where it is not on the path; its exit codes are 0 for done or nothing to do, 2 for
something to do or to wait for, and 1 for an error.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time


class RolloutFailed(RuntimeError):
    """The command ended with an error, which is the text."""


def plan(lake: str, file: str, *options: str) -> bool:
    """Makes a plan and keeps it in a file. Whether there is anything to do."""
    return _halocline("plan", lake, *options, "--out", file) == 2


def apply(file: str, *options: str) -> bool:
    """Goes as far as it can. Whether all of the plan is done; if not, call it again later."""
    return _halocline("apply", file, "--no-wait", *options) == 0


def rollback(file: str, *options: str) -> bool:
    """Goes back as far as it can now. Whether all of the way back is done; if not, call it again later."""
    return _halocline("rollback", file, "--no-wait", *options) == 0


def status(place: str) -> None:
    """Says where a rollout stands."""
    _halocline("status", place)


def _halocline(*arguments: str) -> int:
    command = shlex.split(os.environ.get("HALOCLINE_COMMAND", "halocline"))
    done = subprocess.run([*command, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, flush=True)
    if done.returncode not in (0, 2):
        raise RolloutFailed(done.stdout.strip())
    return done.returncode


def main(lake: str, file: str, *options: str) -> None:
    """All of it in one loop, for those without an orchestrator."""
    if plan(lake, file, *options):
        while not apply(file):
            time.sleep(float(os.environ.get("HALOCLINE_POLL_S", "60")))
        status(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
