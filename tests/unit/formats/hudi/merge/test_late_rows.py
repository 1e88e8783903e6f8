"""Rows with a smaller ordering value than others of their key: what the table and ranges of writes show of them.

The answers are those that Apache Hudi 0.15.0 gave at version 6 and 1.2.0 at version 9, for tables of either writer.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.support.hudi_groups import upsert_groups, write_rows
from tests.support.hudi_tables import HudiTableMaker, shown

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.incremental import read_range, settled_time
from halocline.formats.hudi.maintain.compaction import compact
from halocline.storage.memory import MemoryStore
from halocline.table.hudi.opened import HudiOpened

MOR, COW = TableType.MERGE_ON_READ, TableType.COPY_ON_WRITE


@dataclass(frozen=True)
class Life:
    """Steps after a first write at 100, and what is shown in the end: by the table, and by ranges.

    Attributes:
        steps: Ordering values of upserts, `delete` or `compact`.
        table: The ordering value of the row that the table has.
        since_first: That of the row in the range from the first write on; None if there is none.
        last: That of the row in the range of the last write alone.
    """

    type: TableType
    steps: tuple[int | str, ...]
    table: int
    since_first: int | None
    last: int | None


LIVES = {
    "a late row loses, and is in a log file": Life(MOR, (50,), 100, 50, 50),
    "a late row loses, and is nowhere": Life(COW, (50,), 100, None, None),
    "a range with the winner shows it": Life(MOR, (200, 150), 200, 200, 150),
    "a deleted row is back where it is in the base file": Life(MOR, ("delete", 50), 100, 50, 50),
    "also if a later one was deleted": Life(MOR, (200, "delete", 50), 100, 50, 50),
    "a row that is late only for that one wins": Life(MOR, (200, "delete", 150), 150, 150, 150),
    "a deleted row is gone from a new base file": Life(MOR, ("delete", "compact", 50), 50, 50, 50),
    "a deleted row is gone where base files are rewritten": Life(COW, ("delete", 50), 50, 50, 50),
    "a loser that was deleted is no winner": Life(MOR, (50, "delete", 40), 100, 40, 40),
}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("name", LIVES)
def test_late_rows_do_what_they_do_in_apache_hudi(version, name):
    life = LIVES[name]
    table = HudiTableMaker.create(MemoryStore(), version, life.type)
    upsert_groups(table, [0, 2, 4], 100, "a")
    begins = []
    for step in life.steps:
        begins.append(settled_time(table.snapshot.timeline))
        if step == "compact":
            compact(table.store)
        elif step == "delete":
            write_rows(HudiOpened(table.store), "DELETE", [], 300, "", [0])
        else:
            write_rows(HudiOpened(table.store), "UPSERT", [0], int(step), f"at {step} ")
    found = [row[1] for row in shown(table.snapshot.read()) if row[0] == "k0"]
    ranges = [[row[1] for row in shown(read_range(table.snapshot, each).read()) if row[0] == "k0"] for each in begins]
    assert found == [life.table]
    assert ranges[0] == [each for each in (life.since_first,) if each is not None]
    assert ranges[-1] == [each for each in (life.last,) if each is not None]
