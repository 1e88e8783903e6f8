"""Programs as processes of their own that report in lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds. Nothing here is about speed, so a machine that is busy is given time."""


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Waits for a condition, and returns what it found."""
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


class Process:
    """A program that gets its arguments as JSON and says what happens in lines of JSON."""

    def __init__(self, program: Path, **arguments: Any) -> None:
        command = [sys.executable, str(program), json.dumps(arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._out, self._err = self.process.stdout, self.process.stderr
        os.set_blocking(self._out.fileno(), False)
        self.said: list[dict[str, Any]] = []
        self._rest = ""

    def read(self) -> list[dict[str, Any]]:
        """Everything it has said so far."""
        with contextlib.suppress(TypeError):
            self._rest += self._out.read() or ""
        *lines, self._rest = self._rest.split("\n")
        self.said += [json.loads(line) for line in lines if line]
        return self.said

    def hears(self, **facts: Any) -> dict[str, Any]:
        """Waits until it says this."""

        def found() -> dict[str, Any] | None:
            for each in self.read():
                if facts.items() <= each.items():
                    return each
            assert self.process.poll() is None, f"it ended: {self.said[-3:]} {self._err.read()[-2000:]}"
            return None

        heard: dict[str, Any] = until(found, f"{facts} from a process that said {self.said[-5:]}")
        return heard

    def signal(self, number: int) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Ends it at once."""
        self.signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Asks it to end, and waits."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        self._out.close()
        self._err.close()
