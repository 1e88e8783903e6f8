"""Tables that Apache Hudi bootstrapped: read where it wrote all rows, judged and refused where it wrote keys alone.

Those that Apache Hudi itself makes are in `tests/interop_jvm/test_hudi_bootstrap.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.support.hudi_tables import KINDS, HudiTableMaker, shown

from halocline.cli import main
from halocline.compat.verdict import can
from halocline.errors import IncompatibleError, UnsupportedError
from halocline.formats.hudi.configuration import BOOTSTRAP_PATH, TableType
from halocline.formats.hudi.lint import lint
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import encode, read_properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import terms_of
from halocline.storage import open_store
from halocline.table import HudiTable

INDEX = ".hoodie/.aux/.bootstrap/.partitions/00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"


def bootstrapped(place, version: int = 8, type: TableType = TableType.COPY_ON_WRITE) -> HudiTableMaker:
    """A table whose properties say that it was bootstrapped; all its rows are in it."""
    table = HudiTableMaker.create(open_store(place), version, type)
    table.upsert(range(4), 1, "a")
    stored = read_properties(table.store)
    pairs = {**stored.pairs, BOOTSTRAP_PATH: "/data/from/before"}
    table.store.put_if_match(stored.path, encode(pairs, datetime.now(UTC)), stored.etag)
    return table


def with_rows_outside(table: HudiTableMaker, by: str) -> None:
    """Makes it one of which Apache Hudi has written keys alone."""
    if by == "index":
        table.store.put(INDEX, b"")
        return
    (write,) = table.snapshot.timeline.writes
    table.store.put(write.path.replace(write.time, "00000000000001"), table.store.get(write.path))


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_table_that_was_bootstrapped_with_its_rows_is_read_and_written(tmp_path, version, type):
    table = bootstrapped(tmp_path, version, type)
    table.upsert([1, 7], 2, "b")
    expected = [("k0", 1, "a0"), ("k1", 2, "b1"), ("k2", 1, "a2"), ("k3", 1, "a3"), ("k7", 2, "b7")]
    assert shown(HudiSnapshot.load(table.store).read()) == expected
    opened = HudiTable.for_path(tmp_path)
    assert opened.features()["bootstrap"] == "enabled"
    assert opened.can("hudi@1.2.0", "read").ok
    assert lint(table.store).findings == ()


@pytest.mark.parametrize("by", ["index", "instant"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_that_was_bootstrapped_without_its_rows_is_refused_with_who_reads_it(tmp_path, capsys, version, by):
    table = bootstrapped(tmp_path, version)
    with_rows_outside(table, by)
    for operation in ("read", "write"):
        with pytest.raises(IncompatibleError, match="wrote keys alone; Apache Hudi reads it"):
            HudiSnapshot.load(table.store, operation=operation)
    terms = terms_of(table.store)
    assert "bootstrap:rowsOutside" in terms.in_use
    assert can("hudi@1.2.0", terms, "read").ok
    assert can("hudi-rs@0.5.0", terms, "read").wrong
    assert main.run(["inspect", str(tmp_path)]) == 0
    assert "bootstrap" in capsys.readouterr().out


def test_a_bootstrapped_table_is_not_moved_across_layouts(tmp_path):
    for source, target in ((6, 8), (8, 6), (9, 6)):
        table = bootstrapped(tmp_path / f"{source}-{target}", source)
        with pytest.raises(UnsupportedError, match=r"hoodie\.bootstrap\.base\.path"):
            plan_move(table.store, target)
    assert plan_move(bootstrapped(tmp_path / "8-9", 8).store, 9).target.version == 9
