"""Tables that were compacted, clustered, cleaned, archived and moved by us: hudi-rs reads the same rows."""

import pytest
from tests.interop.test_hudi_rs import theirs
from tests.support.hudi_tables import KINDS, HudiTableMaker, shown

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.storage import open_store


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_they_read_what_services_left(tmp_path, version, type):
    table = HudiTableMaker.create(open_store(tmp_path), version, type)
    table.upsert(range(6), 100, "a")
    table.upsert(range(6, 10), 200, "b")
    table.upsert([1, 2, 7], 300, "c", deletes=[3])
    services = {
        "compaction": lambda: type is TableType.MERGE_ON_READ and compact(table.store),
        "clustering": lambda: cluster(table.store, sort_by=["id"]),
        "a write": lambda: table.upsert([1, 11], 400, "d", deletes=[2]),
        "cleaning": lambda: clean(table.store, keep=1),
        "another compaction": lambda: type is TableType.MERGE_ON_READ and compact(table.store),
        "archiving": lambda: archive(table.store, keep=1, at_most=1),
        "the last write": lambda: table.upsert([4], 500, "e"),
        "a move": lambda: apply_move(table.store, plan_move(table.store, 9 if version == 8 else 8), grace_s=0),
    }
    for name, service in services.items():
        service()
        assert theirs(tmp_path) == shown(table.snapshot.read()), f"after {name}"
    assert list(table.snapshot.timeline.history())
