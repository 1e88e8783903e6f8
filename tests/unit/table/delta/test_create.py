"""Creating and replacing tables without a session."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import halocline as hc
from halocline.errors import InputError, SchemaError
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


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: hc.column(1, "bigint"), "name of column cannot be 1"),
        (lambda: hc.column("id"), "missing a required argument: 'type'"),
        (lambda: hc.column("id", None), "None is no type"),
        (lambda: hc.column("id", "bigint", nullable="no"), "nullable of column cannot be 'no'"),
        (lambda: hc.column("id", "bigint", comment=3), "comment of column cannot be 3"),
        (lambda: hc.column("id", "bigint", identity=True), "identity of column cannot be True"),
        (lambda: hc.Identity(start="a"), "start of Identity cannot be 'a'"),
        (lambda: hc.Identity(start=2**63), "start of Identity cannot be 9223372036854775808"),
        (lambda: hc.Identity(step=-(2**63) - 1), "step of Identity cannot be -9223372036854775809"),
        (lambda: hc.Identity(always="no"), "always of Identity cannot be 'no'"),
        (lambda: hc.Table("lake/orders"), "not made by calling Table"),
        (lambda: hc.Table.create("lake/x", [{"id": 1}]), "a dict is no schema"),
        (lambda: hc.Table.create("lake/x", ROWS.schema, properties={1: "true"}), "properties of create"),
    ],
)
def test_wrong_kinds_of_values_are_refused_in_our_words(made, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InputError, SchemaError), match=words):
        made()
    assert not any(tmp_path.iterdir())


def test_types_of_arrow_need_no_session(tmp_path):
    columns = [hc.column("tags", pa.list_(pa.string())), hc.column("name", pa.large_string(), nullable=False)]
    table = hc.Table.create(tmp_path / "table", columns)
    table.append_arrow(pa.table({"tags": [["a"]], "name": ["b"]}))
    assert table.to_arrow().read_all().to_pylist() == [{"tags": ["a"], "name": "b"}]


@pytest.mark.parametrize(
    ("made", "nearest"),
    [
        ("hc.Table.create('lake/x', 'id BIGINT')", ""),
        ("hc.column('a', 'array<string>')", ""),
        ("hc.column('a', 'bigit')", "bigint"),
    ],
)
def test_text_that_spark_reads_is_refused_where_it_is_not_installed(made, nearest, tmp_path):
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import halocline as hc\n"
        f"try: {made}\n"
        "except hc.HaloclineError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (f"Did you mean {nearest}?" if nearest else "pip install 'halocline[spark]'") in done.stdout
