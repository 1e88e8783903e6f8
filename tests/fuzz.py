"""Property tests with fresh seeds, for as long as it is told: `make fuzz MINUTES=5`.

`make test` tries the same examples every time. This looks for new ones: the same tests over and over, each round with
another seed and another order of sets. A test that fails is left out of later rounds, and what to paste so that its
case is tried from then on is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_UNTIL, _FOUND = "HALOCLINE_FUZZ_UNTIL", "HALOCLINE_FUZZ_FOUND"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begins no test after the time that was given."""
    if time.time() > float(os.environ.get(_UNTIL, "inf")):
        pytest.skip("the time is over")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes what failed; every process of a run appends to one file."""
    path = os.environ.get(_FOUND)
    if report.failed and path and "PYTEST_XDIST_WORKER" not in os.environ:
        pasted = dict(report.sections).get("paste as a regression test", "")
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, pasted]) + "\n")


def property_tests() -> tuple[str, ...]:
    """The files that have any, so that a round does not begin by importing all others."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple(str(file) for file in files if "from hypothesis" in file.read_text(encoding="utf-8"))


def fuzz(minutes: float, where: tuple[str, ...]) -> dict[str, str]:
    """The tests that failed within that time, each with the text to paste."""
    until, found, rounds = time.time() + 60 * minutes, dict[str, str](), 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found"
        while time.time() < until:
            rounds, seed = rounds + 1, secrets.randbelow(2**32)
            command = [sys.executable, "-m", "pytest", *where, "-m", "hypothesis", "-p", "tests.fuzz", "-q"]
            command += ["--numprocesses=2", f"--hypothesis-seed={seed}", *(f"--deselect={test}" for test in found)]
            environment = {"HALOCLINE_TEST_SEEDS": "fresh", "PYTHONHASHSEED": str(seed)}
            environment |= {_UNTIL: str(until), _FOUND: str(file)}
            done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
            summary = done.stdout.strip().splitlines()[-1:]
            print(f"round {rounds}, seed {seed}: {' '.join(summary)}", flush=True)
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            file.unlink(missing_ok=True)
            found |= dict(map(json.loads, lines))
            if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or (
                done.returncode and not lines
            ):
                raise SystemExit(f"{done.stdout}\n{done.stderr}")
            if lines:
                print(done.stdout, flush=True)
    return found


def main() -> int:
    """Prints what failed, and ends with 1 where anything did."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("minutes", type=float, help="how long to look")
    parser.add_argument("where", nargs="*", help="folders or files; without any, all property tests")
    given = parser.parse_args()
    found = fuzz(given.minutes, tuple(given.where) or property_tests())
    for test, pasted in found.items():
        print(f"\n{test}\n{pasted or 'no example was noted; see above'}")
    print(f"\n{len(found)} tests failed" if found else "\nnothing failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
