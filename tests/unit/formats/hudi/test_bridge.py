"""A bridge gets along with both sides of a move, and refuses what the older side would order differently."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.hudi_tables import HudiTableMaker, rows, shown

from halocline.errors import UnsupportedError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.storage import open_store
from halocline.table import Table

BRIDGE = {"halocline.hudi.bridge": "true"}


def crossing(tmp_path) -> HudiTableMaker:
    """A table with log files of two writers, of which the one that began first was completed last."""
    table = HudiTableMaker.create(open_store(tmp_path), 8, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    first, second = table.begin(), table.begin()
    stats = [table.write(write, rows([1], ts, tag)) for write, ts, tag in ((first, 300, "x"), (second, 200, "y"))]
    second.complete(stats[1], schema=table.schema)
    replace(first, seen=first.seen | {second.time}).complete(stats[0], schema=table.schema)
    return table


def test_log_files_of_writers_that_did_not_wait_for_each_other_are_refused_by_a_bridge(tmp_path):
    table = crossing(tmp_path)
    assert ("k1", 300, "x1") in shown(Table.for_path(tmp_path).snapshot().read())
    with pytest.raises(UnsupportedError, match="several writers at once") as refused:
        Table.for_path(tmp_path, options=BRIDGE).snapshot()
    assert "non-blocking concurrency" in str(refused.value)
    compact(table.store)
    assert ("k1", 300, "x1") in shown(Table.for_path(tmp_path, options=BRIDGE).snapshot().read())


@pytest.mark.parametrize("type", TableType)
def test_a_bridge_that_stays_open_reads_the_table_on_both_sides_of_every_move(tmp_path, type):
    table = HudiTableMaker.create(open_store(tmp_path), 6, type)
    table.upsert(range(6), 100, "a")
    table.upsert([1], 200, "b", deletes=[3])
    reader = Table.for_path(tmp_path, options=BRIDGE)
    before = shown(reader.snapshot().read())
    for to in (7, 8, 9, 8, 6):
        table.config = apply_move(table.store, plan_move(table.store, to))
        assert shown(reader.snapshot().read()) == before, f"at version {to}"
    table.upsert([1], 300, "c")
    assert ("k1", 300, "c1") in shown(reader.snapshot().read())
