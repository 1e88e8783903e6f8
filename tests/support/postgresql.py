"""A private PostgreSQL on a free port of the loopback address, installed first if that is possible here."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import free_port
from tests.support.turns import one_at_a_time


class NotHereError(Exception):
    """There is no server, and none can be had."""


class Server:
    """A running server."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._folder, self._programs = folder, programs
        self._port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        made = ["initdb", "-D", str(folder / "data"), "-U", "postgres", "--auth=trust", "-N", "-E", "UTF8"]
        self._run(made)
        self.start()

    def start(self) -> None:
        """Starts it."""
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=60"
        self._control("-o", options, "-l", str(self._folder / "log"), "start")

    def crash(self) -> None:
        """Ends it as a power cut would."""
        self._control("-m", "immediate", "stop")

    def _control(self, *command: str) -> None:
        self._run(["pg_ctl", "-D", str(self._folder / "data"), "-w", *command])

    def _run(self, command: list[str]) -> None:
        whole = [str(self._programs / command[0]), *command[1:]]
        # The server refuses to run as root.
        whole = ["runuser", "-u", "postgres", "--", *whole] if os.geteuid() == 0 else whole
        done = subprocess.run(whole, capture_output=True, text=True, check=False, cwd=self._folder, timeout=120)
        if done.returncode:
            raise NotHereError(f"PostgreSQL does not do {command[0]} here: {done.stderr[-300:]}")


@contextlib.contextmanager
def private_server() -> Iterator[Server]:
    """A server for the length of a `with` block."""
    programs = _installed()
    if programs is None:
        raise NotHereError("PostgreSQL's server is not installed, and cannot be installed here")
    if os.geteuid() == 0 and not shutil.which("runuser"):
        raise NotHereError("PostgreSQL's server does not run as root, and there is no runuser")
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="halocline-pg-", dir=shared if shared.is_dir() else None))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    server = None
    try:
        server = Server(programs, folder)
        yield server
    finally:
        if server is not None:
            with contextlib.suppress(NotHereError, subprocess.TimeoutExpired):
                server.crash()
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _installed() -> Path | None:
    """The folder of the server's programs; installs Debian's package if that is possible here.

    One process of a run installs, the others wait for it.
    """
    with one_at_a_time(Path(tempfile.gettempdir()) / "halocline-pg-install.lock"):
        found = _binaries()
        if found or os.geteuid() != 0 or not shutil.which("apt-get"):
            return found
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        with contextlib.suppress(subprocess.TimeoutExpired):
            for command, patience in ((["update", "-qq"], 60), (["install", "-y", "-qq", "postgresql"], 180)):
                subprocess.run(["apt-get", *command], timeout=patience, env=quiet, capture_output=True, check=False)
        return _binaries()
