"""A process that was killed has ended, also while its number is still taken."""

from __future__ import annotations

import os
import subprocess
import sys

from halocline.storage.process import is_process


def test_a_process_that_runs_is_one():
    assert is_process(os.getpid())
    assert is_process(1), "also one of another user"


def test_a_process_that_is_gone_is_none():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not is_process(gone.pid)


def test_a_killed_process_that_its_parent_has_not_asked_for_is_none(unreaped):
    assert not is_process(unreaped)
