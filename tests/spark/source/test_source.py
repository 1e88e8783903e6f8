"""The data source reads what a table holds, writes what other clients read, and leaves nothing when it fails."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.support import columns
from tests.support.columns import field

from halocline.formats.delta.actions.action import Add, CommitInfo, Metadata, ProtocolAction, Remove, encode_commit
from halocline.formats.delta.actions.deletion_vectors import write_file
from halocline.formats.log.names import DELTA
from halocline.schema.json_edge import dump
from halocline.source.data_source import register
from halocline.statements.runner import sql
from halocline.storage import open_store
from halocline.table import Table


def load(spark, path, **options):
    return spark.read.format("halocline").options(**options).load(str(path))


def save(df, path, mode="append", **options):
    df.write.format("halocline").mode(mode).options(**options).save(str(path))


def refused(work) -> str:
    """What Spark says when the source refuses."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's classes differ between sessions
        work()
    return str(caught.value)


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for above, _, names in os.walk(root):
        for name in names:
            path = os.path.join(above, name)
            found[os.path.relpath(path, root)] = (os.stat(path).st_size, os.stat(path).st_mtime_ns)
    return found


EVERY_TYPE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "l": pa.array([1, 2, None], pa.int64()),
        "b": pa.array([1, 2, None], pa.int8()),
        "s": pa.array([1, 2, None], pa.int16()),
        "f": pa.array([1.5, None, float("inf")], pa.float32()),
        "d": pa.array([1.5, None, 2.5], pa.float64()),
        "t": pa.array(["a", "", None]),
        "y": pa.array([b"a", b"", None]),
        "q": pa.array([True, False, None]),
        "day": pa.array([dt.date(2024, 2, 29), None, dt.date(1999, 1, 1)]),
        "at": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4), None, None], pa.timestamp("us", "UTC")),
        "n": pa.array([Decimal("1.25"), None, Decimal("3.50")], pa.decimal128(10, 2)),
        "xs": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "o": pa.array([{"a": 1, "p": {"z": "q"}}, {"a": None, "p": None}, None]),
    }
)


@pytest.fixture
def orders(tmp_path):
    """Version 0 and 1 insert, version 2 updates; partitioned, with a change feed."""
    path = str(tmp_path / "orders")
    first = pa.table({"id": [1, 2, 3], "country": ["de", "at", None], "amount": [10, 20, 30]})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, first, partition_by=["country"], configuration=feed)
    write_deltalake(path, pa.table({"id": [4], "country": ["de"], "amount": [40]}), mode="append")
    DeltaTable(path).update(updates={"amount": "amount + 1"}, predicate="id = 1")
    return path


# ---------------------------------------------------------------- reading


def test_the_source_is_found_without_being_registered(orders, spark, collected):
    assert collected(load(spark, orders)) == collected(Table.for_path(orders, spark).to_df())
    register(spark)
    assert load(spark, orders).count() == 4


def test_every_type_comes_back_as_a_native_scan_gives_it(tmp_path, spark, collected):
    path = str(tmp_path / "t")
    write_deltalake(path, EVERY_TYPE)
    df = load(spark, path)
    native = Table.for_path(path, spark).to_df()
    assert df.schema == native.schema
    assert collected(df) == collected(native)


def test_partition_values_of_every_type_come_back_typed(tmp_path, spark, collected):
    path = str(tmp_path / "t")
    keys = ["i", "t", "q", "day", "at", "n", "d"]
    write_deltalake(path, EVERY_TYPE.select([*keys, "l"]), partition_by=keys)
    assert collected(load(spark, path)) == collected(Table.for_path(path, spark).to_df())


def test_versions_and_times_are_those_of_the_log(orders, spark):
    assert load(spark, orders, versionAsOf="0").count() == 3
    times = {entry.version: entry.timestamp_ms for entry in Table.for_path(orders).history()}
    at = dt.datetime.fromtimestamp(times[1] / 1000, dt.UTC)
    assert load(spark, orders, timestampAsOf=at.isoformat()).count() == 4
    assert load(spark, orders, timestampAsOf=str(at.replace(tzinfo=None)), timeZone="UTC").count() == 4


def test_a_frame_stays_at_its_version_and_a_new_one_moves_on(orders, spark, is_connect):
    # A Connect server analyses a plan each time it runs; there a version must be named to stay.
    before = load(spark, orders, **({"versionAsOf": "2"} if is_connect else {}))
    write_deltalake(orders, pa.table({"id": [9], "country": ["de"], "amount": [9]}), mode="append")
    assert (before.count(), load(spark, orders).count()) == (4, 5)


def test_filters_on_one_frame_do_not_leak_into_another_query(orders, spark, conf):
    df = load(spark, orders)
    assert df.where("id = 1").count() == 1
    assert df.count() == 4
    assert df.where("id = 1 OR id = 2").count() == 2


def test_a_schema_with_fewer_columns_reads_only_those(orders, spark):
    df = spark.read.format("halocline").schema("AMOUNT bigint, country string").load(orders)
    assert sorted(row["AMOUNT"] for row in df.collect()) == [11, 20, 30, 40]
    text = refused(lambda: spark.read.format("halocline").schema("amount string").load(orders).count())
    assert "SCHEMA_MISMATCH" in text


def test_deletion_vectors_are_applied(tmp_path, spark):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": list(range(10))}), configuration={"delta.enableDeletionVectors": "true"})
    store = open_store(path)
    add = Table.for_path(path).snapshot().files()
    (vector,) = write_file(store, [[0, 3, 9]])
    name, size = add["path"][0].as_py(), add["size"][0].as_py()
    gone = Remove(name, 1, True, True, {}, size)
    now = Add(name, {}, size, 1, True, deletion_vector=vector)
    store.put_if_absent(DELTA.commit_path(1), encode_commit([CommitInfo({"operation": "DELETE"}), gone, now]))
    assert sorted(row["id"] for row in load(spark, path).collect()) == [1, 2, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_read_and_written_by_their_physical_names(tmp_path, spark, collected, mode):
    path = tmp_path / "t"

    def mapped(name, type, physical, number):
        ids = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number}
        return field(name, type, metadata=ids)

    inner = columns.schema(mapped("x", "long", "col-x", 3))
    fields = [mapped("id", "long", "col-id", 1), mapped("o", inner, "col-o", 2), mapped("p", "string", "col-p", 4)]
    properties = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "4"}
    text = dump(columns.schema(*fields))
    metadata = Metadata("1", schema_string=text, partition_columns=("p",), configuration=properties)
    open_store(path).put_if_absent(DELTA.commit_path(0), encode_commit([ProtocolAction(2, 5), metadata]))
    df = spark.sql("SELECT 1L AS id, named_struct('x', 7L) AS o, 'a b' AS p UNION ALL SELECT 2L, NULL, NULL")
    save(df, path)
    assert collected(load(spark, path)) == collected(df)
    (name, *_) = Table.for_path(path).snapshot().files()["path"].to_pylist()
    assert set(pq.read_schema(path / name).names) == {"col-id", "col-o"}
    assert collected(Table.for_path(path, spark).to_df()) == collected(df)


def test_the_change_feed_is_that_of_the_table(orders, spark, collected):
    options = {"readChangeFeed": "true", "startingVersion": "1"}
    expected = Table.for_path(orders, spark).changes(1)
    df = load(spark, orders, **options)
    assert df.columns == expected.columns
    assert collected(df) == collected(expected)
    assert {row["_commit_version"] for row in load(spark, orders, endingVersion="1", **options).collect()} == {1}


def test_sql_reads_through_a_view_and_writes_through_it(orders, spark):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING halocline OPTIONS (path '{orders}')")
    assert spark.sql("SELECT sum(amount) FROM v WHERE country = 'de'").collect()[0][0] == 51
    spark.catalog.dropTempView("v")


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"versionAsOf": "99"}, "VERSION_NOT_FOUND"),
        ({"versionAsOff": "0"}, "versionAsOf"),
        ({"replaceWhere": "id = 1"}, "not for reading"),
        ({"versionAsOf": "one"}, "ARGUMENT_INVALID"),
        ({"versionAsOf": "1", "timestampAsOf": "2024-01-01"}, "ARGUMENT_INVALID"),
        ({"readChangeFeed": "true", "startingVersion": "7"}, "ARGUMENT_INVALID"),
        ({"timeZone": "Middle/Earth"}, "ARGUMENT_INVALID"),
        ({"halocline.protocol.checkEnabled": "perhaps"}, "ARGUMENT_INVALID"),
        ({"halocline.glow": "1"}, "ARGUMENT_INVALID"),
        ({"halocline.release": "deltalake@0.10.2"}, "READER_TOO_OLD"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_typed_errors(orders, spark, options, condition):
    if condition == "READER_TOO_OLD":
        log = open_store(orders)
        protocol = ProtocolAction(3, 7, ("deletionVectors",), ("deletionVectors",))
        log.put_if_absent(DELTA.commit_path(3), encode_commit([CommitInfo({}), protocol]))
    assert condition in refused(lambda: load(spark, orders, **options).count())


THREE_DAYS = "SELECT id, date_add(DATE'2026-11-01', CAST(id % 3 AS INT)) AS day FROM range(30)"


def test_an_overwrite_by_a_condition_leaves_all_other_rows(tmp_path, spark):
    path = tmp_path / "t"
    save(spark.sql(THREE_DAYS), path)
    save(spark.sql("SELECT 100L AS id, DATE'2026-11-01' AS day"), path, "overwrite", replaceWhere="day='2026-11-01'")
    assert load(spark, path).count() == 21
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 21


def test_an_overwrite_of_partitions_leaves_all_others(tmp_path, spark):
    path = tmp_path / "t"
    save(spark.sql(THREE_DAYS), path, partitionBy="day")
    more = spark.sql("SELECT 100L AS id, DATE'2026-11-01' AS day")
    save(more, path, "overwrite", partitionOverwriteMode="dynamic")
    assert sorted(row["count"] for row in load(spark, path).groupBy("day").count().collect()) == [1, 10, 10]
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 21


def test_a_path_that_is_no_table_is_a_typed_error(tmp_path, spark):
    assert "NOT_FOUND" in refused(lambda: load(spark, tmp_path / "nothing").count())


# ---------------------------------------------------------------- writing


def test_rows_that_were_appended_are_read_by_others_with_their_statistics(tmp_path, spark, collected):
    path = tmp_path / "t"
    write_deltalake(str(path), EVERY_TYPE)
    df = Table.for_path(path, spark).to_df()
    save(df.repartition(2), path)
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 6
    assert collected(load(spark, path)) == collected(df.unionAll(df))
    stats = Table.for_path(path).snapshot().files()["stats"].to_pylist()
    assert all('"numRecords"' in text and '"minValues"' in text for text in stats)
    entry = Table.for_path(path).history()[0]
    assert (entry.operation, entry.info.values["operationParameters"]["mode"]) == ("WRITE", "Append")


def test_a_table_that_does_not_exist_is_created_with_the_least_protocol(tmp_path, spark, collected):
    path = tmp_path / "new"
    df = spark.range(10).selectExpr("id", "cast(id % 3 AS int) AS p", "date'2024-01-01' AS day")
    save(df, path, partitionBy="p, DAY")
    table = Table.for_path(path, spark)
    assert str(table.protocol) == "(1,2)"
    assert table.snapshot().partition_columns == ("p", "day")
    assert collected(table.to_df()) == collected(df)
    files = table.snapshot().files()["path"].to_pylist()
    assert len(files) <= 3 * 2, "one file per partition and task"
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 10
    save(spark.range(3).selectExpr("id", "current_timestamp()::timestamp_ntz AS at"), tmp_path / "ntz")
    assert "timestampNtz" in Table.for_path(tmp_path / "ntz").features()


def test_rows_make_no_table_among_loose_files_unless_they_overwrite(tmp_path, spark):
    path = tmp_path / "loose"
    spark.range(3).write.parquet(str(path))
    loose = files_below(path)
    assert "holds files and is no table" in refused(lambda: save(spark.range(5), path))
    assert "holds files and is no table" in refused(lambda: sql(spark, f"CREATE TABLE delta.`{path}` (id BIGINT)"))
    assert "holds files" in refused(lambda: sql(spark, f"CREATE TABLE delta.`{path}` AS SELECT 1L AS id"))
    assert files_below(path) == loose
    save(spark.range(5), path, "overwrite")
    assert load(spark, path).count() == 5


def test_overwrite_replaces_all_rows_and_keeps_the_history(orders, spark):
    save(spark.sql("SELECT 7L AS id, 'fr' AS country, 70L AS amount"), orders, mode="overwrite")
    assert [tuple(row) for row in load(spark, orders).collect()] == [(7, "fr", 70)]
    assert load(spark, orders, versionAsOf="2").count() == 4
    assert Table.for_path(orders).history()[0].info.values["operationParameters"]["mode"] == "Overwrite"


def test_columns_are_found_by_name_and_small_numbers_grow(orders, spark):
    save(spark.sql("SELECT 5 AS AMOUNT, 50 AS id"), orders)
    row = load(spark, orders).where("id = 50").collect()[0]
    assert row.asDict() == {"id": 50, "country": None, "amount": 5}


def test_a_write_of_one_application_is_done_once(orders, spark):
    df = spark.sql("SELECT 5L AS id, 'de' AS country, 50L AS amount")
    for _ in range(2):
        save(df, orders, txnAppId="nightly", txnVersion="3")
    assert load(spark, orders).where("id = 5").count() == 1
    live = set(Table.for_path(orders).snapshot().files()["path"].to_pylist())
    written = {path for path in files_below(Path(orders)) if path.endswith(".snappy.parquet") and "/" in path}
    assert not {path for path in written - live if not path.startswith(("_", "country="))}


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("SELECT 1L AS id, 'x' AS other", "SCHEMA_MISMATCH"),
        ("SELECT 'one' AS id", "SCHEMA_MISMATCH"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_leave_nothing(orders, spark, sql, condition):
    before = files_below(Path(orders))
    assert condition in refused(lambda: save(spark.sql(sql), orders))
    assert files_below(Path(orders)) == before


RULES = {
    "CHECK": ({}, {"delta.constraints.small": "id % 2 < 10"}, ProtocolAction(1, 3)),
    "invariant": ({"delta.invariants": '{"expression": {"expression": "id + 1 > 0"}}'}, {}, ProtocolAction(1, 2)),
    "generated": ({"delta.generationExpression": "1"}, {}, ProtocolAction(1, 4)),
    "identity": (
        {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True},
        {},
        ProtocolAction(1, 6),
    ),
    "default": ({"CURRENT_DEFAULT": "1"}, {}, ProtocolAction(1, 7, None, ("allowColumnDefaults",))),
}


@pytest.mark.parametrize("rule", RULES)
def test_tables_whose_rules_need_sql_are_refused_with_the_way_to_write_them(tmp_path, spark, rule):
    metadata, properties, protocol = RULES[rule]
    ruled = field("id" if rule != "default" else "left_out", "long", metadata=metadata)
    schema = columns.schema(ruled, *([field("id", "long")] if rule == "default" else []))
    action = Metadata("1", schema_string=dump(schema), configuration=properties)
    open_store(tmp_path).put_if_absent(DELTA.commit_path(0), encode_commit([protocol, action]))
    before = files_below(tmp_path)
    text = refused(lambda: save(spark.range(3), tmp_path))
    assert "UNSUPPORTED" in text
    assert "append(df)" in text
    assert files_below(tmp_path) == before


def test_plain_constraints_are_kept_without_sql(tmp_path, spark):
    schema = columns.schema(field("id", "long"))
    action = Metadata("1", schema_string=dump(schema), configuration={"delta.constraints.small": "id < 10"})
    open_store(tmp_path).put_if_absent(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 3), action]))
    save(spark.range(3), tmp_path)
    before = files_below(tmp_path)
    assert "CHECK small" in refused(lambda: save(spark.range(8, 12), tmp_path))
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT cast(NULL AS bigint) AS id, NULL AS o, NULL AS xs", "NOT NULL id"),
        ("SELECT 1L AS id, named_struct('x', cast(NULL AS bigint)) AS o, NULL AS xs", "NOT NULL inside o"),
        ("SELECT 1L AS id, NULL AS o, array(1L, NULL) AS xs", "NOT NULL inside xs"),
        ("SELECT 1L AS id, NULL AS o, array(1L) AS xs", None),
        ("SELECT 1L AS id, named_struct('x', 2L) AS o, cast(NULL AS array<bigint>) AS xs", None),
    ],
)
def test_nulls_are_refused_where_the_table_allows_none(tmp_path, spark, sql, rule):
    inner = columns.schema(field("x", "long", nullable=False))
    numbers = {"type": "array", "elementType": "long", "containsNull": False}
    fields = [field("id", "long", nullable=False), field("o", inner), field("xs", numbers)]
    action = Metadata("1", schema_string=dump(columns.schema(*fields)))
    open_store(tmp_path).put_if_absent(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 2), action]))
    if rule is None:
        save(spark.sql(sql), tmp_path)
        assert load(spark, tmp_path).count() == 1
        return
    before = files_below(tmp_path)
    text = refused(lambda: save(spark.sql(sql), tmp_path))
    assert "CONSTRAINT_VIOLATED" in text
    assert rule in text
    assert files_below(tmp_path) == before


def test_empty_text_in_a_partition_column_is_the_null_that_it_becomes(tmp_path, spark):
    fields = [field("id", "long"), field("p", "string", nullable=False)]
    action = Metadata("1", schema_string=dump(columns.schema(*fields)), partition_columns=("p",))
    open_store(tmp_path).put_if_absent(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 2), action]))
    assert "NOT NULL p" in refused(lambda: save(spark.sql("SELECT 1L AS id, '' AS p"), tmp_path))
    save(spark.sql("SELECT 1L AS id, 'x' AS p"), tmp_path)
    assert [tuple(row) for row in load(spark, tmp_path).collect()] == [(1, "x")]


def test_a_failing_task_leaves_no_files(tmp_path, spark):
    path = tmp_path / "t"
    save(spark.range(2), path)
    before = files_below(path)
    # One task: of several, one that Spark cancels may still finish its file after the write has been aborted.
    failing = spark.range(0, 1000, 1, 1).selectExpr("if(id = 999, raise_error('stop here'), id)::bigint AS id")
    assert "stop here" in refused(lambda: save(failing, path))
    assert files_below(path) == before


def test_other_partitions_than_the_table_has_are_refused(orders, spark):
    df = spark.sql("SELECT 7L AS id, 'fr' AS country, 70L AS amount")
    save(df, orders, partitionBy="COUNTRY")
    assert "SCHEMA_MISMATCH" in refused(lambda: save(df, orders, partitionBy="id"))


def test_an_append_only_table_is_not_overwritten(tmp_path, spark):
    action = Metadata(
        "1",
        schema_string=dump(columns.schema(field("id", "long"))),
        configuration={"delta.appendOnly": "true"},
    )
    open_store(tmp_path).put_if_absent(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 2), action]))
    save(spark.range(2), tmp_path)
    assert "TABLE_APPEND_ONLY" in refused(lambda: save(spark.range(2), tmp_path, mode="overwrite"))
