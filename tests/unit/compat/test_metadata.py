"""What metadata says, and which features it switches on."""

import json
import pickle

import pytest

from halocline.compat.activation import Activation
from halocline.compat.agreement import disagreements
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.errors import MalformedError


def column(name, type="long", **metadata):
    return {"name": name, "type": type, "nullable": True, "metadata": metadata}


def struct(*columns):
    return {"type": "struct", "fields": list(columns)}


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


NESTED = struct(
    column("a"),
    column("b", struct(column("c", "decimal(10,2)", inner="x"))),
    column("d", array(struct(column("e", "timestamp_ntz")))),
    column("f", mapping("string", array(struct(column("g", "variant", deep="y"))))),
)


def test_fields_are_walked_through_structs_arrays_and_maps():
    assert [path for path, _ in TableMetadata({}, NESTED).fields()] == [
        ("a",),
        ("b",),
        ("b", "c"),
        ("d",),
        ("d", "element", "e"),
        ("f",),
        ("f", "value", "element", "g"),
    ]


def test_types_and_annotations_are_found_at_every_depth():
    metadata = TableMetadata({}, NESTED)
    assert metadata.column_types == {"long", "decimal", "timestamp_ntz", "string", "variant"}
    assert metadata.field_annotations == {"inner", "deep"}


def test_without_a_schema_there_are_no_fields():
    assert list(TableMetadata().fields()) == []
    assert TableMetadata().column_types == TableMetadata().field_annotations == frozenset()


def test_annotations_are_taken_out_at_every_depth_and_nothing_else_is():
    stripped = TableMetadata({"k": "v"}, NESTED, ("a",)).without_annotations(frozenset({"deep"}))
    assert stripped.field_annotations == {"inner"}
    assert stripped.column_types == TableMetadata({}, NESTED).column_types
    assert (stripped.configuration, stripped.partition_columns) == ({"k": "v"}, ("a",))
    assert TableMetadata({}, NESTED).field_annotations == {"inner", "deep"}, "the given schema is not changed"


def test_a_column_named_metadata_is_not_taken_for_an_annotation():
    schema = struct(column("metadata", struct(column("deep"))))
    assert TableMetadata({}, schema).without_annotations(frozenset({"deep"})).schema == schema


def test_an_action_is_read_with_its_schema_parsed():
    action = {
        "id": "1",
        "schemaString": json.dumps(struct(column("a"))),
        "configuration": {"delta.appendOnly": "true"},
        "partitionColumns": ["a"],
    }
    metadata = TableMetadata.from_action(action)
    assert metadata.column_types == {"long"}
    assert metadata.configuration == {"delta.appendOnly": "true"}
    assert metadata.partition_columns == ("a",)


@pytest.mark.parametrize("text", ["", "{", "[]", '"long"', '{"type": "array"}', 7, "[" * 100_000])
def test_a_schema_that_is_none_is_malformed(text):
    with pytest.raises(MalformedError) as caught:
        TableMetadata.from_action({"schemaString": text})
    assert caught.value.condition == "MALFORMED_METADATA"


@pytest.mark.parametrize(
    "schema", [{"type": "struct"}, struct("a"), struct({"type": "long"}), struct(column("a", {"type": "struct"}))]
)
def test_a_struct_without_named_fields_is_malformed_when_it_is_walked(schema):
    with pytest.raises(MalformedError):
        list(TableMetadata({}, schema).fields())
    with pytest.raises(MalformedError):
        _ = TableMetadata({}, schema).column_types


def test_a_schema_nested_beyond_reason_is_malformed():
    schema = struct(column("a"))
    for _ in range(300):
        schema = struct(column("a", schema))
    with pytest.raises(MalformedError, match="levels deep"):
        list(TableMetadata({}, schema).fields())


def test_properties_must_be_text():
    with pytest.raises(MalformedError, match=r"delta\.appendOnly"):
        TableMetadata({"delta.appendOnly": True})


def test_metadata_cannot_be_changed_from_outside_and_travels_to_other_processes():
    configuration = {"a": "b"}
    metadata = TableMetadata(configuration, NESTED)
    configuration["a"] = "c"
    assert metadata.configuration == {"a": "b"}
    with pytest.raises(TypeError):
        metadata.configuration["a"] = "c"
    assert metadata.column_types
    assert pickle.loads(pickle.dumps(metadata)) == metadata


# ---------------------------------------------------------------- activations


@pytest.mark.parametrize(
    ("rule", "configuration", "holds"),
    [
        ({"property": "p", "is": ["true"]}, {"p": "true"}, True),
        ({"property": "p", "is": ["true"]}, {"p": " True "}, True),
        ({"property": "p", "is": ["true"]}, {"p": "false"}, False),
        ({"property": "p", "is": ["true"]}, {"P": "true"}, False),
        ({"property": "p", "is": ["true"]}, {}, False),
        ({"property": "p", "is_not": ["none"], "among": ["none", "name"]}, {"p": "name"}, True),
        ({"property": "p", "is_not": ["none"], "among": ["none", "name"]}, {"p": "none"}, False),
        ({"property": "p", "is_not": ["none"], "among": ["none", "name"]}, {"p": "nam"}, False),
        ({"property": "p"}, {"p": "anything"}, True),
        ({"property": "p"}, {"p": ""}, False),
        ({"properties": "p."}, {"p.q": ""}, True),
        ({"properties": "p."}, {"pq": ""}, False),
        ({"always": True}, {}, True),
    ],
)
def test_activations_over_properties(rule, configuration, holds):
    assert Activation.from_record(rule).holds(TableMetadata(configuration)) is holds


@pytest.mark.parametrize(
    "rule", [{}, {"prop": "p"}, {"property": "p", "equals": ["x"]}, {"always": False}, {"property": 1}]
)
def test_a_rule_that_means_nothing_is_an_error_of_the_record(rule):
    with pytest.raises(MalformedError) as caught:
        Activation.from_record(rule)
    assert caught.value.condition == "MALFORMED_KNOWLEDGE"


# ---------------------------------------------------------------- protocol and metadata


@pytest.mark.parametrize(
    ("protocol", "configuration", "codes"),
    [
        ("(1,2)", {"delta.appendOnly": "true"}, set()),
        ("(1,7|W: appendOnly)", {"delta.enableChangeDataFeed": "true"}, {"ENABLED_NOT_SUPPORTED"}),
        ("(1,7|W: rowTracking)", {}, {"REQUIREMENT_NOT_SUPPORTED"}),
        (
            "(2,7|W: columnMapping,icebergCompatV2)",
            {"delta.enableIcebergCompatV2": "true"},
            {"REQUIREMENT_NOT_ENABLED"},
        ),
        (
            "(3,7|R: columnMapping,deletionVectors|W: columnMapping,deletionVectors,icebergCompatV1)",
            {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"},
            {"EXCLUDED"},
        ),
        (
            "(3,7|R: columnMapping,deletionVectors|W: columnMapping,deletionVectors,icebergCompatV1)",
            {"delta.columnMapping.mode": "name"},
            set(),
        ),
        ("(3,7|R: typeWidening-preview|W: typeWidening-preview)", {"delta.enableTypeWidening": "true"}, set()),
        (
            "(1,7|W: inCommitTimestamp-preview)",
            {"delta.enableInCommitTimestamps": "true"},
            {"ENABLED_NOT_SUPPORTED"},
        ),
        ("(1,7|W: glow)", {}, set()),
    ],
)
def test_fatal_disagreements_of_protocol_and_metadata(protocol, configuration, codes):
    found = disagreements(Protocol.parse(protocol), TableMetadata(configuration))
    assert {each.code for each in found if each.fatal} == codes


@pytest.mark.parametrize(
    ("protocol", "configuration", "code"),
    [
        ("(1,2)", {"delta.enableChangeDataFeed": "true"}, "ENABLED_NOT_SUPPORTED"),
        ("(1,2)", {"delta.minReaderVersion": "1"}, "REQUEST_STORED"),
    ],
)
def test_disagreements_that_old_writers_left_are_told_but_not_fatal(protocol, configuration, code):
    found = disagreements(Protocol.parse(protocol), TableMetadata(configuration))
    assert [(each.code, each.fatal) for each in found] == [(code, False)]
