"""What metadata says, and which features it switches on."""

import pickle

import msgspec
import pytest

from halocline.compat.activation import Activation
from halocline.compat.agreement import disagreements
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.errors import MalformedError

FACTS = TableMetadata({"k": "v"}, ("a",), frozenset({"long"}), frozenset({"inner", "deep"}))


def test_metadata_without_columns_has_no_facts_about_them():
    assert TableMetadata().column_types == TableMetadata().field_annotations == frozenset()


def test_annotations_are_taken_out_and_nothing_else_is():
    stripped = FACTS.without_annotations(frozenset({"deep", "other"}))
    assert stripped == TableMetadata({"k": "v"}, ("a",), frozenset({"long"}), frozenset({"inner"}))
    assert FACTS.field_annotations == {"inner", "deep"}


def test_other_properties_leave_the_facts_about_columns():
    assert FACTS.with_configuration({}) == TableMetadata({}, ("a",), FACTS.column_types, FACTS.field_annotations)


def test_properties_must_be_text():
    with pytest.raises(MalformedError, match=r"delta\.appendOnly"):
        TableMetadata({"delta.appendOnly": True})


def test_metadata_cannot_be_changed_from_outside_and_travels_to_other_processes():
    configuration = {"a": "b"}
    metadata = TableMetadata(configuration, column_types=frozenset({"long"}))
    configuration["a"] = "c"
    assert metadata.configuration == {"a": "b"}
    with pytest.raises(TypeError):
        metadata.configuration["a"] = "c"
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
    assert msgspec.convert(rule, Activation).holds(TableMetadata(configuration)) is holds


def test_activations_over_columns():
    assert msgspec.convert({"annotation": "deep"}, Activation).holds(FACTS)
    assert not msgspec.convert({"annotation": "deeper"}, Activation).holds(FACTS)
    assert msgspec.convert({"column_type": "long"}, Activation).holds(FACTS)
    assert not msgspec.convert({"column_type": "variant"}, Activation).holds(FACTS)


@pytest.mark.parametrize(
    "rule", [{}, {"prop": "p"}, {"property": "p", "equals": ["x"]}, {"always": False}, {"property": 1}]
)
def test_a_rule_that_means_nothing_is_an_error_of_the_record(rule):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(rule, Activation)


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
