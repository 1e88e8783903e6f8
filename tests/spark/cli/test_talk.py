"""`halocline sql` in a terminal: Ctrl-C stops a statement and not the talk, or the start of Spark."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.terminals import PROGRAM, Terminal

import halocline as hc

ENDLESS = "SELECT count(*) FROM range(3000000000) a CROSS JOIN range(100) b WHERE hash(a.id, b.id) = 5"


@pytest.mark.skipif(os.environ.get("HALOCLINE_TEST_SPARK") == "connect", reason="a command starts a session of its own")
def test_ctrl_c_stops_a_statement_and_the_next_one_works(tmp_path: Path):
    hc.Table.create(str(tmp_path / "orders"), pa.table({"id": [1, 2, 3]}))
    terminal = Terminal(*PROGRAM, "sql", str(tmp_path))
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


def children(process: int) -> bool:
    """Whether a process has started another one."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                return True
        except OSError:  # it is gone
            continue
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
@pytest.mark.skipif(os.environ.get("HALOCLINE_TEST_SPARK") == "connect", reason="a command starts a session of its own")
@pytest.mark.parametrize("after_s", [0, 2, 4])
def test_ctrl_c_while_java_starts_ends_with_one_line(tmp_path: Path, after_s: int):
    hc.Table.create(str(tmp_path / "orders"), pa.table({"id": [1, 2, 3]}))
    terminal = Terminal(*PROGRAM, "sql", str(tmp_path), "-e", ENDLESS)
    while not children(terminal.pid):
        time.sleep(0.05)
    time.sleep(after_s)
    terminal.type("\x03")
    said = terminal.rest()
    assert terminal.code() == 130
    assert said.partition("^C")[2].strip().startswith("Stopped."), said
    assert not any(word in said for word in ("Traceback", "py4j", "Exception")), said


@pytest.mark.skipif(os.environ.get("HALOCLINE_TEST_SPARK") == "connect", reason="a command starts a session of its own")
def test_ctrl_c_tells_which_statement_of_a_line_was_stopped_and_what_is_done(tmp_path: Path):
    hc.Table.create(str(tmp_path / "orders"), pa.table({"id": [1, 2, 3]}))
    change = f"UPDATE orders SET id = 9 WHERE ({ENDLESS}) >= 0"
    terminal = Terminal(*PROGRAM, "sql", str(tmp_path), "-e", "SELECT 41 + 1", "-e", change)
    terminal.until(r"\(1 row\)")
    time.sleep(5)  # the job is under way
    terminal.type("\x03")
    said = " ".join(terminal.rest().split())
    assert terminal.code() == 130
    assert "Traceback" not in said
    assert "Stopped. The statement was: UPDATE orders SET id = 9" in said
    assert "1 before it is done." in said
    assert hc.Table.for_path(str(tmp_path / "orders")).version == 0
