"""Tables that we moved, compacted or archived: Apache Hudi reads them and writes on, and we read them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.formats.hudi.maintain.clustering import run_clustering
from halocline.formats.hudi.maintain.compaction import pending_clusterings
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from tests.conformance.test_hudi_moves import original
from tests.interop_jvm.conftest import Engine

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


def writing(table: Path, engine: Engine) -> dict[str, str]:
    """Options that agree with what the table is."""
    pairs = properties(open_store(table))
    options = {
        "hoodie.table.name": pairs["hoodie.table.name"],
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": pairs["hoodie.table.type"],
        "hoodie.datasource.write.recordkey.field": pairs["hoodie.table.recordkey.fields"],
        "hoodie.datasource.write.partitionpath.field": pairs["hoodie.table.partition.fields"],
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": pairs.get(
            "hoodie.datasource.write.hive_style_partitioning", "false"
        ),
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen."
        + ("SimpleKeyGenerator" if pairs["hoodie.table.partition.fields"] else "NonpartitionedKeyGenerator"),
        "hoodie.metadata.enable": str("mdt" in table.name and not engine.release.startswith("0.")).lower(),
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.compact.inline": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
    }
    if engine.release.startswith("0."):
        if "hoodie.compaction.payload.class" in pairs:
            options["hoodie.datasource.write.payload.class"] = pairs["hoodie.compaction.payload.class"]
        return options
    return options | {
        "hoodie.write.table.version": pairs["hoodie.table.version"],
        "hoodie.write.auto.upgrade": "false",
    }


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
        readers = [engines["1.2.0"], *([engines["0.15.0"]] if stop == 6 else [])]
        for reader in readers:
            found = reader.ask("read", path=str(table), columns=COLUMNS)
            assert found == before, f"{reader.release} reads version {stop}"
        if next(pending_clusterings(HudiSnapshot.load(store).timeline), None) is not None:
            continue  # they refuse to update file groups that a clustering is to rewrite
        for writer in readers:
            key = before[number % len(before)][0]
            value = f"by {writer.release} at {stop}"
            changes = {"name": value, "ts": 100_000 + number * 100 + len(writer.release)}
            options = writing(table, writer)
            writer.ask("upsert", path=str(table), where=f"id = '{key}'", set=changes, options=options)
            assert properties(store)["hoodie.table.version"] == str(stop)
            after = ours(table)
            assert [row for row in after if row[0] == key and row[2] == value], f"what {writer.release} wrote at {stop}"
            assert len(after) == len(before), "no row twice, none lost"
            for reader in readers:
                assert reader.ask("read", path=str(table), columns=COLUMNS) == after, f"{reader.release}, after writing"
            before = after
