"""`halocline sql` in a terminal: Ctrl-C stops a statement, and neither the talk nor the session."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import halocline as hc

ENDLESS = "SELECT count(*) FROM range(3000000000) a CROSS JOIN range(100) b WHERE hash(a.id, b.id) = 5"


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


@pytest.mark.skipif(os.environ.get("HALOCLINE_TEST_SPARK") == "connect", reason="a command starts a session of its own")
def test_ctrl_c_stops_a_statement_and_the_next_one_works(tmp_path: Path):
    hc.Table.create(str(tmp_path / "orders"), pa.table({"id": [1, 2, 3]}))
    program = "from halocline.cli.main import main; main()"
    terminal = Terminal(sys.executable, "-c", program, "sql", str(tmp_path))
    terminal.until("lake> ")
    for statement in (f"{ENDLESS};", f"UPDATE orders SET id = 9 WHERE ({ENDLESS}) >= 0;"):
        terminal.type(f"{statement}\n")
        time.sleep(8)  # the job is under way
        terminal.type("\x03")
        assert "Traceback" not in terminal.until("Stopped")
        terminal.until("lake> ")
    terminal.type("SELECT sum(id) + 1000 FROM orders;\n")
    assert "1006" in terminal.until(r"\(1 row\)")
    terminal.until("lake> ")
    terminal.type("\x1b[A\n")  # the statement before
    assert "1006" in terminal.until(r"\(1 row\)")
    terminal.type("quit\n")
    assert terminal.code() == 0
    assert hc.Table.for_path(str(tmp_path / "orders")).version == 0
