"""Tables that we moved, compacted or archived: Apache Hudi reads them and writes on, and we read them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.clustering import run_clustering
from halocline.formats.hudi.maintain.compaction import pending_clusterings
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import Table
from tests.interop_jvm.releases import KNOW, RELEASES, writing_options
from tests.support.hudi_conformance import OURS, original
from tests.support.hudi_groups import upsert_groups, write_rows
from tests.support.hudi_tables import HudiTableMaker

pytestmark = pytest.mark.timeout(3600)

COLUMNS = ["id", "ts", "name"]
TABLES = [
    "v6_cow_archived",
    "v6_cow_clustered",
    "v6_cow_failed_write",
    "v6_cow_hive_mdt",
    "v6_cow_nonpart",
    "v6_cow_pending_clustering",
    "v6_cow_savepoint",
    "v6_mor_archived",
    "v6_mor_commit",
    "v6_mor_compacted_mdt",
    "v6_mor_event",
    "v6_mor_failed_write",
    "v6_mor_logs",
    "v6_mor_pending",
    "v8_mor_logs",
    "v8_mor_pending",
    "v9_cow_hive_mdt",
    "v9_cow_archived",
    "v9_mor_event",
    "v9_mor_logs",
    "v9_mor_pending",
]
STOPS = {6: (8, 9, 8, 6), 8: (9, 6, 8), 9: (8, 6, 9)}


def ours(table: Path) -> list[list[str]]:
    batches = HudiSnapshot.load(open_store(table)).read(COLUMNS)
    return sorted([str(row[name]) for name in COLUMNS] for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("type", TableType)
def test_apache_hudi_reads_what_we_write_at_the_version_of_the_bridge(type, engines, tmp_path):
    made = HudiTableMaker.create(open_store(tmp_path), 6, type)
    upsert_groups(made, range(6), 100, "a")
    for stop, readers in ((7, RELEASES), (8, KNOW[8]), (7, RELEASES), (6, KNOW[6])):
        apply_move(made.store, plan_move(made.store, stop), grace_s=0)
        write_rows(Table.for_path(tmp_path).opened, "UPSERT", [1, 10 + stop], 100 + stop, "w", [2])
        for release in readers:
            found = engines[release].ask("read", path=str(tmp_path), columns=COLUMNS)
            assert found == ours(tmp_path), f"{release} at version {stop}"


@pytest.mark.parametrize("name", TABLES)
def test_apache_hudi_reads_and_writes_on_at_every_stop(name, engines, tmp_path):
    table = original(name, tmp_path)
    store = open_store(table)
    first = HudiSnapshot.load(store).config.version
    for number, stop in enumerate(STOPS[first]):
        apply_move(store, plan_move(store, stop), grace_s=0)
        if name.endswith("pending_clustering") and number == len(STOPS[first]) - 1:
            for each, _ in list(pending_clusterings(HudiSnapshot.load(store).timeline)):
                run_clustering(store, each.time)
        before = ours(table)
        clients = engines.of(stop)
        for client in clients:
            found = client.ask("read", path=str(table), columns=COLUMNS)
            assert found == before, f"{client.release} reads version {stop}"
        if next(pending_clusterings(HudiSnapshot.load(store).timeline), None) is not None:
            continue  # they refuse to update file groups that a clustering is to rewrite
        ours_before = {key: properties(store).get(key) for key in OURS}
        for turn, client in enumerate(clients):
            key = before[(number + turn) % len(before)][0]
            value = f"by {client.release} at {stop}"
            changes = {"name": value, "ts": 100_000 + number * 100 + turn}
            options = writing_options(table, client.release, metadata="mdt" in name)
            client.ask("upsert", path=str(table), where=f"id = '{key}'", set=changes, options=options)
            assert properties(store)["hoodie.table.version"] == str(stop)
            after = ours(table)
            assert [row for row in after if row[0] == key and row[2] == value], f"what {client.release} wrote at {stop}"
            assert len(after) == len(before), "no row twice, none lost"
            before = after
        assert {key: properties(store).get(key) for key in OURS} == ours_before, "other writers leave our keys alone"
        for client in clients:
            found = client.ask("read", path=str(table), columns=COLUMNS)
            assert found == before, f"{client.release}, after all wrote at version {stop}"
