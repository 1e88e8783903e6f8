"""What writes of a range brought, where some of them wrote only some columns: Apache Hudi's answer and ours."""

from __future__ import annotations

import pytest

from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from tests.conformance.test_hudi_moves import original
from tests.interop_jvm.releases import KNOW
from tests.support.hudi_conformance import BEGIN, QUERY

pytestmark = pytest.mark.timeout(1800)

COLUMNS = ["id", "ts", "name", "price"]
TABLES = {"v8_mor_partial": 8, "v9_mor_partial": 9}


@pytest.mark.parametrize("writes", [0, 1])
@pytest.mark.parametrize(
    ("name", "release"), [(name, release) for name, version in TABLES.items() for release in KNOW[version]]
)
def test_a_range_over_partial_updates_has_the_rows_that_apache_hudi_gives(engines, tmp_path, name, release, writes):
    table = original(name, tmp_path)
    snapshot = HudiSnapshot.load(open_store(table))
    begin = str(snapshot.timeline.writes[writes - 1].completion) if writes else "20000101000000000"
    asked = str(int(begin) + 1) if release == "1.0.2" else begin
    options = {QUERY: "incremental", BEGIN: asked}
    answer = engines[release].do("read", path=str(table), columns=COLUMNS, options=options)
    if answer["outcome"] != "done":
        pytest.skip(f"Hudi {release} gives no answer: {answer['note'][:200]}")
    batches = read_range(snapshot, begin).read(COLUMNS)
    found = sorted([str(row[name]) for name in COLUMNS] for batch in batches for row in batch.to_pylist())
    assert found == answer["rows"]
