import json

import pytest

from halocline.errors import InputError, MalformedError, UnsupportedError
from halocline.formats.delta.configuration.column_mapping import field_id
from halocline.formats.delta.configuration.schema import Schema


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
    assert "price" in caught.value.sides["known"]


def test_mapped_columns_have_physical_names_at_every_depth():
    schema = parse(
        struct(mapped("a", 1, struct(mapped("b", 2))), mapped("c", 3, {"type": "array", "elementType": "long"})),
        **{"delta.columnMapping.mode": "name"},
    )
    assert schema.find("a", "b").physical == ("col-1", "col-2")
    assert field_id(schema.find("c").field) == 3


def test_without_mapping_annotations_are_ignored():
    assert parse(struct(mapped("a", 1))).find("a").physical == ("a",)


def test_empty_text_is_a_table_without_columns():
    assert not list(Schema.parse("").walk())


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
    "type",
    [
        "geometry(OGC:CRS84)",
        "time(6)",
        "interval day",
        "decimal(x)",
        {"type": "array", "elementType": "x"},
        {"type": "set", "elementType": "long"},
    ],
)
def test_a_type_of_the_future_is_refused_by_name(type):
    with pytest.raises(UnsupportedError, match="column new"):
        parse(struct(field("new", type)))


def test_partition_columns_must_exist():
    schema = parse(NESTED)
    assert [column.name for column in schema.partition_columns(["ID", "at"])] == ["Id", "at"]
    with pytest.raises(MalformedError, match="'gone'"):
        schema.partition_columns(["gone"])
