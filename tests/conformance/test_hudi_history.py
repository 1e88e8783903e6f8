"""Hudi tables of other writers: whom their history tells of. No JVM."""

from __future__ import annotations

import re
import zipfile

import pytest
from tests.support.conformance import tables_of

from halocline.fleet.core.state import Provenance
from halocline.fleet.usage.observers import observed
from halocline.formats.base import TableFormat, detect_format
from halocline.formats.hudi.properties import properties, table_version
from halocline.formats.hudi.timeline.timeline import active_writes
from halocline.storage import open_store

TABLES = tables_of("hudi")
WRITERS = {6: "hudi@0.14.0", 8: "hudi@1.0.0", 9: "hudi@1.1.0"}


@pytest.mark.parametrize("archive", sorted(TABLES.rglob("v*.zip")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_lowest_writer_of_the_table_version_is_inferred(tmp_path, archive):
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path, [name for name in packed.namelist() if name.startswith(f"{archive.stem}/")])
    store = open_store(tmp_path / archive.stem)
    version = int(re.match(r"v(\d+)_", archive.stem)[1])

    history = observed(store)

    assert detect_format(store) is TableFormat.HUDI
    assert table_version(properties(store), store.root) == version
    assert [(each.release, each.provenance) for each in history.traces] == [(WRITERS[version], Provenance.INFERRED)]
    places = [tmp_path / archive.stem / ".hoodie", tmp_path / archive.stem / ".hoodie" / "timeline"]
    names = [path.name for place in places if place.is_dir() for path in place.iterdir()]
    endings = (".commit", ".deltacommit", ".replacecommit")
    assert history.unnamed == sum(name.endswith(endings) and name[0].isdigit() for name in names) > 0
    assert [each.time for each in active_writes(store)] == sorted(each.time for each in active_writes(store))
