"""The releases of Apache Hudi to exchange tables with, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.interop_jvm.engine import MARK

RELEASES = ("0.15.0", "1.2.0")
MAVEN = "https://repo1.maven.org/maven2/org/apache/hudi"
ARTIFACT = "hudi-spark3.5-bundle_2.12"
FOLDER = "HALOCLINE_HUDI_JVM"
"""Where the environment of PySpark 3.5 and the bundles lie; the tests skip without it."""


class Engine:
    """A release of Apache Hudi on Spark."""

    def __init__(self, python: Path, jar: Path, release: str) -> None:
        self.release = release
        script = Path(__file__).with_name("engine.py")
        self._process = subprocess.Popen(
            [str(python), str(script), str(jar)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")},
        )
        self._answer()

    def ask(self, do: str, **command: Any) -> Any:
        """Has it do something; its error is ours."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **command}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                said = json.loads(line.removeprefix(MARK))
                assert "error" not in said, f"Hudi {self.release}: {said['error']}"
                return said["answer"]
        raise AssertionError(f"Hudi {self.release} has ended")


@pytest.fixture(scope="session")
def engines():
    """Each release; skips where there is no environment for it."""
    given = os.environ.get(FOLDER)
    if not given:
        pytest.skip(f"{FOLDER} names no environment with PySpark 3.5; run make interop-jvm")
    folder = Path(given)
    found = {release: Engine(folder / "bin" / "python", bundle(folder, release), release) for release in RELEASES}
    yield found
    for each in found.values():
        each.close()


def bundle(folder: Path, release: str) -> Path:
    jar = folder / f"{ARTIFACT}-{release}.jar"
    if not jar.exists():
        try:
            urllib.request.urlretrieve(f"{MAVEN}/{ARTIFACT}/{release}/{jar.name}", f"{jar}.part")
        except OSError as error:
            pytest.skip(f"{jar.name} cannot be fetched from Maven Central: {error}")
        os.rename(f"{jar}.part", jar)
    return jar
