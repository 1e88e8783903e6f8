"""Releases of Apache Hudi on Spark: where their bundles come from, and a process for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from halocline.formats.hudi.buckets import BUCKETS, INDEX_TYPE
from halocline.formats.hudi.configuration import (
    CDC,
    CDC_MODE,
    HIVE_STYLE,
    META_FIELDS,
    URL_ENCODED,
    HudiTableConfig,
    KeyGeneratorType,
)
from halocline.formats.hudi.properties import properties
from halocline.storage import open_store
from tests.compat.environments import Worker
from tests.interop_jvm.maven import NoEngineError, jars

RELEASES = ("0.15.0", "1.0.2", "1.1.1", "1.2.0")
KNOW = {6: RELEASES, 8: RELEASES[1:], 9: RELEASES[2:]}
"""The releases that read and write tables of a version."""

FOLDER = "HALOCLINE_HUDI_JVM"
"""Where the environment of PySpark 3.5 and the bundles lie."""

_ARTIFACT = "hudi-spark3.5-bundle_2.12"
_TIMEOUT_S = 900
_GENERATORS = {
    KeyGeneratorType.SIMPLE: "SimpleKeyGenerator",
    KeyGeneratorType.COMPLEX: "ComplexKeyGenerator",
    KeyGeneratorType.TIMESTAMP: "TimestampBasedKeyGenerator",
    KeyGeneratorType.CUSTOM: "CustomKeyGenerator",
    KeyGeneratorType.NON_PARTITION: "NonpartitionedKeyGenerator",
}
_TOLD = (HIVE_STYLE, URL_ENCODED, META_FIELDS, CDC, CDC_MODE, INDEX_TYPE, BUCKETS)
"""Properties of a table that its writers are told as well."""


class Engine:
    """A release of Apache Hudi on Spark, in a process that starts with its first job."""

    def __init__(self, folder: Path, release: str) -> None:
        self.release = release
        script = Path(__file__).with_name("engine.py")
        command = [str(folder / "bin" / "python"), str(script), str(bundle(folder, release))]
        self._worker = Worker(command, _TIMEOUT_S, serves=True)

    def do(self, operation: str, **job: Any) -> dict[str, Any]:
        """The answer, which may be an error."""
        return self._worker.do({"operation": operation, **job})

    def ask(self, operation: str, **job: Any) -> Any:
        """Has it do something; its error is ours."""
        answer = self.do(operation, **job)
        assert answer["outcome"] == "done", f"Hudi {self.release}: {answer['note']}"
        return answer.get("rows")

    def close(self) -> None:
        self._worker.stop()


def environment() -> Path:
    """Where the bundles lie.

    Raises:
        NoEngineError: No place was named.
    """
    given = os.environ.get(FOLDER)
    if not given:
        raise NoEngineError(f"{FOLDER} names no environment with PySpark 3.5; run make interop-jvm or make compat-jvm")
    return Path(given)


def bundle(folder: Path, release: str) -> Path:
    """The jar of a release, fetched from Maven Central if it is not there yet.

    Raises:
        NoEngineError: It cannot be fetched.
    """
    (jar,) = jars(folder, "org.apache.hudi", _ARTIFACT, release, alone=True)
    return jar


def writing_options(table: Path, release: str, *, metadata: bool = False) -> dict[str, str]:
    """Options to write with that agree with what the table is."""
    pairs = properties(open_store(table))
    old = release.startswith("0.")
    config = HudiTableConfig.parse(pairs, str(table))
    by_fields = KeyGeneratorType.SIMPLE if config.partition_fields else KeyGeneratorType.NON_PARTITION
    generator = _GENERATORS[config.key_generator or by_fields]
    options = {
        "hoodie.table.name": pairs["hoodie.table.name"],
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": pairs["hoodie.table.type"],
        "hoodie.datasource.write.recordkey.field": pairs["hoodie.table.recordkey.fields"],
        "hoodie.datasource.write.partitionpath.field": pairs["hoodie.table.partition.fields"],
        "hoodie.datasource.write.precombine.field": ",".join(config.ordering_fields) or "ts",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        "hoodie.metadata.enable": str(metadata and not old).lower(),
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.compact.inline": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
    }
    options |= {key: value for key, value in pairs.items() if key in _TOLD or key.startswith("hoodie.keygen.")}
    if old:
        if "hoodie.compaction.payload.class" in pairs:
            options["hoodie.datasource.write.payload.class"] = pairs["hoodie.compaction.payload.class"]
        return options
    return options | {
        "hoodie.write.table.version": pairs["hoodie.table.version"],
        "hoodie.write.auto.upgrade": "false",
    }
