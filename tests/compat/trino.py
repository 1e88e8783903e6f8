"""Releases of Trino with the Delta Lake connector, each on its own Java, its tables on an S3 server on loopback."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.interop_jvm.maven import NoEngineError

from .environments import FOLDER, Worker
from .trino_build import build, java

_TIMEOUT_S = 900
_RELEASES = ("426", "427", "430", "446", "449", "476", "483")
PLACE = "HALOCLINE_TRINO"
"""Where the releases are put; among the other environments if it is not set."""

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
        return Path(os.environ.get(PLACE, FOLDER)) / f"trino-{self.version}"

    def prepare(self) -> str:
        """Makes it if it is not there yet; returns what went wrong, or nothing."""
        try:
            java(self.version)
            if not self._folder.exists():
                build(self.version, self._folder)
        except NoEngineError as error:
            return str(error)
        (self._folder / "delta.properties").write_text(_CATALOG)
        return ""

    def worker(self) -> Worker:
        """A process with a server of its own."""
        script = Path(__file__).with_name("probe_trino.py")
        settings = self._folder / "delta.properties"
        command = [sys.executable, str(script), str(java(self.version)), str(self._folder), self.version, str(settings)]
        return Worker(command, _TIMEOUT_S, serves=True)


def trino_releases() -> list[Trino]:
    """The releases that are tried, oldest first."""
    return [Trino(version) for version in _RELEASES]
