import json

import pytest

from halocline.errors import MalformedError
from halocline.schema import Array, Field, Map, Opaque, Primitive, Struct
from halocline.schema.json_edge import dump, parse, struct_from_json, to_json, type_from_json


def field(name, type="long", **more):
    return {"name": name, "type": type, "nullable": True, "metadata": {}, **more}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def deep(levels):
    type = "long"
    for _ in range(levels):
        type = {"type": "array", "elementType": type, "containsNull": True}
    return type


def dump_of_lists(levels):
    return json.dumps(struct(field("a", metadata={"x": 0}))).replace("0", "[" * levels + "]" * levels)


def same(content):
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return dump(parse(text)) == text


def test_a_schema_is_read_into_values():
    content = struct(
        field("id", nullable=False, metadata={"comment": "key"}),
        field("tags", {"type": "array", "elementType": "string", "containsNull": False}),
        field("props", {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": False}),
    )
    assert struct_from_json(content) == Struct(
        [
            Field("id", Primitive("long"), False, {"comment": "key"}),
            Field("tags", Array(Primitive("string"), False)),
            Field("props", Map(Primitive("string"), Primitive("date"), False)),
        ]
    )


def test_new_values_are_written_as_delta_writes_them():
    schema = Struct([Field("id", Primitive("long"), False), Field("m", Map(Primitive("string"), Primitive("date")))])
    assert dump(schema) == (
        '{"type":"struct","fields":['
        '{"name":"id","type":"long","nullable":false,"metadata":{}},'
        '{"name":"m","type":{"type":"map","keyType":"string","valueType":"date","valueContainsNull":true},'
        '"nullable":true,"metadata":{}}]}'
    )


@pytest.mark.parametrize(
    "content",
    [
        struct(),
        {"fields": [], "type": "struct"},
        struct(field('é \u2028 "quoted"', metadata={"n": 1, "x": 1.5, "big": 2**70, "list": [1, [{"a": None}]]})),
        struct({"metadata": {}, "nullable": False, "type": "long", "name": "a"}),
        struct({"name": "a", "type": "long"}),
        struct({"name": "a", "nullable": True, "type": "decimal(10, 2)"}),
        struct(field("a", future={"x": [1]}), field("b")),
        {"type": "struct", "fields": [], "future": None},
        struct(field("a", {"elementType": "long", "type": "array"})),
        struct(field("a", {"type": "map", "valueType": "long", "keyType": "void", "future": True})),
        struct(field("v", {"type": "udt", "class": "Vector", "sqlType": struct(field("x"))})),
        struct(field("g", "geometry(OGC:CRS84)"), field("f", "type of the future")),
        struct(field("a", deep(198))),
    ],
)
def test_what_was_read_comes_out_as_it_was(content):
    assert same(content)


def test_a_change_beside_it_leaves_the_rest_as_it_was():
    content = struct({"name": "a", "type": "long"}, field("b", future=1))
    schema = struct_from_json(content)
    first, second = schema.fields
    changed = to_json(schema.with_fields([first.annotated("x", 1), second.annotated("y", 2)]))
    assert changed == struct(
        {"name": "a", "type": "long", "metadata": {"x": 1}}, {**field("b", future=1), "metadata": {"y": 2}}
    )
    assert list(changed["fields"][1]) == ["name", "type", "nullable", "metadata", "future"]


def test_null_says_as_little_as_no_key():
    schema = struct_from_json(struct({"name": "a", "type": "long", "nullable": None, "metadata": None}))
    assert schema == Struct([Field("a", Primitive("long"))])
    assert to_json(schema) == struct({"name": "a", "type": "long"})


def test_empty_text_is_a_table_without_columns():
    assert parse("") == Struct()


def test_an_object_of_an_unknown_kind_is_kept():
    found = type_from_json({"type": "udt", "class": "Vector"})
    assert isinstance(found, Opaque)
    assert str(found) == "udt"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a struct"),
        ('{"type":"array","elementType":"long"}', "not a struct"),
        ('{"type":"struct"}', "no list of fields"),
        (json.dumps(struct(field("a", struct(field("b", {"type": "struct", "fields": 3}))))), "no list of fields"),
        (json.dumps(struct({"name": "a"})), "no name or no type"),
        (json.dumps(struct({"type": "long"})), "no name or no type"),
        (json.dumps(struct(field(7))), "no name or no type"),
        (json.dumps(struct("a")), "no name or no type"),
        (json.dumps(struct(field("a", metadata=[1]))), "metadata of column 'a'"),
        (json.dumps(struct(field("a", nullable="no"))), "nullable of column a"),
        (json.dumps(struct(field("a", {"type": "map", "keyType": "long"}))), "column a is not a type"),
        (json.dumps(struct(field("a", {"type": "array"}))), "column a is not a type"),
        (json.dumps(struct(field("a", struct(field("b", 7))))), r"column a\.b is not a type"),
        (json.dumps(struct(field("a", {"type": 3}))), "column a is not a type"),
        (json.dumps(struct(field("a", deep(200)))), "nested too deeply"),
        (json.dumps(struct(field("a", deep(400)))), "nested too deeply"),
        (dump_of_lists(300), "nested more than 200"),
    ],
)
def test_what_is_no_schema_is_damage(text, message):
    with pytest.raises(MalformedError, match=message) as caught:
        parse(text)
    assert caught.value.condition == "MALFORMED_METADATA"
    assert len(caught.value.sides["found"]) <= 80
