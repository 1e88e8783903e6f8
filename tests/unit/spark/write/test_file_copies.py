from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from halocline.errors import InternalError, MalformedError, UnsupportedError
from halocline.schema import Array, Field, Map, Primitive, Struct
from halocline.spark.scan.arrow_scan import ArrowFile, ArrowReader
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.arrow_write import ArrowWriter
from halocline.spark.write.file_copies import FileCopier, FileCopy, Patch, notes_of
from halocline.storage import open_store

LONG, TEXT = Primitive("long"), Primitive("string")
MANY = 150_000
"""More rows than a batch has."""


def copier(root, fields, partitions=(), mode="none"):
    layout = FileLayout(Struct([*fields, *partitions]), [field.name for field in partitions], mode).with_nulls
    store = open_store(str(root))
    writer = replace(ArrowWriter.of(store, layout, {}, name="new"), codec="snappy")
    return FileCopier(ArrowReader(store, mode, layout.data, (), {}, row="position"), writer)


def file_of(root, table, deleted=()):
    pq.write_table(table, root / "old.parquet")
    size = (root / "old.parquet").stat().st_size
    return ArrowFile(0, "old.parquet", size, BitMap64(deleted) if deleted else None, ())


def copied(root, made, file, patch=None, notes=None, values=None):
    found = made.copy([FileCopy(file, values or {}, patch, notes or {})])
    return found, [pq.ParquetFile(root / each.path).read() for each in found]


def test_rows_are_left_out_and_patched_across_batches_and_stay_in_order(tmp_path):
    table = pa.table({"id": range(MANY), "s": [f"name-{n}" for n in range(MANY)]})
    gone = [0, 65_535, 65_536, MANY - 1]
    at = np.array([1, 65_534, 65_537, 131_072, MANY - 2])
    patch = Patch(at, pa.table({"s": [f"new-{n}" for n in at]}))
    found, (rows,) = copied(
        tmp_path, copier(tmp_path, [Field("id", LONG), Field("s", TEXT)]), file_of(tmp_path, table, gone), patch
    )
    expected = [(n, f"new-{n}" if n in set(at) else f"name-{n}") for n in range(MANY) if n not in gone]
    assert list(zip(*(rows[name].to_pylist() for name in ("id", "s")), strict=True)) == expected
    assert found[0].num_records == MANY - len(gone)
    assert '"minValues":{"id":1,' in found[0].stats, "bounds are of the rows that are left"


def test_value_for_a_row_that_is_left_out_is_refused(tmp_path):
    file = file_of(tmp_path, pa.table({"id": [1, 2, 3]}), [1])
    with pytest.raises(InternalError, match="rows that are not there"):
        copied(tmp_path, copier(tmp_path, [Field("id", LONG)]), file, Patch(np.array([1]), pa.table({"id": [9]})))


def test_file_without_rows_left_leaves_no_file(tmp_path):
    file = file_of(tmp_path, pa.table({"id": [1, 2]}), [0, 1])
    assert copied(tmp_path, copier(tmp_path, [Field("id", LONG)]), file) == ([], [])
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("type", "old", "new"),
    [
        (Primitive("double"), [float("nan"), -0.0, 1.5], [float("inf")]),
        (Primitive("decimal(38,18)"), [Decimal("1.5"), None, Decimal("-2")], [Decimal("9.000000000000000001")]),
        (Primitive("binary"), [b"\xff\x00", b"", None], [b"x"]),
        (Primitive("boolean"), [True, None, False], [None]),
        (
            Struct([Field("a", LONG), Field("b", TEXT)]),
            [{"a": 1, "b": None}, None, {"a": 2, "b": "x"}],
            [{"a": 9, "b": "y"}],
        ),
        (Array(Struct([Field("a", LONG)])), [[{"a": 1}], [], None], [[{"a": 7}, {"a": 8}]]),
        (Map(TEXT, LONG), [[("k", 1)], None, []], [[("z", 26), ("y", None)]]),
    ],
    ids=str,
)
def test_values_of_every_type_are_kept_and_patched(tmp_path, type, old, new):
    made = copier(tmp_path, [Field("v", type), Field("id", LONG)])
    types = made.reader.schema
    table = pa.table([pa.array(old, types.field("v").type), pa.array([1, 2, 3])], ["v", "id"])
    patch = Patch(np.array([1]), pa.table({"v": pa.array(new, types.field("v").type)}))
    _, (rows,) = copied(tmp_path, made, file_of(tmp_path, table), patch)
    expected = pa.array([old[0], *new, old[2]], types.field("v").type)
    assert str(rows["v"].cast(expected.type).to_pylist()) == str(expected.to_pylist()), "text tells zeros and NaN apart"


def test_columns_that_the_file_lacks_are_null_and_narrow_ones_are_wide_afterwards(tmp_path):
    made = copier(tmp_path, [Field("n", LONG), Field("later", TEXT)])
    _, (rows,) = copied(tmp_path, made, file_of(tmp_path, pa.table({"n": pa.array([1, None], pa.int16())})))
    assert (rows.schema.field("n").type, rows.to_pydict()) == (pa.int64(), {"n": [1, None], "later": [None, None]})


@pytest.mark.parametrize(
    ("type", "text", "folder"),
    [
        ("string", "a/b=c", "p=a%2Fb%3Dc"),
        ("string", None, "p=__HIVE_DEFAULT_PARTITION__"),
        ("date", "+12024-02-29", "p=+12024-02-29"),
        ("timestamp", "2024-02-29 12:30:00", "p=2024-02-29 12%3A30%3A00"),
        ("integer", "07", "p=07"),
        ("string", "", "p=__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_copies_have_the_partition_values_that_the_log_had(tmp_path, type, text, folder):
    made = copier(tmp_path, [Field("id", LONG)], [Field("p", Primitive(type))])
    table = pa.table({"id": [1]})
    ((file,), (rows,)) = copied(tmp_path, made, file_of(tmp_path, table), values={"p": text})
    assert (file.path.split("/")[1], file.partition_values, rows.column_names) == (folder, {"p": text}, ["id"])


def test_footer_says_what_spark_noted_and_a_file_in_the_old_calendar_is_not_copied(tmp_path):
    def footer(metadata):
        pq.write_table(pa.table({"id": [1]}).replace_schema_metadata(metadata), tmp_path / "f.parquet")
        return pq.read_metadata(tmp_path / "f.parquet")

    assert notes_of(footer({})) == {}
    notes = notes_of(footer({"org.apache.spark.version": "4.3.0"}))
    assert notes == {"org.apache.spark.version": "4.3.0"}
    assert notes_of(footer({"org.apache.spark.version": "2.4.8"})) is None
    assert notes_of(footer({"org.apache.spark.legacyDateTime": "", "org.apache.spark.version": "3.5.1"})) is None
    made, file = copier(tmp_path, [Field("id", LONG)]), file_of(tmp_path, pa.table({"id": [1]}))
    ((new,), _) = copied(tmp_path, made, file, notes=notes)
    assert pq.read_metadata(tmp_path / new.path).metadata[b"org.apache.spark.version"] == b"4.3.0"


@pytest.mark.parametrize(
    ("release", "twelve_bytes", "is_copied"), [("3.0.3", True, False), ("3.0.3", False, True), ("3.1.0", True, True)]
)
def test_old_timestamps_of_twelve_bytes_are_in_the_old_calendar_one_release_longer(
    tmp_path, release, twelve_bytes, is_copied
):
    table = pa.table({"s": [{"t": 0}]}, pa.schema({"s": pa.struct({"t": pa.timestamp("us", "UTC")})}))
    table = table.replace_schema_metadata({"org.apache.spark.version": release})
    pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=twelve_bytes)
    assert (notes_of(pq.read_metadata(tmp_path / "f.parquet")) is not None) is is_copied


@pytest.mark.parametrize(
    ("type", "held"),
    [
        ("float", pa.array([0.1])),
        ("float", pa.array([1e300])),
        ("string", pa.array([1.0])),
        ("string", pa.array([True])),
        ("long", pa.array(["7"])),
        ("integer", pa.array([1 << 40])),
        ("decimal(9,2)", pa.array([Decimal("0.125")])),
        ("boolean", pa.array([2])),
        ("date", pa.array(["2024-02-29"])),
        ("date", pa.array([0], pa.timestamp("us"))),
        ("timestamp", pa.array([0])),
        ("timestamp", pa.array([1], pa.timestamp("ns", "UTC"))),
    ],
    ids=str,
)
def test_values_of_another_type_that_spark_does_not_take_are_not_copied(tmp_path, type, held):
    made = copier(tmp_path, [Field("id", LONG), Field("v", Primitive(type))])
    with pytest.raises(UnsupportedError):
        copied(tmp_path, made, file_of(tmp_path, pa.table({"id": [1], "v": held})))


@pytest.mark.parametrize(
    ("type", "held", "value"),
    [
        ("double", pa.array([0.5], pa.float32()), 0.5),
        ("double", pa.array([7], pa.int32()), 7.0),
        ("decimal(12,2)", pa.array([7], pa.int32()), Decimal("7.00")),
        ("decimal(20,0)", pa.array([1 << 63], pa.uint64()), Decimal(1 << 63)),
        ("long", pa.array([7], pa.duration("ns")), 7),
        ("string", pa.array(["x"]).dictionary_encode(), "x"),
        ("string", pa.array([b"x"]), "x"),
        ("binary", pa.array([b"xy"], pa.binary(2)), b"xy"),
        ("date", pa.array([1], pa.int32()), date(1970, 1, 2)),
        ("timestamp_ntz", pa.array([1], pa.date32()), datetime(1970, 1, 2)),
        ("timestamp_ntz", pa.array([1000], pa.timestamp("ns")), datetime(1970, 1, 1, microsecond=1)),
    ],
    ids=str,
)
def test_values_of_another_type_that_lose_nothing_are_copied(tmp_path, type, held, value):
    made = copier(tmp_path, [Field("id", LONG), Field("v", Primitive(type))])
    _, (rows,) = copied(tmp_path, made, file_of(tmp_path, pa.table({"id": [1], "v": held})))
    assert rows["v"].to_pylist() == [value]


@pytest.mark.parametrize("is_copy", [False, True])
def test_damaged_page_is_told_by_its_checksum_and_not_copied(tmp_path, is_copy):
    made = copier(tmp_path, [Field("s", TEXT)])
    made = replace(made, writer=replace(made.writer, codec="none"))
    table, options = pa.table({"s": ["alpha", "omega", "gamma"]}), {"compression": "none", "write_statistics": False}
    pq.write_table(table, tmp_path / "old.parquet", write_page_checksum=True, **options)
    if is_copy:
        file = ArrowFile(0, "old.parquet", 0, None, ())
        (tmp_path / made.copy([FileCopy(file, {}, None, {})])[0].path).replace(tmp_path / "old.parquet")
    raw = (tmp_path / "old.parquet").read_bytes()
    (tmp_path / "old.parquet").write_bytes(raw.replace(b"gamma", b"delta"))
    with pytest.raises(MalformedError, match=r"(?s)old\.parquet .*checksum"):
        made.copy([FileCopy(ArrowFile(0, "old.parquet", 0, None, ()), {}, None, {})])
    assert pq.read_table(tmp_path / "old.parquet")["s"].to_pylist()[2] == "delta", "the page is well-formed"
