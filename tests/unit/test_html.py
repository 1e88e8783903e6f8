"""What notebooks show: facts in tables, and nothing of a table's text becomes markup."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.hudi_tables import HudiTableMaker

import halocline as hc
from halocline.formats.hudi.configuration import TableType
from halocline.formats.index.maintain.purge import Purged
from halocline.storage import open_store
from halocline.table.delta.restore import Restored
from halocline.table.delta.rows.commit import RowsChanged

ROWS = pa.table({"id": [1], "a<b>": ["x"]})


@pytest.fixture
def table(tmp_path):
    properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    return hc.Table.create(tmp_path / "t", ROWS, properties=properties)


def test_table_shows_its_place_protocol_and_columns(table, tmp_path):
    shown = table._repr_html_()
    assert f"<caption>{tmp_path}/t</caption>" in shown
    assert "deletionVectors" in shown
    assert "a&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_version_and_entry_of_a_history_show_a_few_facts(table, tmp_path):
    table.append_arrow(ROWS, user_metadata="<script>")
    version = table.snapshot()
    assert repr(version) == f"Snapshot(table={f'{tmp_path}/t'!r}, version=1, protocol={str(table.protocol)!r})"
    assert "<th>version</th>" in version._repr_html_()
    entry = table.history()[0]
    assert repr(entry).startswith("HistoryEntry(version=1, timestamp='2")
    assert repr(entry).endswith("operation='WRITE', engineInfo='Halocline/0.1.0')")
    assert "<td>WRITE</td>" in entry._repr_html_()


def test_versions_and_entries_of_other_formats_show_a_few_facts(tmp_path):
    hudi = HudiTableMaker.create(open_store(str(tmp_path / "h")), 8, TableType.COPY_ON_WRITE)
    instant = hudi.upsert(range(2), 1, "a")
    table = hc.Table.for_path(tmp_path / "h")
    assert repr(table.snapshot()).startswith(f"HudiSnapshot(table={f'{tmp_path}/h'!r}, version={instant}, ")
    assert repr(table.history()[0]).startswith(f"HudiHistoryEntry(version={instant}, ")
    assert len(repr(table.history()[0])) < 150
    made = hc.Table.create(tmp_path / "i", pa.schema([("a", pa.string())]), format="index")
    assert repr(made.snapshot()).startswith(f"IndexSnapshot(table={f'{tmp_path}/i'!r}, version=")
    assert repr(made.history()[0]).startswith("IndexVersion(version=")


def test_history_is_a_table_and_still_a_list(table):
    table.append_arrow(ROWS, user_metadata="<script>")
    found = table.history()
    assert isinstance(found, list)
    assert found[0].version == 1
    assert "&lt;script&gt;" in found._repr_html_()
    lines = repr(found).splitlines()
    assert lines[0].split()[:3] == ["version", "timestamp", "operation"]
    assert len(lines) == 3


def test_verdict_shows_answer_reason_and_fix(table):
    shown = table.can("trino@426", "read")._repr_html_()
    assert ">refused</b>" in shown
    assert "deletionVectors" in shown
    assert "427" in shown


def test_drop_plan_shows_steps_and_whom_each_way_leaves(table):
    plan = table.plan_drop("deletionVectors")
    shown = plan._repr_html_()
    assert "<ol><li>" in shown
    assert "would break" in shown
    assert repr(plan) == plan.explain(), "a terminal shows the same facts"


def test_what_a_verb_did_is_a_line(table):
    assert repr(table.set_properties({"a": "b"})).startswith("<Altered version 1: the protocol stays (3,7|")
    assert repr(table.upgrade("deletionVectors")) == "<Altered nothing to change in version 1>"
    assert repr(table.drop_feature_support("deletionVectors")).startswith(
        "<Dropped deletionVectors is dropped in version"
    )
    assert repr(table.vacuum()) == "<Vacuumed 0 files of 0 bytes are without use>"


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (RowsChanged(4, False, {"numDeletedRows": 0}), "<RowsChanged nothing to change in version 4>"),
        (
            RowsChanged(5, True, {"numDeletedRows": 1200, "numRemovedFiles": 2, "numAddedFiles": 1, "scanTimeMs": 7}),
            "<RowsChanged version 5: 1,200 rows deleted, 1 files added, 2 files removed>",
        ),
        (
            RowsChanged(6, True, {"numTargetRowsInserted": 1, "numTargetRowsUpdated": 2, "numTargetRowsDeleted": 0}),
            "<RowsChanged version 6: 1 rows inserted, 2 rows updated, 0 rows deleted>",
        ),
        (Restored(3, 1, 2, 10, 20, 4, 40), "<Restored version 3: 1 files came back, 2 went>"),
        (Purged((), 0, True), "<Purged 0 files of 0 bytes are without use>"),
    ],
)
def test_a_change_of_rows_or_files_is_a_line(done, line):
    assert repr(done) == line
