"""The timeline tells completed actions from those that only began, in both layouts."""

import pytest

from halocline.formats.hudi.timeline import completed
from halocline.storage.memory import MemoryStore

LAYOUTS = {
    "up to version 6": [
        ".hoodie/.aux/x",
        ".hoodie/20250101000000000.commit",
        ".hoodie/20250101000000000.commit.requested",
        ".hoodie/20250101000000000.inflight",
        ".hoodie/20250102000000.deltacommit",
        ".hoodie/20250103000000000.deltacommit.inflight",
        ".hoodie/archived/.commits_.archive.1_1-0-1",
        ".hoodie/hoodie.properties",
        ".hoodie/metadata/.hoodie/20240101000000000.deltacommit",
    ],
    "from version 8 on": [
        ".hoodie/.temp/20250101000000000/MARKERS0",
        ".hoodie/hoodie.properties",
        ".hoodie/metadata/.hoodie/timeline/20240101000000000_20240101000000001.deltacommit",
        ".hoodie/timeline/20250101000000000.commit.requested",
        ".hoodie/timeline/20250101000000000.inflight",
        ".hoodie/timeline/20250101000000000_20250101000000900.commit",
        ".hoodie/timeline/20250102000000_20250102000001.deltacommit",
        ".hoodie/timeline/20250103000000000.deltacommit.inflight",
        ".hoodie/timeline/history/manifest_1",
    ],
}


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_only_completed_actions_of_the_table_itself_count(files):
    store = MemoryStore(f"hudi-timeline-{len(files)}-{files[0]}")
    for name in files:
        store.put(name, b"{}")
    found = [(each.time, each.action) for each in completed(store)]
    assert found == [("20250101000000000", "commit"), ("20250102000000", "deltacommit")]
    assert all(each.written_ms > 0 for each in completed(store))
