"""Tables that Apache Hudi bootstraps: read and written where it writes all rows, refused where it writes keys alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

from halocline.compat.verdict import can
from halocline.errors import IncompatibleError
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import terms_of
from halocline.storage import open_store
from halocline.table import HudiTable
from tests.interop_jvm.releases import KNOW, Engine
from tests.support.hudi_tables import shown

pytestmark = pytest.mark.timeout(3600)

_SELECTOR = "org.apache.hudi.client.bootstrap.selector."
_FULL_INPUT = {"hoodie.bootstrap.full.input.provider": "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider"}
MODES = {
    "full": {"hoodie.bootstrap.mode.selector": f"{_SELECTOR}FullRecordBootstrapModeSelector", **_FULL_INPUT},
    "keys": {"hoodie.bootstrap.mode.selector": f"{_SELECTOR}MetadataOnlyBootstrapModeSelector"},
    "both": {
        "hoodie.bootstrap.mode.selector": f"{_SELECTOR}BootstrapRegexModeSelector",
        "hoodie.bootstrap.mode.selector.regex": ".*ap.*",
        "hoodie.bootstrap.mode.selector.regex.mode": "METADATA_ONLY",
        **_FULL_INPUT,
    },
}
ROWS = [(f"k{number}", 1, f"n{number}", ("ap", "eu")[number % 2]) for number in range(6)]
NAMES = ["id", "ts", "name", "region"]


def options_of(version: int, kind: str, release: str) -> dict[str, str]:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.embed.timeline.server": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.upsert.shuffle.parallelism": "1",
    }
    if release.startswith("0."):
        return options
    return options | {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}


def bootstrapped(client: Engine, folder: Path, version: int, kind: str, mode: str) -> Path:
    """A table of files that were there before."""
    source = folder / "before"
    for region in ("ap", "eu"):
        (source / region).mkdir(parents=True)
        chosen = [dict(zip(NAMES, row, strict=True)) for row in ROWS if row[3] == region]
        pq.write_table(pa.Table.from_pylist(chosen), source / region / "part-0.parquet")
    options = options_of(version, kind, client.release) | {
        "hoodie.datasource.write.operation": "bootstrap",
        "hoodie.bootstrap.base.path": str(source),
        "hoodie.bootstrap.keygen.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.bootstrap.parallelism": "1",
        **MODES[mode],
    }
    client.ask("bootstrap", path=str(folder / "table"), options=options)
    return folder / "table"


CASES = [(release, version) for release in ("0.15.0", "1.2.0") for version in KNOW if release in KNOW[version]]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(("release", "version"), CASES)
def test_a_table_with_all_rows_is_read_and_written_on_by_both(spark, engines, tmp_path, release, version, kind):
    client = engines[release]
    place = bootstrapped(client, tmp_path, version, kind, "full")
    assert shown(HudiSnapshot.load(open_store(place)).read()) == [row[:3] for row in ROWS]
    table = HudiTable.for_path(place, spark)
    table.upsert(spark.createDataFrame([("k1", 2, "ours", "eu"), ("k9", 2, "new", "eu")], NAMES))
    expected = sorted([*(row[:3] for row in ROWS if row[0] != "k1"), ("k1", 2, "ours"), ("k9", 2, "new")])
    assert shown(HudiSnapshot.load(open_store(place)).read()) == expected
    theirs = client.ask("read", path=str(place), columns=NAMES[:3])
    assert theirs == [[key, str(ts), name] for key, ts, name in expected]
    options = options_of(version, kind, release) | {"hoodie.datasource.write.operation": "upsert"}
    client.ask("upsert", path=str(place), where="id = 'k0'", set={"ts": 3, "name": "theirs"}, options=options)
    assert ("k0", 3, "theirs") in shown(HudiSnapshot.load(open_store(place)).read())


@pytest.mark.parametrize("mode", ["keys", "both"])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(("release", "version"), CASES)
def test_a_table_with_keys_alone_is_refused_and_apache_hudi_reads_it(engines, tmp_path, release, version, kind, mode):
    place = bootstrapped(engines[release], tmp_path, version, kind, mode)
    with pytest.raises(IncompatibleError, match="wrote keys alone; Apache Hudi reads it"):
        HudiSnapshot.load(open_store(place))
    terms = terms_of(open_store(place))
    assert can(f"hudi@{release}", terms, "read").ok
    theirs = engines[release].ask("read", path=str(place), columns=NAMES[:3])
    assert theirs == [[key, str(ts), name] for key, ts, name, _ in ROWS]
    batches = HudiTableBuilder.from_base_uri(str(place)).build().read()
    assert None in [name for batch in batches for name in batch.to_pydict()["name"]], "hudi-rs shows no values"
    assert can("hudi-rs@0.5.0", terms, "read").wrong
