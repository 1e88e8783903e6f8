"""Names that Avro does not allow: made valid where Apache Hudi makes them so, refused where it fails, and found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.hudi_tables import COLUMNS, HudiTableMaker

from halocline.cli import main
from halocline.errors import SchemaError
from halocline.formats.hudi.avro.avro_names import avro_name, with_avro_names
from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.configuration import CREATE_SCHEMA, HudiTableConfig, TableType
from halocline.formats.hudi.lint import fix, lint
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write.creation import NewTable, create_table
from halocline.schema.arrow import struct_of_arrow
from halocline.storage import open_store
from halocline.table import HudiTable, Table
from halocline.table.hudi.columns import fitting_columns

FOLDERS = ["my-table", "2024", "täble", "a b", "a.b", "_x"]
NESTED = {
    "struct": lambda type: pa.struct([("x", type)]),
    "list": lambda type: pa.list_(pa.struct([("x", type)])),
    "map": lambda type: pa.map_(pa.string(), type),
}


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("my-table", "my__table"),
        ("2024", "__024"),
        ("täble", "t__ble"),
        ("a..b", "a____b"),
        ("-", "__"),
        ("a$b", "a__b"),
        ("_x", "_x"),
    ],
)
def test_names_of_tables_become_names_of_records_as_in_apache_hudi(name, made):
    """As Apache Hudi 1.2.0 named the records of such tables."""
    assert avro_name(name) == made
    schema = json.loads(avro_schema(COLUMNS, name))
    assert (schema["name"], schema["namespace"]) == (f"{made}_record", f"hoodie.{made}")


HUDI_RS = "import sys; from hudi import HudiTableBuilder as made; made.from_base_uri(sys.argv[1]).build().get_schema()"


def hudi_rs_opens(path: Path) -> bool:
    """Whether hudi-rs opens a table: in a process of its own, since it panics, and its threads survive no fork."""
    done = subprocess.run([sys.executable, "-c", HUDI_RS, str(path)], capture_output=True, timeout=60, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_table_in_any_folder_is_opened_by_hudi_rs(tmp_path, folder):
    place = tmp_path / folder
    columns = pa.schema([("id", pa.int64()), ("point", pa.struct([("x", pa.decimal128(9, 2))]))])
    table = Table.create(place, columns, format="hudi", keys="id")
    assert properties(open_store(place))["hoodie.table.name"] == folder, "as Apache Hudi stores it"
    assert hudi_rs_opens(place)
    for client in ("hudi-rs@0.5.0", "hudi@1.2.0"):
        assert table.can(client, "read").ok
    assert lint(open_store(place)).findings == ()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("fare-x", "fare__x"),
        ("1st", "__st"),
        ("a b", "a__b"),
        ("a.b", "a__b"),
        ("😀", "__"),
        ("a\nb", "a__b"),
    ],
)
def test_a_column_that_apache_hudi_does_not_take_is_refused_with_the_nearest_name(tmp_path, name, nearest):
    schemas = {"column": pa.schema([("id", pa.int64()), (name, pa.int64())])}
    for kind, made in NESTED.items():
        inside = made(pa.struct([(name, pa.int64())]))
        schemas[kind] = pa.schema([("id", pa.int64()), ("outer", inside)])
    for kind, columns in schemas.items():
        with pytest.raises(SchemaError, match="has a name that no Hudi table can hold") as refused:
            Table.create(tmp_path / kind, columns, format="hudi", keys="id")
        assert refused.value.sides["nearest"] == nearest
        assert not (tmp_path / kind).exists(), "nothing was made"


def test_the_nearest_name_is_one_that_no_other_column_has(tmp_path):
    columns = pa.schema([("id", pa.int64()), ("a-b", pa.int64()), ("a__b", pa.int64())])
    with pytest.raises(SchemaError) as refused:
        Table.create(tmp_path, columns, format="hudi", keys="id")
    assert refused.value.sides["nearest"] == "a__b_"


def test_a_table_does_not_grow_by_a_column_that_apache_hudi_does_not_take(tmp_path):
    table = HudiTableMaker.create(open_store(tmp_path), 8, TableType.COPY_ON_WRITE)
    table.upsert([1], 1, "a")
    rows = struct_of_arrow(pa.schema([*COLUMNS, pa.field("fare-x", pa.int64())]))
    with pytest.raises(SchemaError, match="fare-x"):
        fitting_columns(table.snapshot, rows, "merge")


def test_letters_of_other_scripts_are_taken_as_apache_hudi_takes_them_and_judged(tmp_path):
    table = Table.create(tmp_path, pa.schema([("id", pa.int64()), ("tär", pa.int64())]), format="hudi", keys="id")
    assert table.can("hudi@1.2.0", "read").ok
    assert table.can("hudi-rs@0.5.0", "read").refused
    assert not hudi_rs_opens(tmp_path)
    (finding,) = lint(open_store(tmp_path)).findings
    assert (finding.code, "'tär'" in finding.what) == ("COLUMN_NAMES", True)


def left(place: Path, version: int, type: TableType, name: str = "my-table", column: str = "") -> HudiTableMaker:
    """A table as an earlier release made it, which took names as they are."""
    columns = json.loads(avro_schema(COLUMNS, "mine"))
    if column:
        columns["fields"].append({"name": column, "type": ["null", "long"], "default": None})
    schema = json.dumps(columns).replace("mine", name)
    properties = {"record_keys": ["id"], "partition_fields": ["region"], "ordering_fields": ["ts"]}
    new = NewTable(name=name, type=type, version=version, schema=schema, **properties)
    table = HudiTableMaker(open_store(place), create_table(open_store(place), new), schema)
    table.upsert(range(4), 1, "a")
    if not column:
        table.upsert([1, 2], 2, "b")
    return table


@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("name", ["my-table", "2024"])
def test_a_copy_on_write_table_with_such_a_name_is_repaired_by_a_write(tmp_path, version, name):
    table = left(tmp_path, version, TableType.COPY_ON_WRITE, name)
    assert not hudi_rs_opens(tmp_path)
    for client in ("hudi-rs@0.5.0", f"hudi@{'0.15.0' if version == 6 else '1.2.0'}"):
        assert HudiTable.for_path(tmp_path).can(client, "read").refused
    (finding,) = lint(table.store).findings
    assert (finding.code, finding.by_hand) == ("RECORD_NAME", "write to the table once")
    HudiTableMaker(table.store, table.config, table.snapshot.schema.avro).upsert([3], 3, "c")
    assert fix(table.store, str).codes == ("RECORD_NAME",)
    assert lint(table.store).findings == ()
    assert hudi_rs_opens(tmp_path)
    assert HudiTable.for_path(tmp_path).can("hudi-rs@0.5.0", "read").ok


@pytest.mark.parametrize("version", [6, 8])
def test_a_merge_on_read_table_with_such_a_name_is_repaired_by_a_write_and_a_compaction(tmp_path, version):
    table = left(tmp_path, version, TableType.MERGE_ON_READ)
    (finding,) = lint(table.store).findings
    assert finding.by_hand == "write to the table once, then compact()"
    HudiTableMaker(table.store, table.config, table.snapshot.schema.avro).upsert([3], 3, "c")
    assert HudiTable.for_path(tmp_path).can("hudi@1.2.0", "read").refused, "its log files say the old name"
    (finding,) = lint(table.store).findings
    assert (finding.code, finding.safe) == ("RECORD_NAME", False)
    compact(table.store)
    assert fix(table.store, str).codes == ("RECORD_NAME",)
    assert lint(table.store).findings == ()
    assert HudiTable.for_path(tmp_path).can("hudi@1.2.0", "read").ok
    assert len([row for batch in HudiSnapshot.load(table.store).read(["id"]) for row in batch["id"].to_pylist()]) == 4


def test_a_table_with_such_a_column_is_found_and_judged_and_still_written(tmp_path, capsys):
    table = left(tmp_path, 8, TableType.COPY_ON_WRITE, "mine", "fare-x")
    for client in ("hudi-rs@0.5.0", "hudi@1.2.0"):
        assert HudiTable.for_path(tmp_path).can(client, "read").refused
    (finding,) = lint(table.store).findings
    assert (finding.code, finding.by_hand) == ("COLUMN_NAMES", "copy the rows to a new table with other names")
    rows = struct_of_arrow(COLUMNS)
    assert "fare-x" in fitting_columns(table.snapshot, rows, None)[0].names
    assert main.run(["lint", str(tmp_path)]) != 0
    assert "COLUMN_NAMES" in capsys.readouterr().out


def test_records_of_nested_fields_are_renamed_with_the_table_and_columns_stay():
    bad = avro_schema(COLUMNS, "mine").replace("mine", "my-täble")
    made = json.loads(avro_schema(COLUMNS, "my-täble"))
    assert with_avro_names(json.loads(bad)) == made
    assert HudiTableConfig.parse({CREATE_SCHEMA: bad, **_MINIMAL}, "t").pairs[CREATE_SCHEMA] == bad


_MINIMAL = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
