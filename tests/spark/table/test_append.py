import json
from datetime import date, datetime
from decimal import Decimal

import duckdb
import pytest
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.tables import (
    Untouched,
    actions,
    data_files,
    footer,
    in_order,
    info,
    live_files,
    meanwhile,
    rows,
    their_rows,
)

from halocline.errors import ConflictError, ConstraintError, HaloclineError, InputError, SchemaError, UnavailableError
from halocline.table import DeltaLakeTable, Table
from halocline.table.delta.opened import Opened

pytestmark = pytest.mark.connect


@pytest.fixture(scope="module")
def plain(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "table"
    Table.create(path, "id BIGINT NOT NULL, n INT, s STRUCT<x: INT NOT NULL>", spark)
    return path


def test_rows_of_every_type_come_back_from_every_reader(spark, tmp_path):
    path = tmp_path / "table"
    columns = (
        "by TINYINT, sh SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, b BOOLEAN, s STRING, bin BINARY, day DATE, "
        "ts TIMESTAMP, dec DECIMAL(20,3), arr ARRAY<INT>, m MAP<STRING, INT>, st STRUCT<a: INT, b: STRUCT<c: DATE>>"
    )
    table = Table.create(path, columns, spark)
    df = spark.sql(
        """SELECT CAST(1 AS TINYINT) by, CAST(2 AS SMALLINT) sh, 3 i, 4L l, float(1.5) f, double('NaN') d, true b,
        'é' s, X'00FF' bin, DATE '2024-02-29' day, TIMESTAMP '2024-02-29 10:00:00.123456' ts,
        CAST(12345678901234567.891 AS DECIMAL(20,3)) dec, array(1, null) arr, map('k', 1) m,
        named_struct('a', 1, 'b', named_struct('c', DATE '2024-01-01')) st"""
    )
    nothing = spark.sql("SELECT " + ", ".join(f"NULL AS {name}" for name in df.columns))
    table.append(df.unionByName(nothing))
    found = rows(table)
    full = next(row for row in found if row[0] == 1)
    assert next(row for row in found if row[0] is None) == (None,) * len(df.columns)
    assert full[:4] == (1, 2, 3, 4)
    assert full[6:] == (
        True,
        "é",
        bytearray(b"\x00\xff"),
        date(2024, 2, 29),
        datetime(2024, 2, 29, 10, 0, 0, 123456),
        Decimal("12345678901234567.891"),
        [1, None],
        {"k": 1},
        (1, (date(2024, 1, 1),)),
    )
    theirs = next(row for row in their_rows(path) if row[0] is not None)
    assert theirs[6:10] == (True, "é", b"\x00\xff", date(2024, 2, 29))
    assert theirs[10].timestamp() == full[10].timestamp() or theirs[10].replace(tzinfo=None) == full[10]
    assert (theirs[11], theirs[12], dict(theirs[13]), theirs[14]) == (
        Decimal("12345678901234567.891"),
        [1, None],
        {"k": 1},
        {"a": 1, "b": {"c": date(2024, 1, 1)}},
    )
    listed = [str(path / file) for file in live_files(path)]
    assert duckdb.sql(f"SELECT s, arr, m FROM read_parquet({listed}) WHERE i = 3").fetchall() == [
        ("é", [1, None], {"k": 1})
    ]
    stats = json.loads(actions(path, 1, "add")[0]["stats"])
    assert "INT96" not in {footer(path).schema.column(n).physical_type for n in range(footer(path).num_columns)}
    assert stats["numRecords"] in (1, 2)


def test_columns_are_found_by_name_and_cast_whatever_the_session_says_about_ansi(spark, tmp_path, conf):
    conf("spark.sql.ansi.enabled", "false")
    path = tmp_path / "table"
    table = Table.create(
        path,
        "Id INT, `a.b c` STRING, n STRUCT<x: BIGINT, y: STRING>, day TIMESTAMP",
        spark,
        properties={"delta.columnMapping.mode": "name"},
    )
    other = spark.sql("SELECT DATE '2024-02-29' DAY, named_struct('Y', 7, 'x', 1) N, 5L ID, 1.50 `A.B C`")
    table.append(other, cast="ansi")
    assert rows(table) == [(5, "1.50", (1, "7"), datetime(2024, 2, 29))]
    for sql, column in (
        ("3000000000L ID", "Id int"),
        ("named_struct('x', 1e30) n", "n.x bigint"),
        ("double('NaN') id", "Id int"),
    ):
        with Untouched(path), pytest.raises(ConstraintError) as caught:
            table.append(spark.sql(f"SELECT {sql}"), cast="ansi")
        assert caught.value.sides["column"] == column


@pytest.mark.parametrize("write", ["append", "overwrite"])
def test_a_value_may_only_grow_into_its_column_unless_ansi_casts_are_asked_for(spark, tmp_path, write):
    path = tmp_path / "t"
    table = Table.create(path, "n INT, d DOUBLE, p DECIMAL(12,2), a ARRAY<INT>", spark)
    for sql in ("5.7D n", "5L n", "'5' n", "5L d", "12345678901234567.25BD d", "1.255BD p", "array(5L) a"):
        with Untouched(path), pytest.raises(SchemaError) as refused:
            getattr(table, write)(spark.sql(f"SELECT {sql}"))
        assert "cast='ansi'" in refused.value.next_step, sql
    getattr(table, write)(spark.sql("SELECT 5S n, 1.25BD d, 5 p, array(5S) a"))
    getattr(table, write)(spark.sql("SELECT 5.7D n, 5L d, 1.255BD p, array(6L) a"), cast="ansi")
    assert (5, 5.0, Decimal("1.26"), [6]) in rows(table)
    getattr(table, write)(spark.sql("SELECT '7' n, '1.5' d, '2.25' p, array('8') a"), cast="ansi")
    assert (7, 1.5, Decimal("2.25"), [8]) in rows(table)
    with Untouched(path), pytest.raises(ConstraintError):
        getattr(table, write)(spark.sql("SELECT 'seven' n"), cast="ansi")
    with pytest.raises(InputError, match=f"cast of {write} cannot be"):
        getattr(table, write)(spark.sql("SELECT 5 n"), cast="legacy")


@pytest.mark.parametrize(
    ("sql", "table_side", "rows_side"),
    [
        ("SELECT 'x' id", "id bigint", "id string"),
        ("SELECT 1L id, 2 nope", "nope no such column", "nope int"),
        ("SELECT 2 n", "id bigint NOT NULL", "id missing"),
        ("SELECT 1L id, named_struct('z', 1) s", "s.x int NOT NULL, s.z no such column", "s.x missing, s.z int"),
        ("SELECT 1L id, array(true) s", "s struct<`x`: int>", "s array<boolean>"),
    ],
)
def test_columns_that_do_not_fit_are_refused_with_both_sides_before_anything_is_written(
    spark, plain, sql, table_side, rows_side
):
    with Untouched(plain), pytest.raises(SchemaError) as caught:
        Table.for_path(plain, spark).append(spark.sql(sql))
    assert (caught.value.sides["table"], caught.value.sides["rows"]) == (table_side, rows_side)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT 1L id, 2L ID", "ambiguous"),
        ("SELECT 1L id, INTERVAL 1 DAY n", "interval"),
        ("SELECT 1L id, 'x' COLLATE UNICODE_CI n", "collation"),
    ],
)
def test_columns_that_no_table_can_hold_are_refused(spark, plain, sql, words):
    with Untouched(plain), pytest.raises(HaloclineError, match=words):
        Table.for_path(plain, spark).append(spark.sql(sql))


def test_commit_records_what_spark_records_and_is_a_blind_append(spark, tmp_path):
    path = tmp_path / "table"
    table = Table.create(path, "id BIGINT, p STRING", spark, partition_by="p")
    version = table.append(spark.sql("SELECT id, 'a b' p FROM range(10)"), user_metadata="nightly")
    found = info(path, version)
    assert found["operation"] == "WRITE"
    assert found["operationParameters"] == {"mode": "Append", "partitionBy": '["p"]'}
    added = actions(path, version, "add")
    assert found["operationMetrics"] == {
        "numFiles": str(len(added)),
        "numOutputRows": "10",
        "numOutputBytes": str(sum(each["size"] for each in added)),
    }
    assert (found["isBlindAppend"], found["userMetadata"], found["readVersion"]) == (True, "nightly", 0)
    assert found["engineInfo"].startswith("Apache-Spark/")
    assert {each["partitionValues"]["p"] for each in added} == {"a b"}
    assert their_rows(path, "id") == in_order([(n,) for n in range(10)])


def test_same_transaction_of_an_application_is_written_once(spark, tmp_path):
    path = tmp_path / "table"
    table = Table.create(path, "id BIGINT", spark)
    assert table.append(spark.range(2), txn=("load", 7)) == 1
    with Untouched(path):
        assert table.append(spark.range(2), txn=("load", 7)) == 1
        assert table.append(spark.range(2), txn=("load", 3)) == 1
    assert table.append(spark.range(2), txn=("load", 8)) == 2
    assert len(rows(table)) == 4
    assert actions(path, 2, "txn")[0]["appId"] == "load"
    with pytest.raises(InputError, match="application"):
        table.append(spark.range(2), txn="load")


def test_rows_that_fail_to_compute_and_no_rows_at_all_leave_nothing_behind(spark, tmp_path):
    path = tmp_path / "table"
    table = Table.create(path, "id BIGINT", spark)
    with Untouched(path):
        assert table.append(spark.range(0)) == 0
        with pytest.raises(Exception, match="boom"):
            table.append(spark.range(100).selectExpr("IF(id = 99, raise_error('boom'), id) AS id"))
        with pytest.raises(InputError, match="no DataFrame"):
            table.append([(1,)])
        with pytest.raises(InputError, match="stream"):
            table.append(spark.readStream.format("rate").load())


def test_writes_keep_what_features_ask_for(spark, tmp_path):
    path = tmp_path / "table"
    table = Table.create(
        path,
        "id BIGINT, v VARIANT, t TIMESTAMP_NTZ",
        spark,
        cluster_by="id",
        properties={
            "delta.enableRowTracking": "true",
            "delta.enableInCommitTimestamps": "true",
            "delta.checkpointPolicy": "v2",
            "delta.checkpointInterval": "2",
        },
    )
    for n in range(3):
        table.append(
            spark.sql(f"SELECT {n}L id, parse_json('{{\"n\": {n}}}') v, TIMESTAMP_NTZ '2024-02-29 10:00:00' t")
        )
    snapshot = table.snapshot()
    files = snapshot.files()
    assert sorted(files["base_row_id"].to_pylist()) == [0, 1, 2]
    assert sorted(files["default_row_commit_version"].to_pylist()) == [1, 2, 3]
    assert files["clustering_provider"].null_count == 3
    assert info(path, 0)["operationParameters"]["clusterBy"] == '["id"]'
    assert json.loads(snapshot.domains["delta.clustering"].configuration)["clusteringColumns"] == [["id"]]
    assert next(iter(actions(path, 3, "commitInfo")[0])) == "inCommitTimestamp"
    assert any("checkpoint" in each.name and len(each.name) > 40 for each in (path / "_delta_log").iterdir())
    df = table.to_df().selectExpr("id", "variant_get(v, '$.n', 'int')", "t")
    assert in_order(df.collect()) == [(n, n, datetime(2024, 2, 29, 10)) for n in range(3)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_written_under_physical_names_with_ids(spark, tmp_path, mode):
    path = tmp_path / "table"
    table = Table.create(
        path,
        "id BIGINT, `my day` DATE, s STRUCT<`x y`: INT>",
        spark,
        partition_by="my day",
        properties={"delta.columnMapping.mode": mode},
    )
    table.append(spark.sql("SELECT 1L id, DATE '2024-02-29' `my day`, named_struct('x y', 5) s"))
    fields = {each["name"]: each for each in table.schema["fields"]}
    physical = {name: each["metadata"]["delta.columnMapping.physicalName"] for name, each in fields.items()}
    arrow = footer(path).schema.to_arrow_schema()
    assert set(arrow.names) == {physical["id"], physical["s"]}
    assert arrow.field(physical["id"]).metadata[b"PARQUET:field_id"] == b"1"
    assert arrow.field(physical["s"]).type.field(0).metadata[b"PARQUET:field_id"] == b"4"
    add = actions(path, 1, "add")[0]
    assert add["partitionValues"] == {physical["my day"]: "2024-02-29"}
    assert json.loads(add["stats"])["minValues"][physical["id"]] == 1
    assert rows(table) == [(1, date(2024, 2, 29), (5,))]
    if mode == "name":
        assert their_rows(path, "id", "my day") == [(1, date(2024, 2, 29))]


def test_files_of_a_refused_commit_are_deleted_and_of_an_unknown_one_kept(spark, tmp_path):
    path = tmp_path / "table"
    table = Table.create(path, "id BIGINT", spark)
    table.append(spark.range(1, 3))
    with meanwhile(lambda: table.add_constraint("small", "id < 10", validator=lambda *_: None)):
        files = data_files(path)
        with pytest.raises(ConflictError) as caught:
            table.append(spark.range(3))
    assert caught.value.condition == "CONCURRENT_METADATA_CHANGE"
    assert data_files(path) == files
    silent = FaultyStore(table.store, [Fault(FaultKind.TRANSIENT, 1, times=9, on=frozenset({"put_if_absent"}))])
    with pytest.raises(UnavailableError):
        DeltaLakeTable(Opened(silent, spark)).append(spark.range(3))
    assert data_files(path) > files, "nobody knows whether that commit took effect, so its files must stay"


def test_blind_appends_pass_each_other(spark, tmp_path):
    path = tmp_path / "table"
    table = Table.create(path, "id BIGINT", spark)
    with meanwhile(lambda: table.append(spark.range(10, 12))):
        assert table.append(spark.range(2)) == 2
    assert rows(table) == in_order([(0,), (1,), (10,), (11,)])


def test_same_transaction_written_by_two_at_once_counts_once(spark, tmp_path):
    table = Table.create(tmp_path / "table", "id BIGINT", spark)
    with meanwhile(lambda: table.append(spark.range(2), txn=("load", 1))):
        assert table.append(spark.range(2), txn=("load", 1)) == 1
    assert len(rows(table)) == 2
    assert data_files(tmp_path / "table") == live_files(tmp_path / "table")
