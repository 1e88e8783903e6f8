"""A schema that is read and written again is the same, whatever it holds and however it is nested."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from halocline.schema import Struct
from halocline.schema.json_edge import dump, parse, struct_from_json, to_json
from halocline.schema.visitor import map_fields, map_types, walk

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
names = st.text(min_size=1)
primitives = (
    st.sampled_from(["long", "string", "void", "variant", "timestamp_ntz", "decimal", "decimal( 4 ,1)", "char(3)"])
    | st.builds("decimal({},{})".format, st.integers(1, 38), st.integers(0, 10))
    | st.builds("geometry({})".format, st.text())
    | st.text()
)


@st.composite
def objects(draw: st.DrawFn, required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    """An object with those keys, some that nobody knows, in any order."""
    extra = {f"future {key}": value for key, value in draw(st.dictionaries(st.text(), values, max_size=2)).items()}
    said = draw(st.fixed_dictionaries(required, optional=optional)) | extra
    return {key: said[key] for key in draw(st.permutations(list(said)))}


def structs(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    metadata = st.dictionaries(st.text(), values, max_size=3)
    field = objects({"name": names, "type": types}, {"nullable": st.booleans(), "metadata": metadata})
    return objects({"type": st.just("struct"), "fields": st.lists(field, max_size=4)}, {})


def nested(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    array = objects({"type": st.just("array"), "elementType": types}, {"containsNull": st.booleans()})
    map = objects({"type": st.just("map"), "keyType": types, "valueType": types}, {"valueContainsNull": st.booleans()})
    return array | map | structs(types) | objects({"type": st.just("udt")}, {})


schemas = structs(st.recursive(primitives, nested, max_leaves=6))


@given(schemas)
def test_a_schema_comes_out_of_values_as_it_went_in(content):
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    schema = parse(text)
    assert dump(schema) == text
    assert struct_from_json(to_json(schema)) == schema
    assert hash(struct_from_json(content)) == hash(schema)


@given(schemas)
def test_changing_nothing_gives_the_same_object(content):
    schema = struct_from_json(content)
    assert map_fields(schema, lambda path, field: field) is schema
    assert map_types(schema, lambda path, type: type) is schema


@given(schemas)
def test_every_field_is_walked_once_and_the_first_of_a_name_is_found(content):
    schema = struct_from_json(content)
    seen = []
    map_fields(schema, lambda path, field: seen.append(path) or field)
    assert sorted(path for path, _ in walk(schema)) == sorted(seen)
    for field in schema.fields:
        assert schema.find([field.name])[1].name.lower() == field.name.lower()


@given(schemas)
def test_dropping_every_field_leaves_a_table_without_columns(content):
    assert map_fields(struct_from_json(content), lambda path, field: None).fields == Struct().fields
