from dataclasses import replace

import pytest

from halocline.schema import Array, Field, Map, Opaque, Primitive, Struct
from halocline.schema.visitor import (
    Visitor,
    map_fields,
    map_types,
    paired,
    types,
    walk,
    with_parts,
)

LONG, TEXT = Primitive("long"), Primitive("string")
INNER = Struct([Field("x", LONG), Field("y", Array(Struct([Field("z", TEXT)])))])
SCHEMA = Struct(
    [
        Field("id", LONG),
        Field("point", INNER),
        Field("props", Map(Struct([Field("k", LONG)]), Array(Struct([Field("v", TEXT)])))),
        Field("new", Opaque({"type": "udt", "class": "Vector"})),
    ]
)


def names(pairs):
    return [".".join(path) for path, _ in pairs]


def test_walk_gives_every_field_with_its_path_outer_ones_first():
    assert names(walk(SCHEMA)) == [
        *("id", "point", "point.x", "point.y", "point.y.element.z"),
        *("props", "props.key.k", "props.value.element.v", "new"),
    ]


def test_types_gives_every_type_with_its_path_outer_ones_first():
    assert names(types(Map(LONG, Array(Struct([Field("v", TEXT)]))))) == [
        "",
        "key",
        "value",
        "value.element",
        "value.element.v",
    ]


def test_fields_are_changed_inner_ones_first_and_by_their_old_paths():
    seen = []

    def renamed(path, field):
        seen.append((".".join(path), str(field.type)))
        return replace(field, name=field.name.upper())

    assert str(map_fields(INNER, renamed)) == "struct<X: long, Y: array<struct<Z: string>>>"
    assert seen == [("x", "long"), ("y.element.z", "string"), ("y", "array<struct<Z: string>>")]


def test_a_field_is_dropped_by_none():
    left = map_fields(SCHEMA, lambda path, field: None if path[-1] in ("x", "v", "new") else field)
    assert str(left) == (
        "struct<id: long, point: struct<y: array<struct<z: string>>>, props: map<struct<k: long>, array<struct<>>>>"
    )


def test_what_nothing_changes_stays_the_same_object():
    assert map_fields(SCHEMA, lambda path, field: field) is SCHEMA
    assert map_types(SCHEMA, lambda path, type: type) is SCHEMA
    changed = map_fields(SCHEMA, lambda path, field: replace(field, nullable=False) if path == ("id",) else field)
    assert changed.fields[1] is SCHEMA.fields[1]


def test_types_are_changed_at_every_depth():
    wide = map_types(SCHEMA, lambda path, type: Primitive("decimal(20,0)") if type == LONG else type)
    assert "long" not in str(wide)
    assert str(wide).count("decimal(20,0)") == 3


def test_parts_are_replaced_and_the_rest_of_the_type_stays():
    assert with_parts(Map(LONG, LONG, value_contains_null=False), TEXT, LONG) == Map(TEXT, LONG, False)
    assert with_parts(LONG) is LONG


@pytest.mark.parametrize(
    ("left", "right", "steps"),
    [
        (Array(LONG), Array(TEXT), ["element"]),
        (Map(LONG, LONG), Map(LONG, TEXT), ["key", "value"]),
        (Array(LONG), Map(LONG, TEXT), None),
        (LONG, LONG, None),
        (INNER, INNER, None),
    ],
)
def test_two_types_are_paired_only_where_both_have_the_same_parts(left, right, steps):
    found = paired(left, right)
    assert (None if found is None else [step for step, _, _ in found]) == steps


def test_a_visitor_hands_down_what_inner_types_need():
    class Leaves(Visitor[str, list[str]]):
        def primitive(self, type, context):
            return [f"{context} {type}"]

        def struct(self, type, context):
            return [leaf for each in type.fields for leaf in self.visit(each.type, f"{context}.{each.name}")]

        def array(self, type, context):
            return self.visit(type.element, f"{context}[]")

        def map(self, type, context):
            return self.visit(type.key, f"{context}.keys") + self.visit(type.value, f"{context}.values")

    assert Leaves().visit(SCHEMA, "t") == [
        "t.id long",
        "t.point.x long",
        "t.point.y[].z string",
        "t.props.keys.k long",
        "t.props.values[].v string",
        "t.new udt",
    ]
