from datetime import date, datetime

import pytest
from tests.support.tables import Untouched, actions, data_files, in_order, info, live_files, meanwhile, rows, their_rows

from halocline.errors import ConflictError, ConstraintError, InputError, SchemaError
from halocline.table import Table


def test_merged_columns_are_null_in_older_rows_at_every_depth(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.sql("SELECT 1L id, array(named_struct('a', 1)) l"))
    df = spark.sql("SELECT DATE '2024-02-29' day, array(named_struct('b', 'x', 'a', 2S)) L, 2 id")
    with Untouched(path), pytest.raises(SchemaError):
        table.append(df)
    version = table.append(df, schema_mode="merge")
    assert rows(table) == [(1, [(1, None)], None), (2, [(2, "x")], date(2024, 2, 29))]
    assert [each["a"] for row in their_rows(path, "l") for each in row[0]] == [1, 2]
    assert info(path, version)["operationParameters"]["canMergeSchema"] is True
    assert len(actions(path, version, "metaData")) == 1
    table.append(spark.sql("SELECT 3L id"), schema_mode="merge")
    assert actions(path, version + 1, "metaData") == []


def test_merged_columns_of_a_mapped_table_get_ids_and_are_read_by_others(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.range(1), properties={"delta.columnMapping.mode": "name"})
    table.append(spark.sql("SELECT 1L id, 'x' `a b`"), schema_mode="merge")
    new = table.schema["fields"][1]["metadata"]
    assert new["delta.columnMapping.id"] == 2
    assert new["delta.columnMapping.physicalName"].startswith("col-")
    assert rows(table) == in_order([(0, None), (1, "x")]) == their_rows(path)


def test_types_widen_only_where_the_table_allows_it(spark, tmp_path):
    wide = spark.sql("SELECT 5000000000L n, float(1.5) f")
    plain = Table.create(tmp_path / "plain", spark.sql("SELECT 1 n, float(0.5) f"))
    with Untouched(tmp_path / "plain"), pytest.raises(SchemaError, match="n int"):
        plain.append(wide, schema_mode="merge")
    with Untouched(tmp_path / "plain"), pytest.raises(ConstraintError, match="column n"):
        plain.append(wide, schema_mode="merge", cast="ansi")
    path = tmp_path / "widening"
    table = Table.create(path, spark.sql("SELECT 1 n, float(0.5) f"), properties={"delta.enableTypeWidening": "true"})
    with Untouched(path), pytest.raises(SchemaError):
        table.append(wide)
    table.append(wide, schema_mode="merge")
    field = table.schema["fields"][0]
    assert (field["type"], field["metadata"]["delta.typeChanges"]) == (
        "long",
        [{"fromType": "integer", "toType": "long"}],
    )
    assert rows(table) == [(1, 0.5), (5000000000, 1.5)]


def test_feature_of_a_new_column_must_be_allowed(spark, tmp_path):
    path = tmp_path / "t"
    Table.create(path, spark.range(1))
    df = spark.sql("SELECT 1L id, TIMESTAMP_NTZ '2024-02-29 10:00:00' t")
    with Untouched(path), pytest.raises(InputError) as caught:
        Table.for_path(path, spark).append(df, schema_mode="merge")
    assert caught.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    allowed = Table.for_path(path, spark, options={"halocline.protocol.autoUpgrade": "true"})
    allowed.append(df, schema_mode="merge")
    assert str(allowed.protocol) == "(3,7|R: timestampNtz|W: appendOnly,invariants,timestampNtz)"
    assert rows(allowed) == in_order([(0, None), (1, datetime(2024, 2, 29, 10))])
    assert their_rows(path) == rows(allowed)


def test_overwritten_schema_replaces_columns_partitions_and_rows(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.sql("SELECT id, 'a' p FROM range(3)"), partition_by="p")
    version = table.overwrite(
        spark.sql("SELECT 'text' id, 5 q"), schema_mode="overwrite", partition_by=["Q"], user_metadata="anew"
    )
    assert rows(table) == [("text", 5)]
    assert table.snapshot().partition_columns == ("q",)
    assert their_rows(path) == [("text", 5)]
    assert info(path, version)["operationParameters"] == {
        "mode": "Overwrite",
        "partitionBy": '["q"]',
        "canOverwriteSchema": True,
    }
    assert len(rows(table, version=0)) == 3
    table.overwrite(spark.range(1), schema_mode="overwrite")
    assert (rows(table), table.snapshot().partition_columns) == ([(0,)], ()), "the column went, and its partitions"
    assert their_rows(path) == [(0,)]


def test_columns_that_a_feature_needs_are_neither_lost_nor_taken(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.range(1), cluster_by="ID", properties={"delta.enableChangeDataFeed": "true"})
    with Untouched(path), pytest.raises(SchemaError, match="clustered"):
        table.overwrite(spark.sql("SELECT 1 other"), schema_mode="overwrite")
    with Untouched(path), pytest.raises(SchemaError, match="_change_type"):
        table.append(spark.sql("SELECT 1L id, 'x' _CHANGE_type"), schema_mode="merge")
    table.overwrite(spark.sql("SELECT 'a' id, 1 n"), schema_mode="overwrite")
    assert rows(table) == [("a", 1)]


def test_constraint_on_a_column_that_would_go_stops_the_overwrite(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.range(1, 3), properties={"delta.constraints.positive": "id > 0"})
    with Untouched(path), pytest.raises(InputError, match="CHECK positive"):
        table.overwrite(spark.sql("SELECT 1 other"), schema_mode="overwrite")


def test_merge_and_condition_together_rewrite_older_rows_in_the_new_schema(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.range(0, 4, 1, 1).selectExpr("id", "named_struct('a', id) s"))
    df = spark.sql("SELECT 1L id, named_struct('a', 1L, 'b', 'new') s, 'n' extra")
    table.overwrite(df, where="id < 2", schema_mode="merge")
    assert rows(table) == in_order([(1, (1, "new"), "n"), (2, (2, None), None), (3, (3, None), None)])


def test_two_merges_at_once_both_end_up_in_the_table(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.range(1))
    with meanwhile(lambda: table.append(spark.sql("SELECT 1L id, 'b' b"), schema_mode="merge")):
        table.append(spark.sql("SELECT 2L id, 'c' c"), schema_mode="merge")
    assert rows(table, "id", "b", "c") == in_order([(0, None, None), (1, "b", None), (2, None, "c")])
    assert data_files(path) == live_files(path)
    with (
        meanwhile(lambda: table.set_properties({"owner": "somebody"})),
        pytest.raises(ConflictError) as caught,
    ):
        table.append(spark.range(1))
    assert caught.value.condition == "CONCURRENT_METADATA_CHANGE"


def test_void_column_is_kept_and_filled_later(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.sql("SELECT 1L id, NULL v"))
    assert rows(table) == [(1, None)]
    with Untouched(path), pytest.raises(SchemaError):
        table.append(spark.sql("SELECT 2L id, 'x' v"))
    table.append(spark.sql("SELECT 2L id, 'x' v"), schema_mode="merge")
    assert rows(table) == [(1, None), (2, "x")]
