"""Columns come out with their logical names and types, however the files spell and store them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.columns import of_type

from halocline.errors import MalformedError, UnsupportedError
from halocline.schema.arrow import arrow_type
from halocline.spark.types.columns import sql_type
from halocline.spark.types.file_columns import Names, outputs, read_fields, without_void

MODES = ["auto", "paths", "arrow"]


@pytest.fixture(params=MODES)
def mode(request, conf) -> str:
    conf("spark.halocline.scan.mode", request.param)
    return request.param


def with_ids(type: pa.DataType, ids: dict[str, int]) -> pa.DataType:
    if pa.types.is_struct(type):
        return pa.struct([with_id(field, ids) for field in type])
    if pa.types.is_map(type):
        return pa.map_(type.key_type, with_ids(type.item_type, ids))
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", with_ids(type.value_type, ids)))
    return type


def with_id(field: pa.Field, ids: dict[str, int]) -> pa.Field:
    found = ids.get(field.name)
    metadata = None if found is None else {"PARQUET:field_id": str(found)}
    return pa.field(field.name, with_ids(field.type, ids), metadata=metadata)


def identified(table: pa.Table, **ids: int) -> pa.Table:
    """The table with field ids at every depth."""
    return table.cast(pa.schema([with_id(field, ids) for field in table.schema]))


# ---------------------------------------------------------------------- column mapping

PHYSICAL = pa.table(
    {
        "c1": pa.array([1, 2], pa.int64()),
        "c2": pa.array(
            [{"c3": 10, "c4": {"c5": "x"}}, None], pa.struct({"c3": pa.int64(), "c4": pa.struct({"c5": pa.string()})})
        ),
        "c6": pa.array([[{"c7": 1.5}, None], None], pa.list_(pa.struct({"c7": pa.float64()}))),
        "c8": pa.array([[("k", {"c9": 7})], None], pa.map_(pa.string(), pa.struct({"c9": pa.int64()}))),
    }
)
IDS = {f"c{n}": n for n in range(1, 10)}
EXPECTED = [
    (1, {"in ner": 10, "deep": {"very": "x"}}, [{"f": 1.5}, None], {"k": {"v": 7}}, None),
    (2, None, None, None, None),
]


def mapped_schema(types):
    deep = types.struct(types.mapped("very", "string", "c5", 5))
    return types.struct(
        types.mapped("a.b", "long", "c1", 1),
        types.mapped(
            "s", types.struct(types.mapped("in ner", "long", "c3", 3), types.mapped("deep", deep, "c4", 4)), "c2", 2
        ),
        types.mapped("l", types.array(types.struct(types.mapped("f", "double", "c7", 7))), "c6", 6),
        types.mapped("m", types.map("string", types.struct(types.mapped("v", "long", "c9", 9))), "c8", 8),
        types.mapped("new", "date", "c10", 10),
    )


def rows(df):
    found = [tuple(row.asDict(recursive=True).values()) for row in df.collect()]
    return sorted(found, key=lambda row: row[0])


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_renamed_columns_have_their_logical_names_at_every_depth(spark, lake, types, mode, mapping):
    lake.add("1.parquet", identified(PHYSICAL, **IDS))

    df = lake.scan(spark, mapped_schema(types), mapping_mode=mapping)

    assert df.columns == ["a.b", "s", "l", "m", "new"]
    assert rows(df) == EXPECTED
    assert df.where("s.`in ner` = 10 AND s.deep.very = 'x'").count() == 1
    assert df.where("`a.b` = 2 AND s IS NULL").count() == 1


def test_ids_decide_where_the_files_have_other_names(spark, lake, types, mode, conf):
    """The session's own matching by id is off by default and would read nulls."""
    conf("spark.sql.parquet.fieldId.read.enabled", "false")
    lake.add("old.parquet", identified(pa.table({"c1": [1], "c2": ["one"]}), c1=1, c2=2))
    # The same ids under swapped and new names, another column under the old name, and one file without the second.
    lake.add("swapped.parquet", identified(pa.table({"c2": [2], "c1": ["two"]}), c2=1, c1=2))
    lake.add("renamed.parquet", identified(pa.table({"x": [3], "y": ["three"], "c1": [99.5]}), x=1, y=2, c1=77))
    lake.add("short.parquet", identified(pa.table({"c1": [4], "c2": [b"?"]}), c1=1, c2=55))
    schema = types.struct(types.mapped("n", "long", "c1", 1), types.mapped("t", "string", "c2", 2))

    df = lake.scan(spark, schema, mapping_mode="id")

    assert rows(df) == [(1, "one"), (2, "two"), (3, "three"), (4, None)]
    assert rows(df.where("t = 'two'")) == [(2, "two")]
    assert rows(df.where("n = 3").select("t")) == [("three",)]


def test_mapping_by_id_refuses_files_without_ids(spark, lake, types, conf, is_connect):
    lake.add("1.parquet", pa.table({"c1": [1]}))
    schema = types.struct(types.mapped("n", "long", "c1", 1))

    with pytest.raises(MalformedError, match="has no field ids"):
        lake.scan(spark, schema, mapping_mode="id")
    conf("spark.halocline.scan.mode", "arrow")
    with pytest.raises(Exception, match="has no field ids"):
        lake.scan(spark, schema, mapping_mode="id").collect()


def test_partition_values_are_found_by_physical_name(spark, lake, types, mode, collected):
    lake.add("c2=x/1.parquet", pa.table({"c1": [1]}), values={"c2": "x"})
    lake.add("c2=y/2.parquet", pa.table({"c1": [2]}), values={"c2": "y"})
    schema = types.struct(types.mapped("n", "long", "c1", 1), types.mapped("p", "string", "c2", 2))

    df = lake.scan(spark, schema, mapping_mode="name", partition_columns=["p"])

    assert collected(df) == [(1, "x"), (2, "y")]


def test_renamed_nested_field_alone_is_read(spark, lake, types, capsys):
    lake.add("1.parquet", PHYSICAL)
    df = lake.scan(spark, mapped_schema(types), mapping_mode="name").selectExpr("s.deep.very AS x", "`a.b` AS n")

    df.where("n > 1").explain()

    plan = capsys.readouterr().out
    assert "ReadSchema: struct<c1:bigint,c2:struct<c4:struct<c5:string>>>" in plan, plan
    assert "GreaterThan(c1,1)" in plan, plan


# ---------------------------------------------------------------------- what files lack or store otherwise


def test_missing_columns_are_null_and_defaults_do_not_count(spark, lake, types, mode):
    lake.add("1.parquet", pa.table({"id": [1], "s": [{"x": 1}], "l": [[{"x": 2}]]}))
    schema = types.struct(
        types.field("id", "long"),
        types.field("n", "long", {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "7"}),
        types.field("s", types.struct(x="long", y="string")),
        types.field("l", types.array(types.struct(y="date", x="long"))),
        types.field("absent", types.struct(z="long")),
    )

    assert rows(lake.scan(spark, schema)) == [(1, None, {"x": 1, "y": None}, [{"y": None, "x": 2}], None)]


def test_void_columns_are_null_at_every_depth(spark, lake, types, mode):
    lake.add("1.parquet", pa.table({"id": [1, 2], "s": [{"x": 1}, None], "l": [[{"y": 5}], []]}))
    schema = types.struct(
        id="long",
        v="void",
        s=types.struct(x="long", n="void"),
        l=types.array(types.struct(n="void", y="long")),
        only=types.struct(n="void"),
    )

    df = lake.scan(spark, schema)

    assert rows(df) == [
        (1, None, {"x": 1, "n": None}, [{"n": None, "y": 5}], None),
        (2, None, None, [], None),
    ]
    assert df.schema["v"].dataType.typeName() == "void"


def test_columns_in_files_but_not_in_the_table_are_ignored(spark, lake, types, mode):
    lake.add("1.parquet", pa.table({"id": [1], "_change_type": ["insert"], "p": ["wrong"]}), values={"p": "right"})

    df = lake.scan(spark, types.struct(id="long", p="string"), partition_columns=["p"])

    assert rows(df) == [(1, "right")]


def test_names_match_whatever_their_case(spark, lake, types, mode):
    lake.add("1.parquet", pa.table({"ID": [1], "S": pa.array([{"Xy": 2}])}))

    assert rows(lake.scan(spark, types.struct(id="long", s=types.struct(xY="long")))) == [(1, {"xY": 2})]


WIDENED = [
    ("byte", pa.int8(), "short"),
    ("byte-int", pa.int8(), "integer"),
    ("short", pa.int16(), "long"),
    ("int", pa.int32(), "long"),
    ("int-double", pa.int32(), "double"),
    ("short-decimal", pa.int16(), "decimal(10,0)"),
    ("int-decimal", pa.int32(), "decimal(13,3)"),
    ("long-decimal", pa.int64(), "decimal(22,2)"),
    ("float", pa.float32(), "double"),
]


@pytest.mark.parametrize(("source", "target"), [w[1:] for w in WIDENED], ids=[w[0] for w in WIDENED])
def test_widened_type_is_read_from_old_and_new_files(spark, lake, types, mode, source, target):
    lake.add("old.parquet", pa.table({"a": pa.array([1, 2, 3, None], source)}), row_group_size=1)
    lake.add("new.parquet", pa.table({"a": pa.array([4, 5]).cast(pa.float64()).cast(arrow_type(of_type(target)))}))

    df = lake.scan(spark, types.struct(a=target))

    assert sorted(float(row["a"]) for row in df.where("a IS NOT NULL").collect()) == [1, 2, 3, 4, 5]
    assert sorted(float(row["a"]) for row in df.where("a > 2 AND a <> 4").collect()) == [3, 5]
    assert df.where("a IS NULL").count() == 1


def test_widened_decimals_and_dates_are_read(spark, lake, types, mode):
    old = {
        "d": pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)),
        "t": pa.array([dt.date(2020, 1, 1), dt.date(1500, 1, 1)]),
        "l": pa.array([[1, None], None], pa.list_(pa.int32())),
    }
    lake.add("old.parquet", pa.table(old))

    df = lake.scan(spark, types.struct(d="decimal(20,4)", t="timestamp_ntz", l=types.array("long")))

    assert rows(df.orderBy("t").select("t", "d", "l")) == [
        (dt.datetime(1500, 1, 1), None, None),
        (dt.datetime(2020, 1, 1), Decimal("1.2500"), [1, None]),
    ]


def test_old_twelve_byte_timestamps_are_read(spark, lake, types, mode):
    moments = [dt.datetime(1600, 1, 1), dt.datetime(2020, 6, 1, 10, 0, 0, 123456), dt.datetime(2500, 1, 1)]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us", "UTC"))})
    lake.add("1.parquet", table, use_deprecated_int96_timestamps=True)

    df = lake.scan(spark, types.struct(t="timestamp"))

    assert [row["t"] for row in df.orderBy("t").collect()] == moments
    assert df.where("t > TIMESTAMP'2300-01-01'").count() == 1


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_timestamps_of_any_unit_are_read(spark, lake, types, mode, unit):
    moment = dt.datetime(2020, 6, 1, 10, 0, 0, 123000)
    zoned, plain = pa.array([moment], pa.timestamp(unit, "UTC")), pa.array([moment], pa.timestamp(unit))
    lake.add("1.parquet", pa.table({"t": zoned, "n": plain}))

    df = lake.scan(spark, types.struct(t="timestamp", n="timestamp_ntz"))

    assert rows(df) == [(moment, moment)]


def test_arrow_types_that_spark_does_not_have_are_read(spark, lake, types, mode):
    table = pa.table(
        {
            "a": pa.array(["x", "y"]).dictionary_encode(),
            "b": pa.array(["x", "y"], pa.large_string()),
            "c": pa.array([[1], None], pa.large_list(pa.int64())),
            "d": pa.array([b"x", b"y"], pa.large_binary()),
        }
    )
    lake.add("1.parquet", table)

    df = lake.scan(spark, types.struct(a="string", b="string", c=types.array("long"), d="binary"))

    assert rows(df) == [("x", "x", [1], b"x"), ("y", "y", None, b"y")]


def test_not_a_number_is_selected_though_the_footer_does_not_know_it(spark, lake, types, mode):
    nan = math.nan
    table = pa.table(
        {"d": [1.0, nan, 2.0], "f": pa.array([1.0, nan, 2.0], pa.float32()), "s": [{"x": 1.0}, {"x": nan}, None]}
    )
    lake.add("1.parquet", table)

    df = lake.scan(spark, types.struct(d="double", f="float", s=types.struct(x="double")))

    for condition in ("d > 5", "f >= 5", "d = double('NaN')", "s.x > 5", "isnan(d)"):
        assert df.where(condition).count() == 1, condition
    assert df.where("d < 5 AND s.x <> 7").count() == 1


def test_variant_is_read_natively_and_refused_through_arrow(spark, lake, types, tmp_path, conf, collected):
    spark.sql("""SELECT id, parse_json('{"a": ' || id || '}') v FROM range(3)""").coalesce(1).write.parquet(
        str(tmp_path / "w")
    )
    (source,) = (tmp_path / "w").glob("*.parquet")
    lake.root.mkdir()
    source.rename(lake.root / "1.parquet")
    lake.add("1.parquet", deleted=[1])
    schema = types.struct(id="long", v="variant")

    df = lake.scan(spark, schema)

    assert collected(df.selectExpr("id", "try_variant_get(v, '$.a', 'int') AS a")) == [(0, 0), (2, 2)]
    conf("spark.halocline.scan.mode", "arrow")
    with pytest.raises(UnsupportedError, match="column v is a variant"):
        lake.scan(spark, schema)
    assert collected(lake.scan(spark, schema, columns=["id"])) == [(0,), (2,)]


def test_files_in_the_julian_calendar_are_read_or_refused_but_never_shifted(spark, lake, types, tmp_path, conf):
    conf("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    spark.sql("SELECT DATE'1500-01-01' d").coalesce(1).write.parquet(str(tmp_path / "w"))
    (source,) = (tmp_path / "w").glob("*.parquet")
    lake.root.mkdir()
    source.rename(lake.root / "1.parquet")
    lake.add("1.parquet")

    assert rows(lake.scan(spark, types.struct(d="date"))) == [(dt.date(1500, 1, 1),)]
    conf("spark.halocline.scan.mode", "arrow")
    with pytest.raises(Exception, match="Julian calendar"):
        lake.scan(spark, types.struct(d="date")).collect()


@pytest.mark.parametrize(
    ("year", "release", "twelve_bytes"), [(1850, "2.4.8", False), (1850, "2.4.8", True), (1500, "3.0.3", True)]
)
def test_old_timestamps_of_old_releases_are_read_or_refused_but_never_shifted(
    spark, lake, types, conf, year, release, twelve_bytes
):
    """Before zones were agreed on, around 1900, the two calendars differ by the zone as well."""
    said = {"org.apache.spark.version": release, "org.apache.spark.timeZone": "America/Los_Angeles"}
    stored = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
    table = pa.table({"t": pa.array([stored], pa.timestamp("us", "UTC"))}).replace_schema_metadata(said)
    lake.add("1.parquet", table, use_deprecated_int96_timestamps=twelve_bytes)

    def read():
        return lake.scan(spark, types.struct(t="timestamp")).selectExpr("unix_seconds(t)").collect()[0][0]

    assert read() != int(stored.timestamp())
    conf("spark.halocline.scan.mode", "arrow")
    with pytest.raises(Exception, match="Julian calendar"):
        read()


# ---------------------------------------------------------------------- metadata


def test_comments_stay_and_the_log_s_own_metadata_does_not(spark, lake, types, mode):
    lake.add("1.parquet", pa.table({"a": [1], "d": [1.0]}), values={"p": "x"})
    own = {"delta.generationExpression": "x", "CURRENT_DEFAULT": "1", "comment": "what it is"}
    schema = types.struct(
        types.field("a", "long", own), types.field("d", "double", own), types.field("p", "string", own)
    )

    df = lake.scan(spark, schema, partition_columns=["p"])

    assert {field.name: field.metadata for field in df.schema} == {
        name: {"comment": "what it is"} for name in ("a", "d", "p")
    }


def test_char_columns_compare_as_padded(spark, lake, types):
    lake.add("1.parquet", pa.table({"c": ["ab   "]}))
    schema = types.struct(types.field("c", "string", {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}))

    df = lake.scan(spark, schema)

    assert df.schema["c"].metadata == {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    assert df.where("c = 'ab'").count() == 1


# ---------------------------------------------------------------------- text, without a session


def test_unchanged_columns_are_not_touched(types):
    inner = {"s": types.struct(x="long"), "l": types.array("double"), "m": types.map("string", "float")}
    fields = types.struct(a="long", **inner).fields

    assert [output.sql for output in outputs(fields, Names())] == ["`a`", "`s`", "`l`", "`m`"]
    assert [field.name for field in read_fields(fields, Names())] == ["a", "s", "l", "m"]


def test_type_is_spelt_with_any_name_in_it(types):
    type = types.struct(types.field("a`b c", types.map("integer", types.array("void"))))

    assert sql_type(type) == "struct<`a``b c`: map<int, array<void>>>"
    assert without_void(type.fields) == []
