"""Columns decoded all rows at once hold what a row-by-row decoder reads."""

import io
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.hudi.avro.columns import decode_rows
from halocline.formats.hudi.avro.types import arrow_schema
from halocline.formats.hudi.avro.types import parse_schema as parse

TEXT = st.text(max_size=6)
POINT = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "double"}, {"name": "l", "type": "long"}]}
DECIMAL = {"type": "fixed", "name": "d5", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}
COLUMNS = {
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "boolean": ("boolean", st.booleans()),
    "string": ("string", TEXT),
    "bytes": ("bytes", st.binary(max_size=6)),
    "fixed": ({"type": "fixed", "name": "f3", "size": 3}, st.binary(min_size=3, max_size=3)),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    "decimal": (DECIMAL, st.decimals(-99999999, 99999999, places=2)),
    "decimal bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4},
        st.decimals(-(10**20), 10**20, places=4),
    ),
    "point": (POINT, st.fixed_dictionaries({"x": st.floats(allow_nan=False), "l": st.integers(-5, 5)})),
    "array": ({"type": "array", "items": ["null", "string"]}, st.lists(st.none() | TEXT, max_size=4)),
    "nested": (
        {"type": "array", "items": {"type": "array", "items": "int"}},
        st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=3),
    ),
    "map": (
        {"type": "map", "values": ["null", {"type": "array", "items": "long"}]},
        st.dictionaries(TEXT, st.none() | st.lists(st.integers(-9, 9), max_size=3), max_size=3),
    ),
}


def encoded(schema: dict, rows: list[dict]) -> tuple[bytes, np.ndarray, np.ndarray]:
    ready, out, ends = parse_schema(json.loads(json.dumps(schema))), io.BytesIO(), [0]
    for row in rows:
        schemaless_writer(out, ready, row)
        ends.append(out.tell())
    return out.getvalue(), np.array(ends[:-1], np.int64), np.array(ends[1:], np.int64)


def decoded(schema: dict, rows: list[dict]) -> pa.Table:
    table = decode_rows(parse(json.dumps(schema), "the test"), *encoded(schema, rows))
    table.validate(full=True)
    return table


def record(*fields: tuple[str, object]) -> dict:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": type} for name, type in fields]}


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_type_comes_back_as_it_was_written(name, data):
    type, values = COLUMNS[name]
    union = data.draw(st.sampled_from([[], ["null", type], [type, "null"]]))
    if union:
        type, values = union, st.none() | values
    schema = record(("before", "long"), ("value", type), ("after", "string"))
    row = st.fixed_dictionaries({"before": st.integers(-1000, 1000), "value": values, "after": TEXT})
    rows = data.draw(st.lists(row))
    found = decoded(schema, rows).to_pylist(maps_as_pydicts="strict")
    assert found == rows


@pytest.mark.parametrize(
    ("logical", "number", "expected"),
    [
        (("int", "date"), 19000, pa.date32()),
        (("int", "time-millis"), 5, pa.time32("ms")),
        (("long", "time-micros"), 5, pa.time64("us")),
        (("long", "timestamp-millis"), -5, pa.timestamp("ms", "UTC")),
        (("long", "timestamp-micros"), 1709166615123556, pa.timestamp("us", "UTC")),
        (("long", "local-timestamp-millis"), 7, pa.timestamp("ms")),
        (("long", "local-timestamp-micros"), 7, pa.timestamp("us")),
        (("long", "a name nobody knows"), 7, pa.int64()),
    ],
)
def test_logical_types_become_columns_of_their_kind(logical, number, expected):
    plain = record(("a", logical[0]))
    data = encoded(plain, [{"a": number}])
    table = decode_rows(record(("a", {"type": logical[0], "logicalType": logical[1]})), *data)
    assert table.schema.field("a").type == expected
    assert table["a"].cast(pa.int32() if logical[0] == "int" else pa.int64()).to_pylist() == [number]


def test_items_in_several_blocks_of_either_form_are_one_list():
    # Two items, then one in a block that also says its length in bytes, then the end.
    data = bytes([4, 2, 4, 1, 2, 6, 0])
    table = decode_rows(record(("a", {"type": "array", "items": "int"})), data, np.array([0]), np.array([7]))
    assert table.to_pylist() == [{"a": [1, 2, 3]}]


def test_a_named_type_may_be_used_again():
    text = json.dumps(record(("a", DECIMAL), ("b", ["null", "d5"])))
    assert arrow_schema(text).field("b").type == pa.decimal128(10, 2)


def test_negative_decimals_keep_their_sign():
    assert decoded(record(("a", DECIMAL)), [{"a": Decimal("-0.56")}])["a"].to_pylist() == [Decimal("-0.56")]


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("int", b"\xff\xff\xff\xff\xff\x01"),
        ("long", b"\xff" * 12),
        ("long", b"\x80"),
        ("string", b"\x04\xff\xfe"),
        ("string", b"\x7fab"),
        ("string", b"\x01ab"),
        ("boolean", b"\x02"),
        (["null", "int"], b"\x04\x02"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02"),
        ({"type": "array", "items": "int"}, b"\x04\x02"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\x0f\x00"),
        ("double", b"\x00"),
        ("int", b"\x02\x02"),
    ],
)
def test_damaged_rows_are_an_error(type, data):
    with pytest.raises(MalformedError):
        decode_rows(record(("a", type)), data, np.array([0]), np.array([len(data)]))


def test_rows_that_run_into_each_other_are_an_error():
    with pytest.raises(MalformedError, match="row 0 should end at byte 1"):
        decode_rows(record(("a", "string")), b"\x02a\x00", np.array([0, 2]), np.array([1, 3]))


def test_a_union_of_several_types_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="union of several types"):
        arrow_schema(json.dumps(record(("a", ["null", "int", "string"]))))


@pytest.mark.parametrize(
    "text",
    ["", "[]", '"string"', '{"type": "record"}', '{"type":"record","name":"a","fields":[{"name":"x","type":"y"}]}'],
)
def test_what_is_no_record_schema_is_malformed(text):
    with pytest.raises(MalformedError, match="schema in here"):
        parse(text, "here")
