"""Writes leave exactly their rows in new files, and describe them as other readers of the log expect."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from halocline.errors import InputError, SchemaError
from halocline.spark.scan.scan import scan
from halocline.spark.types.columns import selected
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.file_stats import upper_bound
from halocline.spark.write.writer import WrittenFile, write_files
from halocline.storage import open_store

pytestmark = pytest.mark.connect


@pytest.fixture(params=["native", "workers"])
def route(request, monkeypatch) -> str:
    """How files are written: by Spark, or by Python workers."""
    if request.param == "workers":
        monkeypatch.setattr("halocline.spark.write.writer.spark_address", lambda *_: None)
    return request.param


def written(
    df, root: Path, schema, *, partition_columns=(), mapping_mode="none", configuration=None, **arguments
) -> list[WrittenFile]:
    layout = FileLayout(schema, partition_columns, mapping_mode)
    return write_files(df, open_store(str(root)), layout, configuration, **arguments)


def stats_of(files: list[WrittenFile]) -> dict:
    (file,) = files
    return json.loads(file.stats)


def test_files_are_described_as_they_lie(spark, tmp_path, types, route):
    files = written(spark.range(0, 1000, 1, 2), tmp_path / "t", types.struct(id="long"))

    assert sum(file.num_records for file in files) == 1000
    for file in files:
        status = (tmp_path / "t" / file.path).stat()
        assert (file.size, file.modification_time) == (status.st_size, status.st_mtime_ns // 1_000_000)
        assert file.partition_values == {}
        assert not any(part.startswith(("_", ".")) for part in file.path.split("/"))
    assert sorted(path for path in files_below(tmp_path)) == sorted(f"t/{file.path}" for file in files)
    read = [pq.read_table(tmp_path / "t" / file.path)["id"].to_pylist() for file in files]
    assert sorted(value for part in read for value in part) == list(range(1000))


def files_below(root: Path) -> list[str]:
    return [os.path.relpath(os.path.join(above, name), root) for above, _, names in os.walk(root) for name in names]


def test_no_rows_leave_no_files(spark, tmp_path, types, route):
    schema = types.struct(id="long", p="string")

    for partitions in ([], ["p"]):
        df = spark.range(0).selectExpr("id", "'x' AS p")
        assert written(df, tmp_path / "t", schema, partition_columns=partitions) == []
    assert files_below(tmp_path) == []
    assert list((tmp_path / "t").glob("*")) == [], "not even folders"


def test_every_type_comes_back_with_its_statistics(spark, tmp_path, types, route):
    schema = types.struct(
        b="byte",
        s="short",
        i="integer",
        l="long",
        f="float",
        d="double",
        c="decimal(10,2)",
        big="decimal(38,4)",
        day="date",
        ts="timestamp",
        ntz="timestamp_ntz",
        t="string",
        bo="boolean",
        bin="binary",
        st=types.struct(x="integer", y=types.struct(z="string")),
        ar=types.array("integer"),
        mp=types.map("string", "integer"),
    )
    df = spark.sql(
        """SELECT 1Y b, -2S s, 3 i, 4L l, float(1.5) f, 2.5D d, CAST(1.25 AS decimal(10,2)) c,
        CAST(12345678901234567890.5 AS decimal(38,4)) big, DATE'0001-01-01' day,
        TIMESTAMP'2020-06-01 10:00:00.123456Z' ts, TIMESTAMP_NTZ'1960-01-01 00:00:00.123999' ntz, 'é' t, true bo,
        X'00' bin, named_struct('x', 7, 'y', named_struct('z', 'q')) st, array(1, NULL) ar, map('k', 1) mp"""
    )
    nothing = df.selectExpr(
        *(f"IF(l = 4, NULL, {name}) AS {name}" if name != "l" else "5L AS l" for name in df.columns)
    )

    (file,) = written(df.unionAll(nothing).coalesce(1), tmp_path, schema)
    stats = json.loads(file.stats)

    low = {
        "b": 1, "s": -2, "i": 3, "l": 4, "f": 1.5, "d": 2.5, "c": 1.25, "big": 12345678901234567890.5,
        "day": "0001-01-01", "ts": "2020-06-01T10:00:00.123Z", "ntz": "1960-01-01T00:00:00.123", "t": "é",
        "st": {"x": 7, "y": {"z": "q"}},
    }  # fmt: skip
    high = {**low, "l": 5, "ts": "2020-06-01T10:00:00.124Z", "ntz": "1960-01-01T00:00:00.124"}
    nulls = dict.fromkeys((*low, "bo", "bin"), 1) | {"l": 0, "st": {"x": 1, "y": {"z": 1}}}
    assert stats == {"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": nulls}
    assert '"big":12345678901234567890.5000' in file.stats
    back = spark.read.parquet(str(tmp_path / file.path)).orderBy("l").first().asDict(recursive=True)
    assert back["ts"] == dt.datetime(2020, 6, 1, 10, 0, 0, 123456)
    assert (back["c"], back["ar"], back["mp"], back["bin"]) == (Decimal("1.25"), [1, None], {"k": 1}, b"\x00")


def test_not_a_number_has_no_greatest_value_and_is_found_again(spark, tmp_path, types, route):
    df = spark.sql("SELECT double(x) d, float(x) f FROM VALUES ('1'), ('NaN'), ('2'), (NULL) AS t(x)").coalesce(1)
    schema = types.struct(d="double", f="float")

    files = written(df, tmp_path / "t", schema)

    assert stats_of(files) == {"numRecords": 4, "minValues": {"d": 1.0, "f": 1.0}, "nullCount": {"d": 1, "f": 1}}
    back = spark.read.parquet(str(tmp_path / "t" / files[0].path))
    assert [math.isnan(row["d"]) for row in back.where("d > 5").collect()] == [True]
    assert back.where("f > 5").count() == 1


def test_infinite_bounds_are_left_out(spark, tmp_path, types, route):
    df = spark.sql("SELECT double(x) d FROM VALUES ('-Infinity'), ('3') AS t(x)").coalesce(1)

    assert stats_of(written(df, tmp_path, types.struct(d="double"))) == {
        "numRecords": 2,
        "maxValues": {"d": 3.0},
        "nullCount": {"d": 0},
    }


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a" * 32, "a" * 32, "a" * 32),
        ("a" * 33, "a" * 32, "a" * 32 + "\x7f"),
        ("é" * 33, "é" * 32, "é" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffff" + "b", "a" * 32, "a" * 32 + "\U0010ffff" + "\x7f"),
        ("a" * 32 + "\U0010ffff", "a" * 32, "a" * 32 + "\U0010ffff"),
        ("𝄞" * 40, "𝄞" * 32, "𝄞" * 32 + "\U0010ffff"),
    ],
)
def test_long_text_is_cut_into_bounds(spark, tmp_path, types, text, low, high):
    df = spark.createDataFrame(pa.table({"t": [text]}))

    stats = stats_of(written(df, tmp_path, types.struct(t="string")))

    assert (stats["minValues"]["t"], stats["maxValues"]["t"]) == (low, high)
    assert low <= text <= high
    assert upper_bound(text, 32) == high


def test_statistics_are_kept_on_the_columns_that_properties_name(spark, tmp_path, types):
    schema = types.struct(a="long", s=types.struct(x="long", y="long"), b="long", t="string")
    df = spark.sql("SELECT 1L a, named_struct('x', 2L, 'y', 3L) s, 4L b, 'abcdef' t")

    def kept(**properties: str) -> dict:
        configuration = {f"delta.{name}": value for name, value in properties.items()}
        return stats_of(written(df, tmp_path, schema, configuration=configuration))["maxValues"]

    assert kept(dataSkippingNumIndexedCols="2") == {"a": 1, "s": {"x": 2}}
    assert kept(dataSkippingStatsColumns="b,s.y") == {"b": 4, "s": {"y": 3}}
    assert kept(dataSkippingStringPrefixLength="3")["t"] == "abc\x7f"
    assert kept(dataSkippingNumIndexedCols="-1")["b"] == 4
    files = written(df, tmp_path, schema, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    assert json.loads(files[0].stats) == {"numRecords": 1}


# ---------------------------------------------------------------------- partitions

PARTITIONS = [
    ("string", "'a b/c=d:é%'", "a b/c=d:é%"),
    ("string", "''", None),
    ("integer", "-7", "-7"),
    ("date", "DATE'0001-01-01'", "0001-01-01"),
    ("boolean", "true", "true"),
    ("decimal(5,2)", "CAST(1.5 AS decimal(5,2))", "1.50"),
    ("timestamp", "TIMESTAMP'2020-11-01 06:30:00.120Z'", "2020-11-01T06:30:00.120000Z"),
    ("timestamp_ntz", "TIMESTAMP_NTZ'2020-03-08 02:30:00'", "2020-03-08 02:30:00"),
    ("binary", "X'01C3A9'", "\x01é"),
]


@pytest.mark.parametrize(("type", "sql", "text"), PARTITIONS, ids=[f"{p[0]}-{n}" for n, p in enumerate(PARTITIONS)])
def test_partition_value_is_text_that_reads_back(spark, tmp_path, types, conf, route, type, sql, text):
    conf("spark.sql.session.timeZone", "America/New_York")
    schema = types.struct(p=type, id="long", q=type)
    df = spark.sql(f"SELECT {sql} p, 1L id, CAST(NULL AS {'string' if type == 'string' else 'void'}) q")
    df = df.withColumn("q", df["q"].cast(df.schema["p"].dataType))

    (file,) = written(df, tmp_path, schema, partition_columns=["p", "q"])

    assert file.partition_values == {"p": text, "q": None}
    assert json.loads(file.stats) == {
        "numRecords": 1,
        "minValues": {"id": 1},
        "maxValues": {"id": 1},
        "nullCount": {"id": 0},
    }
    assert pq.read_schema(tmp_path / file.path).names == ["id"]
    values = pa.array([list(file.partition_values.items())], pa.map_(pa.string(), pa.string()))
    listed = pa.table({"path": [file.path], "size": [file.size], "partition_values": values})
    back = scan(spark, open_store(str(tmp_path)), listed, FileLayout(schema, ["p", "q"]))
    expected = df.collect()[0]
    assert back.collect()[0]["p"] == (expected["p"] or None)


def test_each_partition_has_its_files(spark, tmp_path, types, route):
    df = spark.range(0, 100, 1, 2).selectExpr("id", "id % 3 AS k", "string(id % 2) AS s")

    files = written(df, tmp_path, types.struct(id="long", k="long", s="string"), partition_columns=["s", "k"])

    rows = {}
    for file in files:
        key = (file.partition_values["s"], file.partition_values["k"])
        rows[key] = rows.get(key, 0) + file.num_records
        ids = pq.ParquetFile(tmp_path / file.path).read()["id"].to_pylist()
        assert all((str(n % 2), str(n % 3)) == key for n in ids)
    assert rows == {(s, k): len([n for n in range(100) if (str(n % 2), str(n % 3)) == (s, k)]) for s, k in rows}
    assert len(rows) == 6


def test_text_that_reads_like_the_folder_of_null_is_kept_apart_from_null(spark, tmp_path, types, route):
    texts = ["__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION___", None, "x"]
    df = spark.createDataFrame([(number, text) for number, text in enumerate(texts)], "id long, p string")
    files = written(df, tmp_path, types.struct(id="long", p="string"), partition_columns=["p"])
    found = {pq.ParquetFile(tmp_path / file.path).read()["id"][0].as_py(): file.partition_values["p"] for file in files}
    assert found == dict(enumerate(texts))


@pytest.mark.parametrize("value", ["x" * 300, "é" * 200, "a\0b"])
def test_a_partition_value_that_the_disk_cannot_name_is_refused_and_leaves_nothing(spark, tmp_path, types, value):
    df = spark.createDataFrame([(1, "at"), (2, value)], "id INT, p STRING")
    with pytest.raises(InputError, match=r"no name of a folder|too long|NUL"):
        written(df, tmp_path, types.struct(id="integer", p="string"), partition_columns=["p"])
    assert files_below(tmp_path) == []


def test_bytes_that_are_no_text_cannot_be_a_partition_value(spark, tmp_path, types):
    df = spark.sql("SELECT 1L id, X'FF' p")

    with pytest.raises(InputError, match="bytes that are no text"):
        written(df, tmp_path, types.struct(id="long", p="binary"), partition_columns=["p"])
    assert files_below(tmp_path) == []


# ---------------------------------------------------------------------- column mapping


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_physical_names_and_ids_at_every_depth(spark, tmp_path, types, route, mode):
    inner = types.struct(types.mapped("z", "string", "col-z", 5), types.mapped("w", "long", "col-w", 6))
    schema = types.struct(
        types.mapped("a", "long", "col-a", 1),
        types.mapped("s", types.struct(types.mapped("x", "long", "col-x", 3)), "col-s", 2),
        types.mapped("l", types.array(inner), "col-l", 4),
        types.mapped("m", types.map("string", types.struct(types.mapped("v", "long", "col-v", 8))), "col-m", 7),
        types.mapped("p", "string", "col-p", 9),
    )
    df = spark.sql(
        """SELECT 1L a, named_struct('x', 2L) s, array(named_struct('z', 'q', 'w', 3L)) l,
        map('k', named_struct('v', 4L)) m, 'one' p"""
    )

    (file,) = written(df, tmp_path, schema, partition_columns=["p"], mapping_mode=mode)

    assert file.partition_values == {"col-p": "one"}
    assert json.loads(file.stats)["minValues"] == {"col-a": 1, "col-s": {"col-x": 2}}
    arrow = pq.ParquetFile(tmp_path / file.path).schema_arrow

    def identity(field: pa.Field) -> tuple[str, int]:
        return field.name, int(field.metadata[b"PARQUET:field_id"])

    assert [identity(field) for field in arrow] == [("col-a", 1), ("col-s", 2), ("col-l", 4), ("col-m", 7)]
    assert identity(arrow.field(1).type.field(0)) == ("col-x", 3)
    assert [identity(f) for f in arrow.field(2).type.value_type] == [("col-z", 5), ("col-w", 6)]
    assert identity(arrow.field(3).type.item_type.field(0)) == ("col-v", 8)


# ---------------------------------------------------------------------- options, settings, failures


def test_codec_of_the_table_is_used(spark, tmp_path, types, route):
    df = spark.range(10)
    configuration = {"delta.parquet.compression.codec": "ZSTD"}

    files = written(df, tmp_path, types.struct(id="long"), configuration=configuration)

    assert pq.read_metadata(tmp_path / files[0].path).row_group(0).column(0).compression == "ZSTD"


def test_unknown_codec_is_refused_before_anything_is_written(spark, tmp_path, types):
    with pytest.raises(InputError, match="cannot be 'fast'") as error:
        written(
            spark.range(1), tmp_path, types.struct(id="long"), configuration={"delta.parquet.compression.codec": "fast"}
        )
    assert (error.value.condition, files_below(tmp_path)) == ("PROPERTY_INVALID", [])


def test_settings_of_the_session_do_not_change_the_files(spark, tmp_path, types, conf):
    conf("spark.sql.parquet.outputTimestampType", "INT96")
    conf("spark.sql.parquet.writeLegacyFormat", "true")
    conf("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    conf("spark.sql.parquet.fieldId.write.enabled", "false")
    df = spark.sql("SELECT TIMESTAMP'1500-01-01 00:00:00Z' t, DATE'1500-01-01' d, array(1) a FROM range(2)")
    columns = [("t", "timestamp"), ("d", "date"), ("a", types.array("integer"))]
    schema = types.struct(*(types.mapped(name, type, name, n) for n, (name, type) in enumerate(columns)))

    files = written(df, tmp_path, schema, mapping_mode="name")

    table = pq.read_table(tmp_path / files[0].path)
    assert table["d"].to_pylist()[0] == dt.date(1500, 1, 1)
    assert table["t"].to_pylist()[0].replace(tzinfo=None) == dt.datetime(1500, 1, 1)
    assert "list.element" in str(pq.read_metadata(tmp_path / files[0].path).row_group(0).column(2).path_in_schema)
    assert table.schema.field("a").metadata == {b"PARQUET:field_id": b"2"}
    assert spark.conf.get("spark.sql.parquet.datetimeRebaseModeInWrite") == "LEGACY"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"


def test_concurrent_writes_leave_the_settings_alone(spark, tmp_path, types, conf):
    conf("spark.sql.parquet.outputTimestampType", "INT96")
    df = spark.sql("SELECT TIMESTAMP'2020-01-01 00:00:00Z' + make_dt_interval(0, id) t FROM range(0, 1000, 1, 4)")

    with ThreadPoolExecutor(4) as pool:
        writes = [pool.submit(written, df, tmp_path / str(n), types.struct(t="timestamp")) for n in range(8)]
        files = [file for write in writes for file in write.result()]

    assert all("t" in json.loads(file.stats)["minValues"] for file in files)
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"


def test_variant_is_stored_whole(spark, tmp_path, types):
    df = spark.sql("""SELECT id, parse_json('{"a": 1}') v FROM range(3)""").coalesce(1)

    (file,) = written(df, tmp_path, types.struct(id="long", v="variant"))

    schema = pq.ParquetFile(tmp_path / file.path).schema
    assert sorted(schema.column(n).path for n in range(len(schema))) == ["id", "v.metadata", "v.value"]
    assert json.loads(file.stats)["nullCount"] == {"id": 0}


def test_void_columns_are_in_no_file(spark, tmp_path, types, route):
    schema = types.struct(
        id="long", v="void", s=types.struct(x="long", n="void"), l=types.array(types.struct(y="long", n="void"))
    )
    df = spark.sql(
        """SELECT 1L id, named_struct('x', 2L, 'n', NULL) s, array(named_struct('y', 3L, 'n', NULL)) l
        UNION ALL SELECT 2L, NULL, NULL"""
    ).coalesce(1)

    (file,) = written(df, tmp_path, schema)

    assert pq.read_table(tmp_path / file.path).sort_by("id").to_pylist() == [
        {"id": 1, "s": {"x": 2}, "l": [{"y": 3}]},
        {"id": 2, "s": None, "l": None},
    ]


def test_nothing_but_partition_columns_is_refused(spark, tmp_path, types):
    with pytest.raises(SchemaError, match="no column to write"):
        written(spark.range(1), tmp_path, types.struct(id="long"), partition_columns=["id"])


@pytest.mark.parametrize("sql", ["1L AS other", "1L AS id, 2L AS other"])
def test_rows_with_other_columns_are_refused(spark, tmp_path, types, sql):
    with pytest.raises(SchemaError) as error:
        written(spark.sql(f"SELECT {sql}"), tmp_path, types.struct(id="long"))

    assert error.value.sides["table has"] == "id"


def test_columns_are_found_by_name_whatever_their_case_and_order(spark, tmp_path, types, route):
    df = spark.sql("SELECT 'x' AS B, 1L AS A")

    (file,) = written(df, tmp_path, types.struct(a="long", b="string"))

    assert pq.read_table(tmp_path / file.path).to_pylist() == [{"a": 1, "b": "x"}]


def test_failed_write_leaves_nothing(spark, tmp_path, types, route):
    df = spark.range(0, 100, 1, 4).selectExpr("IF(id = 77, CAST(raise_error('broken row') AS bigint), id) AS id")

    with pytest.raises(Exception, match="broken row"):
        written(df, tmp_path / "t", types.struct(id="long"))

    assert files_below(tmp_path) == []
    assert not (tmp_path / "t").exists() or list((tmp_path / "t").iterdir()) == []


def test_failure_while_describing_leaves_nothing(spark, tmp_path, types, monkeypatch):
    def broken(*_: object) -> str:
        raise RuntimeError("no statistics today")

    monkeypatch.setattr("halocline.spark.write.writer.stats_text", broken)

    with pytest.raises(RuntimeError, match="no statistics today"):
        written(spark.range(10), tmp_path, types.struct(id="long"))
    assert files_below(tmp_path) == []


def test_change_data_goes_below_its_folder(spark, tmp_path, types, route):
    (file,) = written(spark.range(1), tmp_path, types.struct(id="long"), under="_change_data")

    assert file.path.startswith("_change_data/")
    assert (tmp_path / file.path).exists()


def test_files_hold_no_more_rows_than_asked_for(spark, tmp_path, types):
    files = written(spark.range(0, 10, 1, 1), tmp_path, types.struct(id="long"), max_records=4)

    assert sorted(file.num_records for file in files) == [2, 4, 4]


def test_table_in_memory_is_written_by_the_driver(spark, types):
    store = open_store("memory://write-test/t")

    files = write_files(spark.range(5), store, FileLayout(types.struct(id="long")))

    assert pq.read_table(pa.BufferReader(store.get(files[0].path)))["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_columns_that_stand_as_they_are_wanted_are_not_selected_again(spark):
    df = spark.range(3).selectExpr("id", "id AS `a.b``c`")
    own = ["`id` AS `id`", "`a.b``c` AS `a.b``c`"]
    assert selected(df, own) is df
    for items, columns in (
        (own[::-1], ["a.b`c", "id"]),
        (own[:1], ["id"]),
        ([*own, "1 AS x"], ["id", "a.b`c", "x"]),
        (["`id` AS `ID`", own[1]], ["ID", "a.b`c"]),
        (["CAST(`id` AS int) AS `id`", own[1]], ["id", "a.b`c"]),
    ):
        other = selected(df, items)
        assert other is not df
        assert other.columns == columns
