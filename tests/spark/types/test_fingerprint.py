"""A row that differs in one bit of one value has another fingerprint."""

from __future__ import annotations

import random
import struct
from decimal import Context, Decimal
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from halocline.spark.types.fingerprint import is_comparable, row_fingerprint

ROWS = 200
SEED = 20261119
# How many values an array or a map has.
INSIDE = 3


def whole(bits: int):
    """Numbers of some width, and the same with one bit flipped each."""

    def pair(chance: random.Random, count: int):
        values = [chance.getrandbits(bits) for _ in range(count)]
        return values, [each ^ 1 << chance.randrange(bits) for each in values]

    return pair


def as_signed(values, bits: int) -> np.ndarray:
    return np.array(values, dtype=f"uint{bits}").view(f"int{bits}")


def numbers(bits: int, type: pa.DataType):
    def pair(chance, count):
        return [pa.array(as_signed(each, bits)).cast(type) for each in whole(bits)(chance, count)]

    return pair


def floating(bits: int):
    def pair(chance, count):
        one, other = (np.array(each, dtype=f"uint{bits}").view(f"float{bits}") for each in whole(bits)(chance, count))
        # Two that are not a number are one value.
        other = np.where(np.isnan(one) & np.isnan(other), np.zeros_like(other), other)
        return pa.array(one), pa.array(other)

    return pair


def booleans(chance, count):
    values = [chance.random() < 0.5 for _ in range(count)]
    return pa.array(values), pa.array([not each for each in values])


def times(type: pa.DataType):
    def pair(chance, count):
        values = [chance.getrandbits(50) for _ in range(count)]
        return [
            pa.array(each, pa.int64()).cast(type)
            for each in (values, [value ^ 1 << chance.randrange(50) for value in values])
        ]

    return pair


def days(chance, count):
    values = [chance.getrandbits(15) for _ in range(count)]
    flipped = [each ^ 1 << chance.randrange(15) for each in values]
    return [pa.array(each, pa.int32()).cast(pa.date32()) for each in (values, flipped)]


def decimals(precision: int, scale: int):
    bits = int(precision * 3.3) - 1

    def pair(chance, count):
        values = [chance.getrandbits(bits) for _ in range(count)]
        flipped = [each ^ 1 << chance.randrange(bits) for each in values]
        return [
            pa.array(
                [Decimal(each).scaleb(-scale, Context(prec=precision)) for each in some],
                pa.decimal128(precision, scale),
            )
            for some in (values, flipped)
        ]

    return pair


def binaries(type: pa.DataType):
    def pair(chance, count):
        values = [chance.randbytes(chance.randrange(1, 40)) for _ in range(count)]
        flipped = []
        for each in values:
            at = chance.randrange(len(each) * 8)
            flipped.append((int.from_bytes(each, "little") ^ 1 << at).to_bytes(len(each), "little"))
        # A view, since the bytes are to be no valid text.
        return [pa.array(each, pa.binary()).view(type) for each in (values, flipped)]

    return pair


def one_of_several(pair):
    """As many lists, each with one value flipped."""

    def several(chance, count):
        one, other = pair(chance, count * INSIDE)
        chosen = [number * INSIDE + chance.randrange(INSIDE) for number in range(count)]
        flipped = np.zeros(count * INSIDE, dtype=bool)
        flipped[chosen] = True
        both = pa.chunked_array([one, other]).combine_chunks()
        places = np.arange(count * INSIDE) + np.where(flipped, count * INSIDE, 0)
        offsets = pa.array(np.arange(count + 1) * INSIDE, pa.int32())
        return one, both.take(pa.array(places)), offsets

    return several


def lists(pair):
    def made(chance, count):
        one, other, offsets = one_of_several(pair)(chance, count)
        return pa.ListArray.from_arrays(offsets, one), pa.ListArray.from_arrays(offsets, other)

    return made


def map_values(pair):
    def made(chance, count):
        one, other, offsets = one_of_several(pair)(chance, count)
        keys = pa.array([f"k{number % INSIDE}" for number in range(count * INSIDE)])
        return pa.MapArray.from_arrays(offsets, keys, one), pa.MapArray.from_arrays(offsets, keys, other)

    return made


def map_keys(pair):
    def made(chance, count):
        one, other, offsets = one_of_several(pair)(chance, count)
        items = pa.array(range(count * INSIDE))
        return pa.MapArray.from_arrays(offsets, one, items), pa.MapArray.from_arrays(offsets, other, items)

    return made


def inside(pair):
    """A field between two others that stay."""

    def made(chance, count):
        rest = pa.array([f"s{number}" for number in range(count)])
        nothing = pa.nulls(count, pa.int64())
        names = ["a", "the.b`c", "d"]
        return [pa.StructArray.from_arrays([nothing, each, rest], names) for each in pair(chance, count)]

    return made


FLAT = {
    "boolean": booleans,
    "byte": numbers(8, pa.int8()),
    "short": numbers(16, pa.int16()),
    "integer": numbers(32, pa.int32()),
    "long": numbers(64, pa.int64()),
    "float": floating(32),
    "double": floating(64),
    "date": days,
    "timestamp": times(pa.timestamp("us", "UTC")),
    "timestamp_ntz": times(pa.timestamp("us")),
    "small decimal": decimals(9, 2),
    "decimal": decimals(18, 0),
    "large decimal": decimals(38, 10),
    "text": binaries(pa.string()),
    "binary": binaries(pa.binary()),
}
NESTED = {
    **{f"list of {name}": lists(pair) for name, pair in FLAT.items()},
    **{f"map to {name}": map_values(pair) for name, pair in FLAT.items()},
    **{f"field of {name}": inside(pair) for name, pair in FLAT.items()},
    "map from text": map_keys(binaries(pa.string())),
    "list of lists of fields of text": lists(lists(inside(FLAT["text"]))),
    "map to fields of maps to double": map_values(inside(map_values(FLAT["double"]))),
}
MADE_BY_SPARK = {
    "interval of seconds": "timestamp_micros({0} & 1125899906842623) - timestamp_micros(0)",
    "interval of months": "make_ym_interval(0, int({0} & 1048575))",
    "time": "make_time(int({0} & 15), int({0} >> 4 & 15), cast(({0} >> 8 & 33554431) / 1000000 as decimal(16,6)))",
    "calendar interval": "make_interval(0, {0} & 1023, 0, {0} >> 10 & 1023, 0, 0, ({0} >> 20 & 1048575) / 1e6)",
}
BITS = {"interval of seconds": 50, "interval of months": 20, "time": 33, "calendar interval": 40}


def same(df, pairs) -> dict[str, int]:
    """How many rows have one fingerprint in both columns of a pair, by the name of the pair."""
    counts = []
    for number, (one, other) in enumerate(pairs.values()):
        prints = [row_fingerprint(df.schema, [each]) for each in (one, other)]
        counts.append(F.sum(F.when(prints[0] == prints[1], 1).otherwise(0)).alias(str(number)))
    row = df.select(*counts).first()
    return {name: row[number] for number, name in enumerate(pairs) if row[number]}


def test_one_bit_of_one_value_of_any_type_changes_the_fingerprint(spark, tmp_path):
    chance, columns, pairs = random.Random(SEED), {}, {}
    for number, (name, pair) in enumerate((FLAT | NESTED).items()):
        columns[f"v{number}"], columns[f"w{number}"] = pair(chance, ROWS)
        pairs[name] = (f"v{number}", f"w{number}")
    table = pa.table(columns)
    for name, (one, other) in pairs.items():
        assert not table[one].equals(table[other]), f"{name}: nothing was flipped"
    pq.write_table(table, tmp_path / "a.parquet")
    df = spark.read.parquet(str(tmp_path))
    assert all(is_comparable(field.dataType) for field in df.schema.fields)
    assert same(df, pairs) == {}
    assert len(same(df, {name: (one, one) for name, (one, _) in pairs.items()})) == len(pairs)


@pytest.fixture
def with_times(spark):
    """A session in which there are times of a day."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.usefixtures("with_times")
def test_one_bit_of_values_that_only_spark_makes_changes_the_fingerprint(spark, tmp_path):
    chance, columns, pairs, items = random.Random(SEED), {}, {}, []
    for number, (name, sql) in enumerate(MADE_BY_SPARK.items()):
        one, other = whole(BITS[name])(chance, ROWS)
        columns |= {f"v{number}": one, f"w{number}": other}
        pairs[name] = (f"v{number}", f"w{number}")
        items += [f"{sql.format(each)} AS {each}" for each in pairs[name]]
    table = pa.table({name: pa.array(each, pa.int64()) for name, each in columns.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    assert same(spark.read.parquet(str(tmp_path)).selectExpr(*items), pairs) == {}


APART = {
    "null and what is nearest to it": ["null::int", "0", "42"],
    "text": ["null::string", "''", "' '", "'a'", "'A'"],
    "text that a collation calls equal": ["'a' collate utf8_lcase", "'A' collate utf8_lcase"],
    "zeros": ["0.0D", "-0.0D", "null::double", "double('nan')", "double('infinity')"],
    "single zeros": ["float(0)", "float('-0.0')", "float('nan')"],
    "arrays": ["array()::array<int>", "null::array<int>", "array(null)::array<int>", "array(null,null)::array<int>"],
    "neighbours": ["struct(1 a, null::int b)", "struct(null::int a, 1 b)", "struct(null::int a, null::int b)"],
    "lists in lists": ["array(array(1),array(2,3))", "array(array(1,2),array(3))", "array(array(1,2,3))"],
    "maps": ["map()::map<string,int>", "map('a',null)::map<string,int>", "map('a',0)"],
    "entries": ["map('a',1,'b',2)", "map('a',2,'b',1)"],
    "bytes": ["X''", "X'00'", "X'0000'", "null::binary"],
    "variants": [
        "parse_json('1')",
        "parse_json('\"1\"')",
        "parse_json('null')",
        "null::variant",
        "1D::variant",
        "(-0.0D)::variant",
        "0.0D::variant",
        "timestamp'2024-01-01 00:00:00.123456'::variant",
        "timestamp'2024-01-01 00:00:00.123457'::variant",
    ],
}
ALIKE = {
    "maps": ["map('a',1,'b',2)", "map('b',2,'a',1)"],
    "variants": ['parse_json(\'{"a":1,"b":2.50}\')', 'parse_json(\'{"b":2.5,"a":1}\')'],
}


def prints(spark, values) -> list[int]:
    found = []
    for value in values:
        df = spark.sql(f"SELECT {value} AS v")
        found.append(df.select(row_fingerprint(df.schema, ["v"])).first()[0])
    return found


def test_what_is_another_value_is_told_apart_and_what_is_the_same_is_not(spark):
    for name, values in APART.items():
        found = dict(zip(values, prints(spark, values), strict=True))
        assert [(a, b) for a, b in combinations(values, 2) if found[a] == found[b]] == [], name
    for name, values in ALIKE.items():
        assert len(set(prints(spark, values))) == 1, name


def test_any_value_that_is_not_a_number_is_one_value(spark, tmp_path):
    bits = [0x7FF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF]
    values = [struct.unpack("<d", struct.pack("<Q", each))[0] for each in bits]
    pq.write_table(pa.table({"v": pa.array(np.array(bits, dtype=np.uint64).view(np.float64))}), tmp_path / "a.parquet")
    assert len(values) == 3
    df = spark.read.parquet(str(tmp_path))
    assert df.select(row_fingerprint(df.schema, ["v"]).alias("f")).distinct().count() == 1


@pytest.mark.parametrize("sql", ["array(parse_json('1'))", "map('a', struct(parse_json('1') AS x))"])
def test_what_has_no_fingerprint_is_known(spark, sql):
    assert not is_comparable(spark.sql(f"SELECT {sql} AS v").schema["v"].dataType)
    assert is_comparable(spark.sql("SELECT struct(parse_json('1') AS x) AS v").schema["v"].dataType)
