"""Verbs do the same under every SQL setting that a session may have.

All settings that `SET -v` lists are flipped, many at a time. A batch that changes what verbs do is halved until the
settings that do it are known. `HALOCLINE_TEST_SETTINGS=each` flips every setting alone instead, which takes hours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import halocline as hc
from halocline.spark.session.functions import F

BATCH: Final = 90
"""As many settings, at most, are flipped at once."""

OTHER_VALUES: Final[Mapping[str, str]] = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1MB",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "3",
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.avro.compression.codec": "deflate",
    "spark.sql.binaryOutputStyle": "HEX",
    "spark.sql.defaultCacheStorageLevel": "DISK_ONLY",
    "spark.sql.error.messageFormat": "MINIMAL",
    "spark.sql.execution.arrow.compression.codec": "zstd",
    "spark.sql.execution.arrow.localRelationThreshold": "1b",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.execution.pandas.structHandlingMode": "dict",
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "3",
    "spark.sql.execution.pythonUDF.arrow.concurrency.level": "2",
    "spark.sql.files.ignoredPathSegmentRegex": "parquet",
    "spark.sql.files.maxPartitionBytes": "1024b",
    "spark.sql.files.maxPartitionNum": "1",
    "spark.sql.files.maxRecordsPerFile": "3",
    "spark.sql.files.minPartitionNum": "3",
    "spark.sql.leafNodeDefaultParallelism": "3",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.maxMetadataStringLength": "10",
    "spark.sql.maxPlanStringLength": "100",
    "spark.sql.maxSinglePartitionBytes": "1b",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
    "spark.sql.orc.compression.codec": "snappy",
    "spark.sql.parquet.compression.codec": "gzip",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.redaction.options.regex": ".*",
    "spark.sql.redaction.string.regex": ".*",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.sources.default": "orc",
    "spark.sql.sources.partitionOverwriteMode": "DYNAMIC",
    "spark.sql.storeAssignmentPolicy": "STRICT",
    "spark.sql.timeTravelTimestampKey": "asOf",
    "spark.sql.timeTravelVersionKey": "version",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.ui.explainMode": "extended",
}
"""Values that are neither the other of two nor a number, or numbers that have to be chosen."""

NOT_LISTED: Final[Mapping[str, str]] = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.retainGroupColumns": "false",
}
"""Settings that people know although Spark does not list them."""

LEFT_ALONE: Final = frozenset(
    {
        # Limits that no query of Spark outlives, and ones that are only about time.
        "spark.sql.broadcastTimeout",
        "spark.sql.maxBroadcastTableSize",
        "spark.sql.execution.pyspark.udf.idleTimeoutSeconds",
        "spark.sql.execution.pyspark.udf.killOnIdleTimeout",
        # They name classes, catalogs, places or pools that have to be there.
        "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.sql.catalog.spark_catalog",
        "spark.sql.defaultCatalog",
        "spark.sql.extendedExplainProviders",
    }
)


class Verbs:
    """Verbs on a table of each format, with rows that were made before any setting is flipped."""

    def __init__(self, spark: Any) -> None:
        columns = (
            "id",
            "named_struct('a', id, 'b', array(id / 2)) AS `s.t`",
            "concat('v', id) AS name",
            "CAST(id / 4 AS DECIMAL(8, 2)) AS price",
            "date_add(DATE '2026-11-01', CAST(id % 2 AS int)) AS day",
            "TIMESTAMP '2026-11-01 12:00:00Z' AS at",
            "CAST(concat('b', id) AS BINARY) AS raw",
            "map('k', id) AS tags",
        )
        self.spark = spark
        self.rows, self.more = (spark.range(*ends, 1, 2).selectExpr(*columns) for ends in ((0, 8), (8, 14)))
        self.few = spark.range(5).selectExpr("id AS key", "id * 10 AS price")
        self.changed = spark.range(2).selectExpr(columns[0], *columns[1:2], "concat('y', id) AS name", *columns[3:])

    def delta(self, path: Path) -> hc.Table:
        properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
        table = hc.Table.create(path, self.rows, self.spark, partition_by="day", properties=properties)
        table.append(self.more)
        table.update({"name": "concat('x', name)"}, "id < 3 AND `s.t`.a >= 0")
        table.delete("id = 4")
        table.delete("day = DATE '2026-11-02' AND id = 5")
        merge = table.merge(self.few, "t.id = s.key")
        merge.when_matched_update(set={"price": "s.price"}).when_not_matched_by_source_delete("t.id = 13").execute()
        table.overwrite(self.more, where="id > 7")
        table.optimize()
        return table

    def hudi(self, path: Path) -> hc.Table:
        rows, more, changed = (each.withColumnRenamed("s.t", "s") for each in (self.rows, self.more, self.changed))
        declared = {"format": "hudi", "version": 8, "keys": "id", "kind": "mor", "partition_by": "day"}
        table = hc.Table.create(path, rows, self.spark, **declared)
        table.upsert(more)
        table.upsert(changed)
        table.delete("id = 4")
        return table

    def index(self, path: Path) -> hc.Table:
        table = hc.Table.create(path, self.rows.select("id", "name", "day"), self.spark, format="index")
        table.append(self.more.select("id", "name", "day"))
        table.delete("id = 4")
        assert table.search("name:v3").count() == 1
        return table

    def sql(self, path: Path) -> hc.Table:
        hc.sql(self.spark, f"CREATE TABLE delta.`{path}` (id BIGINT, name STRING) USING delta")
        self.few.createOrReplaceTempView("few")
        hc.sql(self.spark, f"INSERT INTO delta.`{path}` SELECT key, 'one' FROM few")
        hc.sql(self.spark, f"UPDATE delta.`{path}` SET name = 'two' WHERE id = 3")
        hc.sql(self.spark, f"DELETE FROM delta.`{path}` WHERE id = 2")
        on = "ON t.id = s.key WHEN MATCHED AND t.id = 1 THEN UPDATE SET name = 'three'"
        hc.sql(self.spark, f"MERGE INTO delta.`{path}` AS t USING few AS s {on}")
        assert hc.sql(self.spark, f"SELECT id FROM delta.`{path}` WHERE name = 'three'").count() == 1
        return hc.Table.for_path(path, self.spark)

    def source(self, path: Path) -> hc.Table:
        rows = self.rows.drop("tags")
        rows.write.format("halocline").mode("append").save(str(path))
        self.more.drop("tags").write.format("halocline").mode("append").save(str(path))
        read = self.spark.read.format("halocline").load(str(path)).collect()
        assert {row["name"] for row in read} == {f"v{number}" for number in range(14)}
        return hc.Table.for_path(path, self.spark)


KINDS: Final = ("delta", "hudi", "index", "sql", "source")


def results(verbs: Verbs, folder: Path, flipped: Mapping[str, str]) -> dict[str, Any]:
    """What verbs leave behind and give back under settings, or the error that they end with."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        path = folder / kind
        with under(verbs.spark, flipped):
            try:
                table = getattr(verbs, kind)(path)
                seen = sorted((row["id"], row["name"]) for row in table.to_df(columns=["name", "id"]).collect())
            except Exception as error:
                found[kind] = f"{type(error).__name__}: {str(error)[:300]}"
                continue
        df = hc.Table.for_path(path, verbs.spark).to_df()
        df = df.select(*(F.col(f"`{name}`") for name in df.columns if not name.startswith("_hoodie_")))
        found[kind] = seen, sorted(repr(row.asDict(recursive=True)) for row in df.collect())
    return found


@contextmanager
def under(spark: Any, flipped: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in flipped}
    is_set = {row["key"] for row in spark.sql("SET").collect()}
    try:
        for key, value in flipped.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value) if key in is_set else spark.conf.unset(key)


def flips(spark: Any) -> dict[str, str]:
    """Every setting of the session that can be changed, with another value."""
    found = dict(NOT_LISTED)
    for row in spark.sql("SET -v").collect():
        key, value = row["key"], row["value"]
        if key in LEFT_ALONE or not spark.conf.isModifiable(key):
            continue
        if value.startswith("<value of"):
            value = spark.conf.get(key)
        if key in OTHER_VALUES:
            found[key] = OTHER_VALUES[key]
        elif value in ("true", "false"):
            found[key] = "false" if value == "true" else "true"
        elif value.isdecimal():
            found[key] = str(int(value) // 2 + 1)
    return found


def culprits(differs: Any, settings: Sequence[str]) -> list[str]:
    """The settings that make a difference, found by halves; all of those that only do so together."""
    if len(settings) == 1:
        return list(settings)
    middle = len(settings) // 2
    halves = [half for half in (settings[:middle], settings[middle:]) if differs(half)]
    return [each for half in halves for each in culprits(differs, half)] if halves else list(settings)


@pytest.mark.timeout(2400 if os.environ.get("HALOCLINE_TEST_SETTINGS") != "each" else 0)
def test_verbs_do_the_same_under_every_setting(spark, tmp_path, is_connect):
    if is_connect:
        pytest.skip("a classic session has all the settings")
    hc.register(spark)
    verbs, numbers = Verbs(spark), iter(range(10_000))
    expected = results(verbs, tmp_path / "expected", {})
    assert not [each for each in expected.values() if isinstance(each, str)], expected
    flipped = flips(spark)

    def differences(settings: Sequence[str]) -> dict[str, Any]:
        found = results(verbs, tmp_path / str(next(numbers)), {key: flipped[key] for key in settings})
        return {kind: found[kind] for kind in KINDS if found[kind] != expected[kind]}

    size = 1 if os.environ.get("HALOCLINE_TEST_SETTINGS") == "each" else BATCH
    names = sorted(flipped)
    batches = [names[start : start + size] for start in range(0, len(names), size)]
    failures = {}
    for batch in batches:
        if differences(batch):
            for each in culprits(differences, batch):
                failures[each] = flipped[each], differences([each])
    assert not failures
