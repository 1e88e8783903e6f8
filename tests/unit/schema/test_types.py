import os
import pickle
import subprocess
import sys

import pytest

from halocline.errors import InputError, MalformedError
from halocline.schema import Array, Field, Map, Opaque, Primitive, Struct
from halocline.schema.frozen import DEEPEST, FrozenMapping
from halocline.schema.types import decimal_of, is_void, parts

LONG = Primitive("long")
NESTED = Struct(
    [
        Field("Id", LONG, nullable=False, metadata={"comment": "the key"}),
        Field("tags", Array(Primitive("string"))),
        Field("props", Map(Primitive("string"), Struct([Field("V", Primitive("decimal(10,2)"))]), False)),
    ]
)


def test_the_printed_form_is_short_and_says_what_may_not_be_null():
    assert str(NESTED) == (
        "struct<Id: long not null, tags: array<string>, props: map<string, struct<V: decimal(10,2)> not null>>"
    )


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("long", "long", ()),
        ("decimal(10,2)", "decimal", (10, 2)),
        ("decimal( 5 , -2 )", "decimal", (5, -2)),
        ("decimal", "decimal", (10, 0)),
        ("char(3)", "char", (3,)),
        ("varchar(20)", "varchar", (20,)),
        ("geometry(OGC:CRS84)", "geometry", ("OGC:CRS84",)),
        ("interval day to second", "interval day to second", ()),
        ("type of the future", "type of the future", ()),
    ],
)
def test_a_primitive_has_a_name_and_parameters(text, name, parameters):
    type = Primitive(text)
    assert (type.name, type.parameters, str(type)) == (name, parameters, text)


@pytest.mark.parametrize(
    ("type", "digits"),
    [("decimal(38,18)", (38, 18)), ("decimal", (10, 0)), ("decimal( 5 , 2 )", (5, 2)), ("long", None)],
)
def test_decimals_have_precision_and_scale(type, digits):
    assert decimal_of(Primitive(type)) == digits


def test_void_has_two_names():
    assert [is_void(Primitive(name)) for name in ("void", "null", "long")] == [True, True, False]
    assert not is_void(NESTED)


def test_types_and_annotations_are_found_at_every_depth():
    inner = Struct([Field("g", Primitive("variant"), metadata={"deep": 1})])
    schema = Struct([Field("f", Map(Primitive("string"), Array(inner)), metadata={"shallow": 1})])
    assert schema.column_types == {"string", "variant"}
    assert schema.annotations == {"deep", "shallow"}
    assert NESTED.column_types == {"long", "string", "decimal"}
    assert Struct().column_types == Struct().annotations == frozenset()
    assert Struct([Field("new", Opaque({"type": "udt"}))]).column_types == {"udt"}


def test_two_spellings_of_one_type_are_equal_and_keep_their_spelling():
    left, right = Primitive("decimal(10, 2)"), Primitive("decimal(10,2)")
    assert left == right
    assert hash(left) == hash(right)
    assert str(left) == "decimal(10, 2)"


@pytest.mark.parametrize("type", [LONG, NESTED, Array(LONG)])
def test_a_type_compared_with_text_is_a_mistake_that_is_heard(type):
    with pytest.raises(TypeError, match="compare its name"):
        _ = type == "long"
    with pytest.raises(TypeError, match="compare its name"):
        _ = type in ("long", "date")
    assert type != 7


def test_equal_schemas_have_equal_hashes():
    again = pickle.loads(pickle.dumps(NESTED))
    assert again == NESTED
    assert len({again, NESTED}) == 1


def test_a_schema_from_another_process_equals_one_made_here():
    script = f"import pickle, sys; sys.stdout.buffer.write(pickle.dumps(pickle.loads({pickle.dumps(NESTED)!r})))"
    seeded = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=seeded)
    assert pickle.loads(done.stdout) == NESTED


@pytest.mark.parametrize(
    "other",
    [
        Field("id", LONG, nullable=False, metadata={"comment": "the key"}),
        Field("Id", Primitive("integer"), nullable=False, metadata={"comment": "the key"}),
        Field("Id", LONG, nullable=True, metadata={"comment": "the key"}),
        Field("Id", LONG, nullable=False),
        Field("Id", LONG, nullable=False, metadata={"comment": "the key"}, extra={"of the future": 1}),
    ],
)
def test_fields_that_differ_anywhere_are_not_equal(other):
    assert NESTED.fields[0] != other


def test_metadata_cannot_be_changed_from_outside():
    given = {"changes": [{"fromType": "byte"}]}
    field = Field("a", LONG, metadata=given)
    given["changes"][0]["fromType"] = "short"
    assert field.metadata["changes"][0]["fromType"] == "byte"
    with pytest.raises(TypeError):
        field.metadata["changes"] = ()


def test_metadata_compares_with_any_mapping():
    assert Field("a", LONG, metadata={"x": [1]}).metadata == {"x": (1,)}
    assert FrozenMapping({"x": 1}) != {"x": 2}


def test_an_annotation_is_set_replaced_and_taken_out():
    field = Field("a", LONG).annotated("x", 1).annotated("y", 2).annotated("x", 3)
    assert field.metadata == {"x": 3, "y": 2}
    assert field.annotated("x", None).metadata == {"y": 2}
    assert field.without(["z"]) is field


def test_fields_are_found_whatever_their_case():
    assert NESTED.get("ID") is NESTED.fields[0]
    assert NESTED.get("nowhere") is None
    assert NESTED.find(["PROPS", "Value", "v"]) == (("props", "value", "V"), Field("V", Primitive("decimal(10,2)")))


def test_the_first_of_two_fields_that_differ_in_case_is_found():
    assert Struct([Field("a", LONG), Field("A", Primitive("date"))]).get("A").type == LONG


@pytest.mark.parametrize("path", [(), ("nowhere",), ("tags", "element"), ("Id", "x"), ("props", "V")])
def test_a_path_that_leads_to_no_field_names_the_columns_there_are(path):
    with pytest.raises(InputError, match="there is no column") as caught:
        NESTED.find(path)
    assert caught.value.condition == "COLUMN_NOT_FOUND"
    assert caught.value.sides["known"] == "Id, tags, props"


def test_a_wide_table_is_not_listed_whole():
    wide = Struct([Field(f"c{n}", LONG) for n in range(5000)])
    with pytest.raises(InputError) as caught:
        wide.find(["x"])
    assert caught.value.sides["known"].endswith("c24 and 4,975 more")


def test_nesting_ends_somewhere():
    deepest = LONG
    for _ in range(DEEPEST - 2):
        deepest = Array(deepest)
    assert Struct([Field("a", deepest)]).depth == DEEPEST
    with pytest.raises(MalformedError, match="nested more than 200"):
        Struct([Field("a", Array(deepest))])


def deepest():
    type = LONG
    while type.depth < DEEPEST - 1:
        type = Struct([Field("a", Map(Primitive("string"), type))])
    return type


def test_the_deepest_schema_can_be_printed_compared_and_hashed():
    left, right = deepest(), deepest()
    assert left == right
    assert hash(left) == hash(right)
    assert str(left).endswith("long" + ">" * (left.depth - 1))


def test_parts_are_what_arrays_and_maps_hold():
    assert parts(Map(LONG, Primitive("date"))) == (("key", LONG), ("value", Primitive("date")))
    assert parts(Array(LONG)) == (("element", LONG),)
    assert parts(NESTED) == ()
    assert parts(Opaque({"type": "udt"})) == ()


def test_the_package_needs_neither_arrow_nor_spark():
    script = "import sys, halocline.schema, halocline.schema.visitor, halocline.schema.json_edge;"
    script += "print({'pyarrow', 'pyspark', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
