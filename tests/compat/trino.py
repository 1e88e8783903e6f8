"""Releases of Trino with the Delta Lake connector, each on its own Java, its tables on an S3 server on loopback.

A release is a server as Trino's own archive unpacks it. Maven Central has the archives of few releases; those of others
are used where they lie unpacked already.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop_jvm.maven import NoEngineError

from .environments import FOLDER, Worker

_TIMEOUT_S = 900
_RELEASES = {"426": 17, "427": 17, "430": 17, "446": 21, "449": 22, "476": 24, "483": 25}
"""The releases that are tried, oldest first, and the Java that each needs at least."""

PLACE = "HALOCLINE_TRINO"
"""The folder in which servers lie as `trino-server-426`; among the other environments if it is not set."""

_CENTRAL = "https://repo1.maven.org/maven2/io/trino/trino-server"
_JVMS = Path("/usr/lib/jvm")
_CATALOG = """connector.name=delta_lake
hive.metastore=file
hive.metastore.catalog.dir=s3://lake/metastore
delta.register-table-procedure.enabled=true
delta.enable-non-concurrent-writes=true
fs.hadoop.enabled=false
fs.native-s3.enabled=true
s3.endpoint=ENDPOINT
s3.region=us-east-1
s3.path-style-access=true
s3.aws-access-key=key
s3.aws-secret-key=secret
"""


@dataclass(frozen=True)
class Trino:
    """A release of Trino."""

    version: str
    product: str = "trino"
    unseen: bool = False

    @property
    def release(self) -> str:
        return f"{self.product}@{self.version}"

    @property
    def _folder(self) -> Path:
        return Path(os.environ.get(PLACE, FOLDER)) / f"trino-server-{self.version}"

    def prepare(self) -> str:
        """Fetches it if it is not there yet; returns what went wrong, or nothing."""
        try:
            _java(self.version)
            if not self._folder.exists():
                _fetch(self.version, self._folder.parent)
        except NoEngineError as error:
            return str(error)
        (self._folder / "delta.properties").write_text(_CATALOG)
        return ""

    def worker(self) -> Worker:
        """A process with a server of its own."""
        script = Path(__file__).with_name("probe_trino.py")
        settings = self._folder / "delta.properties"
        home = _java(self.version)
        command = [sys.executable, str(script), str(home), str(self._folder), self.version, str(settings)]
        return Worker(command, _TIMEOUT_S, serves=True)


def trino_releases() -> list[Trino]:
    """The releases that are tried, oldest first."""
    return [Trino(version) for version in _RELEASES]


def _java(version: str) -> Path:
    """The home of the oldest Java here that runs a release."""
    wanted, homes = _RELEASES[version], {_major(home): home for home in _homes()}
    fitting = sorted(major for major in homes if major >= wanted)
    if not fitting:
        raise NoEngineError(f"Trino {version} needs a JDK {wanted}, here are {', '.join(map(str, sorted(homes)))}")
    return homes[fitting[0]]


def _homes() -> Iterator[Path]:
    if "JAVA_HOME" in os.environ:
        yield Path(os.environ["JAVA_HOME"])
    yield from sorted(_JVMS.glob("*")) if _JVMS.exists() else ()


def _major(home: Path) -> int:
    """The version of a JDK with a compiler; 0 if it is none."""
    if not (home / "bin" / "javac").exists():
        return 0
    told = subprocess.run([str(home / "bin" / "javac"), "-version"], capture_output=True, text=True).stdout
    found = re.match(r"javac (\d+)", told)
    return int(found[1]) if found else 0


def _fetch(version: str, into: Path) -> None:
    """Unpacks the archive of a release that Maven Central has."""
    name = f"trino-server-{version}"
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as work:
        archive = Path(work, "archive")
        try:
            urllib.request.urlretrieve(f"{_CENTRAL}/{version}/{name}.tar.gz", archive)
        except OSError as error:
            raise NoEngineError(
                f"Maven Central does not give the server of Trino {version} ({error}); unpack it as {into / name}"
            ) from error
        with tarfile.open(archive) as packed:
            # Plugins share jars by links, so all of them are unpacked.
            packed.extractall(work, filter="data")
        Path(work, name).rename(into / name)
