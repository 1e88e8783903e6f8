"""How metadata moves a table from one protocol to another: the transition table, row by row, and what is refused."""

from dataclasses import dataclass

import pytest

from halocline.compat.evolution import alter, auto_features, for_new_table
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.request import is_request, stored_configuration
from halocline.errors import HaloclineError, InputError, NotFoundError
from halocline.schema.json_edge import struct_from_json

W = "inCommitTimestamp"
"""A writer-only feature that can be dropped and requires nothing."""
RW = "vacuumProtocolCheck"
"""A reader-writer feature that can be dropped and requires nothing."""

CHANGE_FEED = {"delta.enableChangeDataFeed": "true"}
BY_NAME = {"delta.columnMapping.mode": "name"}


def versions(reader=None, writer=None):
    asked = {"delta.minReaderVersion": reader, "delta.minWriterVersion": writer}
    return {key: str(value) for key, value in asked.items() if value is not None}


def named(*names):
    return {f"delta.feature.{name}": "supported" for name in names}


def column(name="a", type="long", **metadata):
    return {"name": name, "type": type, "nullable": True, "metadata": metadata}


def schema(*columns):
    return {"type": "struct", "fields": list(columns)}


def table(configuration, columns=None, partitions=()):
    struct = struct_from_json(columns or schema())
    return TableMetadata(configuration, partitions, struct.column_types, struct.annotations)


GENERATED = schema(column(), column("b", **{"delta.generationExpression": "a + 1"}))


@dataclass(frozen=True)
class Row:
    """One row of the transition table."""

    protocol: str
    create: dict[str, str] | None = None
    alter: dict[str, str] | None = None
    drop: str | None = None
    protect_history: bool = False
    schema: dict | None = None


TRANSITIONS = {
    "create with nothing": Row("(1,2)"),
    "create with versions 1,1": Row("(1,1)", versions(1, 1)),
    "create with versions 3,7": Row("(1,1)", versions(3, 7)),
    "create with W": Row(f"(1,7|W: appendOnly,{W},invariants)", named(W)),
    "create with versions 3,7 and W": Row(f"(1,7|W: {W})", versions(3, 7) | named(W)),
    "create with W and columnMapping by name": Row(
        f"(2,7|W: appendOnly,columnMapping,{W},invariants)", named(W, "columnMapping")
    ),
    "create with versions 1,7 and RW": Row(f"(3,7|R: {RW}|W: {RW})", versions(1, 7) | named(RW)),
    "create with versions 2,7 and RW": Row(f"(3,7|R: {RW}|W: {RW})", versions(2, 7) | named(RW)),
    "create with writer 3 only": Row("(1,3)", versions(writer=3)),
    "alter to writer 3 only": Row("(1,3)", {}, versions(writer=3)),
    "create with writer 3 and deletionVectors": Row(
        "(3,7|R: deletionVectors|W: appendOnly,checkConstraints,deletionVectors,invariants)",
        versions(writer=3) | named("deletionVectors"),
    ),
    "create with (2,1)": Row("(1,1)", versions(2, 1)),
    "create with (2,2)": Row("(1,2)", versions(2, 2)),
    "create with (2,3)": Row("(1,3)", versions(2, 3)),
    "create with (1,5)": Row("(1,4)", versions(1, 5)),
    "(1,4) then (1,2)": Row("(1,4)", versions(1, 4), versions(1, 2)),
    "(1,6) then (2,5)": Row("(2,6)", versions(1, 6), versions(2, 5)),
    "(2,5) then (1,6)": Row("(2,6)", versions(2, 5), versions(1, 6)),
    "W then (1,3)": Row(f"(1,7|W: appendOnly,checkConstraints,{W},invariants)", named(W), versions(1, 3)),
    "(1,3) then (1,7) and change feed": Row(
        "(1,7|W: appendOnly,changeDataFeed,checkConstraints,invariants)", versions(1, 3), versions(1, 7) | CHANGE_FEED
    ),
    "invariants by name then (1,2)": Row("(1,2)", named("invariants"), versions(1, 2)),
    "(1,1) with invariants by name then (1,2)": Row("(1,2)", versions(1, 1) | named("invariants"), versions(1, 2)),
    "checkConstraints by name then (1,2)": Row("(1,3)", named("checkConstraints"), versions(1, 2)),
    "(1,1) with checkConstraints by name then (1,2)": Row(
        "(1,3)", versions(1, 1) | named("checkConstraints"), versions(1, 2)
    ),
    "(1,2) then checkConstraints by name": Row("(1,3)", versions(1, 2), named("checkConstraints")),
    "(1,4) then columnMapping by name": Row("(2,5)", versions(1, 4), named("columnMapping")),
    "(1,4) then mode name": Row("(2,5)", versions(1, 4), BY_NAME),
    "(1,3) drop checkConstraints": Row("(1,2)", versions(1, 3), drop="checkConstraints"),
    "(1,4) drop checkConstraints": Row(
        "(1,7|W: appendOnly,changeDataFeed,generatedColumns,invariants)", versions(1, 4), drop="checkConstraints"
    ),
    "W drop W": Row("(1,2)", named(W), drop=W),
    "versions 1,7 and W drop W": Row("(1,1)", versions(1, 7) | named(W), drop=W),
    "(2,5) drop columnMapping with its history": Row("(1,4)", versions(2, 5), drop="columnMapping"),
    "(2,5) drop columnMapping and protect history": Row(
        "(1,7|W: appendOnly,changeDataFeed,checkConstraints,checkpointProtection,generatedColumns,invariants)",
        versions(2, 5),
        drop="columnMapping",
        protect_history=True,
    ),
    "(1,4) with deletion vectors": Row(
        "(3,7|R: deletionVectors|W: "
        "appendOnly,changeDataFeed,checkConstraints,deletionVectors,generatedColumns,invariants)",
        versions(1, 4) | {"delta.enableDeletionVectors": "true"},
    ),
    "create with change feed": Row("(1,7|W: appendOnly,changeDataFeed,invariants)", CHANGE_FEED),
    "create with (1,4) and change feed": Row("(1,4)", versions(1, 4) | CHANGE_FEED),
    "create with versions 1,7 and change feed": Row("(1,7|W: changeDataFeed)", versions(1, 7) | CHANGE_FEED),
    "create with a generated column": Row("(1,7|W: appendOnly,generatedColumns,invariants)", schema=GENERATED),
    "create with mode name": Row("(2,7|W: appendOnly,columnMapping,invariants)", BY_NAME),
    "create with versions 1,7 and mode name": Row("(2,7|W: columnMapping)", versions(1, 7) | BY_NAME),
    "nothing then mode name": Row("(2,7|W: appendOnly,columnMapping,invariants)", {}, BY_NAME),
    "alter to writer 3 and deletionVectors": Row(
        "(3,7|R: deletionVectors|W: appendOnly,checkConstraints,deletionVectors,invariants)",
        {},
        versions(writer=3) | named("deletionVectors"),
    ),
    "create with (2,4)": Row("(1,4)", versions(2, 4)),
    "(1,1) then (1,5)": Row("(1,4)", versions(1, 1), versions(1, 5)),
    "versions 1,7 and a generated column": Row("(1,7|W: generatedColumns)", versions(1, 7), schema=GENERATED),
    "W and identityColumns then (1,3)": Row(
        f"(1,7|W: appendOnly,checkConstraints,identityColumns,{W},invariants)",
        named(W, "identityColumns"),
        versions(1, 3),
    ),
    "columnMapping, W and RW drop RW and protect history": Row(
        f"(2,7|W: appendOnly,checkpointProtection,columnMapping,{W},invariants)",
        named("columnMapping", W, RW),
        drop=RW,
        protect_history=True,
    ),
    "W and RW drop RW with its history": Row(f"(1,7|W: appendOnly,{W},invariants)", named(W, RW), drop=RW),
    "(1,4) then (1,7) and mode name": Row("(2,5)", versions(1, 4), versions(1, 7) | BY_NAME),
    "change feed and W then (1,4) drop W": Row(
        "(1,4)", versions(1, 7) | named(W, "changeDataFeed"), versions(1, 4), drop=W
    ),
    "change feed and W then (1,5) drop W": Row(
        "(1,4)", versions(1, 7) | named(W, "changeDataFeed"), versions(1, 5), drop=W
    ),
    "change feed and W then (1,6) drop W": Row(
        "(1,6)", versions(1, 7) | named(W, "changeDataFeed"), versions(1, 6), drop=W
    ),
}


@pytest.mark.parametrize("row", TRANSITIONS.values(), ids=TRANSITIONS.keys())
def test_each_row_of_the_transition_table_gives_its_protocol(row):
    evolution = for_new_table(table(row.create or {}, row.schema))
    protocol = evolution.protocol
    if row.alter is not None:
        configuration = {**evolution.metadata.configuration, **row.alter}
        protocol = alter(protocol, table(configuration, row.schema)).protocol
    if row.drop is not None:
        before, protocol = protocol, protocol.without_feature(row.drop, protect_history=row.protect_history)
        assert before.can_downgrade_to(protocol, row.drop)
    assert str(protocol) == row.protocol


@pytest.mark.parametrize("row", TRANSITIONS.values(), ids=TRANSITIONS.keys())
def test_no_row_of_the_transition_table_stores_what_was_asked_for(row):
    stored = for_new_table(table(row.create or {}, row.schema)).metadata
    assert not any(map(is_request, stored.configuration))
    asked = row.create or {}
    requests = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.feature.")
    assert stored.configuration == {key: value for key, value in asked.items() if not key.startswith(requests)}


# ---------------------------------------------------------------- creating


def test_a_new_table_may_start_from_nothing():
    metadata = TableMetadata({"delta.ignoreProtocolDefaults": "true", "delta.appendOnly": "true"})
    evolution = for_new_table(metadata)
    assert str(evolution.protocol) == "(1,7|W: appendOnly)"
    assert evolution.metadata.configuration == {"delta.appendOnly": "true"}


def test_a_reader_version_with_lists_counts_as_the_highest_without_where_writers_have_none():
    assert str(for_new_table(TableMetadata(versions(3, 5))).protocol) == "(2,5)"


def test_what_a_feature_requires_comes_with_it_and_is_explained():
    evolution = for_new_table(TableMetadata({"delta.enableRowTracking": "true", "delta.minWriterVersion": "1"}))
    assert [str(each) for each in evolution.reasons] == [
        "domainMetadata: required by rowTracking",
        "rowTracking: delta.enableRowTracking=true is set",
    ]


def test_every_feature_of_a_new_table_has_a_reason():
    evolution = for_new_table(TableMetadata(named("icebergCompatV3") | CHANGE_FEED), named=["clustering"])
    assert {each.feature for each in evolution.reasons} == evolution.protocol.features
    assert all(each.because for each in evolution.reasons)


def test_a_feature_of_the_statement_itself_needs_no_property():
    protocol = for_new_table(TableMetadata(), named=["clustering"]).protocol
    assert str(protocol) == "(1,7|W: appendOnly,clustering,domainMetadata,invariants)"


def test_a_catalog_managed_table_gets_its_commit_timestamps_switched_on():
    evolution = for_new_table(TableMetadata(named("catalogManaged")))
    assert evolution.protocol.features >= {"catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"}
    assert evolution.metadata.configuration == {"delta.enableInCommitTimestamps": "true"}


def test_an_iceberg_compatible_table_gets_all_it_needs_switched_on():
    evolution = for_new_table(TableMetadata({"delta.enableIcebergCompatV3": "true"}))
    assert evolution.metadata.configuration == {
        "delta.enableIcebergCompatV3": "true",
        "delta.columnMapping.mode": "name",
        "delta.enableRowTracking": "true",
    }
    assert evolution.protocol.enabled(evolution.metadata) >= {"icebergCompatV3", "columnMapping", "rowTracking"}


@pytest.mark.parametrize(
    ("columns", "feature"),
    [
        ([column(type="timestamp_ntz")], "timestampNtz"),
        ([column(type={"type": "array", "elementType": "timestamp_ntz", "containsNull": True})], "timestampNtz"),
        (
            [column(type={"type": "map", "keyType": "string", "valueType": schema(column(type="variant"))})],
            "variantType",
        ),
        ([column(type="geometry(OGC:CRS84)")], "geospatial"),
        ([column(**{"delta.invariants": '{"expression": {"expression": "a > 0"}}'})], "invariants"),
        ([column(**{"delta.identity.start": 1, "delta.identity.step": 1})], "identityColumns"),
        ([column(type="string", __COLLATIONS={"a": "icu.de"})], "collations"),
    ],
)
def test_the_schema_of_a_new_table_switches_features_on(columns, feature):
    evolution = for_new_table(table(versions(1, 1), schema(*columns)))
    assert evolution.protocol.features == {feature}


def test_a_stable_feature_is_not_added_where_its_preview_is_supported():
    metadata = TableMetadata({"delta.enableTypeWidening": "true"} | named("typeWidening-preview"))
    assert for_new_table(metadata).protocol.features == {"appendOnly", "invariants", "typeWidening-preview"}
    both = TableMetadata(dict(metadata.configuration) | named("typeWidening"))
    assert for_new_table(both).protocol.features >= {"typeWidening", "typeWidening-preview"}


# ---------------------------------------------------------------- altering


def test_altering_with_nothing_new_changes_nothing():
    evolution = alter(Protocol.delta(1, 4), TableMetadata({"owner": "me"}))
    assert evolution.protocol == Protocol.delta(1, 4)
    assert evolution.reasons == ()


@pytest.mark.parametrize("text", ["(2,4)", "(1,5)", "(3,7|R: |W: appendOnly,invariants)"])
def test_altering_does_not_tidy_a_protocol_that_already_suffices(text):
    assert str(alter(Protocol.parse(text), TableMetadata({"delta.appendOnly": "true"})).protocol) == str(
        Protocol.parse(text)
    )


def test_lower_versions_are_ignored():
    assert alter(Protocol.delta(1, 4), TableMetadata(versions(1, 2))).protocol == Protocol.delta(1, 4)


def test_unknown_features_of_the_table_survive_an_alter():
    evolution = alter(Protocol.parse("(3,7|R: shiny|W: glow,shiny)"), TableMetadata(CHANGE_FEED))
    assert str(evolution.protocol) == "(3,7|R: shiny|W: changeDataFeed,glow,shiny)"


def test_an_existing_table_gains_timestamps_without_zone_only_by_name():
    metadata = table({}, schema(column(type="timestamp_ntz")))
    with pytest.raises(InputError) as caught:
        alter(Protocol.delta(1, 2), metadata)
    assert caught.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    assert "delta.feature.timestampNtz=supported" in caught.value.next_step
    asked = metadata.with_configuration(named("timestampNtz"))
    assert str(alter(Protocol.delta(1, 2), asked).protocol) == (
        "(3,7|R: timestampNtz|W: appendOnly,invariants,timestampNtz)"
    )


def test_annotations_that_an_old_table_never_supported_are_taken_out_of_its_schema():
    evolution = alter(Protocol.delta(1, 2), table({}, GENERATED))
    assert evolution.protocol == Protocol.delta(1, 2)
    assert evolution.metadata.field_annotations == frozenset()
    kept = alter(Protocol.delta(1, 4), table({}, GENERATED))
    assert kept.metadata.field_annotations == {"delta.generationExpression"}


def test_an_existing_table_cannot_become_catalog_managed():
    with pytest.raises(InputError, match="cannot gain catalogManaged"):
        alter(Protocol.delta(1, 2), TableMetadata(named("catalogManaged") | {"delta.enableInCommitTimestamps": "true"}))


def test_naming_one_more_feature_keeps_the_table_writable_at_its_numbers_where_it_can():
    assert str(alter(Protocol.delta(1, 2), TableMetadata(named("appendOnly"))).protocol) == "(1,2)"


def test_a_reader_version_alone_cannot_bring_lists_to_an_existing_table():
    with pytest.raises(InputError, match="writer version 7"):
        alter(Protocol.delta(1, 2), TableMetadata(versions(reader=3)))


# ---------------------------------------------------------------- refused


REFUSED = {
    "an absurd writer version": (versions(writer=101), "ARGUMENT_INVALID"),
    "an absurd reader version": (versions(reader=4), "ARGUMENT_INVALID"),
    "version zero": (versions(reader=0), "ARGUMENT_INVALID"),
    "a negative version": (versions(writer=-1), "ARGUMENT_INVALID"),
    "a version that is no number": ({"delta.minWriterVersion": "seven"}, "ARGUMENT_INVALID"),
    "a version in other digits": ({"delta.minWriterVersion": "٧"}, "ARGUMENT_INVALID"),
    "a feature nobody knows": (named("shiny"), "FEATURE_UNKNOWN"),
    "a feature status nobody knows": ({"delta.feature.appendOnly": "on"}, "ARGUMENT_INVALID"),
    "clustering by property": (named("clustering"), "FEATURE_DEPENDENCY"),
    "a switch that is neither on nor off": ({"delta.appendOnly": "yes"}, "ARGUMENT_INVALID"),
    "a mode that does not exist": ({"delta.columnMapping.mode": "nam"}, "ARGUMENT_INVALID"),
    "icebergCompatV1 beside deletion vectors": (
        BY_NAME | {"delta.enableIcebergCompatV1": "true"} | named("deletionVectors"),
        "FEATURE_DEPENDENCY",
    ),
    "icebergCompatV2 with deletion vectors on": (
        BY_NAME | {"delta.enableIcebergCompatV2": "true", "delta.enableDeletionVectors": "true"},
        "FEATURE_DEPENDENCY",
    ),
    "two versions of icebergCompat": (
        BY_NAME | {"delta.enableIcebergCompatV1": "true", "delta.enableIcebergCompatV2": "true"},
        "FEATURE_DEPENDENCY",
    ),
    "icebergCompat with column mapping off": (
        {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "none"},
        "FEATURE_DEPENDENCY",
    ),
}


@pytest.mark.parametrize(("asked", "condition"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("evolve", [for_new_table, lambda metadata: alter(Protocol.delta(1, 2), metadata)])
def test_a_request_that_cannot_be_met_is_refused_with_both_sides(evolve, asked, condition):
    with pytest.raises(HaloclineError) as caught:
        evolve(TableMetadata(asked))
    assert caught.value.condition == condition
    assert caught.value.sides
    assert caught.value.next_step


def test_icebergCompatV2_and_deletion_vectors_may_be_supported_together():
    asked = BY_NAME | {"delta.enableIcebergCompatV2": "true"} | named("deletionVectors")
    assert for_new_table(TableMetadata(asked)).protocol.supports("deletionVectors")


def test_a_clustered_table_has_no_partition_columns():
    with pytest.raises(InputError, match="excludes partition columns"):
        for_new_table(table({}, schema(column()), ("a",)), named=["clustering"])


@pytest.mark.parametrize(
    "key", ["delta.feature.DeletionVectors", "delta.feature.deletionvectors", "DELTA.Feature.deletionVectors"]
)
@pytest.mark.parametrize("status", ["supported", "Supported", "enabled"])
def test_features_are_asked_for_in_any_case(key, status):
    evolution = for_new_table(TableMetadata({key: status}))
    assert evolution.protocol.supports("deletionVectors")
    assert evolution.metadata.configuration == {}


# ---------------------------------------------------------------- requests are never stored


def test_requests_are_not_among_the_stored_properties_whatever_their_case():
    asked = (
        versions(1, 2) | named("a") | {"delta.ignoreProtocolDefaults": "true", "DELTA.MINREADERVERSION": "1", "b": "c"}
    )
    assert stored_configuration(asked) == {"b": "c"}


# ---------------------------------------------------------------- the pieces


def test_auto_features_are_listed_or_switched_on_and_closed():
    protocol = Protocol.parse("(1,7|W: glow)")
    assert auto_features(TableMetadata({"delta.enableRowTracking": "true"}), protocol) == {
        "glow",
        "rowTracking",
        "domainMetadata",
    }


def test_an_unknown_feature_in_a_request_lists_near_names():
    with pytest.raises(NotFoundError) as caught:
        for_new_table(TableMetadata(named("deletionVector")))
    assert "deletionVectors" in caught.value.sides["known"]
