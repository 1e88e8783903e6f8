"""A companion knows its source again through all that Apache Hudi itself does with the table, and follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.formats.hudi.configuration import TableType
from halocline.formats.index.companion.identity import Companion, check_identity
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.index.companion import build_index, fresh_companion, sync_index
from halocline.table.index.sources import HudiSource, source_at
from tests.interop_jvm.releases import Engine, writing_options
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_tables import rows_of

pytestmark = pytest.mark.timeout(3600)

RELEASE = "1.2.0"
_TIGHT = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.archive.automatic": "true",
    "hoodie.archive.async": "false",
}
_COMPACTING = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}


class Followed:
    """A table, the release of Apache Hudi that writes it, and its companion."""

    def __init__(self, engine: Engine, table: Path, companion: Path) -> None:
        self.engine, self.path, self.writes = engine, table, 0
        self.companion: Store = open_store(companion)
        build_index(open_store(table), self.companion, ["id", "name"])

    @property
    def source(self) -> HudiSource:
        source = source_at(open_store(self.path))
        assert isinstance(source, HudiSource)
        return source

    @property
    def times(self) -> list[str]:
        return [each.time for each in self.source.snapshot.timeline.writes]

    def upsert(self, **options: str) -> None:
        self.writes += 1
        changes = {"name": f"w{self.writes}", "ts": 1_000 + self.writes}
        options = writing_options(self.path, RELEASE) | options
        self.engine.ask("upsert", path=str(self.path), where="id = 'k1'", set=changes, options=options)

    def call(self, procedure: str, **arguments: str) -> None:
        given = ", ".join(f"{name} => '{value}'" for name, value in {"path": str(self.path), **arguments}.items())
        self.engine.ask("sql", statement=f"CALL {procedure}({given})")

    def check(self, when: str) -> None:
        """It is the same table, and the companion shows its rows once it is brought up to date."""
        check_identity(IndexSnapshot.load(self.companion), self.source)
        sync_index(self.companion)
        truth = [row["name"] for batch in self.source.snapshot.read(["name"]) for row in batch.to_pylist()]
        assert sorted(rows_of(fresh_companion(self.companion), "name")) == sorted(truth), when


@pytest.mark.parametrize("type", TableType)
def test_a_source_stays_the_same_through_upgrades_archiving_cleaning_and_restores_of_apache_hudi(
    type, engines, tmp_path
):
    made = HudiTableMaker.create(open_store(tmp_path / "table"), 6, type)
    made.upsert(range(4), 100, "a")
    table = Followed(engines[RELEASE], tmp_path / "table", tmp_path / "companion")
    mark = Companion.of(IndexSnapshot.load(table.companion)).mark
    first = table.times
    table.upsert()
    table.check("written at 6")
    table.upsert(**{"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"})
    assert table.source.snapshot.config.version == 9
    table.check("upgraded by Apache Hudi")
    table.upsert()
    saved = table.times[-1]
    table.call("create_savepoint", commit_time=saved)
    table.upsert()
    table.check("written behind a savepoint")
    table.call("rollback_to_savepoint", instant_time=saved)
    assert max(table.times) == saved
    table.check("restored by Apache Hudi")
    table.call("delete_savepoint", instant_time=saved)
    services = _TIGHT | (_COMPACTING if type is TableType.MERGE_ON_READ else {})
    for _ in range(6):
        table.upsert(**services)
    assert set(first).isdisjoint(table.times), "what the companion saw first was archived by Apache Hudi"
    assert table.source.is_same(mark, lambda: ()), "by its history alone"
    table.check("archived and cleaned by Apache Hudi")
