"""Creating and replacing tables without a session."""

from __future__ import annotations

import pyarrow as pa
import pytest

from halocline.errors import InputError
from halocline.table import Table

ROWS = pa.table({"id": [1, 2]})
BEFORE = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
    "owner": "me",
}


@pytest.mark.parametrize(("said", "kept"), [({}, "true"), ({"delta.enableRowTracking": "false"}, "false")])
def test_replaced_table_still_marks_and_tracks_rows_unless_told_otherwise(tmp_path, said, kept):
    before = Table.create(tmp_path, ROWS, properties=BEFORE).snapshot()
    after = Table.replace(tmp_path, pa.table({"word": ["x"]}), properties=said).snapshot()
    assert after.properties["delta.enableDeletionVectors"] == "true"
    assert after.properties["delta.enableRowTracking"] == kept
    assert {"owner", "delta.enableChangeDataFeed"}.isdisjoint(after.properties)
    assert after.files()["base_row_id"].to_pylist() == [2], "ids go on behind those that were given out"
    column = "delta.rowTracking.materializedRowIdColumnName"
    assert after.properties[column] == before.properties[column]


@pytest.mark.parametrize("mode", ["id", "none"])
def test_another_column_mapping_for_a_replaced_table_is_refused_and_not_passed_over(tmp_path, mode):
    Table.create(tmp_path, ROWS, properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(InputError, match=f"cannot change from name to {mode}"):
        Table.replace(tmp_path, ROWS, properties={"delta.columnMapping.mode": mode})
    same = Table.replace(tmp_path, ROWS, properties={"delta.columnMapping.mode": "name"})
    assert same.snapshot().properties["delta.columnMapping.maxColumnId"] == "2"


@pytest.mark.parametrize("existing", [False, True])
def test_history_tells_what_was_asked_for_whether_or_not_there_was_a_table(tmp_path, existing):
    if existing:
        Table.create(tmp_path, ROWS)
    table = Table.replace(tmp_path, ROWS, or_create=True)
    assert table.history()[0].operation == "CREATE OR REPLACE TABLE AS SELECT"
