"""Tables in buckets that Spark has no file system for are scanned and written by Python workers."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyroaring import BitMap64
from tests.support.s3_server import s3_bucket

from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.scan.scan import scan
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.writer import write_files
from halocline.storage import open_store


@pytest.fixture(scope="module")
def bucket():
    with s3_bucket("lake") as options:
        yield options


@pytest.fixture
def store(bucket):
    return open_store(f"s3://lake/{uuid.uuid4().hex}/t able", bucket)


def listed(files) -> pa.Table:
    return pa.table(
        {
            "path": [file.path for file in files],
            "size": [file.size for file in files],
            "partition_values": pa.array(
                [list(file.partition_values.items()) for file in files], pa.map_(pa.string(), pa.string())
            ),
        }
    )


def test_rows_written_to_a_bucket_come_back(spark, store, types):
    schema = types.struct(id="long", p="string", s=types.struct(x="double"))
    df = spark.range(0, 1000, 1, 3).selectExpr("id", "string(id % 3) AS p", "named_struct('x', id / 2D) AS s")

    files = write_files(df, store, FileLayout(schema, ["p"]))

    assert sum(file.num_records for file in files) == 1000
    assert sorted(meta.path for meta in store.list()) == [file.path for file in files]
    back = scan(spark, store, listed(files), FileLayout(schema, ["p"]))
    assert sorted((row["id"], row["p"], row["s"]["x"]) for row in back.collect()) == [
        (n, str(n % 3), n / 2) for n in range(1000)
    ]
    assert back.where("p = '1' AND s.x > 400").count() == len([n for n in range(1000) if n % 3 == 1 and n > 800])


def test_deleted_rows_in_a_bucket_are_gone_and_columns_left_out_are_not_read(spark, store, types):
    schema = types.struct(id="long", wide="string")
    df = spark.range(0, 500, 1, 1).selectExpr("id", "repeat(string(id), 100) AS wide")
    files = write_files(df, store, FileLayout(schema))

    back = scan(
        spark,
        store,
        listed(files),
        FileLayout(schema),
        columns=["id"],
        deleted={0: BitMap64(range(0, 500, 2))},
        rows=RowColumns(place="r"),
    )

    assert back.columns == ["id", "r"]
    assert sorted(tuple(row) for row in back.collect()) == [(n, n) for n in range(1, 500, 2)]


def test_failed_write_leaves_nothing_in_the_bucket(spark, store, types):
    df = spark.range(0, 100, 1, 4).selectExpr("IF(id = 77, CAST(raise_error('broken row') AS bigint), id) AS id")

    with pytest.raises(Exception, match="broken row"):
        write_files(df, store, FileLayout(types.struct(id="long")))

    assert list(store.list()) == []
