"""What writes of a range brought, where some of them wrote only some columns: Apache Hudi's answer and ours.

The range holds the write of the base file. Where it holds only the writes of some columns, no release is an oracle:
1.0.2, 1.1.1 and 1.2.0 show bytes of their own memory as values, and 1.2.0 may end with a fault.
"""

from __future__ import annotations

import pytest

from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from tests.interop_jvm.releases import KNOW
from tests.support.hudi_conformance import BEGIN, QUERY, original

pytestmark = pytest.mark.timeout(1800)

COLUMNS = ["id", "ts", "name", "price"]
BEFORE_ALL = "20000101000000000"
TABLES = {"v8_mor_partial": 8, "v9_mor_partial": 9}


@pytest.mark.parametrize(
    ("name", "release"), [(name, release) for name, version in TABLES.items() for release in KNOW[version]]
)
def test_a_range_over_partial_updates_has_the_rows_that_apache_hudi_gives(engines, tmp_path, name, release):
    table = original(name, tmp_path)
    snapshot = HudiSnapshot.load(open_store(table))
    options = {QUERY: "incremental", BEGIN: BEFORE_ALL}
    expected = engines[release].ask("read", path=str(table), columns=COLUMNS, options=options)
    batches = read_range(snapshot, BEFORE_ALL).read(COLUMNS)
    assert sorted([str(value) for value in row.values()] for batch in batches for row in batch.to_pylist()) == expected
