"""Rows of Hudi tables as DataFrames: native where base files hold them, merged by workers where log files do."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.support.hudi_tables import COLUMNS, KINDS, HudiTableMaker, rows, shown

from halocline.errors import InputError, UnsupportedError
from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.configuration import MergeMode, TableType
from halocline.formats.hudi.write.base_writer import with_meta_columns, write_base_file
from halocline.storage import open_store
from halocline.table import Table

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


def seen(df) -> list[tuple[str, int, str]]:
    return shown(df.toArrow().to_batches())


def plan(df, capsys) -> str:
    capsys.readouterr()
    df.explain("simple")
    return capsys.readouterr().out


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_rows_of_every_query_are_those_of_the_reader_without_spark(spark, tmp_path, version, type):
    maker = HudiTableMaker.create(open_store(tmp_path), version, type)
    first = maker.upsert(range(6), 100, "a")
    maker.upsert([1, 2, 7], 200, "b", deletes=[3])
    table = Table.for_path(tmp_path, spark)
    snapshot = maker.snapshot
    assert seen(table.to_df()) == shown(snapshot.read())
    assert seen(table.to_df(query="read_optimized")) == shown(snapshot.read(query="read_optimized"))
    assert seen(table.to_df(version=first)) == seen(table.to_df(timestamp=table.history()[-1].moment))
    assert len(seen(table.to_df(version=int(first)))) == 6
    begin = first if version == 6 else snapshot.timeline.completion_of(first)
    assert [key for key, _, _ in seen(table.incremental(begin))] == ["k1", "k2", "k7"]
    assert len(seen(table.incremental(0, begin))) == 6
    df = table.to_df()
    assert df.columns[:5] == [name for name in df.columns if name.startswith("_hoodie_")]
    assert df.toArrow().select(COLUMNS.names).sort_by("id").schema.names == COLUMNS.names


def test_values_of_all_types_come_back(spark, tmp_path):
    for type in (COW, MOR):
        maker = HudiTableMaker.create(open_store(tmp_path / type), 8, type)
        maker.upsert(range(6), 100, "a")
        maker.upsert([1, 2], 200, "b")
        native = Table.for_path(tmp_path / type, spark).to_df(columns=COLUMNS.names).toArrow().sort_by("id")
        expected = pa.concat_tables([rows([0], 100, "a"), rows([1, 2], 200, "b"), rows([3, 4, 5], 100, "a")])
        assert native.to_pylist() == expected.to_pylist(), type


def test_base_files_are_scanned_by_spark_and_only_slices_with_large_logs_by_workers(spark, tmp_path, capsys):
    maker = HudiTableMaker.create(open_store(tmp_path), 8, MOR)
    maker.upsert(range(6), 100, "a")
    table = Table.for_path(tmp_path, spark)
    assert "MapInArrow" not in plan(table.to_df(), capsys)
    maker.upsert([1], 200, "b")
    halved = plan(table.to_df(), capsys)
    assert "MapInArrow" not in halved, "the log is smaller than the base file"
    assert halved.count("FileScan parquet") == 2, "one of the slices has rows to leave out"
    assert "word" in halved, "they are left out by position"
    for number in range(20):
        maker.upsert([1], 300 + number, "c" * 400)
    merged = plan(table.to_df(), capsys)
    assert merged.count("MapInArrow") == 1
    assert merged.count("FileScan parquet") == 1, "the other partition has no log file"
    assert "MapInArrow" not in plan(table.to_df(query="read_optimized"), capsys)
    assert seen(table.to_df()) == shown(maker.snapshot.read())


def test_a_condition_leaves_partitions_out_and_columns_are_only_those_asked_for(spark, tmp_path, capsys):
    maker = HudiTableMaker.create(open_store(tmp_path), 8, MOR)
    maker.upsert(range(6), 100, "a")
    maker.upsert([1], 200, "b")
    table = Table.for_path(tmp_path, spark)
    odd = table.to_df(where="region = 'ap'", columns=["name", "ts"])
    assert odd.columns == ["name", "ts"]
    assert [row.name for row in odd.orderBy("name").collect()] == ["a0", "a2", "a4"]
    assert "MapInArrow" not in plan(odd, capsys), "the log files are in the other partition"
    assert [row.name for row in table.to_df(where="ts > 100").collect()] == ["b1"]
    assert table.to_df(where="region = 'us'").count() == 0
    assert table.to_df(where="name LIKE 'b%'").count() == 1
    with pytest.raises(InputError, match="nmae"):
        table.to_df(columns=["nmae"])
    with pytest.raises(InputError, match="regin"):
        table.to_df(where="regin = 'ap'")


def test_a_filter_behind_the_dataframe_still_leaves_row_groups_out(spark, tmp_path, capsys):
    maker = HudiTableMaker.create(open_store(tmp_path), 6, COW)
    maker.upsert(range(6), 100, "a")
    assert "PushedFilters: [IsNotNull(ts), EqualTo(ts,100)]" in plan(
        Table.for_path(tmp_path, spark).to_df().where("ts = 100"), capsys
    )


def rewritten(maker: HudiTableMaker, columns: pa.Schema, table: pa.Table, partition: str, *, extra=(), more=()) -> None:
    """Another write, of rows with other columns, into a file group of its own."""
    schema = avro_schema(columns, "orders")
    parsed = json.loads(schema)
    parsed["fields"] += more
    for field in parsed["fields"]:
        if field["name"] in dict(extra):
            field["default"] = dict(extra)[field["name"]]
            field["type"] = list(reversed(field["type"]))
    write = maker.begin("INSERT")
    write.prepare_partition(partition)
    marked = with_meta_columns(table, table["id"].combine_chunks(), partition, "new-0", write.time)
    stat = write_base_file(maker.store, marked, partition=partition, file_id="new-0", token="0-1-0", instant=write.time)
    write.complete([stat], schema=json.dumps(parsed))


@pytest.mark.parametrize("type", [COW, MOR])
def test_older_files_are_read_with_the_columns_of_today(spark, tmp_path, type):
    """Types that Spark's reader widens, types that it does not, new columns, and new columns with a default."""
    old = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int32()), ("name", pa.int64())])
    maker = HudiTableMaker.create(open_store(tmp_path), 8, type)
    maker = replace(maker, schema=avro_schema(old, "orders"))
    first = pa.table({"id": ["k0"], "region": ["ap"], "ts": [1], "name": [7]}, schema=old)
    rewritten(maker, old, first, "ap", extra={})
    new = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("name", pa.string())])
    new = new.append(pa.field("more", pa.float64())).append(pa.field("level", pa.int32()))
    second = pa.table(
        {"id": ["k1"], "region": ["eu"], "ts": [2], "name": ["b"], "more": [0.5], "level": [3]}, schema=new
    )
    maker.store.put("eu/.keep", b"")
    rewritten(maker, new, second, "eu", extra={"level": 9})
    found = Table.for_path(tmp_path, spark).to_df(columns=["id", "ts", "name", "more", "level"])
    assert [tuple(row) for row in found.orderBy("id").collect()] == [("k0", 1, "7", None, 9), ("k1", 2, "b", 0.5, 3)]
    part = Table.for_path(tmp_path, spark).to_df(columns=["id", "ts", "more"])
    assert [tuple(row) for row in part.orderBy("id").collect()] == [("k0", 1, None), ("k1", 2, 0.5)]


def test_a_column_that_spark_has_no_type_for_is_refused_by_name_and_can_be_left_out(spark, tmp_path):
    columns = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])
    maker = HudiTableMaker.create(open_store(tmp_path), 8, COW)
    clock = {"name": "clock", "type": ["null", {"type": "long", "logicalType": "time-micros"}], "default": None}
    made = pa.table({"id": ["k0"], "region": ["ap"], "ts": [1]}, schema=columns)
    rewritten(maker, columns, made, "ap", more=[clock])
    table = Table.for_path(tmp_path, spark)
    with pytest.raises(UnsupportedError, match=r"column clock has type time64\[us\]"):
        table.to_df()
    assert table.to_df(columns=["id", "ts"], where="region = 'ap'").count() == 1


def test_changes_say_what_was_and_what_is(spark, tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path), 8, COW)
    first = maker.upsert(range(4), 100, "a")
    with pytest.raises(InputError, match="does not log changes"):
        Table.for_path(tmp_path, spark).changes(0)
    text = (tmp_path / ".hoodie/hoodie.properties").read_text()
    (tmp_path / ".hoodie/hoodie.properties").write_text(
        text.replace("hoodie.table.cdc.enabled=false", "hoodie.table.cdc.enabled=true")
    )
    maker.upsert([1, 9], 200, "b", deletes=[2])
    begin = maker.snapshot.timeline.completion_of(first)
    found = Table.for_path(tmp_path, spark).changes(begin).orderBy("op").collect()
    assert [(row.op, row.before and row.before.name, row.after and row.after.name) for row in found] == [
        ("d", "a2", None),
        ("i", None, "b9"),
        ("u", "a1", "b1"),
    ]


def test_latest_write_or_largest_value_is_a_setting(spark, tmp_path):
    """OverwriteWithLatest with an ordering field: releases before 1.0 let the log win over the base, 1.x the value."""
    options = {"ordering_fields": ["ts"], "merge_mode": MergeMode.COMMIT_TIME_ORDERING}
    maker = HudiTableMaker.create(open_store(tmp_path), 6, MOR, **options)
    maker.upsert([0, 2], 500, "a")
    maker.upsert([0], 600, "late")
    maker.upsert([0], 550, "latest")
    expected = {"table": "late0", "0.x": "late0", "1.x": "latest0"}
    for rules, name in expected.items():
        table = Table.for_path(tmp_path, spark, options={"halocline.hudi.mergeRules": rules})
        assert table.to_df(where="id = 'k0'").collect()[0].name == name, rules


def test_tables_in_memory_are_read_as_well(spark, request):
    url = f"memory://{request.node.name}/orders"
    maker = HudiTableMaker.create(open_store(url), 9, MOR)
    maker.upsert(range(4), 100, "a")
    maker.upsert([1], 200, "b")
    assert seen(Table.for_path(url, spark).to_df()) == shown(maker.snapshot.read())


def test_a_range_is_of_times(spark, tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path), 6, COW)
    maker.upsert(range(4), 100, "a")
    table = Table.for_path(tmp_path, spark)
    assert table.incremental("0").count() == table.incremental("2020-01-01 00:00:00").count() == 4
    assert table.incremental(table.version).count() == 0
    with pytest.raises(InputError, match="'yesterday' is not a time"):
        table.incremental("yesterday")


def test_views_are_known_to_sql(spark, tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path), 8, MOR)
    maker.upsert(range(4), 100, "a")
    maker.upsert([1], 200, "b")
    Table.for_path(tmp_path, spark).register_view("orders_now")
    assert spark.sql("SELECT max(ts) FROM orders_now").collect()[0][0] == 200


def test_a_custom_merger_is_refused_and_read_optimised_rows_are_not(spark, tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path), 8, MOR)
    maker.upsert(range(4), 100, "a")
    maker.upsert([1], 200, "b")
    file = tmp_path / ".hoodie/hoodie.properties"
    mine = file.read_text().replace("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "11111111-2222-3333-4444-555555555555")
    file.write_text(mine)
    table = Table.for_path(tmp_path, spark)
    with pytest.raises(UnsupportedError, match="merge strategy 11111111"):
        table.to_df()
    assert table.to_df(query="read_optimized").count() == 4
