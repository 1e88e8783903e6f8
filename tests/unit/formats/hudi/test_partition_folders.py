"""Partition values whose folders other clients would take for something else are refused before a row is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.hudi_tables import HudiTableMaker, rows

from halocline.errors import ConstraintError, UnsupportedError
from halocline.formats.hudi import partition_paths as module
from halocline.formats.hudi.configuration import HudiTableConfig, KeyGeneratorType, TableType
from halocline.formats.hudi.lint import lint
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write.base_writer import with_meta_columns, write_base_file
from halocline.storage import open_store
from halocline.table import HudiTable
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.writing import ready

DEFAULT = "__HIVE_DEFAULT_PARTITION__"


def config_of(fields: str = "p", **flags: bool) -> HudiTableConfig:
    pairs = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "8",
        "hoodie.table.keygenerator.type": "COMPLEX" if "," in fields else "SIMPLE",
        "hoodie.table.partition.fields": fields,
        "hoodie.datasource.write.partitionpath.urlencode": str(flags.get("url_encoded", False)).lower(),
        "hoodie.datasource.write.hive_style_partitioning": str(flags.get("hive_style", False)).lower(),
    }
    return HudiTableConfig.parse(pairs, "t")


def path_of(value: str, **flags: bool) -> str:
    (path,) = partition_paths(pa.table({"p": [value]}), config_of(**flags))
    return path


ANYWHERE = [DEFAULT, "a\0b"]
IN_OWN_FOLDER = [".hoodie", ".", "..", "metadata", "_delta_log"]
NOT_ESCAPED = [".hoodie/x", "a/.hoodie", "/a", "a/", "a//b", "a/../b", "metadata/x", "_delta_log/x", "a:b", "a%2Fb"]
NOT_ESCAPED += ["a\nb", "a\x7fb"]


@pytest.mark.parametrize("value", [*ANYWHERE, *IN_OWN_FOLDER, *NOT_ESCAPED, "a=b"])
def test_a_value_whose_folder_is_something_else_is_refused_with_a_way_to_hold_it(value):
    with pytest.raises(ConstraintError, match="cannot be the name of a partition of t") as refused:
        path_of(value)
    assert ("hive_style=True" in str(refused.value)) == (value != DEFAULT)


@pytest.mark.parametrize("value", [*ANYWHERE, *IN_OWN_FOLDER])
def test_escaping_alone_does_not_help_where_the_whole_value_is_such_a_name(value):
    with pytest.raises(ConstraintError):
        path_of(value, url_encoded=True)


@pytest.mark.parametrize("value", [*IN_OWN_FOLDER, *NOT_ESCAPED, "a=b"])
def test_a_table_that_escapes_and_names_values_holds_them(value):
    path = path_of(value, url_encoded=True, hive_style=True)
    assert module.partition_values(path, config_of(url_encoded=True, hive_style=True)) == {"p": value}
    assert path.startswith("p=")
    assert "/" not in path


@pytest.mark.parametrize("value", [".x", "_x", "..x", "100%", "a%zz", "a b", "a/b", "a/b=c", "é", " ", "xmetadata"])
def test_values_that_every_client_reads_back_are_written_as_they_are(value):
    assert path_of(value) == value


def test_a_slash_is_refused_where_several_values_share_a_path():
    rows = pa.table({"p": ["a/b"], "q": [1]})
    with pytest.raises(ConstraintError, match="several fields"):
        partition_paths(rows, config_of("p,q", hive_style=True))
    assert partition_paths(rows, config_of("p,q", url_encoded=True)) == ["a%2Fb/1"]


def table_with(folder: Path, value: str, version: int = 8, **options) -> HudiTableMaker:
    """A table with a partition that is refused today, as an earlier release left it."""
    table = HudiTableMaker.create(open_store(folder), version, TableType.COPY_ON_WRITE, **options)
    table.upsert([0], 1, "a")
    new = rows([1], 1, "b")
    new = new.set_column(new.schema.get_field_index("region"), "region", pa.array([value]))
    write = table.begin()
    paths = partition_paths(new, table.config, checked=False)
    write.prepare_partition(paths[0])
    marked = with_meta_columns(new, new["id"].combine_chunks(), paths[0], "f-0", write.time)
    stat = write_base_file(
        table.store, marked, partition=paths[0], file_id="f-0", token="0-0-0", instant=write.time, previous=None
    )
    write.complete([stat], schema=table.schema)
    return table


@pytest.mark.parametrize("value", [".hoodie", ".hoodie/x", ".hoodie/timeline"])
def test_a_partition_in_the_folder_of_the_timeline_is_read_and_found(tmp_path, value):
    table = table_with(tmp_path, value)
    found = [row for batch in HudiSnapshot.load(table.store).read(["region"]) for row in batch["region"].to_pylist()]
    assert sorted(found) == sorted([value, "ap"])
    (finding,) = [each for each in lint(table.store).findings if each.code == "PARTITION_MISTAKEN"]
    assert "folder of the timeline" in finding.what
    assert f"delete_partition({value!r})" in finding.by_hand
    assert not any(each.code == "FILES_LOST" for each in lint(table.store).findings)


@pytest.mark.parametrize("value", ["a:b", "metadata", "_delta_log", "a%2Fb", "a=b"])
def test_lint_finds_partitions_that_others_take_for_something_else(tmp_path, value):
    assert [each.code for each in lint(table_with(tmp_path, value).store).findings] == ["PARTITION_MISTAKEN"]


def test_lint_tells_a_row_that_says_the_name_of_null_from_null(tmp_path):
    (finding,) = lint(table_with(tmp_path / "named", DEFAULT).store).findings
    assert (finding.code, "the value of region" in finding.what) == ("PARTITION_MISTAKEN", True)
    assert lint(table_with(tmp_path / "null", "").store).findings == ()


def test_lint_has_nothing_to_say_of_partitions_that_all_read(tmp_path):
    assert lint(table_with(tmp_path, ".x", url_encoded=True).store).findings == ()


HUDI_RS = """
import json, sys
from hudi import HudiTableBuilder
batches = HudiTableBuilder.from_base_uri(sys.argv[1]).build().read()
print(json.dumps([value for batch in batches for value in batch.to_pydict()["region"]]))
"""


def hudi_rs_values(path: Path) -> list[str] | None:
    """What hudi-rs reads, None if it fails: in a process of its own, because it may panic.

    That is no fork of this one, in which hudi-rs may have started threads that a fork waits for in vain.
    """
    command = [sys.executable, "-c", HUDI_RS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return None if done.returncode else sorted(json.loads(done.stdout))


@pytest.mark.parametrize("value", [*IN_OWN_FOLDER, *NOT_ESCAPED, "a=b", ".hoodie/x"])
def test_hudi_rs_reads_what_an_escaping_table_holds(tmp_path, value):
    table_with(tmp_path, value, url_encoded=True, hive_style=True)
    assert hudi_rs_values(tmp_path) == sorted([value, "ap"])


@pytest.mark.parametrize(
    ("value", "told"), [(".hoodie", ["ap"]), ("metadata", ["ap"]), ("_delta_log", ["ap"]), ("a\nb", None)]
)
def test_hudi_rs_does_not_read_rows_that_are_refused(tmp_path, value, told):
    """The reason for the refusal; where it fails, hudi-rs has learnt better."""
    table_with(tmp_path, value)
    assert hudi_rs_values(tmp_path) == told


OF_TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
}


@pytest.mark.parametrize("hive_style", [False, True])
def test_times_are_escaped_as_apache_hudi_escapes_them(hive_style):
    """As 1.2.0 named the partitions of such a table; without escapes its slashes make folders."""
    escaped = config_of(url_encoded=True, hive_style=hive_style)
    pairs = dict(escaped.pairs) | OF_TIMES | {"hoodie.table.keygenerator.type": "TIMESTAMP"}
    made = partition_paths(pa.table({"p": [1700000000000, None]}), HudiTableConfig.parse(pairs, "t"))
    assert made == [("p=" if hive_style else "") + day for day in ("2023%2F11%2F14", "1970%2F01%2F01")]


def test_rows_under_times_that_are_not_escaped_are_found_and_not_written_beside(tmp_path):
    """An earlier release did not escape times; a key from there would be looked for elsewhere, and be there twice."""
    options = {"partition_fields": ["ts"], "key_generator": KeyGeneratorType.TIMESTAMP, "key_settings": OF_TIMES}
    table = HudiTableMaker.create(open_store(tmp_path), 8, TableType.COPY_ON_WRITE, **options)
    table.upsert([0], 1700000000000, "a")
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    key = "hoodie.datasource.write.partitionpath.urlencode="
    assert f"{key}false" in text
    properties.write_text(text.replace(f"{key}false", f"{key}true"))
    (finding,) = lint(table.store).findings
    assert "not escaped" in finding.what
    with pytest.raises(UnsupportedError, match="not escaped"):
        ready(HudiOpened.at(tmp_path, None, None))


@pytest.mark.parametrize("value", [".hoodie", ".hoodie/x", "a:b"])
def test_such_a_partition_can_be_taken_out_and_leaves_a_table_like_any_other(tmp_path, value):
    table = table_with(tmp_path, value)
    HudiTable.for_path(tmp_path).delete_partition(value)
    assert lint(table.store).findings == ()
    assert hudi_rs_values(tmp_path) == ["ap"]
