"""Throw-away environments: one per release, made once, kept under `.venvs/`, and a worker process inside each."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.turns import one_at_a_time

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venvs"
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Client:
    """A release of another project's package that can be installed.

    Args:
        product: Its name in knowledge.
        package: Its name on PyPI.
        version: The release.
        needs: What must be installed with it, because its own requirements let newer, unfitting ones in.
        probe: The script that tries it.
        unseen: True if knowledge was not made from this release.
    """

    product: str
    package: str
    version: str
    needs: tuple[str, ...]
    probe: str
    unseen: bool = False

    @property
    def release(self) -> str:
        return f"{self.product}@{self.version}"

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.package}-{self.version}"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def worker(self) -> Worker:
        """The probe, inside the environment."""
        return Worker([str(self.python), str(_HERE / self.probe), self.product])


_OLD_ARROW = ("pyarrow==16.1.0", "numpy<2", "setuptools<80")
_VERY_OLD_ARROW = ("pyarrow==12.0.0", "numpy<2", "setuptools<80", "typing_extensions")
_NEW_ARROW = ("pyarrow==21.0.0",)
_DELTALAKE = {
    _VERY_OLD_ARROW: "0.5.8 0.6.0 0.6.1 0.6.2 0.6.3 0.6.4 0.7.0 0.8.0 0.8.1 0.9.0 0.10.0 0.10.2 0.11.0 0.12.0 0.13.0",
    _OLD_ARROW: "0.14.0 0.15.0 0.15.1 0.15.2 0.15.3 0.16.0 0.16.4 0.17.0 0.17.4 0.18.0 0.18.2 0.19.0 0.19.2 0.20.0 "
    "0.20.2 0.21.0 0.22.3 0.23.0 0.23.2 0.24.0 0.25.1 0.25.5",
    _NEW_ARROW: "1.0.0 1.0.2 1.1.0 1.1.2 1.1.3 1.1.4 1.2.0 1.2.1 1.3.0 1.3.1 1.3.2 1.3.3 1.4.0 1.4.1 1.4.2 1.5.0 1.5.1 "
    "1.6.0 1.6.1 1.6.2 1.6.3 1.6.6",
}
# Knowledge was not made from these: how it does on them says what it is worth for a release nobody has tried.
_UNSEEN = {
    _VERY_OLD_ARROW: "0.10.1",
    _OLD_ARROW: "0.16.2 0.17.2 0.18.1 0.19.1 0.20.1 0.23.1 0.25.2 0.25.4",
    _NEW_ARROW: "1.0.1",
}
_DUCKDB = "1.1.3 1.2.0 1.2.1 1.2.2 1.3.0 1.3.1 1.3.2 1.4.0 1.4.4 1.5.0 1.5.5"
# Engines that read Delta tables, each with what it stood on when it came out. DuckDB's extension is a package as well.
_ENGINES: dict[str, dict[str, tuple[str, ...]]] = {
    "duckdb": {version: (f"duckdb-extension-delta=={version}", "pyarrow==21.0.0") for version in _DUCKDB.split()},
    "polars": {
        "1.0.0": ("deltalake==0.18.2", *_OLD_ARROW),
        "1.20.0": ("deltalake==0.24.0", *_OLD_ARROW),
        "1.31.0": ("deltalake==1.0.2", *_NEW_ARROW),
        "1.36.1": ("deltalake==1.2.1", *_NEW_ARROW),
        "1.37.1": ("deltalake==1.3.3", *_NEW_ARROW),
        "1.38.1": ("deltalake==1.4.2", *_NEW_ARROW),
        "1.39.3": ("deltalake==1.5.0", *_NEW_ARROW),
        "1.40.1": ("deltalake==1.5.1", *_NEW_ARROW),
        "1.44.2": ("deltalake==1.6.3", *_NEW_ARROW),
        "2.1.0": ("deltalake==1.6.6", *_NEW_ARROW),
    },
    "daft": {
        "0.4.18": ("deltalake==0.25.5", *_OLD_ARROW),
        "0.5.22": ("deltalake==1.1.4", *_NEW_ARROW),
        "0.6.14": ("deltalake==1.2.1", *_NEW_ARROW),
        "0.7.26": ("deltalake==1.6.6", *_NEW_ARROW),
    },
}
_HUDI = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0")


def clients() -> list[Client]:
    """The releases that are tried, oldest first."""
    found = [
        Client("deltalake", "deltalake", version, needs, "probe_deltalake.py", releases is _UNSEEN)
        for releases in (_DELTALAKE, _UNSEEN)
        for needs, versions in releases.items()
        for version in versions.split()
    ]
    found.sort(key=lambda client: tuple(map(int, client.version.split("."))))
    found += [
        Client(product, product, version, (*needs, "packaging"), "probe_engines.py")
        for product, releases in _ENGINES.items()
        for version, needs in releases.items()
    ]
    return found + [Client("hudi-rs", "hudi", version, _NEW_ARROW, "probe_hudi.py") for version in _HUDI]


def prepare(client: Client) -> str:
    """Makes the environment if it is not there yet; returns what went wrong, or nothing."""
    return install(client.folder, [f"{client.package}=={client.version}", *client.needs])


def install(folder: Path, wanted: Sequence[str]) -> str:
    """Makes an environment with these packages if it is not there yet; returns what went wrong, or nothing.

    One process makes it, the others wait for it.
    """
    with one_at_a_time(folder.with_name(f".{folder.name}.lock")):
        ready = folder / ".ready"
        if ready.exists():
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        for command in _installing(folder, wanted):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return (done.stderr.strip().splitlines() or ["it could not be installed"])[-1]
        ready.touch()
    return ""


def _installing(folder: Path, wanted: Sequence[str]) -> list[list[str]]:
    python = str(folder / "bin" / "python")
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", python, *wanted],
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted],
    ]


@dataclass
class Worker:
    """A process that does one job after the other, a line of JSON each, and is replaced when it dies.

    Args:
        command: What starts it.
        timeout_s: How long a job may take.
        variables: What it finds in its environment besides what every process does.
        serves: Whether it starts a server or a session, whose end says nothing about a table; the crash of a library
            that is handed one does.
    """

    command: Sequence[str]
    timeout_s: float = 60
    variables: Mapping[str, str] = field(default_factory=dict)
    serves: bool = False
    _process: subprocess.Popen[str] | None = None
    _answers: queue.Queue[str] = field(default_factory=queue.Queue)

    def do(self, job: dict[str, Any]) -> dict[str, Any]:
        """The probe's answer; a crash and silence are answers too."""
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job, default=str) + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=self.timeout_s)
        except queue.Empty:
            self.stop()
            return {"outcome": "silent", "note": f"no answer within {self.timeout_s:.0f} s"}
        except BrokenPipeError:
            line = ""
        if not line:
            self.stop()
            return {"outcome": "silent" if self.serves else "error", "note": "the process died"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Ends the process; the next job starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            # Nothing of the environment we run in may reach the one we look at.
            left_out = ("PYTHON", "SPARK", "PYSPARK")
            environment = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment | self.variables,
            )
            self._answers = queue.Queue()
            threading.Thread(target=_pump, args=(self._process, self._answers), daemon=True).start()
        return self._process


def _pump(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put("")
