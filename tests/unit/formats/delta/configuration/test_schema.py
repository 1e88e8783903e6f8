import json

import pytest

from halocline.errors import InputError, MalformedError, UnsupportedError
from halocline.formats.delta.configuration.schema import Schema, decimal_of
from halocline.formats.delta.configuration.type_changes import can_widen


def field(name, type="long", metadata=None, **more):
    return {"name": name, "type": type, "nullable": True, "metadata": metadata or {}, **more}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def mapped(name, id, type="long"):
    return field(name, type, {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": f"col-{id}"})


NESTED = struct(
    field("Id"),
    field("point", struct(field("X", "double"), field("y", "double"))),
    field("tags", {"type": "array", "elementType": struct(field("name", "string")), "containsNull": True}),
    field("props", {"type": "map", "keyType": "string", "valueType": struct(field("v", "variant"))}),
    field("nothing", "void"),
    field("at", "timestamp_ntz"),
    field("price", "decimal(10,2)"),
)


def parse(content, **configuration):
    return Schema.parse(json.dumps(content), configuration)


def test_every_field_at_every_depth_has_its_path():
    assert [column.name for column in parse(NESTED).walk()] == [
        *("Id", "point", "point.X", "point.y", "tags", "tags.element.name", "props", "props.value.v"),
        *("nothing", "at", "price"),
    ]


def test_columns_are_found_whatever_their_case():
    assert parse(NESTED).find("POINT", "x").path == ("point", "X")


def test_a_missing_column_names_those_there_are():
    with pytest.raises(InputError, match=r"no column 'point\.z'") as caught:
        parse(NESTED).find("point", "z")
    assert caught.value.condition == "COLUMN_NOT_FOUND"
    assert "price" in caught.value.sides["table has"]


def test_mapped_columns_have_physical_names_at_every_depth():
    schema = parse(
        struct(mapped("a", 1, struct(mapped("b", 2))), mapped("c", 3, {"type": "array", "elementType": "long"})),
        **{"delta.columnMapping.mode": "name"},
    )
    assert schema.find("a", "b").physical == ("col-1", "col-2")
    assert schema.find("c").field_id == 3


def test_without_mapping_annotations_are_ignored():
    assert parse(struct(mapped("a", 1))).find("a").physical == ("a",)


def test_empty_text_is_a_table_without_columns():
    assert Schema.parse("").columns == ()


def deep(levels, type="long"):
    for _ in range(levels):
        type = {"type": "array", "elementType": type, "containsNull": True}
    return type


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"type":"struct"}',
        '{"type":"array","elementType":"long"}',
        "[" * 100_000,
        json.dumps(struct({"name": "a"})),
        json.dumps(struct({"type": "long"})),
        json.dumps(struct(field(7))),
        json.dumps(struct(field("a"), field("A"))),
        json.dumps(struct(field("a", metadata=[1]))),
        json.dumps(struct(field("a", {"type": "map", "keyType": "long"}))),
        json.dumps(struct(field("a", {"type": "set", "elementType": "long"}))),
        json.dumps(struct(field("a", 7))),
        json.dumps(struct(field("a", deep(400)))),
        json.dumps(struct(field("a", struct(field("b", {"type": "struct", "fields": 3}))))),
    ],
)
def test_what_is_no_schema_is_damage(text):
    with pytest.raises(MalformedError) as caught:
        list(Schema.parse(text).walk())
    assert caught.value.condition == "MALFORMED_METADATA"


@pytest.mark.parametrize("configuration", [{"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "id"}])
def test_mapped_columns_without_a_physical_name_are_damage(configuration):
    with pytest.raises(MalformedError, match="no physical name"):
        parse(struct(field("a")), **configuration)


def test_an_unknown_mapping_mode_is_damage():
    with pytest.raises(MalformedError, match="'random'"):
        parse(struct(field("a")), **{"delta.columnMapping.mode": "random"})


@pytest.mark.parametrize(
    "type", ["geometry(OGC:CRS84)", "time(6)", "interval day", {"type": "array", "elementType": "x"}]
)
def test_a_type_of_the_future_is_refused_by_name(type):
    with pytest.raises(UnsupportedError, match="column new"):
        parse(struct(field("new", type)))


def test_partition_columns_must_exist():
    schema = parse(NESTED)
    assert [column.name for column in schema.partition_columns(["ID", "at"])] == ["Id", "at"]
    with pytest.raises(MalformedError, match="'gone'"):
        schema.partition_columns(["gone"])


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("byte", "short", True),
        ("short", "long", True),
        ("integer", "long", True),
        ("integer", "double", True),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(10,2)", True),
        ("integer", "decimal(10,0)", True),
        ("integer", "decimal(12,2)", True),
        ("long", "decimal(20,0)", True),
        ("long", "integer", False),
        ("long", "double", False),
        ("date", "timestamp", False),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("integer", "decimal(11,2)", False),
        ("long", "decimal(19,0)", False),
        ("string", "long", False),
        ("integer", "decimal", False),
    ],
)
def test_widening_follows_the_formats_table(old, new, allowed):
    assert can_widen(old, new) is allowed


def test_known_changes_of_type_are_read():
    changes = [{"fromType": "short", "toType": "integer"}, {"fromType": "integer", "toType": "long", "tableVersion": 3}]
    assert parse(struct(field("a", metadata={"delta.typeChanges": changes}))).find("a").type == "long"


def test_an_unknown_change_of_type_is_refused():
    nested = struct(field("b", metadata={"delta.typeChanges": [{"fromType": "string", "toType": "long"}]}))
    with pytest.raises(UnsupportedError, match=r"a\.b was changed from string to long") as caught:
        parse(struct(field("a", nested)))
    assert caught.value.condition == "TYPE_CHANGE_UNKNOWN"


@pytest.mark.parametrize("changes", ["x", [1], [{}], [{"fromType": {"type": "struct"}, "toType": "long"}]])
def test_changes_of_type_that_cannot_be_read_are_damage(changes):
    with pytest.raises(MalformedError, match="changes of type"):
        parse(struct(field("a", metadata={"delta.typeChanges": changes})))


@pytest.mark.parametrize(
    ("type", "digits"),
    [("decimal(38,18)", (38, 18)), ("decimal", (10, 0)), ("decimal( 5 , 2 )", (5, 2)), ("long", None)],
)
def test_decimals_have_precision_and_scale(type, digits):
    assert decimal_of(type) == digits
