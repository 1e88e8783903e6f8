"""What tests of several rooms need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def unreaped() -> Iterator[int]:
    """The number of a process that was killed, and that nobody has asked for since."""
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    killed.send_signal(signal.SIGKILL)
    # Waits for its end, and leaves the number taken.
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    yield killed.pid
    killed.wait()
