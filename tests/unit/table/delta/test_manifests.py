"""Manifests for engines without a log: on demand, and after every commit where the table says so."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.parquet
import pytest

import halocline as hc
from halocline.errors import InputError
from halocline.formats.delta.actions.action import Remove
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.snapshot.snapshot import Snapshot

ENABLED = "delta.compatibility.symlinkFormatManifest.enabled"
FOLDER = "_symlink_format_manifest"
ON = {ENABLED: "true"}


def rows(*parts: str | None) -> pa.Table:
    return pa.table({"id": pa.array(range(len(parts)), pa.int64()), "part": pa.array(parts, pa.string())})


def listed(path) -> dict[str, int]:
    """How many files each manifest names, all of which exist."""
    found = {}
    for manifest in sorted((path / FOLDER).rglob("manifest")):
        lines = manifest.read_text().splitlines()
        for line in lines:
            pa.parquet.read_metadata(line.removeprefix("file:"))
        found[str(manifest.parent.relative_to(path / FOLDER))] = len(lines)
    return found


def removed(path, table, part: str) -> None:
    files = Snapshot.load(table.store).files(f"part = '{part}'").to_pylist()
    values = {"part": part}
    gone = [Remove(each["path"], 1, True, partition_values=values) for each in files]
    Transaction(Snapshot.load(table.store, operation="write")).commit(gone, "DELETE")


def test_manifests_list_the_files_of_each_partition(tmp_path):
    rows = pa.table({"id": [1, 2, 3], "part": ["a", "b c", None]})
    table = hc.Table.create(tmp_path / "t", rows, partition_by="part")
    assert table.generate() == [
        f"_symlink_format_manifest/{folder}/manifest"
        for folder in ("part=__HIVE_DEFAULT_PARTITION__", "part=a", "part=b c")
    ]
    (line,) = (tmp_path / "t" / "_symlink_format_manifest" / "part=a" / "manifest").read_text().splitlines()
    assert pa.parquet.read_table(line.removeprefix("file:"), partitioning=None)["id"].to_pylist() == [1]
    import deltalake

    deltalake.DeltaTable(str(tmp_path / "t")).delete("part = 'a'")
    assert len(hc.Table.for_path(tmp_path / "t").generate("SYMLINK_FORMAT_MANIFEST")) == 2
    assert not (tmp_path / "t" / "_symlink_format_manifest" / "part=a" / "manifest").exists()
    with pytest.raises(InputError) as refused:
        table.generate("symlink_format_manifst")
    assert refused.value.sides["nearest"] == "symlink_format_manifest"


def test_manifests_that_would_be_read_wrong_are_refused(tmp_path):
    properties = {"delta.columnMapping.mode": "name"}
    table = hc.Table.create(tmp_path / "t", pa.table({"id": [1]}), properties=properties)
    with pytest.raises(hc.UnsupportedError, match="wrong"):
        table.generate()


def test_manifests_follow_every_commit_where_the_table_says_so(tmp_path):
    path = tmp_path / "t"
    table = hc.Table.create(path, rows().schema, properties=ON)
    assert listed(path) == {}, "as with Delta Spark, a table without files has none"
    table.append_arrow(rows("a"))
    table.append_arrow(rows("b"))
    assert listed(path) == {".": 2}
    table.set_properties({ENABLED: "false"})
    table.append_arrow(rows("c"))
    assert listed(path) == {".": 2}, "switched off, they stay as they were"
    table.set_properties(ON)
    assert listed(path) == {".": 3}


def test_manifests_of_the_partitions_that_a_commit_touches_are_written_and_empty_ones_go(tmp_path):
    path = tmp_path / "t"
    table = hc.Table.create(path, rows("a", "b c", None), partition_by="part", properties=ON)
    null = "part=__HIVE_DEFAULT_PARTITION__"
    assert listed(path) == {null: 1, "part=a": 1, "part=b c": 1}
    (path / FOLDER / "part=a" / "manifest").write_text("")
    table.append_arrow(rows("d"))
    assert listed(path) == {null: 1, "part=a": 0, "part=b c": 1, "part=d": 1}, "untouched ones stay as they are"
    table.append_arrow(rows("a"))
    removed(path, table, "b c")
    assert listed(path) == {null: 1, "part=a": 2, "part=d": 1}


def test_manifests_that_others_made_old_are_all_written_when_switched_on(tmp_path):
    path = tmp_path / "t"
    table = hc.Table.create(path, rows("a", "b"), partition_by="part")
    (path / FOLDER / "part=gone").mkdir(parents=True)
    (path / FOLDER / "part=gone" / "manifest").write_text("")
    table.set_properties(ON)
    assert listed(path) == {"part=a": 1, "part=b": 1}


@pytest.mark.parametrize("other", [{"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}])
def test_manifests_beside_what_their_readers_do_not_know_are_refused(tmp_path, other):
    with pytest.raises(InputError, match="who reads manifests"):
        hc.Table.create(tmp_path / "new", rows().schema, properties={**ON, **other})
    for first, then in ((ON, other), (other, ON)):
        table = hc.Table.create(tmp_path / next(iter(first)), rows().schema, properties=first)
        with pytest.raises(InputError, match="who reads manifests"):
            table.set_properties(then)
        table.set_properties(dict.fromkeys(then, "none" if "delta.columnMapping.mode" in then else "false"))


def test_a_manifest_that_cannot_be_written_is_told_and_the_commit_holds(tmp_path, caplog):
    path = tmp_path / "t"
    table = hc.Table.create(path, rows("a"), properties=ON)
    (path / FOLDER / "manifest").unlink()
    (path / FOLDER / "manifest").mkdir()
    with caplog.at_level(logging.WARNING):
        assert table.append_arrow(rows("b")) == 1
    assert "its manifests failed" in caplog.text
