from __future__ import annotations

import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from halocline.schema import Field, Primitive, Struct
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.file_stats import Wanted, stats_text


@pytest.mark.parametrize("whole_numbers", [True, False])
@pytest.mark.parametrize(("precision", "scale"), [(9, 2), (9, 9), (18, 4), (18, 0), (19, 2), (38, 10)])
def test_bounds_of_decimals_are_the_same_however_they_are_stored(precision, scale, whole_numbers):
    """Arrow 18 to 22 makes no decimals of bounds that are whole numbers, as Spark stores short ones."""
    most = Decimal(10**precision - 1).scaleb(-scale) if precision <= 28 else Decimal(7)
    held = pa.table({"d": pa.array([None, -most, most], pa.decimal128(precision, scale))})
    pq.write_table(held, file := io.BytesIO(), store_decimal_as_integer=whole_numbers)
    wanted = Wanted.of(FileLayout(Struct([Field("d", Primitive(f"decimal({precision},{scale})"))])), {})
    found = json.loads(stats_text(pq.read_metadata(file), wanted), parse_float=Decimal, parse_int=Decimal)
    assert (found["minValues"]["d"], found["maxValues"]["d"], found["nullCount"]["d"]) == (-most, most, 1)
