"""Features that leave a table by way of its rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.support.tables import rows_of

from halocline.table import Table


@pytest.fixture
def orders(tmp_path, spark):
    """Every row is tracked, some are marked as deleted, a column is renamed and another has grown."""
    properties = {
        "delta.columnMapping.mode": "name",
        "delta.enableDeletionVectors": "true",
        "delta.enableTypeWidening": "true",
    }
    df = spark.range(0, 40, 1, 2).selectExpr("id", "CAST(id % 3 AS INT) AS n", "id % 2 AS p")
    table = Table.create(tmp_path / "t", df, spark, partition_by="p", properties=properties)
    table.delete("id % 7 = 0")
    table.rename_column("n", "number")
    table.widen_column("number", "long")
    return table


def test_vectors_names_and_older_types_leave_with_the_same_rows(orders, tmp_path):
    rows = rows_of(orders)
    orders.drop_feature_support("deletionVectors")
    files = orders.snapshot().files()
    assert files["deletion_vector"].null_count == files.num_rows
    orders.drop_feature_support("typeWidening")
    orders.drop_feature_support("columnMapping")
    assert not orders.protocol.features & {"deletionVectors", "typeWidening", "columnMapping"}
    assert rows_of(orders) == rows
    for path in orders.snapshot().files()["path"].to_pylist():
        schema = pq.read_schema(tmp_path / "t" / path)
        assert (schema.names, schema.field("number").type) == (["id", "number"], pa.int64())
    read = DeltaTable(str(tmp_path / "t"), without_files=False).schema()
    assert [field.name for field in read.fields] == ["id", "number", "p"]


@pytest.mark.parametrize("how", ["set to none", "unset"])
def test_column_mapping_that_is_switched_off_leaves_with_the_same_rows_and_the_feature_stays(orders, tmp_path, how):
    orders.set_properties({"kept": "1", "note": "1"})
    rows, version = rows_of(orders), orders.version
    if how == "unset":
        altered = orders.unset_properties(["delta.columnMapping.mode", "note"])
    else:
        altered = orders.set_properties({"delta.columnMapping.mode": "none", "note": "2"})
    assert (altered.version, altered.committed) == (version + 2, True), "the files, then the other property"
    properties = orders.snapshot().properties
    assert properties.get("delta.columnMapping.mode") == (None if how == "unset" else "none")
    assert (properties.get("note"), properties["kept"]) == (None if how == "unset" else "2", "1")
    assert "delta.columnMapping.maxColumnId" not in properties
    assert "columnMapping" in orders.protocol.features
    assert rows_of(orders) == rows
    for path in orders.snapshot().files()["path"].to_pylist():
        assert pq.read_schema(tmp_path / "t" / path).names == ["id", "number"]
    orders.set_properties({"delta.columnMapping.mode": "name"})
    orders.rename_column("number", "n")
    assert rows_of(orders) == rows
