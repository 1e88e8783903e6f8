"""Real processes for the fleet: coordinators, members, and a private PostgreSQL."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE = 30.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


class Process:
    """A program of this folder that reports in lines of JSON."""

    def __init__(self, program, **arguments):
        command = [sys.executable, str(HERE / program), json.dumps(arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said = []
        self._rest = ""

    def read(self):
        """Everything it has said so far."""
        with contextlib.suppress(TypeError):
            self._rest += self.process.stdout.read() or ""
        *lines, self._rest = self._rest.split("\n")
        self.said += [json.loads(line) for line in lines if line]
        return self.said

    def hears(self, **facts):
        """Waits until it says this."""

        def found():
            for each in self.read():
                if facts.items() <= each.items():
                    return each
            assert self.process.poll() is None, f"it ended: {self.said[-3:]} {self.process.stderr.read()[-2000:]}"
            return None

        return until(found, f"{facts} from a process that said {self.said[-5:]}")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self):
        """Asks it to end, and waits."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def wait():
    """Waits for a condition: `wait(condition, "what never happened")`."""
    return until


@pytest.fixture
def launch():
    """Starts programs of this folder; whatever still runs is stopped afterwards."""
    started = []

    def start(program, **arguments):
        started.append(Process(program, **arguments))
        return started[-1]

    yield start
    for each in reversed(started):
        each.stop()


@pytest.fixture
def memory_folder(tmp_path):
    """A folder that is quick to sync: what is tested is the death of a process, not of the machine."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK):
        yield tmp_path
        return
    folder = shared / f"halocline-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


# PostgreSQL.


def _binaries():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _installed():
    """The folder of the server's programs; installs Debian's package if that is possible here.

    One process of a run installs, the others wait for it.
    """
    with (Path(tempfile.gettempdir()) / "halocline-pg-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _binaries()
        if found or os.geteuid() != 0 or not shutil.which("apt-get"):
            return found
        return _install()


def _install():
    quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "check": False}
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["apt-get", "update", "-qq"], timeout=60, **quiet)
        subprocess.run(["apt-get", "install", "-y", "-qq", "postgresql"], timeout=180, **quiet)
    return _binaries()


def _as_postgres(command):
    """The server refuses to run as root."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


@pytest.fixture(scope="session")
def postgresql_server():
    """A private server on a free port of the loopback address; yields the URL of its first database."""
    programs = _installed()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed, and cannot be installed here")
    if os.geteuid() == 0 and not shutil.which("runuser"):
        pytest.skip("PostgreSQL's server does not run as root, and there is no runuser")
    shared = Path("/dev/shm")
    folder = (shared if shared.is_dir() else Path("/tmp")) / f"halocline-pg-{os.getpid()}"
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data, port = folder / "data", free_port()
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=60"
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w"]
    try:
        made = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "-N", "-E", "UTF8"]
        for command in (made, [*control, "-o", options, "-l", str(folder / "log"), "start"]):
            done = subprocess.run(
                _as_postgres(command), capture_output=True, text=True, check=False, cwd=folder, timeout=60
            )
            if done.returncode:
                pytest.skip(f"PostgreSQL does not start here: {done.stderr[-300:]}")
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        stop = [*control, "-m", "immediate", "stop"]
        subprocess.run(_as_postgres(stop), capture_output=True, check=False, cwd=folder, timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql(postgresql_server):
    """The URL of an empty database."""
    import psycopg

    name = f"fleet_{time.time_ns()}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgresql_server.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
