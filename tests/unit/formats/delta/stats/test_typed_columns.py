"""Partition values and statistics as typed columns: every spelling of a value, and null for what is none."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from halocline.formats.delta.stats.typed_columns import parsed_partition_values, parsed_stats

AT_EIGHT = datetime(2026, 11, 1, 8)


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        (" 7", pa.int32(), 7),
        ("TRUE", pa.bool_(), True),
        ("Infinity", pa.float64(), float("inf")),
        ("2026-11-01", pa.date32(), date(2026, 11, 1)),
        ("2026-11-01", pa.timestamp("us"), datetime(2026, 11, 1)),
        ("2026-11-01 08:00:00", pa.timestamp("us"), AT_EIGHT),
        ("2026-11-01T10:00:00.000+02:00", pa.timestamp("us"), AT_EIGHT),
        ("2026-11-01 08:00", pa.timestamp("us", "UTC"), AT_EIGHT.replace(tzinfo=UTC)),
        ("2026-11-01T08:00:00Z", pa.timestamp("us", "UTC"), AT_EIGHT.replace(tzinfo=UTC)),
        ("2026-11-01T10:00:00.000+02:00", pa.timestamp("us", "UTC"), AT_EIGHT.replace(tzinfo=UTC)),
        ("1.5", pa.decimal128(10, 2), Decimal("1.50")),
        ("ü", pa.binary(), "ü".encode()),
        ("", pa.string(), None),
    ],
)
@pytest.mark.parametrize("beside", [[], ["no value of the type"]], ids=["alone", "beside one that cannot be read"])
def test_a_partition_value_is_typed_whatever_lies_beside_it(text, type, value, beside):
    maps = pa.array([[("p", each)] for each in [text, *beside]], pa.map_(pa.string(), pa.string()))
    found = parsed_partition_values(maps, pa.struct([("p", type)]))
    assert found[0].as_py() == {"p": value}


@pytest.mark.parametrize(
    ("written", "type"),
    [("1.5", pa.int64()), ("1.239", pa.decimal128(10, 2)), ("true", pa.int64()), ('"x"', pa.date32())],
)
def test_a_bound_that_the_column_cannot_hold_is_left_out_and_never_rounded(written, type):
    stats = pa.array([f'{{"numRecords":1,"maxValues":{{"c":{written}}}}}'])
    wanted = pa.struct([("numRecords", pa.int64()), ("maxValues", pa.struct([("c", type)]))])
    assert parsed_stats(stats, wanted)[0].as_py() == {"numRecords": 1, "maxValues": {"c": None}}
