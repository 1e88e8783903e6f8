"""Rows of log files in Avro's binary form."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.write.log_writer import encoded_rows


def test_decimals_keep_all_of_their_digits():
    values = [Decimal(f"{sign}{'9' * 28}.{'9' * 10}") for sign in ("", "-")] + [Decimal("1.5"), None]
    rows = pa.table({"v": pa.array(values, pa.decimal128(38, 10))})
    schema = avro_schema(rows.schema, "r")
    ready = parse_schema(json.loads(schema))
    found = [schemaless_reader(io.BytesIO(each), ready, None)["v"] for each in encoded_rows(rows, schema)]
    assert found == values
