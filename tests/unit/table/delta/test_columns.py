"""Columns that move, and rows that are clustered otherwise: one commit each, nothing as a side effect."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.tables import actions, info

import halocline as hc
from halocline.errors import InputError, SchemaError
from halocline.formats.delta.configuration.alter import ColumnPosition

NESTED = pa.schema(
    {"a": pa.int64(), "s": pa.struct({"x": pa.int32(), "y": pa.int32(), "z": pa.int32()}), "b": pa.string()}
)


@pytest.fixture
def table(tmp_path):
    return hc.Table.create(tmp_path / "t", pa.table({"a": [1], "s": [{"x": 1, "y": 2, "z": 3}], "b": ["u"]}, NESTED))


def names(table, *path: str) -> list[str]:
    fields = table.schema["fields"]
    for step in path:
        fields = next(each["type"]["fields"] for each in fields if each["name"] == step)
    return [each["name"] for each in fields]


def test_column_moves_and_rows_stay(table):
    table.move_column("b")
    assert names(table) == ["b", "a", "s"]
    table.move_column("b", after="A")
    assert names(table) == ["a", "b", "s"]
    table.move_column("s.z", after="x")
    assert names(table, "s") == ["x", "z", "y"]
    assert table.to_arrow().read_all().to_pylist() == [{"a": 1, "b": "u", "s": {"x": 1, "z": 3, "y": 2}}]
    assert table.history()[0].operation == "CHANGE COLUMN"


def test_column_that_stands_there_already_is_no_version(table):
    assert not table.move_column("a").committed


@pytest.mark.parametrize("after", ["a", "nowhere", "s.x"])
def test_column_moves_only_among_its_siblings(table, after):
    with pytest.raises(SchemaError, match="cannot stand behind"):
        table.move_column("a", after=after)
    assert table.version == 0


@pytest.mark.parametrize("verb", ["add_columns", "replace_columns"])
def test_column_that_was_dropped_comes_back_empty_though_it_brings_its_old_physical_name(table, verb):
    table.set_properties({"delta.columnMapping.mode": "name"})
    every = table.schema["fields"]
    table.drop_column("b", "s.z")
    getattr(table, verb)(every[2:] if verb == "add_columns" else every)
    added = {} if verb == "add_columns" else {"z": None}
    assert table.to_arrow().read_all().to_pylist() == [{"a": 1, "s": {"x": 1, "y": 2, **added}, "b": None}]


def test_column_with_the_physical_name_of_another_table_keeps_its_rows_once_columns_are_mapped(table):
    ids = {"delta.columnMapping.id": 70, "delta.columnMapping.physicalName": "col-70"}
    table.add_columns([{"name": "c", "type": "long", "nullable": True, "metadata": ids}])
    table.append_arrow(pa.table({"a": [2], "c": pa.array([7], pa.int64())}))
    table.set_properties({"delta.columnMapping.mode": "name"})
    assert sorted(table.to_arrow(columns=["c"]).read_all()["c"].to_pylist(), key=str) == [7, None]


def test_columns_are_added_at_positions(table):
    columns = [hc.column(name, "int") for name in ("c", "d", "e")]
    table.add_columns(columns, positions=[ColumnPosition(), ColumnPosition("c"), None])
    assert names(table) == ["c", "d", "a", "s", "b", "e"]
    told = json.loads(info(table.url.removeprefix("file://"))["operationParameters"]["columns"])
    assert [each.get("position") for each in told] == ["FIRST", "AFTER c", None]
    table.add_columns([hc.column("w", "int")], "s", positions=[ColumnPosition("x")])
    assert names(table, "s") == ["x", "w", "y", "z"]


def test_clustering_changes_with_the_features_it_needs(table, tmp_path):
    done = table.cluster_by("b", "a")
    assert (done.version, table.detail()["clusteringColumns"]) == (1, ["b", "a"])
    assert {"clustering", "domainMetadata"} <= table.protocol.features
    (domain,) = actions(tmp_path / "t", 1, "domainMetadata")
    assert json.loads(domain["configuration"])["clusteringColumns"] == [["b"], ["a"]]
    assert info(tmp_path / "t")["operationParameters"] == {"oldClusteringColumns": "", "newClusteringColumns": "b,a"}
    assert not table.cluster_by("b", "a").committed
    table.cluster_by()
    assert table.detail()["clusteringColumns"] == []
    assert table.protocol.supports("clustering")


def test_a_column_without_statistics_is_none_to_cluster_by(tmp_path):
    many = pa.schema([(f"c{number}", pa.int64()) for number in range(33)])
    columns = hc.Table.create(tmp_path / "many", many).cluster_by
    assert columns("c31").committed
    with pytest.raises(InputError, match="cannot be clustered"):
        columns("c32")
    with pytest.raises(InputError, match="cannot be clustered"):
        hc.Table.create(tmp_path / "new", many, cluster_by="c32")
    named = {"delta.dataSkippingStatsColumns": "c32"}
    assert hc.Table.create(tmp_path / "named", many, cluster_by="c32", properties=named).detail()["clusteringColumns"]


def test_rows_are_clustered_by_a_field_of_a_struct(tmp_path, table):
    mapped = {"delta.columnMapping.mode": "name"}
    for found in (table, hc.Table.create(tmp_path / "m", NESTED, cluster_by=["s.X", "b"], properties=mapped)):
        found.cluster_by("S.y", "a")
        assert found.detail()["clusteringColumns"] == ["s.y", "a"]
    (domain,) = actions(tmp_path / "m", 1, "domainMetadata")
    stored = tuple(json.loads(domain["configuration"])["clusteringColumns"][0])
    assert stored == found.snapshot().columns.find("s", "y").physical != ("s", "y")
    with pytest.raises(SchemaError, match="clustered by a column that it would lose"):
        found.drop_column("s.y")
    assert found.drop_column("s.z").committed
    with pytest.raises(InputError, match="cannot be clustered"):
        found.cluster_by("s")


def test_a_column_by_which_a_table_is_clustered_stays(tmp_path):
    table = hc.Table.create(
        tmp_path / "t",
        pa.schema({"a": pa.int64(), "b": pa.int64()}),
        cluster_by="b",
        properties={"delta.columnMapping.mode": "name"},
    )
    for drop in (lambda: table.drop_column("b"), lambda: table.replace_columns([{"name": "a", "type": "long"}])):
        with pytest.raises(SchemaError, match="clustered by a column that it would lose"):
            drop()
    table.cluster_by()
    assert table.drop_column("b").committed


def test_clustering_that_cannot_be_is_refused(table, tmp_path):
    with pytest.raises(InputError, match="cannot be clustered"):
        table.cluster_by("s")
    with pytest.raises(SchemaError, match="not a column"):
        table.cluster_by("nowhere")
    parted = hc.Table.create(tmp_path / "parted", pa.table({"a": [1], "p": ["x"]}), partition_by="p")
    with pytest.raises(SchemaError, match="partitioned"):
        parted.cluster_by("a")


def field(name: str, type) -> dict:
    return {"name": name, "type": type, "nullable": True, "metadata": {}}


def declared(*types: str) -> list[dict]:
    return [{"name": f"c{number}", "type": type} for number, type in enumerate(types)]


def length(table, column: int = 0) -> str | None:
    return table.schema["fields"][column]["metadata"].get("__CHAR_VARCHAR_TYPE_STRING")


@pytest.mark.parametrize("widening", ["true", "false"])
@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("varchar(5)", "varchar(10)", "varchar(10)"),
        ("varchar(5)", "string", None),
        ("char(5)", "varchar(5)", "varchar(5)"),
        ("char(5)", "varchar(9)", "varchar(9)"),
        ("char(5)", "string", None),
    ],
)
def test_limited_text_becomes_longer_in_any_table_as_with_delta_spark(tmp_path, old, new, kept, widening):
    table = hc.Table.create(tmp_path / "t", declared(old), properties={"delta.enableTypeWidening": widening})
    table.add_constraint("short", "c0 <> 'x'", validator=lambda *_: None)
    assert table.widen_column("c0", new).committed
    assert (length(table), table.schema["fields"][0]["type"]) == (kept, "string")
    assert "typeChanges" not in json.dumps(table.schema)
    assert not table.widen_column("c0", new).committed
    assert table.history()[0].operation == "CHANGE COLUMN"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("varchar(5)", "varchar(4)"),
        ("varchar(5)", "char(9)"),
        ("char(5)", "char(9)"),
        ("char(5)", "varchar(3)"),
        ("string", "varchar(9)"),
        ("string", "integer"),
        ("integer", "string"),
        ("integer", "varchar(9)"),
        ("varchar(5)", "integer"),
    ],
)
def test_types_that_no_property_allows_are_refused_without_advice_to_set_one(tmp_path, old, new):
    table = hc.Table.create(tmp_path / "t", declared(old))
    with pytest.raises(SchemaError, match="without rewriting data") as refused:
        table.widen_column("c0", new)
    assert "enableTypeWidening" not in str(refused.value)
    assert not table.widen_column("c0", old).committed


def test_a_new_column_that_is_never_null_is_refused_with_advice_that_works(table):
    with pytest.raises(SchemaError, match="cannot be NOT NULL") as refused:
        table.add_columns([{"name": "n", "type": "integer", "nullable": False}])
    assert "add_constraint(name, 'n IS NOT NULL')" in refused.value.next_step
    table.add_columns([{"name": "n", "type": "integer"}])
    assert table.add_constraint("filled", "n IS NOT NULL", validator=lambda *_: None).committed


def test_limited_text_inside_others_becomes_longer(tmp_path):
    inner = {"type": "struct", "fields": [field("x", "varchar(5)"), field("y", "char(3)")]}
    columns = [field("s", inner), field("a", {"type": "array", "elementType": "varchar(4)", "containsNull": True})]
    table = hc.Table.create(tmp_path / "t", columns)
    table.widen_column("S.x", "varchar(9)")
    assert length(table) == "struct<`x`: varchar(9), `y`: char(3)>"
    table.widen_column("s.x", "string")
    table.widen_column("s.y", "string")
    assert length(table) is None
    table.widen_column("a", {"type": "array", "elementType": "varchar(6)", "containsNull": True})
    assert length(table, 1) == "array<varchar(6)>"
