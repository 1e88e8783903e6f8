"""A Hudi table moves between versions through `Table`, asked for first, with the same rows; services change none."""

from __future__ import annotations

import json

import pytest
from tests.support.hudi_tables import HudiTableMaker, shown

from halocline.cli import main
from halocline.errors import IncompatibleError, InputError
from halocline.formats.hudi.configuration import TableType
from halocline.storage import open_store
from halocline.table import HudiTable, gatekeeper
from halocline.table.gatekeeper import Alone


def made(path, version: int = 6) -> tuple[HudiTableMaker, HudiTable]:
    maker = HudiTableMaker.create(open_store(path), version, TableType.MERGE_ON_READ)
    maker.upsert(range(4), 100, "a")
    maker.upsert([1, 8], 200, "b", deletes=[2])
    return maker, HudiTable.for_path(path)


def rows(table: HudiTable):
    return shown(table.snapshot().read())


def test_a_table_goes_up_and_down_with_the_same_rows(tmp_path):
    _, table = made(tmp_path)
    before = rows(table)
    assert "point of no return" in table.plan_upgrade(8).explain()
    assert table.protocol.reader == 6, "planning changes nothing"
    for version in (8, 9):
        assert table.upgrade(version).target.version == version
        assert (table.protocol.reader, rows(table)) == (version, before)
    for version in (8, 6):
        table.downgrade(version)
        assert (table.protocol.reader, rows(table)) == (version, before)


def test_the_wrong_direction_is_refused_with_the_right_verb(tmp_path):
    _, table = made(tmp_path, 8)
    with pytest.raises(InputError, match="and 6 is lower") as refused:
        table.upgrade(6)
    assert refused.value.next_step == "Use downgrade(6)."


def test_the_gatekeeper_is_asked_before_a_move(tmp_path):
    class Keeper(Alone):
        def approve_change(self, change):
            raise IncompatibleError(f"somebody needs {change.before.protocol}")

    _, table = made(tmp_path)
    with gatekeeper.acting(Keeper()), pytest.raises(IncompatibleError, match=r"hudi\(6\)"):
        table.upgrade(8)
    assert table.protocol.reader == 6


def test_services_change_no_row(tmp_path):
    maker, table = made(tmp_path, 8)
    before = rows(table)
    assert len(table.compact()) == 1
    assert (table.detail()["numLogFiles"], rows(table)) == (0, before)
    table.cluster(sort_by=["id"])
    assert rows(table) == before
    for number in range(3):
        maker.upsert([1], 300 + number, "c")
    kept = rows(table)
    table.compact()
    assert table.clean(policy="versions", keep=1) is not None
    assert rows(table) == kept
    assert table.archive(keep=2, at_most=3)
    assert rows(table) == kept


def test_the_command_moves_and_tells(tmp_path, capsys):
    _, table = made(tmp_path)
    assert main.run(["move", str(tmp_path), "--to", "8", "--dry-run"]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert table.protocol.reader == 6
    assert main.run(["move", str(tmp_path), "--to", "8", "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["from"], told["to"], told["applied"]) == (6, 8, True)
    assert main.run(["move", str(tmp_path), "--to", "6"]) == 0
    assert table.protocol.reader == 6
