"""Gaining features: by name, by numbers, by what data needs; and proposals of what a change would make of a table."""

from __future__ import annotations

import pytest
from tests.support.columns import field, schema
from tests.support.commit_builders import metadata

from halocline.errors import InputError, MalformedError, NotFoundError
from halocline.formats.delta.actions.action import ProtocolAction
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import alter
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.formats.delta.features.drop_plan import plan_drop
from halocline.formats.delta.features.support import (
    prepared_for,
    propose,
    with_feature,
    with_versions,
)
from halocline.formats.delta.log.header import TableHeader
from halocline.storage.memory import MemoryStore


def table(*columns, **configuration) -> TableConfiguration:
    properties = {f"delta.{key}": value for key, value in configuration.items()}
    made = new_table(schema(*(columns or ("id",))), (), properties)
    return TableConfiguration(made.protocol, made.metadata)


@pytest.mark.parametrize(
    ("versions", "name", "after"),
    [
        ((1, 2), "deletionVectors", "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)"),
        ((1, 2), "rowtracking", "(1,7|W: appendOnly,domainMetadata,invariants,rowTracking)"),
        ((1, 2), "checkConstraints", "(1,3)"),
        ((1, 1), "changeDataFeed", "(1,7|W: changeDataFeed)"),
        ((1, 4), "columnMapping", "(2,5)"),
        ((2, 5), "columnMapping", "(2,5)"),
        ((1, 6), "timestampNtz", None),
    ],
)
def test_what_numbers_implied_is_carried_over(versions, name, after):
    state = with_versions(table(minReaderVersion="1", minWriterVersion="1"), *versions)
    grown = with_feature(state, name)
    assert state.protocol.features <= grown.protocol.features
    if after is not None:
        assert str(grown.protocol) == after


@pytest.mark.parametrize(
    ("reader", "writer", "after"),
    [(1, 1, "(1,2)"), (1, 3, "(1,3)"), (2, 5, "(2,5)"), (1, 6, "(1,6)"), (3, 7, "(1,2)")],
)
def test_numbers_stand_for_features_and_are_never_lowered(reader, writer, after):
    assert str(with_versions(table(), reader, writer).protocol) == after


@pytest.mark.parametrize(("reader", "writer"), [(1, 101), (3, 5), (0, 2)])
def test_numbers_that_mean_nothing_are_refused(reader, writer):
    with pytest.raises(InputError):
        with_versions(table(), reader, writer)


@pytest.mark.parametrize(("name", "kind"), [("shiny", NotFoundError), ("catalogManaged", InputError)])
def test_features_that_an_existing_table_cannot_gain_are_refused(name, kind):
    with pytest.raises(kind):
        with_feature(table(), name)


# ---------------------------------------------------------------------- what data needs


@pytest.mark.parametrize("type", ["timestamp_ntz", "variant", {"type": "array", "elementType": "timestamp_ntz"}])
def test_a_write_never_raises_a_protocol_by_itself(type):
    state = table()
    with pytest.raises(InputError, match="a write never raises a protocol") as refused:
        prepared_for(state, schema("id", field("at", type)), auto_upgrade=False, table="lake/orders")
    assert refused.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    assert "add_feature_support" in refused.value.next_step
    allowed = prepared_for(state, schema("id", field("at", type)), auto_upgrade=True, table="lake/orders")
    assert alter.add_columns(allowed, [field("at", type)]).protocol == allowed.protocol
    assert state.protocol.features < allowed.protocol.features


def test_columns_that_need_nothing_leave_the_table_alone():
    state = table()
    assert prepared_for(state, schema("id", "other"), auto_upgrade=False, table="lake/orders") is state


def test_a_property_that_needs_a_name_says_which():
    with pytest.raises(InputError) as refused:
        alter.add_columns(table(), [field("at", "timestamp_ntz")])
    assert refused.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    assert "delta.feature.timestampNtz=supported" in refused.value.next_step


# ---------------------------------------------------------------------- proposals


def header(protocol, **configuration) -> TableHeader:
    return TableHeader("lake/orders", 7, protocol, metadata(**configuration))


@pytest.mark.parametrize(
    ("protocol", "change", "ways"),
    [
        (ProtocolAction(1, 2), {}, {}),
        (
            ProtocolAction(1, 2),
            {"enable": ["changeDataFeed"]},
            {"after": "(1,7|W: appendOnly,changeDataFeed,invariants)"},
        ),
        (None, {"enable": ["appendOnly"]}, {"after": "(1,7|W: appendOnly)"}),
        (
            ProtocolAction(2, 5),
            {"drop": ["columnMapping"]},
            {
                "history kept": "(1,7|W: appendOnly,changeDataFeed,checkConstraints,checkpointProtection,"
                "generatedColumns,invariants)",
                "history truncated": "(1,4)",
            },
        ),
        (ProtocolAction(2, 5), {"drop": ["columnMapping"], "truncate_history": True}, {"history truncated": "(1,4)"}),
        (ProtocolAction(1, 3), {"drop": ["checkConstraints"]}, {"after": "(1,2)"}),
        (ProtocolAction(1, 7, None, ["checkpointProtection"]), {"drop": ["checkpointProtection"]}, {"after": "(1,1)"}),
        (
            ProtocolAction(1, 3),
            {"enable": ["timestampNtz"], "drop": ["checkConstraints"]},
            {"after": "(3,7|R: timestampNtz|W: appendOnly,invariants,timestampNtz)"},
        ),
    ],
)
def test_a_change_is_proposed_as_the_terms_it_leads_to(protocol, change, ways):
    proposal = propose(header(protocol), **change)
    assert {way: str(terms.protocol) for way, terms in proposal.ways.items()} == ways
    assert proposal.version == 7


def test_what_is_enabled_counts_as_in_use():
    proposal = propose(header(ProtocolAction(1, 2)), enable=["columnMapping", "timestampNtz"])
    assert proposal.ways["after"].in_use == {"columnMapping", "columnMapping:name", "timestampNtz"}


def test_protection_that_a_drop_leaves_behind_is_in_use():
    proposal = propose(header(ProtocolAction(2, 5), columnMapping__mode="name"), drop=["columnMapping"])
    assert proposal.now.in_use == {"columnMapping", "columnMapping:name"}
    assert proposal.ways["history kept"].in_use == {"checkpointProtection"}
    assert proposal.ways["history truncated"].in_use == frozenset()


def test_a_contradictory_protocol_can_be_judged_but_not_changed():
    broken = header(ProtocolAction(1, 7, ["v2Checkpoint"], ["v2Checkpoint"]))
    assert propose(broken).ways == {}
    with pytest.raises(MalformedError):
        propose(broken, enable=["changeDataFeed"])


# ---------------------------------------------------------------------- plans of a drop


def test_a_plan_tells_whom_each_way_leaves_able_to_write():
    store = MemoryStore()
    state = new_table(schema("id"), (), {"delta.checkpointPolicy": "v2"})
    Transaction.create(store, engine="Apache-Spark/3.5.0 Delta-Lake/3.2.0").commit(
        (), "CREATE TABLE", configuration=state
    )
    plan = plan_drop(store, "V2CHECKPOINT")
    able = {way: {release.product for release in plan.left_able(way)} for way in plan.ways}
    assert able["history kept"] < able["history truncated"], "protection locks out more than it lets in"
    assert "delta-spark" not in able["history kept"], "the release that wrote the table is too old for protection"
    assert {"delta-spark", "trino", "halocline"} <= able["history truncated"]
    assert "trino@483" in map(str, plan.gained("history truncated"))
    text = plan.explain()
    assert "would break" in text
    assert "24 hours after the first" in text
    assert plan.to_dict()["ways"]["history truncated"]["protocol"] == "(1,2)"


def test_a_plan_changes_nothing():
    store = MemoryStore()
    state = new_table(schema("id"), (), {"delta.feature.domainMetadata": "supported"})
    Transaction.create(store).commit((), "CREATE TABLE", configuration=state)
    before = [(meta.path, meta.etag) for meta in store.list()]
    plan = plan_drop(store, "domainMetadata")
    assert list(plan.ways) == ["after"]
    assert [(meta.path, meta.etag) for meta in store.list()] == before
