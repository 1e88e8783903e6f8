"""One table, two clients: Halocline on Spark and deltalake, in both directions and at the same time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from importlib.metadata import version

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.support.tables import in_order, live_files, rows, their_rows

from halocline.errors import ConstraintError
from halocline.table import Table
from halocline.table.delta.new_table import Identity, column

ROWS = "SELECT id, CAST(id % 3 AS INT) p, concat('n', id) s FROM range(20)"


def theirs(path):
    return deltalake.DeltaTable(str(path))


def test_release_under_test_is_the_one_that_the_facts_are_about():
    assert version("deltalake") == "1.6.6"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.appendOnly": "true", "delta.constraints.positive": "id >= 0"},
        {"delta.enableChangeDataFeed": "true", "delta.parquet.compression.codec": "zstd"},
        {"delta.columnMapping.mode": "name", "delta.dataSkippingNumIndexedCols": "1"},
        {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "1"},
        {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"},
    ],
    ids=lambda each: ",".join(each) or "plain",
)
def test_what_we_write_they_read_row_for_row_and_write_on(spark, tmp_path, properties):
    path = tmp_path / "t"
    table = Table.create(path, spark.sql(ROWS), partition_by="p", properties=properties)
    table.append(spark.sql("SELECT 100L id, NULL p, NULL s"))
    if "delta.appendOnly" not in properties:
        table.overwrite(spark.sql("SELECT 4L id, 1 p, 'again' s"), where="id IN (4, 5)")
    expected = rows(table)
    assert len(expected) in (20, 21)
    assert their_rows(path) == expected
    more = pa.table({"id": [200], "p": pa.array([2], pa.int32()), "s": ["theirs"]})
    deltalake.write_deltalake(str(path), more, mode="append")
    assert rows(table) == in_order([*expected, (200, 2, "theirs")]) == their_rows(path)


def test_types_that_need_a_feature_and_generated_columns_are_read_by_both(spark, tmp_path):
    path = tmp_path / "t"
    columns = [
        column("id", "bigint", nullable=False),
        column("t", "timestamp_ntz"),
        column("twice", "bigint", generated="id * 2"),
        column("st", "struct<a: int, l: array<string>>"),
    ]
    table = Table.create(path, columns, spark)
    table.append(
        spark.sql("SELECT 3L id, TIMESTAMP_NTZ '2024-02-29 10:00:00' t, named_struct('a', 1, 'l', array('x', NULL)) st")
    )
    assert their_rows(path) == [(3, datetime(2024, 2, 29, 10), 6, {"a": 1, "l": ["x", None]})]
    assert rows(table) == [(3, datetime(2024, 2, 29, 10), 6, (1, ["x", None]))]


@pytest.mark.parametrize(
    ("type", "values", "expected"),
    [
        ("INT", "1, NULL", [1, None]),
        ("STRING", "'a b/c=%', 'é', NULL", ["a b/c=%", "é", None]),
        ("DATE", "DATE '2024-02-29', NULL", [date(2024, 2, 29), None]),
        ("BOOLEAN", "true, false", [True, False]),
        ("DECIMAL(10,2)", "1.50, -0.01", [Decimal("1.50"), Decimal("-0.01")]),
        ("DOUBLE", "0.1, 1e300", [0.1, 1e300]),
        ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ '2024-02-29 10:00:00.5'", [datetime(2024, 2, 29, 10, 0, 0, 500000)]),
    ],
)
def test_partition_values_of_every_type_mean_the_same_to_both(spark, tmp_path, type, values, expected):
    path = tmp_path / "t"
    df = spark.sql(f"SELECT CAST(v AS {type}) p, 1L n FROM (SELECT explode(array({values})) v)")
    table = Table.create(path, df, partition_by="p")
    assert in_order([(row[0],) for row in rows(table)]) == in_order([(each,) for each in expected])
    assert their_rows(path, "p") == in_order([(each,) for each in expected])


def test_timestamps_as_partition_values_name_the_same_moment(spark, tmp_path, conf):
    conf("spark.sql.session.timeZone", "America/New_York")
    path = tmp_path / "t"
    table = Table.create(path, spark.sql("SELECT TIMESTAMP '2024-02-29 10:00:00' p, 1L n"), partition_by="p")
    conf("spark.sql.session.timeZone", "UTC")
    moment = datetime(2024, 2, 29, 15)
    assert [row[0].replace(tzinfo=None) for row in their_rows(path, "p")] == [moment]
    assert [tuple(row) for row in table.to_df().selectExpr("CAST(p AS STRING)").collect()] == [("2024-02-29 15:00:00",)]


def test_what_they_write_and_change_we_read_row_for_row(spark, tmp_path):
    path = str(tmp_path / "t")
    data = pa.table({"id": pa.array(range(10), pa.int64()), "p": ["a", "b"] * 5, "v": [float(n) for n in range(10)]})
    deltalake.write_deltalake(path, data, partition_by=["p"], configuration={"delta.checkpointInterval": "3"})
    table = Table.for_path(path, spark)
    dt = theirs(path)
    dt.delete("id = 3")
    dt.update(updates={"v": "v + 100"}, predicate="id = 4")
    source = pa.table({"id": pa.array([5, 50], pa.int64()), "p": ["b", "c"], "v": [-5.0, -50.0]})
    merge = dt.merge(source, predicate="t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    dt.optimize.compact()
    dt.create_checkpoint()
    deltalake.write_deltalake(
        path, pa.table({"id": pa.array([60], pa.int64()), "p": ["d"], "w": ["new"]}), mode="append", schema_mode="merge"
    )
    assert rows(table) == their_rows(path)
    assert len(rows(table)) == 11
    assert len(rows(table, version=0)) == 10
    table.overwrite(spark.sql("SELECT 61L id, 'd' p, 1.0 v, 'ours' w"), where="p = 'd'")
    assert their_rows(path, "id", "w") == rows(table, "id", "w")
    assert (61, "ours") in rows(table, "id", "w")


def test_constraint_that_they_added_binds_us_and_mapping_that_they_made_is_kept(spark, tmp_path):
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"id": pa.array([1], pa.int64())}))
    theirs(path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ConstraintError, match="CHECK positive"):
        Table.for_path(path, spark).append(spark.range(-1, 0))
    mapped = str(tmp_path / "mapped")
    deltalake.write_deltalake(
        mapped, pa.table({"id": pa.array([1], pa.int64())}), configuration={"delta.columnMapping.mode": "name"}
    )
    table = Table.for_path(mapped, spark)
    table.append(spark.sql("SELECT 2L id, 'x' `a b`"), schema_mode="merge")
    assert rows(table) == in_order([(1, None), (2, "x")]) == their_rows(mapped)


def test_tables_that_they_cannot_write_they_refuse_and_still_read(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, [column("n", "int"), column("id", "bigint", identity=Identity())], spark)
    table.append(spark.sql("SELECT 1 n"))
    assert their_rows(path) == [(1, 1)]
    with pytest.raises(Exception, match=r"(?i)identity"):
        deltalake.write_deltalake(
            str(path), pa.table({"n": pa.array([2], pa.int32()), "id": pa.array([9], pa.int64())}), mode="append"
        )
    assert table.can("deltalake@1.6.6", "write").answer == "refused"
    assert rows(table) == [(1, 1)]


def test_plain_files_are_plain_to_everybody(spark, tmp_path):
    path = tmp_path / "t"
    Table.create(path, spark.sql("SELECT id, double(id) / 2 d, TIMESTAMP '2024-02-29 10:00:00' t FROM range(5)"))
    files = [str(path / file) for file in live_files(path)]
    assert duckdb.sql(f"SELECT sum(id), sum(d), min(t)::VARCHAR FROM read_parquet({files})").fetchall()[0][:2] == (
        10,
        5.0,
    )
    read = ds.dataset(files, format="parquet").to_table()
    assert sorted(read["id"].to_pylist()) == list(range(5))
    assert str(read.schema.field("t").type) == "timestamp[us, tz=UTC]"
    pruned = theirs(path).to_pyarrow_dataset().to_table(filter=ds.field("id") == 3)
    assert pruned["d"].to_pylist() == [1.5]


def test_both_append_to_one_table_at_once_and_nothing_is_lost(spark, tmp_path):
    path = tmp_path / "t"
    Table.create(path, "writer STRING, n BIGINT", spark, properties={"delta.checkpointInterval": "5"})

    def ours(writer):
        table = Table.for_path(path, spark)
        for batch in range(4):
            table.append(spark.range(batch * 10, batch * 10 + 10).selectExpr(f"'ours{writer}' writer", "id AS n"))

    def their(writer):
        for batch in range(8):
            numbers = pa.array(range(batch * 10, batch * 10 + 10), pa.int64())
            deltalake.write_deltalake(
                str(path), pa.table({"writer": [f"their{writer}"] * 10, "n": numbers}), mode="append"
            )

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ours, 0), pool.submit(their, 0), pool.submit(ours, 1), pool.submit(their, 1)]:
            done.result()
    expected = in_order(
        [(f"ours{writer}", n) for writer in range(2) for n in range(40)]
        + [(f"their{writer}", n) for writer in range(2) for n in range(80)]
    )
    table = Table.for_path(path, spark)
    assert rows(table) == expected
    assert their_rows(path) == expected
    assert table.version == 24
    log = sorted(int(file.stem) for file in (path / "_delta_log").glob("*.json") if file.stem.isdigit())
    assert log == list(range(25))
