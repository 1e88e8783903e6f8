"""A table that exists gains a feature only because somebody asked for it, whichever verb changes it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.tables import Untouched

import halocline as hc
from halocline.errors import InputError

PLAIN = pa.table({"id": [1, 2]})
TIMES = pa.table({"at": pa.array([0], pa.timestamp("us"))})
UPGRADES = {"halocline.protocol.autoUpgrade": "true"}
NAMED = {"delta.feature.timestampNtz": "supported"}


def replaced(path, **named):
    return hc.Table.replace(path, TIMES, **named)


def declared(path, **named):
    return hc.Table.replace(path, [hc.column("at", "timestamp_ntz")], or_create=True, **named)


def cloned(path, options=None, **named):
    source = path.parent / "source"
    if not source.exists():
        hc.Table.create(source, TIMES)
    return hc.Table.for_path(source, options=options).deep_clone(path, replace=True, **named)


def with_protocol(path, reader, writer, **lists):
    """A table without rows that has exactly this protocol."""
    hc.Table.create(path, PLAIN.schema)
    commit = path / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    protocol = {"minReaderVersion": reader, "minWriterVersion": writer, **lists}
    lines = [{"protocol": protocol} if "protocol" in each else each for each in lines]
    commit.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for each in (path / "_delta_log").glob("*.crc"):
        each.unlink()
    return hc.Table.for_path(path)


@pytest.mark.parametrize("change", [replaced, declared, cloned])
def test_table_that_is_replaced_gains_a_feature_only_when_asked(tmp_path, change):
    path = tmp_path / "t"
    table = hc.Table.create(path, PLAIN)
    assert str(table.protocol) == "(1,2)"
    if change is cloned:
        hc.Table.create(tmp_path / "source", TIMES)
    with Untouched(path), pytest.raises(InputError, match="would gain timestampNtz") as refused:
        change(path)
    assert refused.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    assert "autoUpgrade" in str(refused.value.next_step)
    assert change(path, properties=NAMED).protocol.supports("timestampNtz")


@pytest.mark.parametrize("change", [replaced, declared, cloned])
def test_table_that_is_replaced_gains_a_feature_where_writes_may_raise_the_protocol(tmp_path, change):
    hc.Table.create(tmp_path / "t", PLAIN)
    assert change(tmp_path / "t", options=UPGRADES).protocol.supports("timestampNtz")


@pytest.mark.parametrize(
    ("arguments", "feature"),
    [
        ({"properties": {"delta.enableDeletionVectors": "true"}}, "deletionVectors"),
        ({"properties": {"delta.enableChangeDataFeed": "true"}}, "changeDataFeed"),
        ({"properties": {"delta.minWriterVersion": "4"}}, "generatedColumns"),
        ({"cluster_by": "id"}, "clustering"),
    ],
)
def test_what_a_declaration_says_by_name_asks_for_features(tmp_path, arguments, feature):
    hc.Table.create(tmp_path, PLAIN)
    assert hc.Table.replace(tmp_path, PLAIN, **arguments).protocol.supports(feature)


def test_column_declared_as_a_sequence_asks_for_its_feature(tmp_path):
    hc.Table.create(tmp_path, PLAIN)
    columns = [hc.column("id", "bigint", identity=hc.Identity()), hc.column("name", "string")]
    assert hc.Table.replace(tmp_path, columns).protocol.supports("identityColumns")


@pytest.mark.parametrize("change", ["replace", "clone"])
@pytest.mark.parametrize(
    "protocol",
    [
        {"reader": 1, "writer": 1},
        {"reader": 3, "writer": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]},
    ],
)
def test_protocol_below_that_of_new_tables_stays(tmp_path, change, protocol):
    table = with_protocol(tmp_path / "t", **protocol)
    before = table.protocol
    if change == "replace":
        hc.Table.replace(tmp_path / "t", pa.table({"word": ["x"]}))
    else:
        hc.Table.create(tmp_path / "source", pa.table({"word": ["x"]})).deep_clone(tmp_path / "t", replace=True)
    assert (table.protocol, hc.Table.for_path(tmp_path / "t").to_arrow().read_all().num_rows) == (before, 1)
