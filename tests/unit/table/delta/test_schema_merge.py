import pytest
from tests.support.columns import array, field
from tests.support.columns import schema as struct

from halocline.errors import InputError
from halocline.formats.delta.configuration.column_mapping import field_id, stored_name
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.table.delta.schema_merge import grown


def merged(table, rows, configuration=None, *, auto_upgrade=False):
    state = new_table(table, (), configuration or {})
    return grown(state, rows, version=7, auto_upgrade=auto_upgrade, table="lake/orders")


def test_same_columns_in_other_case_and_order_leave_the_state_alone():
    table = struct(field("Id", "long"), field("s", struct(field("a", "date"))))
    state = merged(table, struct(field("S", struct(field("A", "date"))), field("id", "long")))
    assert state.schema == table


def test_new_fields_come_in_at_the_end_at_every_depth_and_allow_nulls():
    table = struct(field("id", "long"), field("l", array(struct(field("a", "date")))))
    rows = struct(
        field("new", struct(field("x", "long", nullable=False)), nullable=False),
        field("l", array(struct(field("b", "string", nullable=False), field("a", "date")))),
    )
    schema = merged(table, rows).schema
    assert str(schema) == "struct<id: long, l: array<struct<a: date, b: string>>, new: struct<x: long>>"


def test_new_columns_get_ids_and_physical_names_of_their_own_under_mapping():
    before = new_table(struct("id"), (), {"delta.columnMapping.mode": "name"})
    rows = struct(field("id", "long"), field("new", struct(field("x", "long"))))
    after = grown(before, rows, version=1, auto_upgrade=False, table="lake/orders")
    old, new = after.schema.fields
    assert old == before.schema.fields[0]
    assert [field_id(new), field_id(new.struct.fields[0])] == [2, 3]
    assert stored_name(new) != "new"
    assert after.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"


def test_void_column_takes_the_type_offered():
    schema = merged(struct(field("id", "long"), field("v", "void")), struct(field("v", "date"))).schema
    assert str(schema) == "struct<id: long, v: date>"


@pytest.mark.parametrize(
    ("known", "rows", "after"),
    [
        ("integer", "long", "long"),
        ("float", "double", "double"),
        ("decimal(5,1)", "decimal(7,2)", "decimal(7,2)"),
        ("integer", "decimal(12,0)", "integer"),
        ("integer", "double", "integer"),
        ("date", "timestamp_ntz", "date"),
        ("long", "integer", "long"),
        ("integer", "string", "integer"),
    ],
)
def test_columns_widen_within_their_kind_where_the_table_allows_it(known, rows, after):
    table, offered = struct(field("a", known)), struct(field("a", rows))
    allowed = merged(table, offered, {"delta.enableTypeWidening": "true"}).schema.fields[0]
    assert str(allowed.type) == after
    changes = ({"fromType": known, "toType": after},) if known != after else None
    assert allowed.metadata.get("delta.typeChanges") == changes
    assert merged(table, offered).schema == table


def test_widening_inside_arrays_and_structs_is_noted_at_the_nearest_field():
    table = struct(field("l", array("integer")), field("s", array(struct(field("x", "short")))))
    rows = struct(field("l", array("long")), field("s", array(struct(field("x", "integer")))))
    first, second = merged(table, rows, {"delta.enableTypeWidening": "true"}).schema.fields
    assert first.type == array("long")
    assert first.metadata["delta.typeChanges"][0]["fieldPath"] == "element"
    inner = second.type.element.fields[0]
    assert str(inner) == "x: integer"
    assert inner.metadata["delta.typeChanges"] == ({"fromType": "short", "toType": "integer"},)


def test_column_that_a_constraint_speaks_of_keeps_its_type():
    properties = {"delta.enableTypeWidening": "true", "delta.constraints.small": "a < 10"}
    table = struct(field("a", "integer"))
    assert merged(table, struct(field("a", "long")), properties).schema == table


@pytest.mark.parametrize(("type", "feature"), [("timestamp_ntz", "timestampNtz"), ("variant", "variantType")])
def test_column_that_needs_a_feature_is_refused_unless_writes_may_raise_the_protocol(type, feature):
    table, rows = struct(field("id", "long")), struct(field("id", "long"), field("new", type))
    with pytest.raises(InputError) as caught:
        merged(table, rows)
    assert caught.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    assert feature in caught.value.message
    state = merged(table, rows, auto_upgrade=True)
    assert feature in state.protocol.features
    assert {"appendOnly", "invariants"} <= state.protocol.features
