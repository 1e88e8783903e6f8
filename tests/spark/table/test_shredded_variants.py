"""Variants whose parts lie in columns of their own are put together again when they are read, and not written."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.support.columns import field, schema

from halocline.errors import IncompatibleError
from halocline.formats.delta.actions.action import Add, Metadata, ProtocolAction, encode_commit
from halocline.formats.log.names import DELTA
from halocline.schema.json_edge import dump
from halocline.storage import open_store
from halocline.table import Table

FEATURES = ("variantShredding", "variantType")


def test_shredded_variants_are_put_together_again(spark, tmp_path, conf):
    conf("spark.sql.variant.writeShredding.enabled", "true")
    conf("spark.sql.variant.forceShreddingSchemaForTest", "a INT, b STRING")
    fits = """SELECT id, parse_json('{"a": ' || id || ', "c": [' || id || ']}') v FROM range(3)"""
    others = """VALUES (7L, parse_json('{"a": "text", "b": null}')), (8L, parse_json('[1, "x"]')), (9L, NULL)"""
    rows = spark.sql(f"{fits} UNION ALL {others}")
    rows.coalesce(1).write.parquet(str(tmp_path / "t"))
    (file,) = (tmp_path / "t").glob("*.parquet")
    assert "typed_value" in [each.name for each in pq.read_schema(file).field("v").type]
    metadata = Metadata("1", schema_string=dump(schema(field("id", "long"), field("v", "variant"))))
    add = Add(file.name, {}, file.stat().st_size, 1, True)
    commit = encode_commit([ProtocolAction(3, 7, FEATURES, FEATURES), metadata, add])
    open_store(str(tmp_path / "t")).put_if_absent(DELTA.commit_path(0), commit)
    table = Table.for_path(tmp_path / "t", spark)
    parts = table.to_df().selectExpr("id", "try_variant_get(v, '$.a', 'int')", "variant_get(v, '$.c[0]', 'int')")
    found = sorted(tuple(row) for row in parts.collect())
    assert found == [(0, 0, 0), (1, 1, 1), (2, 2, 2), (7, None, None), (8, None, None), (9, None, None)]
    whole = {row.id: row.text for row in table.to_df().selectExpr("id", "to_json(v) AS text").collect()}
    assert {number: whole[number] for number in (0, 7, 8, 9)} == {
        0: '{"a":0,"c":[0]}',
        7: '{"a":"text","b":null}',
        8: '[1,"x"]',
        9: None,
    }, "values that do not fit the columns are whole as well"
    assert [row.id for row in table.to_df(where="variant_get(v, '$.a', 'string') = 'text'").collect()] == [7]
    with pytest.raises(IncompatibleError, match="variantShredding"):
        table.append(rows)
