import json
from datetime import date, datetime
from decimal import Decimal

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import columns
from tests.support.columns import field

from halocline.errors import AlreadyExistsError, InputError, NotFoundError, SchemaError, UnsupportedError
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.json_edge import dump
from halocline.storage import open_store
from halocline.table import Table
from halocline.table.delta.convert import convert_folder

DAY = [field("day", "date"), field("code", "integer")]


def put(folder, path, table, **options):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, target, **options)


def snapshot(folder):
    return Snapshot.load(open_store(str(folder)))


def stats(folder):
    files = snapshot(folder).files().to_pylist()
    return {each["path"]: json.loads(each["stats"]) for each in files}


def test_partitioned_folder_becomes_a_table_that_deltalake_reads_row_for_row(tmp_path):
    put(tmp_path, "day=2024-01-31/code=7/a b.parquet", pa.table({"id": [1, 2], "s": ["x", None]}))
    put(tmp_path, "day=2024-02-29/code=__HIVE_DEFAULT_PARTITION__/c.parquet", pa.table({"id": [3], "extra": [1.5]}))
    put(tmp_path, "_temporary/half.parquet", pa.table({"id": [99]}))
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".day.crc").write_bytes(b"")
    table = convert_folder(tmp_path, partition_by=DAY)
    rows = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "s": "x", "extra": None, "day": date(2024, 1, 31), "code": 7},
        {"id": 2, "s": None, "extra": None, "day": date(2024, 1, 31), "code": 7},
        {"id": 3, "s": None, "extra": 1.5, "day": date(2024, 2, 29), "code": None},
    ]
    found = table.snapshot()
    assert str(found.protocol) == "(1,2)"
    assert found.partition_columns == ("day", "code")
    info = found.commit_info.values
    assert info["operation"] == "CONVERT"
    assert info["operationParameters"] == {
        "numFiles": 2,
        "partitionedBy": '["day","code"]',
        "collectStats": True,
        "sourceFormat": "parquet",
    }
    assert info["operationMetrics"] == {"numConvertedFiles": "2"}
    first = stats(tmp_path)["day=2024-01-31/code=7/a b.parquet"]
    assert first == {
        "numRecords": 2,
        "minValues": {"id": 1, "s": "x"},
        "maxValues": {"id": 2, "s": "x"},
        "nullCount": {"id": 0, "s": 1},
    }


def test_every_type_is_what_spark_would_read(tmp_path):
    when = datetime(2024, 1, 31, 10, 0, 0)
    columns = {
        "u8": pa.array([200], pa.uint8()),
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "zoned": pa.array([when], pa.timestamp("us", "UTC")),
        "millis": pa.array([when], pa.timestamp("ms", "UTC")),
        "plain": pa.array([when], pa.timestamp("us")),
        "dec": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "bits": pa.array([b"ab"], pa.binary(2)),
        "nan": pa.array([float("nan")], pa.float64()),
        "list": pa.array([[1]], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"a": 1}], pa.struct({"a": pa.int16()})),
    }
    put(tmp_path, "a.parquet", pa.table(columns))
    convert_folder(tmp_path)
    found = snapshot(tmp_path)
    assert {each.name: str(each.type) for each in found.schema.fields} == {
        "u8": "short",
        "u64": "decimal(20,0)",
        "zoned": "timestamp",
        "millis": "timestamp",
        "plain": "timestamp_ntz",
        "dec": "decimal(10,2)",
        "bits": "binary",
        "nan": "double",
        "list": "array<integer>",
        "map": "map<string, long>",
        "struct": "struct<a: short>",
    }
    assert "timestampNtz" in found.protocol.features
    bounds = stats(tmp_path)["a.parquet"]["maxValues"]
    assert bounds.keys() == {"zoned", "plain", "dec", "struct"}
    assert bounds["zoned"] == "2024-01-31T10:00:00.000Z"


def test_twelve_byte_timestamps_are_with_a_zone_at_any_depth(tmp_path):
    when = datetime(2024, 1, 31)
    table = pa.table({"l": pa.array([[when]], pa.list_(pa.timestamp("us"))), "t": pa.array([when], pa.timestamp("us"))})
    put(tmp_path, "a.parquet", table, use_deprecated_int96_timestamps=True)
    convert_folder(tmp_path)
    assert str(snapshot(tmp_path).schema) == "struct<l: array<timestamp>, t: timestamp>"


def test_schema_that_spark_left_in_a_file_is_taken_without_ids_and_defaults(tmp_path):
    metadata = {"comment": "key", "EXISTS_DEFAULT": "1", "parquet.field.id": 4}
    written = columns.schema(field("id", "integer", False, metadata))
    table = pa.table({"id": pa.array([1], pa.int32())})
    key = b"org.apache.spark.sql.parquet.row.metadata"
    put(tmp_path, "a.parquet", table.replace_schema_metadata({key: dump(written)}))
    convert_folder(tmp_path)
    assert snapshot(tmp_path).schema == columns.schema(field("id", "integer", True, {"comment": "key"}))


def test_mapped_table_knows_its_files_by_their_names(tmp_path):
    put(tmp_path, "a.parquet", pa.table({"id": [1, 2]}))
    convert_folder(tmp_path, properties={"delta.columnMapping.mode": "name"})
    assert snapshot(tmp_path).columns.find("id").physical == ("id",)
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    assert query.execute("SELECT sum(id) AS s FROM t").read_all()["s"].to_pylist() == [3]


def test_dates_in_the_calendar_of_old_releases_have_no_bounds(tmp_path):
    """Spark reads other days than lie in the file, and would look for none of them there by such bounds."""
    day, moment = pa.array([-171000], pa.date32()), pa.array([0], pa.timestamp("us", "UTC"))
    for name, release in (("new", "3.5.1"), ("old", "2.4.8")):
        table = pa.table({"id": [1], "d": day, "t": moment})
        put(tmp_path, f"{name}.parquet", table.replace_schema_metadata({"org.apache.spark.version": release}))
    convert_folder(tmp_path)
    found = stats(tmp_path)
    assert found["new.parquet"]["minValues"].keys() == {"id", "d", "t"}
    assert found["old.parquet"]["minValues"].keys() == found["old.parquet"]["maxValues"].keys() == {"id"}


def test_statistics_can_be_left_out_but_row_counts_stay(tmp_path):
    put(tmp_path, "a.parquet", pa.table({"id": [1, 2]}))
    convert_folder(tmp_path, collect_stats=False)
    assert stats(tmp_path) == {"a.parquet": {"numRecords": 2}}


@pytest.mark.parametrize(
    ("files", "partition_by", "error", "words"),
    [
        ({}, (), NotFoundError, "no Parquet files"),
        ({"a.parquet": pa.table({"id": [1]}), "b.parquet": pa.table({"id": ["x"]})}, (), SchemaError, "column id"),
        ({"day=2024-01-31/a.parquet": pa.table({"id": [1]})}, (), SchemaError, "do not fit the partition columns"),
        ({"a.parquet": pa.table({"id": [1]})}, DAY, SchemaError, "do not fit the partition columns"),
        ({"day=soon/code=1/a.parquet": pa.table({"id": [1]})}, DAY, SchemaError, "soon"),
        ({"_spark_metadata/0": pa.table({"id": [1]})}, (), UnsupportedError, "stream"),
        ({"a.parquet": pa.table({"t": pa.array([1], pa.time64("us"))})}, (), UnsupportedError, "a.parquet: .*time64"),
        ({"a.txt": None}, (), InputError, "no Parquet file"),
        ({"_delta_log/00000000000000000000.json": None}, (), AlreadyExistsError, "delta table already"),
    ],
)
def test_folder_that_cannot_be_a_table_is_refused_and_left_alone(tmp_path, files, partition_by, error, words):
    for path, table in files.items():
        if table is not None:
            put(tmp_path, path, table)
        else:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(b"{}")
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(error, match=words):
        convert_folder(tmp_path, partition_by=partition_by)
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("path", "partition_by", "advice"),
    [
        ("p=0/a.parquet", (), "'p INT'"),
        ("p=0/a.parquet", DAY, "PARTITIONED BY (p INT)"),
        (
            "day=2024-01-31/of=at/n=99999999999/my%20x=1.5/a.parquet",
            (),
            "'day DATE, of STRING, n BIGINT, `my x` STRING'",
        ),
        ("a.parquet", DAY, "Leave partition_by out"),
    ],
)
def test_advice_names_the_folders_own_columns(tmp_path, path, partition_by, advice):
    put(tmp_path, path, pa.table({"id": [1]}))
    with pytest.raises(SchemaError) as refused:
        convert_folder(tmp_path, partition_by=partition_by)
    assert advice in refused.value.next_step


def test_a_folder_that_was_converted_before_is_opened_where_that_may_be(tmp_path):
    put(tmp_path, "a.parquet", pa.table({"id": [1]}))
    convert_folder(tmp_path, exist_ok=True)
    put(tmp_path, "loose.parquet", pa.table({"id": [2]}))
    assert convert_folder(tmp_path, exist_ok=True).snapshot().files()["path"].to_pylist() == ["a.parquet"]


def test_a_footer_that_ends_a_process_is_refused_and_ends_none_of_ours(tmp_path):
    put(tmp_path, "a.parquet", pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]}))
    put(tmp_path, "b.parquet", pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]}))
    whole = (tmp_path / "b.parquet").read_bytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for position, bit in ((18, 3), (49, 0), (149, 3)):
        damaged = bytearray(whole)
        damaged[start + position] ^= 1 << bit
        (tmp_path / "b.parquet").write_bytes(damaged)
        with pytest.raises(InputError, match="no Parquet file") as refused:
            convert_folder(tmp_path)
        assert refused.value.sides["file"] == "b.parquet", f"bit {bit} of byte {position}"
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize(
    "kept",
    [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string()), pa.string_view()],
    ids=str,
)
def test_text_that_arrow_kept_otherwise_becomes_text(tmp_path, kept):
    put(tmp_path, "a.parquet", pa.table({"id": [1, 2, 3], "s": pa.array(["x", None, "y"]).cast(kept)}))
    put(tmp_path, "b.parquet", pa.table({"id": [4], "s": ["z"]}))

    table = convert_folder(tmp_path)

    assert str(table.snapshot().schema.find(["s"])[1].type) == "string"
    found = Table.for_path(tmp_path).to_arrow().read_all().sort_by("id")
    assert found["s"].to_pylist() == ["x", None, "y", "z"]
    chosen = Table.for_path(tmp_path).to_arrow(where="s = 'y'").read_all()
    assert chosen["id"].to_pylist() == [3], "a condition misses the row"
    assert deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("id")["s"].to_pylist() == [
        "x",
        None,
        "y",
        "z",
    ]
