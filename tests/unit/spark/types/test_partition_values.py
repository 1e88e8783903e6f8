"""Texts of the log as the one spelling that everybody who reads a partition value goes by."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from halocline.errors import MalformedError
from halocline.schema import Primitive
from halocline.spark.types.partition_values import PartitionColumn, PartitionValues
from halocline.table import Table


def spelt(text: str, type: str) -> str | None:
    maps = pa.array([[("p", text)]], pa.map_(pa.string(), pa.string()))
    found = PartitionValues(pa.table({"partition_values": maps}), [PartitionColumn("p", "p", Primitive(type))])
    return found.values[0][0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inf", "Infinity"),
        ("+Infinity", "Infinity"),
        ("-inf", "-Infinity"),
        ("INFINITY", "Infinity"),
        ("nan", "NaN"),
        (" 1e5 ", "1e5"),
    ],
)
def test_no_number_in_any_spelling_of_spark_is_read(text, expected):
    assert spelt(text, "double") == expected


@pytest.mark.parametrize("text", ["infinit", "-nan", "in", "1x"])
def test_text_that_spark_does_not_read_as_a_number_is_damage(text):
    with pytest.raises(MalformedError, match="partition column p"):
        spelt(text, "float")


@pytest.mark.parametrize(
    ("text", "expected"), [("0.005", "0.01"), ("-0.005", "-0.01"), ("1E1", "10.00"), ("1", "1.00")]
)
def test_decimal_with_more_digits_is_rounded_as_spark_does(text, expected):
    assert spelt(text, "decimal(10,2)") == expected


def test_decimal_that_rounding_makes_too_long_is_damage():
    with pytest.raises(MalformedError, match="partition column p"):
        spelt("9.999", "decimal(3,2)")


def test_infinite_partitions_of_deltalake_are_read_without_spark(tmp_path):
    path, values = str(tmp_path / "t"), [math.inf, -math.inf, 0.5]
    write_deltalake(path, pa.table({"id": [1, 2, 3], "p": pa.array(values)}), partition_by=["p"])

    found = Table.for_path(path).to_arrow().read_all().sort_by("id")

    assert found["p"].to_pylist() == values


def test_rounded_decimal_is_the_value_of_every_row(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(
        path, pa.table({"id": [1], "p": pa.array([Decimal("0.25")], pa.decimal128(10, 2))}), partition_by=["p"]
    )
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace('"p":"0.25"', '"p":"0.245"'))

    table = Table.for_path(path)

    assert table.to_arrow().read_all()["p"].to_pylist() == [Decimal("0.25")]
    assert table.to_arrow(where="p = 0.25").read_all().num_rows == 1, "the condition sees another value"
