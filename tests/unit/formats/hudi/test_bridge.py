"""A bridge gets along with both sides of a move, and refuses what the older side would order differently."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from tests.support.faulty_store import FaultyStore
from tests.support.hudi_groups import write_rows
from tests.support.hudi_tables import HudiTableMaker, rows, shown

from halocline.errors import ConflictError, UnsupportedError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.spark.session.settings import Settings
from halocline.storage import open_store
from halocline.table import Table
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.write import delete_partition

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


@pytest.mark.parametrize("type", TableType)
@pytest.mark.parametrize("moves", [*permutations((6, 8, 9)), (7, 8, 9, 8, 7, 6)], ids=str)
def test_a_writer_and_a_reader_that_stay_open_get_along_with_moves_in_any_order(tmp_path, type, moves):
    table = HudiTableMaker.create(open_store(tmp_path), 6, type)
    table.upsert(range(4), 100, "a")
    writer, reader = (Table.for_path(tmp_path, options=BRIDGE) for _ in range(2))
    expected = {f"k{each}": (100, f"a{each}") for each in range(4)}
    for number, to in enumerate(moves):
        if to != reader.detail()["tableVersion"]:
            apply_move(table.store, plan_move(table.store, to))
        write_rows(writer.opened, "UPSERT", [1, 10 + number], 200 + number, "w", [number] if number == 2 else [])
        expected |= {key: (200 + number, f"w{key[1:]}") for key in ("k1", f"k{10 + number}")}
        if number == 2:
            del expected["k2"]
        assert shown(reader.snapshot().read()) == sorted((key, *value) for key, value in expected.items()), to


class OvertakenStore(FaultyStore):
    """A store where a move is done by somebody else, right before a write becomes pending in it for the first time."""

    def __init__(self, inner, to: int) -> None:
        super().__init__(inner)
        self.to: int | None = to

    def _do(self, name, path, action, torn=None):
        if self.to is not None and name == "put_if_absent" and path.endswith(".replacecommit.requested"):
            to, self.to = self.to, None
            apply_move(self.inner, plan_move(self.inner, to))
        return super()._do(name, path, action, torn)


@pytest.mark.parametrize(("version", "to"), [(6, 8), (8, 6), (8, 9), (9, 6)])
def test_a_write_that_a_move_overtakes_is_done_again_by_a_bridge_and_refused_otherwise(tmp_path, version, to):
    table = HudiTableMaker.create(open_store(tmp_path), version, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 100, "a")
    with pytest.raises(ConflictError) as overtaken:
        delete_partition(HudiOpened(OvertakenStore(table.store, to)), "eu")
    assert overtaken.value.condition in ("TABLE_MOVED", "CONCURRENT_METADATA_CHANGE")
    assert len(shown(table.snapshot.read())) == 4
    apply_move(table.store, plan_move(table.store, version))
    bridge = HudiOpened(OvertakenStore(table.store, to), settings=Settings(hudi_bridge=True))
    delete_partition(bridge, "eu")
    assert table.snapshot.config.version == to
    assert [row[0] for row in shown(table.snapshot.read())] == ["k0", "k2"]
    assert not table.snapshot.timeline.pending
