"""Real clients: other implementations of old and new releases, each in an environment of its own.

An environment is made from the package index. Where that cannot be reached, the client is left out and the demo says
so. A client runs as a process that reads a table when it is asked to, and answers with what it saw. The fleet knows of
it by a sidecar: the pipeline opens the table in its name, and leaves the reading to the process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from halocline.demo.pipelines import Pipeline

if TYPE_CHECKING:
    from halocline.demo.pipelines import Workplace

_DELTALAKE: Final = """
import sys, json, pyarrow
from deltalake import DeltaTable, QueryBuilder
for path in sys.stdin:
    table = DeltaTable(path.strip())
    found = QueryBuilder().register("t", table).execute("SELECT count(*) AS n, sum(amount) AS s FROM t")
    (row,) = pyarrow.table(found.read_all()).to_pylist()
    print(json.dumps([table.version(), row["n"], row["s"]]), flush=True)
"""
_HUDI: Final = """
import sys, json, pyarrow
from hudi import HudiTableBuilder
for path in sys.stdin:
    table = HudiTableBuilder.from_base_uri(path.strip()).build()
    if hasattr(table, "read_snapshot"):
        batches = table.read_snapshot()
    else:
        from hudi import HudiReadOptions
        batches = table.read(HudiReadOptions())
    rows = pyarrow.Table.from_batches(batches)
    amounts = rows["amount"].to_pylist()
    print(json.dumps([int(max(rows["_hoodie_commit_time"].to_pylist())), len(amounts), sum(amounts)]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Implementation:
    """A product of the package index.

    Attributes:
        package: What it is called there.
        script: What its process runs: a path a line comes in, a version, a count and a sum go out.
    """

    package: str
    script: str


IMPLEMENTATIONS: Final = {
    "deltalake": Implementation("deltalake", _DELTALAKE),
    "hudi-rs": Implementation("hudi", _HUDI),
}


def environment(folder: Path, release: str) -> str | None:
    """Makes the environment of a release; None, or why there is none."""
    product, _, version = release.partition("@")
    home = folder / release
    steps = (
        [sys.executable, "-m", "venv", str(home)],
        [
            str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            f"{IMPLEMENTATIONS[product].package}=={version}", "pyarrow",
        ],
    )  # fmt: skip
    for step in steps:
        try:
            ran = subprocess.run(step, capture_output=True, text=True, timeout=180, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{type(error).__name__}: {error}"
        if ran.returncode:
            return (ran.stderr.strip() or ran.stdout.strip() or "no reason given").splitlines()[-1]
    return None


class RealClient(Pipeline):
    """A reader that is another implementation, of a release that is really old.

    Rolling it starts a process of the other release.
    """

    def __init__(self, place: Workplace, name: str, table: str, release: str, environments: Path) -> None:
        super().__init__(place, name, table, release, self._read)
        self._environments = environments
        self._process: subprocess.Popen[str] | None = None
        self._runs = ""

    def run(self) -> None:
        """See `Pipeline.run`; the process ends with it."""
        try:
            super().run()
        finally:
            self._end()

    def _read(self, pipeline: Pipeline, table: Any) -> None:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(self.place.tables[self.table] + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            said = (process.stderr.read() if process.stderr else "").strip().splitlines()
            self._end()
            raise RuntimeError(f"{self.release} itself says: {said[-1] if said else 'nothing'}")
        version, count, total = json.loads(answer)
        self.place.ledger.saw(self.name, self.table, version, count, total)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._runs != self.release:
            self._end()
            product = self.release.partition("@")[0]
            python = str(self._environments / self.release / "bin" / "python")
            self._process = subprocess.Popen(
                [python, "-c", IMPLEMENTATIONS[product].script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self._runs = self.release
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None
