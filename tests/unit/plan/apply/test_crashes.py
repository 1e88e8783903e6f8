"""`halocline apply` killed at any moment, and called again: the lake ends up the same as without."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.applied import LakeOnDisk

from halocline.plan.apply.status import status_of
from halocline.plan.file import SavedPlan
from halocline.table import Table

KILLS = 10 if os.environ.get("HALOCLINE_TEST_TABLES") == "all" else 2
DELTA = [f"orders-{at}" for at in range(6)]
HUDI = [f"trips-{at}" for at in range(3)]
COMMAND = "import sys; from halocline.cli.main import main; sys.argv[0] = 'halocline'; main()"


def plan_for(root: Path) -> tuple[LakeOnDisk, str]:
    """A lake in which every table moves; nobody has to be waited for."""
    lake = LakeOnDisk(root).delta(*DELTA).hudi(*HUDI).run(load="hudi@1.2.0", report="trino@470")
    (root / "members.toml").write_text(
        '[[members]]\nname = "load"\nrelease = "hudi@1.2.0"\nwrites = ["trips-*"]\n\n'
        '[[members]]\nname = "report"\nrelease = "trino@470"\nreads = ["orders-*"]\n'
    )
    saved = lake.planned(enable=("deletionVectors",), table_version=9)
    saved.save(str(root / "rollout.plan"))
    return lake, str(root / "rollout.plan")


def begun(plan: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", COMMAND, "apply", plan, "--verify", "none", "--no-wait"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def state_of(lake: LakeOnDisk) -> dict[str, str]:
    return {name: str(Table.for_path(lake.path / name).terms.protocol) for name in (*DELTA, *HUDI)}


def killed_until_done(plan: str, dice: random.Random, most: int) -> int:
    """Applies a plan, killing it up to `most` times; returns how often it was killed before it was done."""
    killed = 0
    while killed < most:
        process = begun(plan)
        assert process.stdout is not None
        first = process.stdout.readline()
        if "is done" in first:
            process.communicate(timeout=120)
            break
        assert first.startswith("Stage 1 of 1: tables"), first + process.stdout.read()
        # Somewhere within the moves, which take about a second in all.
        for _ in range(dice.randrange(3)):
            process.stdout.readline()
        time.sleep(dice.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    return killed


def test_killed_at_random_moments_and_resumed_it_ends_up_the_same(tmp_path):
    dice, killed = random.Random(76), 0
    for lakes in range(2 * KILLS):
        if killed == KILLS:
            break
        root = tmp_path / f"lake-{lakes}"
        root.mkdir()
        lake, plan = plan_for(root)
        killed += killed_until_done(plan, dice, KILLS - killed)
        told, _ = begun(plan).communicate(timeout=120)
        assert state_of(lake) == dict.fromkeys(
            DELTA, "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)"
        ) | dict.fromkeys(HUDI, "hudi(9)"), f"after {killed} kills: {told}"
        versions = {name: Table.for_path(lake.path / name).version for name in DELTA}
        assert set(versions.values()) == {1}, f"no commit was made twice: {versions}"
        assert status_of(SavedPlan.read(plan)).state == "finished", told
    assert killed == KILLS, f"it was over before it could be killed more than {killed} times"
