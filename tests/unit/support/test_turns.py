"""Processes of a run take turns where they would spoil each other's work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
# A folder that is there already cannot be made: who comes in between fails.
WORK = """
import sys, time
from pathlib import Path
from tests.support.turns import one_at_a_time
folder = Path(sys.argv[1])
with one_at_a_time(folder / "lock"):
    (folder / "in use").mkdir()
    time.sleep(0.2)
    (folder / "in use").rmdir()
"""


def test_processes_that_take_turns_are_never_in_between(tmp_path):
    command = [sys.executable, "-c", WORK, str(tmp_path)]
    started = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    told = [each.communicate(timeout=60)[1] for each in started]
    assert [each.returncode for each in started] == [0, 0, 0], told
