"""Long work tells what it does where somebody sees it, and nothing anywhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

import halocline as hc
from halocline.progress import telling, working

PROGRAM = """
import sys, halocline as hc
hc.Table.for_path(sys.argv[1]).vacuum(0, dry_run=False, enforce_retention=False)
from halocline.progress import working
with working("outer") as tell:
    with working("inner [x]") as tell:
        tell("now")
"""


def test_pipe_hears_nothing(tmp_path, capfd):
    table = hc.Table.create(tmp_path / "t", pa.table({"id": [1]}))
    table.vacuum()
    with working("anything") as tell:
        tell("more")
    assert capfd.readouterr() == ("", "")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody writes any more
        return b""


def test_terminal_is_told_and_left_clean(tmp_path):
    hc.Table.create(tmp_path / "t", pa.table({"id": [1]}))
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t")],
        stderr=theirs,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    shown = b"".join(iter(lambda: read(ours), b"")).decode()
    os.close(ours)
    assert done.stdout == b""
    assert "vacuum" in shown
    assert "inner [x]" in shown


def test_notebook_has_one_line_that_ends_with_the_time_it_took(tmp_path, monkeypatch):
    table = hc.Table.create(tmp_path / "t", pa.table({"id": [1]}))
    lines: list[str] = []
    handle = SimpleNamespace(update=lambda data, raw: lines.append(data["text/plain"]))

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> SimpleNamespace:
        assert raw
        assert display_id, "a second line would come below the first"
        lines.append(data["text/plain"])
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    table.vacuum()
    assert lines == [], "a program that has loaded the kernel's package has no cells for that"
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel="one"))
    table.vacuum()
    assert lines[0].startswith("vacuum ")
    assert " done after " in lines[-1]

    def failing() -> None:
        with working("outer"), working("inner") as tell:
            tell("now")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert lines[-4:-1] == ["outer", "outer: inner", "outer: inner: now"]
    assert "ended with an error" in lines[-1]


def test_work_tells_those_who_have_a_place_for_it_and_shows_no_line_of_its_own(capfd):
    heard: list[str] = []
    with telling(heard.append), working("verify lake/orders") as tell:
        tell("half of it")
    assert heard == ["verify lake/orders", "verify lake/orders: half of it"]
    with working("after it"):
        pass
    assert len(heard) == 2
    assert capfd.readouterr() == ("", "")
