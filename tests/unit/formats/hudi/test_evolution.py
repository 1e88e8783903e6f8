"""Rows of older schemas are read as the table is now, and never changed to fit."""

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from halocline.errors import SchemaError
from halocline.formats.hudi.evolution import avro_defaults, fit_table
from halocline.formats.hudi.record_keys import KeyColumns


def fitted(table: pa.Table, *fields: tuple[str, pa.DataType], **defaults) -> list[dict]:
    found = fit_table(table, pa.schema(list(fields)), "f.parquet", defaults)
    found.validate(full=True)
    return found.to_pylist(maps_as_pydicts="strict")


def test_columns_are_found_by_name_and_missing_ones_are_null_or_default():
    table = pa.table({"b": [1, 2], "gone": [3, 4]})
    found = fitted(table, ("a", pa.string()), ("b", pa.int64()), ("c", pa.int32()), c=5)
    assert found == [{"a": None, "b": 1, "c": 5}, {"a": None, "b": 2, "c": 5}]


@pytest.mark.parametrize(
    ("value", "before", "after", "expected"),
    [
        (5, pa.int32(), pa.int64(), 5),
        (5, pa.int32(), pa.float64(), 5.0),
        (1.5, pa.float32(), pa.float64(), 1.5),
        (Decimal("1.50"), pa.decimal128(5, 2), pa.decimal128(10, 3), Decimal("1.500")),
        (5, pa.int32(), pa.string(), "5"),
        (b"x", pa.binary(), pa.string(), "x"),
        (datetime(2025, 1, 1), pa.timestamp("us"), pa.timestamp("us", "UTC"), None),
    ],
)
def test_types_grow(value, before, after, expected):
    found = fitted(pa.table({"a": pa.array([value, None], before)}), ("a", after))
    assert found[1]["a"] is None
    assert found[0]["a"] == expected or (expected is None and found[0]["a"].replace(tzinfo=None) == value)


def test_nested_columns_evolve_at_every_depth():
    before = pa.table(
        {
            "s": pa.array([{"x": 1, "old": 2}, None, {"x": None, "old": 0}]),
            "l": pa.array([[{"x": 1}], None, []], pa.list_(pa.struct([("x", pa.int32())]))),
            "m": pa.array([[("k", {"x": 1})], None, []], pa.map_(pa.string(), pa.struct([("x", pa.int32())]))),
        }
    ).slice(0)
    inner = pa.struct([("y", pa.string()), ("x", pa.int64())])
    found = fitted(
        before, ("s", inner), ("l", pa.list_(pa.field("element", inner))), ("m", pa.map_(pa.string(), inner))
    )
    new = {"y": None, "x": 1}
    assert found == [
        {"s": new, "l": [new], "m": {"k": new}},
        {"s": None, "l": None, "m": None},
        {"s": {"y": None, "x": None}, "l": [], "m": {}},
    ]


def test_a_part_of_a_nested_column_is_fitted_as_well():
    table = pa.table({"l": pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int32()))}).slice(1, 3)
    batch = table.combine_chunks().to_batches()[0]
    assert fitted(batch, ("l", pa.list_(pa.int64()))) == [{"l": [2, 3]}, {"l": None}, {"l": [4]}]
    maps = pa.array([[("a", 1)], [("b", 2)], None], pa.map_(pa.string(), pa.int32())).slice(1)
    assert fitted(pa.record_batch({"m": maps}), ("m", pa.map_(pa.string(), pa.int64()))) == [
        {"m": {"b": 2}},
        {"m": None},
    ]


@pytest.mark.parametrize(
    ("column", "type"),
    [
        (pa.array([2**40]), pa.int32()),
        (pa.array(["x"]), pa.int64()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([{"a": 1}]), pa.int64()),
        (pa.array([1]), pa.struct([("a", pa.int64())])),
        (pa.array([Decimal("123.45")]), pa.decimal128(4, 1)),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_column(column, type):
    with pytest.raises(SchemaError, match=r"column a of f\.parquet"):
        fitted(pa.table({"a": column}), ("a", type))


def test_defaults_that_are_null_are_none():
    fields = [{"name": "a", "type": "int", "default": 5}, {"name": "b", "type": ["null", "int"], "default": None}]
    assert avro_defaults({"fields": fields}) == {"a": 5}


def test_keys_are_made_as_key_generators_make_them():
    rows = pa.table({"a": ["x", "", None], "b": [1, 2, 3], "c": [True, False, None]})
    assert KeyColumns(("b",)).of(rows).to_pylist() == ["1", "2", "3"]
    assert KeyColumns(("b",), named=True).of(rows).to_pylist() == ["b:1", "b:2", "b:3"]
    found = KeyColumns(("a", "b", "c"), named=True).of(rows).to_pylist()
    assert found == ["a:x,b:1,c:true", "a:__empty__,b:2,c:false", "a:__null__,b:3,c:__null__"]
