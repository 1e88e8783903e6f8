"""Jars from Maven Central, fetched by Maven itself, with what they need and Spark does not bring."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.turns import one_at_a_time

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>jars</artifactId><version>1</version><dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<exclusions>{exclusions}</exclusions></dependency></dependencies></project>"""
_FROM_SPARK = ("org.apache.spark", "org.scala-lang", "org.apache.hadoop", "com.fasterxml.jackson.core")


class NoEngineError(Exception):
    """A release that cannot be had here, and why."""


def jars(folder: Path, group: str, artifact: str, version: str, *, alone: bool = False) -> list[Path]:
    """The jars of an artifact, from a folder of their own that is filled when they are first asked for.

    Args:
        folder: Where such folders lie.
        group: Maven's group.
        artifact: The artifact in it.
        version: Its version.
        alone: Whether it brings everything with it.

    Raises:
        NoEngineError: They cannot be fetched.
    """
    place = folder / f"{artifact}-{version}"
    with one_at_a_time(folder / f".{place.name}.lock"):
        if not place.exists():
            _fetch(place, group, artifact, version, alone=alone)
    return sorted(place.glob("*.jar"))


def _fetch(place: Path, group: str, artifact: str, version: str, *, alone: bool) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoEngineError("Maven is not installed. On Debian: apt-get install maven")
    left_out = ("*",) if alone else _FROM_SPARK
    exclusions = "".join(
        f"<exclusion><groupId>{each}</groupId><artifactId>*</artifactId></exclusion>" for each in left_out
    )
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        pom = Path(work, "pom.xml")
        pom.write_text(_POM.format(group=group, artifact=artifact, version=version, exclusions=exclusions))
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={work}/jars"]
        done = subprocess.run([maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True)
        if done.returncode or not any(Path(work, "jars").glob("*.jar")):
            told = (done.stdout + done.stderr).strip().splitlines() or ["Maven says nothing"]
            raise NoEngineError(f"{artifact} {version} cannot be fetched: {told[0][:300]}")
        Path(work, "jars").rename(place)
