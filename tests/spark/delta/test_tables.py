"""The names of delta-spark, as a notebook uses them."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from halocline.delta.builders import DeltaMergeBuilder, DeltaOptimizeBuilder
from halocline.delta.tables import DeltaTable, DeltaTableBuilder, IdentityGenerator
from halocline.errors import InputError, NotFoundError, UnsupportedError
from halocline.table import Table


def test_a_notebook_runs_with_one_import_changed(tmp_path, spark):
    path = str(tmp_path / "orders")
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumn("id", "BIGINT", nullable=False)
    builder = builder.addColumn("day", "DATE").addColumn("year", "INT", generatedAlwaysAs="year(day)")
    builder = builder.addColumns(spark.createDataFrame([], "v INT").schema).partitionedBy("year")
    builder.comment("what came in").property("delta.enableChangeDataFeed", "true").execute()
    orders = DeltaTable.forPath(spark, path)
    rows = spark.sql("SELECT id, DATE'2026-01-01' + CAST(id * 100 AS INT) AS day, CAST(id AS INT) AS v FROM range(8)")
    insert = orders.alias("t").merge(rows.alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
    assert tuple(insert.execute().first()) == (8, 0, 0, 8)
    assert orders.delete("id = 0").first()[0] == 1
    assert orders.update("id = 1", {"v": "v + 10"}).first()[0] == 1
    assert orders.update(condition=F.col("id") == 2, set={"v": F.lit(20)}).first()[0] == 1
    changes = spark.createDataFrame([(3, -3), (4, -4), (9, -9)], "id BIGINT, v INT").alias("s")
    merge = orders.alias("t").merge(changes, "t.id = s.id").whenMatchedDelete("s.v = -4")
    merge = merge.whenMatchedUpdate(set={"t.v": "s.v"}).whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"})
    merge = merge.whenNotMatchedBySourceUpdate("t.id = 5", {"v": "50"}).whenNotMatchedBySourceDelete("t.id = 6")
    assert tuple(merge.execute().first()) == (5, 2, 2, 1)
    found = {row["id"]: row["v"] for row in orders.alias("t").toDF().select("t.id", "t.v").collect()}
    assert found == {1: 11, 2: 20, 3: -3, 5: 50, 7: 7, 9: -9}
    orders.table.append(spark.sql("SELECT 10L AS id, DATE'2026-05-05' AS day, 10 AS v"))
    done = orders.optimize().where("year = 2026").executeCompaction().first()
    assert (done["path"], done["metrics"]["numFilesAdded"]) == (orders.table.url, 1)
    assert orders.optimize().executeZOrderBy(["id", "v"]).first()["metrics"]["numFilesAdded"] > 0
    assert {row["id"] for row in orders.toDF().collect()} == {*found, 10}
    history = orders.history(4).collect()
    assert [row["operation"] for row in history] == ["OPTIMIZE", "OPTIMIZE", "WRITE", "MERGE"]
    assert history[3]["operationMetrics"]["numTargetRowsInserted"] == "1"
    detail = orders.detail().first()
    assert (detail["description"], detail["partitionColumns"], detail["minWriterVersion"]) == (
        "what came in",
        ["year"],
        orders.table.protocol.writer,
    )
    assert orders.restoreToVersion(1).first()["num_of_files_after_restore"] > 0
    assert orders.toDF().count() == 8
    assert orders.history(1).first()["operationParameters"] == {"version": "1", "timestamp": None}


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("alias", ["t", "T", "of the day"])
def test_changes_speak_of_a_table_by_its_alias(alias, vectors, tmp_path, spark):
    rows = spark.sql("SELECT id, named_struct('id', id, 'w', 1) AS s, id > 2 AS big FROM range(6)")
    table = Table.create(tmp_path / "t", rows, spark, properties={"delta.enableDeletionVectors": vectors})
    orders = DeltaTable(table).alias(alias)
    of = f"`{alias}`"
    assert orders.delete(f"{of}.id = 0").first()[0] == 1
    assert orders.delete(F.col(f"{of}.id") == 1).first()[0] == 1
    assert orders.update(f"{of}.s.id = 2 AND id < 9", {f"{of}.s.w": f"{of}.s.w + {of}.id"}).first()[0] == 1
    assert orders.update(F.col(f"{of}.id") == 3, {"s.w": F.col(f"{of}.id") * 10}).first()[0] == 1
    assert orders.update(set={f"{of}.big": f"NOT {of}.big"}).first()[0] == 4
    found = sorted(tuple(row) for row in orders.toDF().selectExpr("id", "s.w", "big").collect())
    assert found == [(2, 3, True), (3, 30, False), (4, 1, False), (5, 1, False)]
    with pytest.raises(InputError, match="other"):
        orders.delete("other.id = 2")
    with pytest.raises(InputError, match=r"t\.id|`t`"):
        DeltaTable(table).delete("t.id = 2")


def test_the_history_has_the_columns_of_delta_spark(tmp_path, spark):
    path = tmp_path / "t"
    Table.create(str(path), "id INT", spark)
    commit = path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    info = next(line["commitInfo"] for line in lines if "commitInfo" in line)
    info |= {"clusterId": "c", "notebook": {"notebookId": "n"}, "job": {"jobId": "7", "jobName": "nightly"}}
    commit.write_text("\n".join(map(json.dumps, lines)) + "\n")
    told = DeltaTable.forPath(spark, str(path)).history()
    assert told.columns[5:10] == ["operationParameters", "job", "notebook", "clusterId", "readVersion"]
    row = told.first()
    assert (row["clusterId"], row["notebook"]["notebookId"], row["job"]["jobName"]) == ("c", "n", "nightly")
    assert row["job"]["runId"] is None


def test_the_protocol_and_the_folder_are_kept_up_under_the_same_names(tmp_path, spark):
    path = str(tmp_path / "t")
    spark.range(6).write.parquet(path)
    table = DeltaTable.convertToDelta(spark, f"parquet.`{path}`")
    assert DeltaTable.isDeltaTable(spark, path)
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path / "nothing"))
    table.upgradeTableProtocol(1, 3)
    table.addFeatureSupport("deletionVectors")
    assert "deletionVectors" in table.detail().first()["tableFeatures"]
    table.dropFeatureSupport("deletionVectors")
    assert "deletionVectors" not in table.detail().first()["tableFeatures"]
    clone = table.clone(str(tmp_path / "clone"), isShallow=True)
    clone.delete("id > 2")
    assert (clone.toDF().count(), table.toDF().count()) == (3, 6)
    deep = table.clone(str(tmp_path / "clone"), isShallow=False, replace=True)
    deep.generate("symlink_format_manifest")
    assert (deep.toDF().count(), deep.history(1).first()["version"]) == (6, 2)
    assert table.vacuum().first()["path"] == table.table.url
    again = DeltaTable.createOrReplace(spark).location(path).addColumn("n", "INT").execute()
    assert again.toDF().columns == ["n"]
    before = datetime.fromtimestamp(table.table.history(2)[1].timestamp_ms / 1000, UTC).isoformat()
    assert table.restoreToTimestamp(before).first()["num_restored_files"] > 0
    assert table.toDF().columns == ["id"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda spark, path: DeltaTable.forName(spark, "db.orders"),
        lambda spark, path: DeltaTable.create(spark).tableName("db.orders"),
        lambda spark, path: DeltaTable.create(spark).addColumn("n", "INT").execute(),
    ],
    ids=["forName", "tableName", "no location"],
)
def test_what_takes_a_catalog_or_another_engine_is_refused(ask, tmp_path, spark):
    path = str(tmp_path / "t")
    DeltaTable.create(spark).location(path).addColumn("n", "INT").execute()
    with pytest.raises(UnsupportedError) as refused:
        ask(spark, path)
    assert refused.value.sides
    with pytest.raises(NotFoundError):
        DeltaTable.forPath(spark, str(tmp_path / "nothing"))


def test_names_are_those_of_delta_spark():
    names = {
        DeltaTable: "forPath forName isDeltaTable convertToDelta create createIfNotExists replace createOrReplace toDF "
        "alias history detail generate delete update merge optimize vacuum restoreToVersion restoreToTimestamp clone "
        "cloneAtVersion cloneAtTimestamp upgradeTableProtocol addFeatureSupport dropFeatureSupport",
        DeltaMergeBuilder: "whenMatchedUpdate whenMatchedUpdateAll whenMatchedDelete whenNotMatchedInsert "
        "whenNotMatchedInsertAll whenNotMatchedBySourceUpdate whenNotMatchedBySourceDelete withSchemaEvolution execute",
        DeltaOptimizeBuilder: "where executeCompaction executeZOrderBy",
        DeltaTableBuilder: "tableName location comment addColumn addColumns partitionedBy clusterBy property execute",
    }
    for kind, words in names.items():
        public = {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
        assert set(words.split()) == public, kind.__name__


def test_a_builder_that_was_not_executed_says_so(tmp_path, spark):
    path = str(tmp_path / "t")
    table, named = Table.create(path, spark.range(3), spark), DeltaTable.forPath(spark, path)
    merge = table.merge(spark.range(1).alias("s"), "t.id = s.id").when_matched_delete()
    assert repr(merge).endswith("/t with 1 clause: nothing is done before execute()")
    assert repr(named.merge(spark.range(1), "true")).endswith("/t with 0 clauses: nothing is done before execute()")
    done = "nothing is done before execute_compaction() or execute_z_order_by(…)"
    assert repr(table.optimize()).endswith(f"/t: {done}")
    assert repr(named.optimize()).endswith("/t: nothing is done before executeCompaction() or executeZOrderBy(…)")


def test_builders_keep_what_they_were_told_whether_or_not_it_is_kept(tmp_path, spark):
    path = str(tmp_path / "t")
    builder = DeltaTable.create(spark)
    builder.location(path)
    for name in ("id", "p"):
        builder.addColumn(name, "BIGINT")
    builder.addColumns(spark.createDataFrame([], "v INT").schema)
    builder.partitionedBy("p")
    builder.comment("told").property("told", "twice")
    table = builder.execute()
    assert table.toDF().columns == ["id", "p", "v"]
    detail = table.detail().first()
    assert (detail["partitionColumns"], detail["description"]) == (["p"], "told")
    assert detail["properties"] == {"told": "twice"}
    for number in range(4):
        table.table.append(spark.sql(f"SELECT {number}L AS id, {number % 2}L AS p, 0 AS v"))
    tidying = table.optimize()
    tidying.where("p = 0")
    assert tidying.executeCompaction().first()["metrics"]["numFilesRemoved"] == 2


@pytest.mark.parametrize(
    "generated",
    [
        lambda: {"generatedAlwaysAs": "n + 1", "generatedByDefaultAs": IdentityGenerator()},
        lambda: {"generatedByDefaultAs": "n + 1"},
        lambda: {"generatedAlwaysAs": F.col("n") + 1},
    ],
    ids=["both", "SQL by default", "a Spark column"],
)
def test_what_cannot_generate_a_column_is_refused(generated, spark):
    builder = DeltaTable.create(spark).addColumn("n", "BIGINT")
    with pytest.raises(InputError, match="generated"):
        builder.addColumn("m", "BIGINT", **generated())


def test_a_name_that_is_a_path_opens_the_table_there(tmp_path, spark):
    path = str(tmp_path / "t")
    Table.create(path, spark.range(3), spark)
    assert DeltaTable.forName(spark, f"delta.`{path}`").toDF().count() == 3
