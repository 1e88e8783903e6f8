"""Tables that were compacted, clustered, cleaned and archived by us: Apache Hudi reads them and writes on."""

from __future__ import annotations

import pytest

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact, schedule_compaction
from halocline.storage import open_store
from tests.interop_jvm.releases import writing_options
from tests.interop_jvm.test_hudi_moves import COLUMNS, ours
from tests.support.hudi_tables import KINDS, HudiTableMaker

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_apache_hudi_reads_and_writes_on_after_every_service(version, type, engines, tmp_path):
    table = HudiTableMaker.create(open_store(tmp_path), version, type, partition_fields=["region"])
    merging = type is TableType.MERGE_ON_READ
    table.upsert(range(6), 100, "a")
    table.upsert(range(6, 10), 200, "b")
    table.upsert([1, 2, 7], 300, "c", deletes=[3])
    services = {
        "a scheduled compaction": lambda: merging and schedule_compaction(table.store),
        "compaction": lambda: merging and compact(table.store),
        "clustering": lambda: cluster(table.store, sort_by=["id"]),
        "cleaning": lambda: clean(table.store, keep=1),
        "another compaction": lambda: merging and compact(table.store),
        "archiving": lambda: archive(table.store, keep=1, at_most=1),
    }
    clients = engines.of(version)
    for number, (name, service) in enumerate(services.items()):
        service()
        for client in clients:
            before = ours(tmp_path)
            assert client.ask("read", path=str(tmp_path), columns=COLUMNS) == before, f"{client.release} after {name}"
            value = f"{client.release} after {name}"
            changes = {"name": value, "ts": 1_000 + number * 10 + clients.index(client)}
            options = writing_options(tmp_path, client.release)
            client.ask("upsert", path=str(tmp_path), where="id = 'k1'", set=changes, options=options)
            assert [row for row in ours(tmp_path) if row[0] == "k1" and row[2] == value]
            assert len(ours(tmp_path)) == len(before)
