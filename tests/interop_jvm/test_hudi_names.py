"""Names and partition values beside Apache Hudi: what is written here it reads, what is refused here it refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from halocline.errors import ConstraintError, SchemaError
from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.lint import fix
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.storage import open_store
from halocline.table import HudiTable
from tests.interop_jvm.releases import Engine, writing_options
from tests.support.hudi_tables import HudiTableMaker, rows
from tests.unit.formats.hudi.avro.test_avro_names import left
from tests.unit.formats.hudi.test_partition_folders import table_with

pytestmark = pytest.mark.timeout(3600)

RELEASES = ("0.15.0", "1.2.0")
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.embed.timeline.server": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.upsert.shuffle.parallelism": "1",
}


def written_by(client: Engine, path: Path, table: pa.Table, **options: str) -> bool:
    """Whether a release writes rows into a new table."""
    file = path.with_suffix(".parquet")
    pq.write_table(table, file)
    return client.do("write", path=str(path), rows=str(file), options=OPTIONS | options)["outcome"] == "done"


@pytest.mark.parametrize("release", RELEASES)
def test_names_of_tables_make_the_same_schema_on_both_sides(engines, tmp_path, release):
    for number, name in enumerate(["my-table", "2024", "täble", "a b", "a..b", "_x", "a$b"]):
        theirs = tmp_path / f"theirs{number}"
        table = rows(range(2), 1, "a").drop_columns(["tags", "point", "at", "amount"])
        assert written_by(engines[release], theirs, table, **{"hoodie.table.name": name})
        schema = HudiSnapshot.load(open_store(theirs)).schema.avro
        ours = avro_schema(pa.schema([each for each in table.schema if each.name not in META_COLUMNS]), name)
        assert schema == ours


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("type", TableType)
def test_a_table_that_an_earlier_release_named_is_read_and_written_once_it_is_repaired(
    engines, tmp_path, release, type
):
    version = 6 if release.startswith("0.") else 8
    table = left(tmp_path, version, type)
    client, columns = engines[release], ["id", "ts", "name"]
    assert client.do("read", path=str(tmp_path), columns=columns)["outcome"] == "error"
    HudiTableMaker(table.store, table.config, table.snapshot.schema.avro).upsert([3], 3, "c")
    if type is TableType.MERGE_ON_READ:
        compact(table.store)
    assert fix(table.store, str).left == ()
    assert HudiTable.for_path(tmp_path).can(f"hudi@{release}", "read").ok
    expected = [["k0", "1", "a0"], ["k1", "2", "b1"], ["k2", "2", "b2"], ["k3", "3", "c3"]]
    assert client.ask("read", path=str(tmp_path), columns=columns) == expected
    options = writing_options(tmp_path, release)
    client.ask("upsert", path=str(tmp_path), where="id = 'k0'", set={"ts": 9, "name": "theirs"}, options=options)
    assert client.ask("read", path=str(tmp_path), columns=columns)[0] == ["k0", "9", "theirs"]


@pytest.mark.parametrize("release", RELEASES)
def test_columns_are_refused_where_apache_hudi_refuses_them(engines, tmp_path, release):
    for number, name in enumerate(["fare-x", "1st", "a b", "a.b", "a$b", "-", "a`b", "tär", "_ok", "Größe2"]):
        for kind, type in {"column": pa.int64(), "field": pa.struct([(name, pa.int64())])}.items():
            column = name if kind == "column" else "outer"
            values = pa.array([1 if kind == "column" else {name: 1}], type)
            table = rows([1], 1, "a").select(["id", "region", "ts"]).append_column(column, values)
            try:
                avro_schema(table.schema, "t")
            except SchemaError:
                ours = False
            else:
                ours = True
            assert written_by(engines[release], tmp_path / f"{kind}{number}", table) == ours, f"{kind} {name}"


VALUES = [
    ".x",
    "_x",
    "100%",
    "a b",
    "a/b",
    "é",
    ".hoodie",
    ".",
    "..",
    "a:b",
    "a%2Fb",
    "a=b",
    "/a",
    "a//b",
    "a/.hoodie/b",
]


@pytest.mark.parametrize("release", RELEASES)
def test_every_value_that_is_not_refused_is_read_back(engines, tmp_path, release):
    """Of those that are refused, Apache Hudi reads another value, nothing, or leaves the rows out."""
    version = 6 if release.startswith("0.") else 8
    for number, value in enumerate(VALUES):
        for escapes in (False, True):
            place = tmp_path / f"{number}-{escapes}"
            store = open_store(place)
            table = HudiTableMaker.create(
                store, version, TableType.COPY_ON_WRITE, url_encoded=escapes, hive_style=escapes
            )
            made = rows([1], 1, "b")
            made = made.set_column(made.schema.get_field_index("region"), "region", pa.array([value]))
            try:
                partition_paths(made, table.config)
            except ConstraintError:
                assert not escapes, f"{value} in a table that escapes"
                continue
            place = tmp_path / f"{number}-{escapes}-written"
            table_with(place, value, version=version, url_encoded=escapes, hive_style=escapes)
            found = engines[release].ask("read", path=str(place), columns=["region"])
            assert found == sorted([["ap"], [value]]), f"{value}, escaped: {escapes}"
