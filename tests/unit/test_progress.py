"""Long work tells what it does where somebody sees it, and nothing anywhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pyarrow as pa

import halocline as hc
from halocline.progress import working

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
