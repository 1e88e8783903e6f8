"""With the protocol check switched off, a table is looked at and nothing else."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

import halocline as hc
from halocline.errors import IncompatibleError, InputError
from halocline.formats.log.gate import UncheckedWarning
from halocline.table.delta.table import DeltaLakeTable
from halocline.table.hudi.table import HudiTable
from halocline.table.index.table import IndexTable

OPTIONS = {"halocline.protocol.checkEnabled": "false"}


class Frame:
    """What is taken for a DataFrame of Spark, until somebody needs its rows."""

    schema = None
    isStreaming = False
    sparkSession = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))


ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})

LOOKS = {
    *("can", "changes", "count", "detail", "features", "for_path", "header", "history", "is_table", "protocol"),
    *("register_view", "schema", "snapshot", "spark", "store", "terms", "to_arrow", "to_df", "to_pandas", "to_polars"),
    *("url", "version", "incremental", "search", "aggregate", "explain_search", "describe_log", "settled"),
    # They make tables elsewhere, from what they are given.
    *("create", "replace", "convert_to_delta"),
}
CHANGES = {
    DeltaLakeTable: {
        "append": lambda t: t.append(None),
        "append_arrow": lambda t: t.append_arrow(ROWS),
        "append_batch": lambda t: t.append_batch(None, 1, app_id="app"),
        "overwrite": lambda t: t.overwrite(None),
        "delete": lambda t: t.delete("id = 1"),
        "update": lambda t: t.update({"id": "2"}),
        "merge": lambda t: t.merge(Frame(), "true").when_matched_delete().execute(),
        "optimize": lambda t: t.optimize().execute_compaction(),
        "vacuum": lambda t: t.vacuum(),
        "restore": lambda t: t.restore(0),
        "generate": lambda t: t.generate(),
        "shallow_clone": lambda t: t.shallow_clone("elsewhere"),
        "deep_clone": lambda t: t.deep_clone("elsewhere"),
        "upgrade": lambda t: t.upgrade("deletionVectors"),
        "downgrade": lambda t: t.downgrade("deletionVectors"),
        "add_feature_support": lambda t: t.add_feature_support("deletionVectors"),
        "upgrade_table_protocol": lambda t: t.upgrade_table_protocol(1, 4),
        "drop_feature_support": lambda t: t.drop_feature_support("deletionVectors"),
        "plan_drop": lambda t: t.plan_drop("deletionVectors"),
        "set_properties": lambda t: t.set_properties({"owner": "me"}),
        "unset_properties": lambda t: t.unset_properties("owner", if_exists=True),
        "set_comment": lambda t: t.set_comment("mine"),
        "add_constraint": lambda t: t.add_constraint("small", "id < 9"),
        "drop_constraint": lambda t: t.drop_constraint("small", if_exists=True),
        "add_columns": lambda t: t.add_columns([hc.column("more", "bigint")]),
        "move_column": lambda t: t.move_column("name"),
        "replace_columns": lambda t: t.replace_columns([hc.column("id", "bigint")]),
        "set_default": lambda t: t.set_default("id", "1"),
        "sync_identity": lambda t: t.sync_identity("id"),
        "cluster_by": lambda t: t.cluster_by("id"),
        "rename_column": lambda t: t.rename_column("id", "di"),
        "drop_column": lambda t: t.drop_column("id"),
        "widen_column": lambda t: t.widen_column("id", "bigint"),
        "allow_nulls": lambda t: t.allow_nulls("id"),
    },
    HudiTable: {
        "append": lambda t: t.append(None),
        "insert": lambda t: t.insert(None),
        "bulk_insert": lambda t: t.bulk_insert(None),
        "upsert": lambda t: t.upsert(None),
        "delete": lambda t: t.delete("true"),
        "overwrite": lambda t: t.overwrite(None),
        "insert_overwrite": lambda t: t.insert_overwrite(None),
        "delete_partition": lambda t: t.delete_partition("a"),
        "upgrade": lambda t: t.upgrade(9),
        "downgrade": lambda t: t.downgrade(6),
        "finish_move": lambda t: t.finish_move(),
        "compact": lambda t: t.compact(),
        "cluster": lambda t: t.cluster(),
        "cancel_clustering": lambda t: t.cancel_clustering(1),
        "clean": lambda t: t.clean(),
        "archive": lambda t: t.archive(),
    },
    IndexTable: {
        "append": lambda t: t.append(None),
        "append_batch": lambda t: t.append_batch(None, 1, app_id="app"),
        "overwrite": lambda t: t.overwrite(None),
        "delete": lambda t: t.delete("true"),
        "sync": lambda t: t.sync(),
        "merge_splits": lambda t: t.merge_splits(),
        "reindex": lambda t: t.reindex(),
        "purge": lambda t: t.purge(),
        "drop_partitions": lambda t: t.drop_partitions("id = 1"),
        "truncate_history": lambda t: t.truncate_history(),
        "repair_log": lambda t: t.repair_log(),
        "upgrade": lambda t: t.upgrade("deletionMasks"),
    },
}
PLANS = {"plan_upgrade", "plan_downgrade"}


@pytest.fixture
def tables(tmp_path):
    """A table of each format; that of Delta requires a feature that nobody knows."""
    made = hc.Table.create(tmp_path / "delta", ROWS)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}
    commit = tmp_path / "delta" / "_delta_log" / f"{made.version + 1:020}.json"
    commit.write_text(json.dumps({"protocol": protocol}))
    hc.Table.create(tmp_path / "hudi", ROWS.schema, format="hudi", version=8, keys="id")
    hc.Table.create(tmp_path / "index", ROWS.schema, format="index")
    return {DeltaLakeTable: tmp_path / "delta", HudiTable: tmp_path / "hudi", IndexTable: tmp_path / "index"}


@pytest.mark.parametrize("format", CHANGES, ids=lambda format: format.__name__)
def test_every_verb_is_known_to_look_or_to_change(format):
    public = {name for each in format.__mro__ for name in vars(each) if not name.startswith("_")} - {"format"}
    assert public - LOOKS - PLANS == set(CHANGES[format])


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("format", "verb"),
    [pytest.param(format, verb, id=f"{format.__name__}-{verb}") for format in CHANGES for verb in CHANGES[format]],
)
@pytest.mark.filterwarnings("ignore::halocline.formats.log.gate.UncheckedWarning")
def test_table_is_not_changed_without_the_protocol_check(tables, tmp_path, monkeypatch, format, verb):
    monkeypatch.chdir(tmp_path)
    before = content(tmp_path)
    table = hc.Table.for_path(tables[format], options=OPTIONS)
    with pytest.raises(InputError, match="protocol check switched off"):
        CHANGES[format][verb](table)
    assert content(tmp_path) == before


def test_table_that_is_not_understood_can_be_looked_at(tables):
    path = tables[DeltaLakeTable]
    with pytest.raises(IncompatibleError):
        hc.Table.for_path(path)
    with pytest.warns(UncheckedWarning):
        rows = hc.Table.for_path(path, options=OPTIONS).to_arrow().read_all()
    assert rows.equals(ROWS)


@pytest.mark.parametrize("make", [hc.Table.create, hc.Table.replace])
@pytest.mark.filterwarnings("ignore::halocline.formats.log.gate.UncheckedWarning")
def test_table_is_not_made_without_the_protocol_check(tables, tmp_path, make):
    place, before = tmp_path / "new" if make == hc.Table.create else tables[DeltaLakeTable], content(tmp_path)
    with pytest.raises(InputError, match="protocol check switched off"):
        make(place, ROWS, options=OPTIONS)
    assert content(tmp_path) == before
