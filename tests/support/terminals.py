"""Programs that believe to be in a terminal."""

from __future__ import annotations

import os
import re
import select
import sys
import time

import pytest

PROGRAM = (sys.executable, "-c", "from halocline.cli.main import main; main()")
"""The command `halocline`, as it runs in a process of its own."""


class Terminal:
    """A program that believes to be in a terminal."""

    def __init__(self, *command: str) -> None:
        pty = pytest.importorskip("pty")  # Windows has none
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        self.said = ""

    def until(self, pattern: str) -> str:
        """What is said up to a pattern."""
        end = time.monotonic() + 300
        while (found := re.search(pattern, self.said)) is None:
            assert time.monotonic() < end, f"no {pattern!r} in {self.said!r}"
            if select.select([self.screen], [], [], 1)[0]:
                self.said += os.read(self.screen, 65536).decode(errors="replace")
        before, self.said = self.said[: found.end()], self.said[found.end() :]
        return before

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def rest(self) -> str:
        """What is said until the program ends."""
        while True:
            try:
                read = os.read(self.screen, 65536)
            except OSError:  # nobody writes any more
                read = b""
            if not read:
                return self.said
            self.said += read.decode(errors="replace")
