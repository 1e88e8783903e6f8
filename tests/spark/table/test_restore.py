import pytest
from tests.support.tables import Untouched, live_files, rows, their_rows

from halocline.errors import NotFoundError
from halocline.table import Table


def test_rows_columns_and_vectors_come_back_and_vacuumed_ones_do_not(spark, tmp_path):
    path = tmp_path / "t"
    table = Table.create(path, spark.range(5), properties={"delta.enableDeletionVectors": "true"})
    table.overwrite(spark.range(1, 2), where="id IN (1, 2)")
    marked = rows(table)
    table.append(spark.sql("SELECT 9L id, 'x' new"), schema_mode="merge")
    table.overwrite(spark.range(100, 101))
    assert table.restore(1).restored_files == len(live_files(path))
    assert rows(table) == marked == their_rows(path)
    table.restore(2)
    assert len(rows(table, "new")) == 5
    table.overwrite(spark.range(1), schema_mode="overwrite")
    gone = table.vacuum(0, dry_run=False, enforce_retention=False)
    assert gone.deleted
    assert rows(table) == [(0,)]
    with Untouched(path), pytest.raises(NotFoundError) as caught:
        table.restore(0)
    assert caught.value.condition == "DATA_FILES_MISSING"
