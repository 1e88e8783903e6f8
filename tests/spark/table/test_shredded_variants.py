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
    rows = spark.sql("""SELECT id, parse_json('{"a": ' || id || ', "c": [' || id || ']}') v FROM range(3)""")
    rows.coalesce(1).write.parquet(str(tmp_path / "t"))
    (file,) = (tmp_path / "t").glob("*.parquet")
    assert "typed_value" in [each.name for each in pq.read_schema(file).field("v").type]
    metadata = Metadata("1", schema_string=dump(schema(field("id", "long"), field("v", "variant"))))
    add = Add(file.name, {}, file.stat().st_size, 1, True)
    commit = encode_commit([ProtocolAction(3, 7, FEATURES, FEATURES), metadata, add])
    open_store(str(tmp_path / "t")).put_if_absent(DELTA.commit_path(0), commit)
    table = Table.for_path(tmp_path / "t", spark)
    parts = table.to_df().selectExpr("id", "variant_get(v, '$.a', 'int')", "variant_get(v, '$.c[0]', 'int')")
    assert sorted(tuple(row) for row in parts.collect()) == [(n, n, n) for n in range(3)]
    whole = table.to_df().selectExpr("to_json(v) AS text").collect()
    assert sorted(row.text for row in whole)[0] == '{"a":0,"c":[0]}'
    with pytest.raises(IncompatibleError, match="variantShredding"):
        table.append(rows)
