"""Columns declared anew: what the table has stays, and what cannot be told apart is refused."""

from __future__ import annotations

import pytest
from tests.support.columns import array, field, schema

from halocline.errors import SchemaError
from halocline.formats.delta.configuration import alter
from halocline.formats.delta.configuration.replace_columns import replace_columns
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.schema.char_types import DECLARED
from halocline.schema.visitor import walk

ID, NAME = field("id"), field("Name", "string", nullable=False)
POINT = field("point", schema(field("x", "integer"), field("y", "integer")))
SHORT = field("v", "string", metadata={DECLARED: "varchar(5)"})
MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true"}


def state(*columns, partitions=(), **configuration) -> TableConfiguration:
    made = new_table(schema(*(columns or (ID, NAME, POINT))), partitions, configuration)
    return TableConfiguration(made.protocol, made.metadata)


def declared(before: TableConfiguration, *columns) -> TableConfiguration:
    return replace_columns(before, schema(*columns), version=3)


def paths(found: TableConfiguration) -> list[str]:
    return [".".join(path) for path, _ in walk(found.schema)]


def test_columns_are_moved_added_commented_and_made_nullable_and_keep_their_spelling():
    told = field("id", metadata={"comment": "its number"})
    after = declared(state(), field("new", "date"), POINT, field("NAME", "string"), told)
    assert paths(after) == ["new", "point", "point.x", "point.y", "Name", "id"]
    assert after.schema.find(["name"])[1].nullable, "as declared"
    assert after.schema.find(["id"])[1].metadata == {"comment": "its number"}
    again = declared(after, *(field(each.name, each.type) for each in after.schema.fields))
    assert again == after, "a comment that is not declared stays"


def test_text_keeps_its_length_and_columns_their_defaults():
    kept = field("d", metadata={"CURRENT_DEFAULT": "1"})
    after = declared(state(SHORT, kept), field("d"), field("v", "string"))
    assert list(after.schema.fields) == [kept, SHORT]
    assert declared(after, kept.without(["CURRENT_DEFAULT"]), SHORT) == after


def test_fields_of_structs_go_the_same_way_at_any_depth():
    deep = field("deep", array(schema(field("a", "integer"), field("b", "string"))))
    swapped = field("deep", array(schema(field("b", "string"), field("a", "integer"), field("c", "long"))))
    after = declared(state(ID, deep), ID, swapped)
    assert paths(after) == ["id", "deep", "deep.element.b", "deep.element.a", "deep.element.c"]


def test_columns_are_dropped_under_column_mapping_and_keep_their_ids():
    before = state(**MAPPED)
    after = declared(before, field("point", schema(field("y", "integer"))), ID)
    assert paths(after) == ["point", "point.y", "id"]
    old, new = dict(walk(before.schema)), dict(walk(after.schema))
    assert all(new[path].metadata == old[path].metadata for path in new)
    grown = declared(after, *after.schema.fields, field("more", schema("a")))
    ids = [each.metadata["delta.columnMapping.id"] for _, each in walk(grown.schema)]
    assert len(set(ids)) == len(ids)
    assert max(ids) == int(grown.metadata.configuration["delta.columnMapping.maxColumnId"]) == 7


@pytest.mark.parametrize("wide", ["long", "double", "decimal(12,1)"])
def test_types_widen_where_the_table_allows_it_and_the_change_is_noted(wide):
    before = state(field("a", "integer"), field("l", array("integer")), **WIDENING)
    after = declared(before, field("l", array(wide)), field("a", wide))
    notes = {path: each.metadata["delta.typeChanges"] for path, each in walk(after.schema)}
    assert notes[("a",)] == ({"fromType": "integer", "toType": wide},)
    assert notes[("l",)] == ({"fromType": "integer", "toType": wide, "fieldPath": "element"},)


@pytest.mark.parametrize(
    ("before", "columns", "message"),
    [
        (state(), [ID, POINT], "column mapping"),
        (state(), [ID, NAME, field("point", schema(field("x", "integer")))], "column mapping"),
        (state(**MAPPED), [ID, POINT, field("label", "string")], "dropped and added"),
        (state(**MAPPED), [ID, NAME, field("point", schema("x", "z"))], "cannot change its type|dropped and added"),
        (state(), [ID, NAME, field("point", "string")], "cannot change its type"),
        (state(), [field("id", "double"), NAME, POINT], "cannot change its type"),
        (state(**WIDENING), [field("id", "integer"), NAME, POINT], "cannot change its type"),
        (state(), [field("id", nullable=False), NAME, POINT], "NOT NULL"),
        (state(), [ID, NAME, POINT, field("new", nullable=False)], "NOT NULL"),
        (state(partitions=["Name"], **MAPPED), [ID, POINT], "partition column"),
        (alter.add_constraint(state(**MAPPED), "c", "length(Name) > 1"), [ID, POINT], "refers to it"),
        (
            state(field("n", metadata={"delta.identity.start": 1, "delta.identity.step": 1}), "m"),
            ["m", "n"],
            "identity",
        ),
        (
            state(field("d", metadata={"CURRENT_DEFAULT": "1"})),
            [field("d", metadata={"CURRENT_DEFAULT": "2"})],
            "default",
        ),
        (state(), [ID, NAME, POINT, field("d", metadata={"CURRENT_DEFAULT": "2"})], "default"),
        (state(SHORT), [field("v", "string", metadata={DECLARED: "varchar(9)"})], "another length"),
        (state(), [ID, ID, NAME, POINT], "id"),
    ],
)
def test_what_would_lose_or_confuse_data_is_refused(before, columns, message):
    with pytest.raises(SchemaError, match=message):
        declared(before, *columns)
